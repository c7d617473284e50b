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
// dossier's cache. Code that decides or vouches (gate, promote, verify, attest,
// a submission) derives everything anew from bytes whose digests were checked,
// because a process that can write to the cache can forge it.
var mayDisplay = []string{"internal/cli/scorecard.go", "internal/serve/viewer/viewer.go"}

// mayShow are the files that name what a display gives, and hand it to people.
var mayShow = append([]string{"internal/read/answer/log.go", "internal/read/gate/gate.go"}, mayDisplay...)

func checkDisplay(t *testing.T, tree fs.FS) []string {
	var problems []string
	for _, f := range goFiles(t, tree) {
		if f.isTest() {
			continue
		}
		complain := func(n ast.Node, what string) {
			problems = append(problems, fmt.Sprintf("%s:%d: %s", f.path, f.line(n), what))
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if lit, ok := n.(*ast.CompositeLit); ok && madeByGate(lit) {
				complain(lit, "makes a decision of its own: gate.Decide is the one place, so that every surface says the same")
			}
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			of, _ := sel.X.(*ast.Ident)
			switch name := sel.Sel.Name; {
			case name == "ForDisplay" && !slices.Contains(mayDisplay, f.path):
				complain(sel, "asks the cache, which is for display: what decides or vouches takes a dossier.Whole")
			case of != nil && (of.Name == "dossier" && (name == "Display" || name == "Shown") || of.Name == "gate" && name == "Preview") && !slices.Contains(mayShow, f.path):
				complain(sel, "names what is for display: what decides or vouches takes a dossier.Whole")
			case name == "WholeForTest":
				complain(sel, "takes unread evidence for read: only tests may")
			}
			return true
		})
	}
	return problems
}

// madeByGate reports whether a literal is a decision or a result of gates.
func madeByGate(lit *ast.CompositeLit) bool {
	sel, ok := lit.Type.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	of, ok := sel.X.(*ast.Ident)
	return ok && of.Name == "gate" && (sel.Sel.Name == "Decision" || sel.Sel.Name == "Result")
}

func TestOnlyDisplaysAskTheCache(t *testing.T) {
	requireClean(t, checkDisplay)
}

func TestDisplayCheckFindsEachFault(t *testing.T) {
	for _, tt := range []struct{ name, file, source, want string }{
		{"a scorecard", "internal/cli/scorecard.go", `func f() { p.ForDisplay().Dossier(a) }`, ""},
		{"a gate", "internal/cli/gate.go", `func f() { p.ForDisplay().Dossier(a) }`, "gate.go:2: asks the cache"},
		{"by another name", "internal/read/promote/x.go", `var look = reading.ForDisplay`, "asks the cache"},
		{"a page", "internal/read/answer/log.go", `func f(d *dossier.Display) { gate.Preview(v, s) }`, ""},
		{"a decision on what is shown", "internal/read/promote/x.go", `func f(d *dossier.Shown) {}`, "x.go:2: names what is for display"},
		{"a decision by the display", "internal/read/recount/x.go", `func f(d *dossier.Display) {}`, "names what is for display"},
		{"a preview for a decision", "internal/cli/gate.go", `func f() { gate.Preview(v, s) }`, "names what is for display"},
		{"a verdict of its own", "internal/cli/run_report.go", `var d = &gate.Decision{Met: true}`, "makes a decision of its own"},
		{"a gate of its own", "internal/share/export/x.go", `var r = gate.Result{Met: true}`, "makes a decision of its own"},
		{"evidence that was not read", "internal/cli/gate.go", `func f() { dossier.WholeForTest(d, nil) }`, "only tests may"},
		{"a test", "internal/cli/gate_test.go", `func f() { dossier.WholeForTest(d, nil) }`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			requireProblem(t, checkDisplay, fstest.MapFS{tt.file: {Data: []byte("package x\n" + tt.source + "\n")}}, tt.want)
		})
	}
}
