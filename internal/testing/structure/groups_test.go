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

// originOf says whose a package is: the standard library's, another module's, ours.
func originOf(path string) string {
	first, _, _ := strings.Cut(path, "/")
	switch {
	case first == "tallystick":
		return "ours"
	case strings.Contains(first, "."):
		return "another module's"
	}
	return "the standard library's"
}

// checkImportGroups finds imports that stand in one group with those of another origin:
// a reader sees at a glance what a file needs from where.
func checkImportGroups(t *testing.T, tree fs.FS) []string {
	var problems []string
	for _, f := range goFiles(t, tree) {
		var before *ast.ImportSpec
		for _, spec := range f.ast.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			if before != nil && f.line(spec) == f.line(before)+1 && !ast.IsGenerated(f.ast) {
				if last, _ := strconv.Unquote(before.Path.Value); originOf(last) != originOf(path) {
					problems = append(problems, fmt.Sprintf("%s:%d: %s is %s and stands in one group with %s, which is %s", f.path, f.line(spec), path, originOf(path), last, originOf(last)))
				}
			}
			before = spec
		}
	}
	return problems
}

func TestImportsAreGroupedByOrigin(t *testing.T) { requireClean(t, checkImportGroups) }

func TestImportGroupCheckFindsEachFault(t *testing.T) {
	for _, tt := range []struct{ name, source, want string }{
		{"grouped", "import (\n\t\"fmt\"\n\n\t\"example.com/a\"\n\n\t\"tallystick/internal/x\"\n)", ""},
		{"ours with the standard library's", "import (\n\t\"fmt\"\n\t\"tallystick/internal/x\"\n)", "is ours and stands in one group"},
		{"the standard library's after ours", "import (\n\t\"tallystick/internal/x\"\n\t\"time\"\n)", "is the standard library's"},
		{"another's with ours", "import (\n\t\"example.com/a\"\n\t\"tallystick/internal/x\"\n)", "is ours"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			requireProblem(t, checkImportGroups, fstest.MapFS{"internal/a/a.go": {Data: []byte("package x\n" + tt.source + "\n")}}, tt.want)
		})
	}
}
