package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"tallystick/internal/record/digest"
)

// Shapes name what happened between two trees to code and to tests; see [Issue].
func (r *Runner) Shapes(before, after []digest.File) (change, tests digest.Content, err error) {
	var some bool
	if change, some = r.shape(before, after, func(name string) bool { return !SteersTests(name) }); !some {
		return change, tests, errors.New("it changes no code, or only comments and blanks of it")
	}
	if tests, some = r.shape(before, after, SteersTests); !some {
		return change, tests, errors.New("it changes no tests, or only comments and blanks of them")
	}
	return change, tests, nil
}

// shape names what happened to the code of some files, so that two changes which
// differ in names, literals, comments, blanks or the names of files have one name.
// Some says whether anything but comments and blanks changed. Indentation counts as
// blanks, also in Python.
func (r *Runner) shape(before, after []digest.File, which func(path string) bool) (name digest.Content, some bool) {
	old := map[string][]byte{}
	for _, f := range before {
		old[f.Path] = f.Data
	}
	var shapes []string
	add := func(path string, before, after []byte) {
		if r.IsCode(path) && which(path) && !bytes.Equal(before, after) {
			if s := r.changeOf(before, after); s != "" {
				shapes = append(shapes, s)
			}
		}
	}
	for _, f := range after {
		add(f.Path, old[f.Path], f.Data)
		delete(old, f.Path)
	}
	for path, data := range old {
		add(path, data, nil)
	}
	slices.Sort(shapes)
	return digest.ContentOf([]byte(strings.Join(shapes, "\x00"))), len(shapes) > 0
}

// SameCode reports whether two versions of a file differ in comments and blanks at
// most.
func (r *Runner) SameCode(before, after []byte) bool { return r.changeOf(before, after) == "" }

// changeOf is the shape of the lines that differ between two versions of a file: a
// name is the number of its first occurrence, a literal is its kind.
func (r *Runner) changeOf(before, after []byte) string {
	tokens := map[string][]token{}
	text := func(source []byte) []byte {
		var b bytes.Buffer
		for _, line := range r.lines(source) {
			key := fmt.Sprintf("%q\n", line)
			tokens[key] = line
			b.WriteString(key)
		}
		return b.Bytes()
	}
	var out strings.Builder
	numbers := map[string]int{}
	header := true
	for line := range bytes.Lines(diff.Diff("a", text(before), "b", text(after))) {
		if header = header && !bytes.HasPrefix(line, []byte("@@")); header || line[0] != '+' && line[0] != '-' {
			continue
		}
		out.WriteByte(line[0])
		for _, t := range tokens[string(line[1:])] {
			switch {
			case t.kind != nameToken:
				out.WriteString(t.kindOrText())
			case isKeyword()[t.text]:
				out.WriteString(" " + t.text)
			default:
				if _, ok := numbers[t.text]; !ok {
					numbers[t.text] = len(numbers)
				}
				fmt.Fprintf(&out, " n%d", numbers[t.text])
			}
		}
		out.WriteByte('\n')
	}
	return out.String()
}

type tokenKind byte

const (
	nameToken   tokenKind = 'n'
	numberToken tokenKind = '0'
	stringToken tokenKind = '"'
	otherToken  tokenKind = '.'
)

type token struct {
	kind tokenKind
	text string
}

func (t token) kindOrText() string {
	if t.kind == otherToken {
		return t.text
	}
	return string(t.kind)
}

// isKeyword has the words that say what code does, in all of the languages.
var isKeyword = lazySet(`and as assert async await break case catch chan class const continue def default defer del do elif else except export
	fallthrough finally for func function from global go goto if import in is lambda let map new nonlocal not or package pass raise range
	return select struct switch this throw try type typeof var while with yield None True False nil null true false undefined`)

// lines are the tokens of a text, line by line, without comments, blanks and lines
// that are a string alone, as documentation is in Python. A string over several
// lines is on its first.
func (r *Runner) lines(source []byte) [][]token {
	var out [][]token
	var line []token
	end := func() {
		if len(line) > 0 && !(len(line) == 1 && line[0].kind == stringToken) {
			out = append(out, line)
		}
		line = nil
	}
	for rest := string(source); rest != ""; {
		n := 1
		switch c := rest[0]; {
		case c == '\n':
			end()
		case c == ' ' || c == '\t' || c == '\r' || c == '\f':
		case r.comment(rest) > 0:
			n = r.comment(rest)
		case c == '"' || c == '\'' || c == '`':
			n = stringLength(rest, r.Language == "python")
			line = append(line, token{stringToken, rest[:n]})
		case isDigit(c):
			n = wordLength(rest, '.')
			line = append(line, token{numberToken, rest[:n]})
		case isLetter(c):
			n = wordLength(rest, '_')
			line = append(line, token{nameToken, rest[:n]})
		default:
			line = append(line, token{otherToken, rest[:1]})
		}
		rest = rest[n:]
	}
	end()
	return out
}

// comment is how long the comment is that a text begins with; 0 if it begins with
// something else.
func (r *Runner) comment(text string) int {
	for _, mark := range r.comments {
		if strings.HasPrefix(text, mark) {
			if n := strings.IndexByte(text, '\n'); n >= 0 {
				return n
			}
			return len(text)
		}
	}
	if r.Language != "python" && strings.HasPrefix(text, "/*") {
		if n := strings.Index(text[2:], "*/"); n >= 0 {
			return n + 4
		}
		return len(text)
	}
	return 0
}

func stringLength(text string, python bool) int {
	quote := text[:1]
	if triple := strings.Repeat(quote, 3); python && strings.HasPrefix(text, triple) {
		quote = triple
	}
	for i := len(quote); i < len(text); i++ {
		switch {
		case strings.HasPrefix(text[i:], quote):
			return i + len(quote)
		case text[i] == '\\' && quote != "`":
			i++
		case text[i] == '\n' && len(quote) == 1 && quote != "`":
			return i // it has no end
		}
	}
	return len(text)
}

func wordLength(text string, also byte) int {
	n := 1
	for n < len(text) && (isLetter(text[n]) || isDigit(text[n]) || text[n] == also) {
		n++
	}
	return n
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isLetter(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}
