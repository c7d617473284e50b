package structure

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"testing"
)

// root is the top of the repository.
const root = "../../.."

// A check looks at a tree of files and says what is wrong with it, one line for
// each problem. Each check runs over the repository and over small trees with a
// known fault, since a check that cannot fail checks nothing.
type check func(t *testing.T, tree fs.FS) []string

func requireClean(t *testing.T, c check) {
	t.Helper()
	for _, problem := range c(t, os.DirFS(root)) {
		t.Error(problem)
	}
}

// requireProblem runs c over a tree with a fault and wants exactly one
// complaint, which mentions want. No want means no complaint.
func requireProblem(t *testing.T, c check, tree fs.FS, want string) {
	t.Helper()
	problems := c(t, tree)
	switch {
	case want == "" && len(problems) > 0:
		t.Errorf("got %q, want no problem", problems)
	case want != "" && (len(problems) != 1 || !strings.Contains(problems[0], want)):
		t.Errorf("got %q, want one problem with %q", problems, want)
	}
}

// A sourceFile is one parsed Go file.
type sourceFile struct {
	path string // from the top, with slashes
	ast  *ast.File
	fset *token.FileSet
}

func (f sourceFile) dir() string         { return path.Dir(f.path) }
func (f sourceFile) isTest() bool        { return strings.HasSuffix(f.path, "_test.go") }
func (f sourceFile) line(n ast.Node) int { return f.fset.Position(n.Pos()).Line }

// goFiles parses every Go file of the module, whatever its build tags. The files
// of the repository are parsed once for all checks.
func goFiles(t *testing.T, tree fs.FS) []sourceFile {
	t.Helper()
	if tree == os.DirFS(root) {
		repository.once.Do(func() { repository.files = parseTree(t, tree) })
		return repository.files
	}
	return parseTree(t, tree)
}

var repository struct {
	once  sync.Once
	files []sourceFile
}

func parseTree(t *testing.T, tree fs.FS) []sourceFile {
	t.Helper()
	var files []sourceFile
	for _, name := range treeFiles(t, tree) {
		if !strings.HasSuffix(name, ".go") || strings.Contains(name, "testdata/") {
			continue
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, readFile(t, tree, name), parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, sourceFile{name, f, fset})
	}
	return files
}

// treeFiles lists what belongs to the repository: all regular files but those
// that .gitignore names. Listing the folder and not the index means that a file
// is checked before it is added.
func treeFiles(t *testing.T, tree fs.FS) []string {
	t.Helper()
	ignored := ignorePatterns(tree)
	var names []string
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case name == ".":
			return nil
		case name == ".git" || ignored(name):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.Type().IsRegular():
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// ignorePatterns understands the two forms that our .gitignore uses: "/folder/"
// at the top, and a pattern for a file's name anywhere.
func ignorePatterns(tree fs.FS) func(name string) bool {
	text, _ := fs.ReadFile(tree, ".gitignore")
	patterns := strings.Fields(string(text))
	return func(name string) bool {
		for _, p := range patterns {
			if top, ok := strings.CutPrefix(p, "/"); ok {
				if name == strings.TrimSuffix(top, "/") {
					return true
				}
			} else if hit, _ := path.Match(p, path.Base(name)); hit {
				return true
			}
		}
		return false
	}
}

func readFile(t *testing.T, tree fs.FS, name string) []byte {
	t.Helper()
	data, err := fs.ReadFile(tree, name)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
}
