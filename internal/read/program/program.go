// Package program reads programs in Python, JavaScript and TypeScript, Go and
// shell, and tells two things of them: where they run a text as a program, and
// which constant texts they have.
//
// A program is read as tokens, so that comments, strings and escapes are known
// for what they are. Expressions are followed as far as they are constant: names
// that are bound to something, imports, strings that are put together, encoded or
// looked up in a table of names. What depends on input is not followed, and
// nothing is run.
//
// What is a finding is decided by one idea: a program is fixed if its name, and
// the text that an interpreter is given, are constant. Running git is fixed;
// running the text that a model wrote is not.
//
// It promises no more than its tables hold. A name that is computed from input, a
// function of a package that is not listed, and machine code are not seen.
package program

import (
	"bytes"
	"path"
	"slices"
	"strings"
)

// A Language is one whose programs are read.
type Language struct {
	Name    string
	exts    []string
	shebang []string
	rules   func() map[string]rule // calls by their full name
	methods func() map[string]rule // calls by the name of a method, of any object
}

var python = &Language{
	Name: "python", exts: []string{".py", ".pyw", ".pyi", ".star"}, shebang: []string{"python", "pypy"},
	rules: pythonRules, methods: pythonMethods,
}
var javascript = &Language{
	Name: "javascript", exts: []string{".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".jsx", ".tsx"}, shebang: []string{"node", "deno", "bun", "tsx", "ts-node"},
	rules: javascriptRules, methods: javascriptMethods,
}
var golang = &Language{
	Name: "go", exts: []string{".go"},
	rules: goRules, methods: goMethods,
}
var shell = &Language{
	Name: "shell", exts: []string{".sh", ".bash", ".zsh", ".ksh"}, shebang: shells,
	rules: noRules, methods: noRules,
}

// Languages are all that are read.
var Languages = []*Language{python, javascript, golang, shell}

// LanguageOf recognises a program by its name or its first line; nil for anything
// else.
func LanguageOf(name string, data []byte) *Language {
	ext := strings.ToLower(path.Ext(name))
	for _, l := range Languages {
		if slices.Contains(l.exts, ext) {
			return l
		}
	}
	first, _, _ := bytes.Cut(data[:min(len(data), 256)], []byte("\n"))
	if !bytes.HasPrefix(first, []byte("#!")) {
		return nil
	}
	for _, word := range strings.Fields(string(first[2:])) {
		if l := interpreted(word); l != nil {
			return l
		}
	}
	return nil
}

// interpreted is the language that a program of this name runs.
func interpreted(name string) *Language {
	name = strings.TrimRight(path.Base(name), "0123456789.")
	for _, l := range Languages {
		if slices.Contains(l.shebang, name) {
			return l
		}
	}
	return nil
}

// A Run is a place where a program runs a text as a program, or a program that is
// not fixed.
type Run struct {
	Line int
	ID   string
	Text string // the line
}

// Hole stands in a Text for what is not constant.
const Hole = '\x00'

// A Text is a constant text of a program, with holes where it is not constant.
type Text struct {
	Line int
	Text string
	// Writes says that the program writes the file of this name.
	Writes bool
	// Env says that it is the name of an environment variable that is read.
	Env bool
}

// A Program is what was read.
type Program struct {
	Runs  []Run
	Texts []Text

	ran []ranFile
}

// A ranFile is a file that a program runs.
type ranFile struct {
	file string
	run  Run
}

// maxDepth bounds programs inside programs, and expressions inside expressions.
const (
	maxNested = 3
	maxDepth  = 40
	maxBound  = 64      // places where one name is bound
	maxLine   = 512     // tokens of one statement that are looked over
	maxSteps  = 100_000 // and 64 for each token
)

// Read reads a program. Whatever the bytes are, it ends with what it understood.
func Read(l *Language, data []byte) Program {
	var p Program
	p.read(l, data, 0, 0)
	// A program that runs what it has written itself runs a text.
	written := map[string]bool{}
	for _, t := range p.Texts {
		if t.Writes {
			written[path.Clean(t.Text)] = true
		}
	}
	for _, r := range p.ran {
		if written[path.Clean(r.file)] {
			p.add(r.run)
		}
	}
	p.ran = nil
	return p
}

// read reads a program that begins at a line of another.
func (p *Program) read(l *Language, data []byte, line, nested int) {
	if nested > maxNested {
		return
	}
	if l == shell {
		newScript(p, data, line, nested).read()
		return
	}
	newReader(p, l, data, line, nested).read()
}

// add notes a run, once for each line and id.
func (p *Program) add(r Run) {
	if !slices.ContainsFunc(p.Runs[max(0, len(p.Runs)-16):], func(x Run) bool { return x.Line == r.Line && x.ID == r.ID }) {
		p.Runs = append(p.Runs, r)
	}
}

func lineAt(data []byte, at int) string {
	at = min(at, len(data))
	from := bytes.LastIndexByte(data[:at], '\n') + 1
	to := len(data)
	if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
		to = at + i
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(data[from:to]), "\uFFFD"))
}
