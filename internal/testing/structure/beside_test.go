package structure

import (
	"fmt"
	"go/ast"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

// checkJoined: what reads other people's files opens one of a folder with store.ReadBelow,
// ReadBeside or OpenBelow. A path that is put together from a folder and a name leads
// wherever the name, or a link, leads.
func checkJoined(t *testing.T, tree fs.FS) []string {
	t.Helper()
	var problems []string
	for _, f := range goFiles(t, tree) {
		if f.isTest() || !strings.HasPrefix(f.path, "internal/share/") && !strings.HasPrefix(f.path, "internal/read/bundle/describe/") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if name := calledName(n); ok && (name == "store.ReadFile" || name == "store.Open") {
				for _, arg := range call.Args {
					ast.Inspect(arg, func(inner ast.Node) bool {
						if calledName(inner) == "filepath.Join" {
							problems = append(problems, fmt.Sprintf("%s:%d: %s opens a path that was joined; use store.ReadBelow: nothing may lead out of the folder", f.path, f.line(call), name))
						}
						return true
					})
				}
			}
			return true
		})
	}
	return problems
}

// calledName is the package and the name of a function that is called.
func calledName(n ast.Node) string {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return ""
	}
	if s, ok := call.Fun.(*ast.SelectorExpr); ok {
		if x, ok := s.X.(*ast.Ident); ok {
			return x.Name + "." + s.Sel.Name
		}
	}
	return ""
}

func TestNoFileIsOpenedByAJoinedPath(t *testing.T) { requireClean(t, checkJoined) }

func TestJoinedCheckFindsEachFault(t *testing.T) {
	for _, tt := range []struct{ name, file, source, want string }{
		{"joined", "internal/share/a/a.go", `import "path/filepath"; var _, _ = store.Open(filepath.Join("a", "b"))`, "store.Open opens a path that was joined"},
		{"deeper", "internal/share/a/a.go", `import "path/filepath"; var _, _ = store.ReadFile(fs, f(filepath.Join("a", "b")), 1)`, "store.ReadFile opens"},
		{"given", "internal/share/a/a.go", `var _, _ = store.Open(name)`, ""},
		{"a test", "internal/share/a/a_test.go", `import "path/filepath"; var _, _ = store.Open(filepath.Join("a", "b"))`, ""},
		{"of our own", "internal/record/a/a.go", `import "path/filepath"; var _, _ = store.Open(filepath.Join("a", "b"))`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			requireProblem(t, checkJoined, fstest.MapFS{tt.file: {Data: []byte("package x\n" + tt.source + "\n")}}, tt.want)
		})
	}
}
