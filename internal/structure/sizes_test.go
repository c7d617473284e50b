package structure

import (
	"bytes"
	"fmt"
	"go/ast"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// Limits of a package, in lines of Go without its tests. A larger one holds two
// things, and nobody finds their way in it.
const packageLimit = 6000

// ownLimits are packages with another limit, and why.
var ownLimits = map[string]struct {
	lines  int
	reason string
}{
	"internal/cli": {13_000, "one small file for each command; what a command does belongs to the package that does it"},
}

// tooLarge are the packages that are over their limit today, with a bound for each.
// They may shrink and not grow; the row goes when the package is within its limit.
var tooLarge = map[string]int{}

// longFunction is the most lines that nine in ten functions may have.
const longFunction = 35

func checkSizes(t *testing.T, tree fs.FS) []string { return sizeProblems(t, tree, tooLarge) }

func sizeProblems(t *testing.T, tree fs.FS, known map[string]int) []string {
	var problems []string
	lines := packageLines(t, tree)
	for _, dir := range slices.Sorted(maps.Keys(lines)) {
		limit, reason := packageLimit, "a larger package holds two things: name them and part them"
		if own, ok := ownLimits[dir]; ok {
			limit, reason = own.lines, own.reason
		}
		was, listed := known[dir]
		switch {
		case listed && lines[dir] <= limit:
			problems = append(problems, fmt.Sprintf("%s has %d lines, within its limit of %d: remove its row from tooLarge in internal/structure/sizes_test.go", dir, lines[dir], limit))
		case listed && lines[dir] > was:
			problems = append(problems, fmt.Sprintf("%s has %d lines without tests and had %d; it is over its limit of %d and may only shrink: %s", dir, lines[dir], was, limit, reason))
		case !listed && lines[dir] > limit:
			problems = append(problems, fmt.Sprintf("%s has %d lines without tests, the limit is %d: %s", dir, lines[dir], limit, reason))
		}
	}
	for dir := range known {
		if lines[dir] == 0 {
			problems = append(problems, fmt.Sprintf("%s is in tooLarge in internal/structure/sizes_test.go and does not exist: remove its row", dir))
		}
	}
	return problems
}

// packageLines counts the lines of each folder with Go files, without tests.
func packageLines(t *testing.T, tree fs.FS) map[string]int {
	lines := map[string]int{}
	for _, f := range goFiles(t, tree) {
		if !f.isTest() && (strings.HasPrefix(f.path, "internal/") || strings.HasPrefix(f.path, "cmd/")) {
			lines[f.dir()] += bytes.Count(readFile(t, tree, f.path), []byte("\n"))
		}
	}
	return lines
}

// functionLengths lists the lines of every function outside tests, from its first
// line to its last, in order of length.
func functionLengths(t *testing.T, tree fs.FS) []int {
	var lengths []int
	for _, f := range goFiles(t, tree) {
		if f.isTest() {
			continue
		}
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok {
				lengths = append(lengths, f.fset.Position(fn.End()).Line-f.line(fn)+1)
			}
		}
	}
	slices.Sort(lengths)
	return lengths
}

func checkFunctions(t *testing.T, tree fs.FS) []string {
	lengths := functionLengths(t, tree)
	if p90 := percentile(lengths, 90); p90 >= longFunction {
		return []string{fmt.Sprintf("one function in ten has %d lines or more, the limit is %d: a reader holds about a page", p90, longFunction)}
	}
	return nil
}

// percentile is the smallest length that p in a hundred do not exceed.
func percentile(sorted []int, p int) int {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)*p+99)/100-1]
}

func TestPackagesAndFunctionsStaySmall(t *testing.T) {
	requireClean(t, checkSizes)
	requireClean(t, checkFunctions)
}

// TestSizes prints what a note about the structure cites:
//
//	go test ./internal/structure -run TestSizes -v
func TestSizes(t *testing.T) {
	tree := os.DirFS(root)
	lines, all := packageLines(t, tree), 0
	for _, dir := range slices.Sorted(maps.Keys(lines)) {
		t.Logf("%6d  %s", lines[dir], dir)
		all += lines[dir]
	}
	lengths := functionLengths(t, tree)
	t.Logf("%6d  lines without tests", all)
	t.Logf("%d functions: median %d lines, nine in ten at most %d, longest %d", len(lengths), percentile(lengths, 50), percentile(lengths, 90), percentile(lengths, 100))
	if all == 0 || len(lengths) == 0 {
		t.Error("no code was found, so nothing was measured")
	}
}

func TestSizeCheckFindsEachFault(t *testing.T) {
	pkg := func(dir string, lines int) fstest.MapFS {
		return fstest.MapFS{dir + "/a.go": {Data: []byte("package a\n" + strings.Repeat("\n", lines-1))}}
	}
	for _, tt := range []struct {
		name  string
		tree  fstest.MapFS
		known map[string]int
		want  string
	}{
		{"within the limit", pkg("internal/canon", 6000), nil, ""},
		{"over it", pkg("internal/canon", 6001), nil, "the limit is 6000"},
		{"a limit of its own", pkg("internal/cli", 13_000), nil, ""},
		{"over that", pkg("internal/cli", 13_001), nil, "one small file for each command"},
		{"known and smaller", pkg("internal/canon", 6500), map[string]int{"internal/canon": 7000}, ""},
		{"known and larger", pkg("internal/canon", 7001), map[string]int{"internal/canon": 7000}, "may only shrink"},
		{"known and within the limit", pkg("internal/canon", 6000), map[string]int{"internal/canon": 7000}, "remove its row"},
		{"known and gone", pkg("internal/canon", 1), map[string]int{"internal/x": 7000}, "does not exist"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			requireProblem(t, func(t *testing.T, tree fs.FS) []string { return sizeProblems(t, tree, tt.known) }, tt.tree, tt.want)
		})
	}
	long := "package a\nfunc f() {\n" + strings.Repeat("\n", longFunction) + "}\n"
	requireProblem(t, checkFunctions, fstest.MapFS{"internal/canon/a.go": {Data: []byte(long)}}, "one function in ten")
}
