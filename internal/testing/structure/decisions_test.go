package structure

import (
	"fmt"
	"go/ast"
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"
)

// mayDisplay are the files that show something and decide nothing: they may ask
// dossier's cache. Whoever decides or vouches (gate, promote, verify, attest, a
// submission) derives everything anew from bytes whose digests were checked,
// because whoever can write to the cache can forge it.
var mayDisplay = []string{"internal/cli/scorecard.go", "internal/serve/viewer/viewer.go"}

func checkDisplay(t *testing.T, tree fs.FS) []string {
	var problems []string
	for _, f := range goFiles(t, tree) {
		if f.isTest() || slices.Contains(mayDisplay, f.path) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "ForDisplay" {
				problems = append(problems, fmt.Sprintf("%s:%d: asks the cache, which is for display: what decides or vouches calls Reading.Evidence", f.path, f.line(sel)))
			}
			return true
		})
	}
	return problems
}

func TestOnlyDisplaysAskTheCache(t *testing.T) {
	requireClean(t, checkDisplay)
}

func TestDisplayCheckFindsEachFault(t *testing.T) {
	for _, tt := range []struct{ name, file, source, want string }{
		{"a scorecard", "internal/cli/scorecard.go", `func f() { p.ForDisplay().Evidence() }`, ""},
		{"a gate", "internal/cli/gate.go", `func f() { p.ForDisplay().Evidence() }`, "gate.go:2: asks the cache"},
		{"by another name", "internal/read/promote/x.go", `var look = reading.ForDisplay`, "asks the cache"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			requireProblem(t, checkDisplay, fstest.MapFS{tt.file: {Data: []byte("package x\n" + tt.source + "\n")}}, tt.want)
		})
	}
}
