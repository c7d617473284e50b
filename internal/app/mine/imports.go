package mine

import (
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"tallystick/internal/record/digest"
)

// goImports are what has to be compiled for the packages of a task's tests.
type goImports struct {
	own     []string // packages of the repository
	foreign []string // packages of others, the standard library included
}

// importsOf follows the imports of Go packages through a tree, without the
// compiler: what a repository imports decides what its tests cost.
func importsOf(module string, files []digest.File, packages []string) goImports {
	byDir := map[string][]digest.File{}
	for _, f := range files {
		if strings.HasSuffix(f.Path, ".go") {
			byDir[path.Dir(f.Path)] = append(byDir[path.Dir(f.Path)], f)
		}
	}
	foreign, seen := map[string]bool{}, map[string]bool{}
	var follow func(pkg string, tests bool)
	follow = func(pkg string, tests bool) {
		if seen[pkg] {
			return
		}
		seen[pkg] = true
		dir := strings.TrimPrefix(strings.TrimPrefix(pkg, module), "/")
		if dir == "" {
			dir = "."
		}
		for _, f := range byDir[dir] {
			if !tests && strings.HasSuffix(f.Path, "_test.go") {
				continue
			}
			for _, imported := range importsIn(f.Data) {
				if imported == module || strings.HasPrefix(imported, module+"/") {
					follow(imported, false)
				} else {
					foreign[imported] = true
				}
			}
		}
	}
	for _, pkg := range packages {
		follow(pkg, true)
	}
	delete(foreign, "C")
	return goImports{slices.Sorted(maps.Keys(seen)), slices.Sorted(maps.Keys(foreign))}
}

// importsIn are the imports of a file; none of one that is not Go.
func importsIn(source []byte) []string {
	f, err := parser.ParseFile(token.NewFileSet(), "", source, parser.ImportsOnly)
	if err != nil {
		return nil
	}
	var out []string
	for _, spec := range f.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// isStandard tells the standard library's packages by the missing dot.
func isStandard(pkg string) bool {
	first, _, _ := strings.Cut(pkg, "/")
	return !strings.Contains(first, ".")
}

// measure estimates what checking a task costs. Those of the standard library are
// compiled once for all tasks, so their number counts for less.
func (t *task) measure() {
	if t.language != Go {
		for _, name := range t.testFiles() {
			t.cost += len(t.file(name)) >> 11
		}
		return
	}
	module := moduleOf(t.file("go.mod"))
	packages, err := t.goPackages(t.testFiles())
	if module == "" || err != nil {
		return
	}
	imports := importsOf(module, t.after, packages)
	t.cost = 10 * len(imports.own)
	for _, p := range imports.foreign {
		if isStandard(p) {
			t.cost++
		} else {
			t.cost += 10 // and whatever it imports
		}
	}
	for _, f := range t.after {
		if Go.isTest(f.Path) && slices.Contains(packages, path.Join(module, path.Dir(f.Path))) {
			t.cost += len(f.Data) >> 11 // much to test takes long to test
		}
	}
	t.own, t.foreign = imports.own, imports.foreign
}

// compilesOneOf is the first package that the tests compile and that is one of the
// unwanted, or below one; "" if there is none.
func (t *task) compilesOneOf(unwanted []string) string {
	for _, pkg := range slices.Concat(t.own, t.foreign) {
		for _, u := range unwanted {
			if pkg == u || strings.HasPrefix(pkg, strings.TrimSuffix(u, "/")+"/") {
				return pkg
			}
		}
	}
	return ""
}
