package structure

import (
	"fmt"
	"go/ast"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// mayOpen names who opens files by itself, and why. Everybody else asks store, whose
// files are regular: opening a pipe that a person named waits for ever.
var mayOpen = map[string]string{
	"internal/record/store": "the one package that opens files of people",
	"internal/record/seal":  "keys, of which it compares mode and owner as well; it comes before store",
	"internal/run/sandbox":  "files of the kernel and of a sandbox's own folders",
	"internal/app/mine":     "the load of the machine, from the kernel",
	"internal/app/release":  "the program that packs a release",
	"internal/testing":      "is not a part of the program",
	"cmd":                   "a program's own start-up, before there is a workspace",
}

var openers = []string{"Open", "OpenFile", "ReadFile"}

func checkReads(t *testing.T, tree fs.FS) []string {
	var problems []string
	for _, f := range goFiles(t, tree) {
		allowed := slices.ContainsFunc(slices.Collect(maps.Keys(mayOpen)), func(dir string) bool { return strings.HasPrefix(f.path, dir+"/") })
		if f.isTest() || allowed {
			continue
		}
		imports := map[string]string{}
		for _, spec := range f.ast.Imports {
			p, _ := strconv.Unquote(spec.Path.Value)
			name := p[strings.LastIndex(p, "/")+1:]
			if spec.Name != nil {
				name = spec.Name.Name
			}
			imports[name] = p
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && importOf(sel, imports) == "os" && slices.Contains(openers, sel.Sel.Name) {
				problems = append(problems, fmt.Sprintf("%s:%d: uses os.%s, which waits for ever on a pipe; use store.Open or store.ReadFile", f.path, f.line(sel), sel.Sel.Name))
			}
			return true
		})
	}
	return problems
}

func TestOnlyStoreOpensFilesOfPeople(t *testing.T) {
	requireClean(t, checkReads)
}

func TestReadCheckFindsEachFault(t *testing.T) {
	for _, tt := range []struct{ name, file, source, want string }{
		{"store", "internal/record/store/a.go", `import "os"; var _, _ = os.Open("x")`, ""},
		{"a test", "internal/read/gate/a_test.go", `import "os"; var _, _ = os.Open("x")`, ""},
		{"opening", "internal/read/gate/a.go", `import "os"; var _, _ = os.Open("x")`, "uses os.Open"},
		{"reading", "internal/cli/a.go", `import "os"; var _, _ = os.ReadFile("x")`, "uses os.ReadFile"},
		{"passed on under another name", "internal/share/a/a.go", `import sys "os"; var f = sys.OpenFile`, "uses os.OpenFile"},
		{"of another package", "internal/share/a/a.go", `import "zip"; var f = zip.Open`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			requireProblem(t, checkReads, fstest.MapFS{tt.file: {Data: []byte("package x\n" + tt.source + "\n")}}, tt.want)
		})
	}
}
