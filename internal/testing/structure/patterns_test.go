package structure

import (
	"fmt"
	"go/ast"
	"io/fs"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// patternsHome compiles the patterns that are not written in our source.
const patternsHome = "internal/record/pattern"

// checkPatterns finds patterns that may come from outside and are compiled without a
// bound. Those of our own are for MustCompile.
func checkPatterns(t *testing.T, tree fs.FS) []string {
	var problems []string
	for _, f := range goFiles(t, tree) {
		if f.isTest() || strings.HasPrefix(f.path, patternsHome+"/") || strings.HasPrefix(f.path, "internal/testing/") {
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
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			from := importOf(sel, imports)
			if from == "regexp/syntax" || from == "regexp" && (strings.HasPrefix(sel.Sel.Name, "Compile") || strings.HasPrefix(sel.Sel.Name, "Match")) {
				problems = append(problems, fmt.Sprintf("%s:%d: uses %s.%s, which takes as long as its pattern and its text ask for; use package %s", f.path, f.line(sel), from, sel.Sel.Name, patternsHome))
			}
			return true
		})
	}
	return problems
}

func TestOnlyOnePackageCompilesPatterns(t *testing.T) { requireClean(t, checkPatterns) }

func TestPatternCheckFindsEachFault(t *testing.T) {
	for _, call := range []string{`regexp.Compile(p)`, `regexp.CompilePOSIX(p)`, `regexp.MatchString(p, "")`} {
		tree := fstest.MapFS{"internal/run/x/x.go": {Data: fmt.Appendf(nil, "package x\n\nimport \"regexp\"\n\nfunc f(p string) { %s }\n", call)}}
		if got := checkPatterns(t, tree); len(got) != 1 {
			t.Errorf("%s: %v", call, got)
		}
	}
}
