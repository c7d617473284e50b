package markup

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A language is how a program text is cut into tokens. It is for the eye: what it takes
// for a string need not be one for a compiler.
type language struct {
	keywords string   // with a space around each
	literals string   // the same
	comments []string // what begins a comment that goes to the end of the line
	block    bool     // /* and */ enclose comments
	quotes   string   // what strings begin and end with
	long     bool     // three quotation marks enclose strings of several lines
	anyCase  bool     // keywords may be in capitals
}

var (
	shell      = language{keywords: " if then elif else fi for in do done while until case esac function return exit export local set source cd echo sudo test trap readonly ", comments: []string{"#"}, quotes: `"'`}
	python     = language{keywords: " and as assert async await break class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return try while with yield ", literals: " None True False self ", comments: []string{"#"}, quotes: `"'`, long: true}
	golang     = language{keywords: " break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var ", literals: " nil true false iota ", comments: []string{"//"}, block: true, quotes: "\"'`"}
	javascript = language{keywords: " async await break case catch class const continue default delete do else export extends finally for from function if import in instanceof interface let new of return static super switch this throw try type typeof var void while yield ", literals: " null undefined true false ", comments: []string{"//"}, block: true, quotes: "\"'`"}
	sql        = language{keywords: " add all alter and as asc between by case check column constraint create cross default delete desc distinct drop else end exists foreign from full group having if in index inner insert into is join key left like limit not offset on or order outer primary references right select set table then union unique update using values view when where with ", literals: " null true false ", comments: []string{"--"}, block: true, quotes: `"'`, anyCase: true}
)

// languageCalled finds a language by a name that people use, nil if it is not known.
func languageCalled(name string) *language {
	switch name {
	case "sh", "bash", "shell", "zsh", "console":
		return &shell
	case "py", "python", "python3":
		return &python
	case "go", "golang":
		return &golang
	case "js", "javascript", "jsx", "mjs", "ts", "tsx", "typescript":
		return &javascript
	case "sql", "sqlite", "postgresql", "mysql":
		return &sql
	}
	return nil
}

// Code shows a program text. What is in no language that is known is shown as it is.
func Code(text, name string) string {
	switch name = strings.ToLower(name); {
	case name == "json" || name == "jsonc":
		return JSON(text)
	case name == "diff" || name == "patch":
		return diff(text)
	}
	w := &writer{}
	w.open("code", "block")
	if l := languageCalled(name); l != nil {
		l.write(w, text)
	} else {
		w.text(text)
	}
	w.close("code")
	return w.String()
}

// diff shows the lines of a diff.
func diff(text string) string {
	w := &writer{}
	w.open("code", "block")
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"), strings.HasPrefix(line, "@@"), strings.HasPrefix(line, "diff "):
			w.in("span", "tm", line)
		case line[0] == '+':
			w.in("span", "plus", line)
		case line[0] == '-':
			w.in("span", "minus", line)
		default:
			w.text(line)
		}
	}
	w.close("code")
	return w.String()
}

func (l *language) write(w *writer, s string) {
	plain := 0 // the text before i that is not written yet begins there
	for i := 0; i < len(s); {
		class, n := l.token(s, i)
		if class != "" {
			w.text(s[plain:i])
			w.in("span", class, s[i:i+n])
			plain = i + n
		}
		i += n
	}
	w.text(s[plain:])
}

// token tells what begins at a place and how long it is, at least one byte.
func (l *language) token(s string, i int) (class string, n int) {
	rest := s[i:]
	for _, c := range l.comments {
		if strings.HasPrefix(rest, c) && (c != "#" || i == 0 || strings.IndexByte(" \t\n;", s[i-1]) >= 0) {
			return "tm", lineEnd(rest)
		}
	}
	if l.block && strings.HasPrefix(rest, "/*") {
		return "tm", through(rest, 2, "*/")
	}
	if c := rest[0]; strings.IndexByte(l.quotes, c) >= 0 {
		if three := strings.Repeat(string(c), 3); l.long && strings.HasPrefix(rest, three) {
			return "ts", through(rest, 3, three)
		}
		return "ts", stringEnd(rest, c)
	}
	r, size := utf8.DecodeRuneInString(rest)
	switch {
	case unicode.IsDigit(r):
		return "tn", wordEnd(rest, true)
	case unicode.IsLetter(r) || r == '_':
		n := wordEnd(rest, false)
		word := rest[:n]
		if l.anyCase {
			word = strings.ToLower(word)
		}
		switch {
		case strings.Contains(l.keywords, " "+word+" "):
			return "tk", n
		case strings.Contains(l.literals, " "+word+" "):
			return "tl", n
		}
		return "", n
	}
	return "", size
}

func lineEnd(s string) int {
	if n := strings.IndexByte(s, '\n'); n >= 0 {
		return n
	}
	return len(s)
}

// through is where a text ends that ends with a mark, and begins with so many bytes.
func through(s string, begin int, end string) int {
	if n := strings.Index(s[begin:], end); n >= 0 {
		return begin + n + len(end)
	}
	return len(s)
}

func wordEnd(s string, dots bool) int {
	for i, r := range s {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && (!dots || r != '.') {
			return i
		}
	}
	return len(s)
}
