package structure

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"regexp"
	"slices"
	"testing"
	"testing/fstest"
)

// scores are the names of scores, rates and means of scores. With so many decimals by
// fmt, 0.99996 is 1.0000: a case that did not pass looks as if it had.
var scores = []string{"Score", "MeanScore", "Mean", "SolveRate", "PassRate"}

var decimals = regexp.MustCompile(`%[-+ 0#]*[0-9*]*\.[0-9*]+[feg]`)

// checkScores finds scores that are given to a format with decimals. Those of
// comparisons are members A and B.
func checkScores(t *testing.T, tree fs.FS) []string {
	var problems []string
	for _, f := range goFiles(t, tree) {
		if f.isTest() {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !slices.ContainsFunc(call.Args, isDecimalFormat) {
				return true
			}
			for _, arg := range call.Args {
				if name := scoreNamed(arg); name != "" {
					problems = append(problems, fmt.Sprintf("%s:%d: prints %s with decimals of fmt, which shows 0.99996 as 1; use plain.Score", f.path, f.line(arg), name))
				}
			}
			return true
		})
	}
	return problems
}

func isDecimalFormat(e ast.Expr) bool {
	lit, ok := e.(*ast.BasicLit)
	return ok && lit.Kind == token.STRING && decimals.MatchString(lit.Value)
}

// scoreNamed is the name of a score that an expression is, and not a part of another.
func scoreNamed(e ast.Expr) string {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	sel, ok := e.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if of, ok := sel.X.(*ast.SelectorExpr); ok && (sel.Sel.Name == "A" || sel.Sel.Name == "B") {
		sel = of
	}
	if slices.Contains(scores, sel.Sel.Name) {
		return sel.Sel.Name
	}
	return ""
}

func TestScoresBelowOneAreNotPrintedAsOne(t *testing.T) {
	requireClean(t, checkScores)
}

func TestScoreCheckFindsEachFault(t *testing.T) {
	for _, tt := range []struct{ name, source, want string }{
		{"a score", `fmt.Sprintf("%.2f", c.Score)`, "prints Score"},
		{"behind a pointer", `fmt.Sprintf("mean %.4f", *c.MeanScore)`, "prints MeanScore"},
		{"of a comparison", `fmt.Sprintf("%d: %.4f", 1, s.Mean.B)`, "prints Mean"},
		{"by a function of its own", `row("solve rate", "%-8.4f", t.SolveRate)`, "prints SolveRate"},
		{"as plain has it", `fmt.Sprintf("%s %.4f", plain.Score(c.SolveRate, 4), c.Low)`, ""},
		{"without decimals", `fmt.Sprint("%d", c.Score)`, ""},
		{"a bound", `fmt.Sprintf("%.4f", c.SolveRateBounds[0])`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			requireProblem(t, checkScores, fstest.MapFS{"internal/cli/a.go": {Data: []byte("package x\nvar _ = " + tt.source + "\n")}}, tt.want)
		})
	}
}
