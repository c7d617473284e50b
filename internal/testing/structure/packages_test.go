package structure

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/mod/modfile"
)

// checkComments wants a comment of every package that says what it promises, in
// the form that the documentation tools recognise.
func checkComments(t *testing.T, tree fs.FS) []string {
	doc := map[string]string{}  // folder to package comment
	name := map[string]string{} // folder to package name
	for _, f := range goFiles(t, tree) {
		if f.isTest() {
			continue
		}
		name[f.dir()] = f.ast.Name.Name
		if f.ast.Doc != nil {
			doc[f.dir()] += f.ast.Doc.Text()
		}
	}
	var problems []string
	for dir, pkg := range name {
		want := "Package " + pkg + " "
		if pkg == "main" {
			want = "Command " + path.Base(dir) + " "
		}
		if !strings.HasPrefix(doc[dir], want) {
			problems = append(problems, fmt.Sprintf("%s: the package comment does not begin with %q: say what the package promises and where it stops", dir, want))
		}
	}
	return problems
}

func TestEveryPackageSaysWhatItPromises(t *testing.T) {
	requireClean(t, checkComments)
}

func TestCommentCheckFindsEachFault(t *testing.T) {
	for _, tt := range []struct{ name, file, source, want string }{
		{"a comment", "internal/record/canon/a.go", "// Package canon encodes.\npackage canon\n", ""},
		{"a program", "cmd/tally/a.go", "// Command tally runs.\npackage main\n", ""},
		{"none", "internal/record/canon/a.go", "package canon\n", "does not begin"},
		{"one that is cut off by an empty line", "internal/record/canon/a.go", "// Package canon encodes.\n\npackage canon\n", "does not begin"},
		{"one about something else", "internal/record/canon/a.go", "// Package can encodes.\npackage canon\n", "does not begin"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			requireProblem(t, checkComments, fstest.MapFS{tt.file: {Data: []byte(tt.source)}}, tt.want)
		})
	}
}

// checkArchitecture wants every door and every program in ARCHITECTURE.md, and no
// folder in it that is not there. What lies behind the doors is in docs/packages.md.
func checkArchitecture(t *testing.T, tree fs.FS) []string {
	const page = "ARCHITECTURE.md"
	text, err := fs.ReadFile(tree, page)
	if err != nil {
		return []string{fmt.Sprintf("%s: %v", page, err)}
	}
	var problems []string
	named := map[string]bool{}
	for i, line := range strings.Split(string(text), "\n") {
		for _, dir := range folderNames.FindAllString(line, -1) {
			named[strings.TrimSuffix(dir, "/")] = true
			if _, err := fs.Stat(tree, strings.TrimSuffix(dir, "/")); err != nil {
				problems = append(problems, fmt.Sprintf("%s:%d: %s does not exist", page, i+1, dir))
			}
		}
	}
	for _, dir := range doorFolders(t, tree) {
		if !named[dir] {
			problems = append(problems, fmt.Sprintf("%s: %s is not there: say what it is for", page, dir))
		}
	}
	return problems
}

// folderNames finds paths of ours in a text.
var folderNames = regexp.MustCompile(`\b(?:internal|cmd)/[a-z0-9/_-]*[a-z0-9](?:\.go\b)?/?`)

// doorFolders lists the doors of internal and the programs.
func doorFolders(t *testing.T, tree fs.FS) []string {
	var dirs []string
	for _, f := range goFiles(t, tree) {
		parts := strings.Split(f.path, "/")
		if len(parts) > 2 && (parts[0] == "internal" || parts[0] == "cmd") {
			dirs = append(dirs, parts[0]+"/"+parts[1])
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

func TestArchitectureDescribesTheTree(t *testing.T) {
	requireClean(t, checkArchitecture)
}

func TestArchitectureCheckFindsEachFault(t *testing.T) {
	for _, tt := range []struct{ name, page, want string }{
		{"all there", "`cmd/tally` and `internal/record/`, and in it internal/record/canon/a.go\n", ""},
		{"named but missing", "cmd/tally internal/record internal/record/grade\n", "internal/record/grade does not exist"},
		{"a file that is gone", "cmd/tally internal/record internal/record/canon/b.go\n", "b.go does not exist"},
		{"there but not named", "cmd/tally\n", "internal/record is not there"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			requireProblem(t, checkArchitecture, fstest.MapFS{
				"internal/record/canon/a.go": {Data: []byte("package canon\n")},
				"cmd/tally/main.go":          {Data: []byte("package main\n")},
				"ARCHITECTURE.md":            {Data: []byte("# A\n\n" + tt.page)},
			}, tt.want)
		})
	}
	requireProblem(t, checkArchitecture, fstest.MapFS{}, "ARCHITECTURE.md")
}

// checkNames refuses names that name nothing. Such a package is where things go
// without a thought, and every package comes to import it.
func checkNames(t *testing.T, tree fs.FS) []string {
	empty := []string{"util", "utils", "common", "helper", "helpers", "misc"}
	var problems []string
	seen := map[string]bool{}
	for _, name := range treeFiles(t, tree) {
		for p := name; p != "."; p = path.Dir(p) {
			base := strings.TrimSuffix(strings.TrimSuffix(path.Base(p), ".go"), "_test")
			if slices.Contains(empty, base) && !seen[p] {
				seen[p] = true
				problems = append(problems, fmt.Sprintf("%s: the name says nothing: name the thing inside", p))
			}
		}
	}
	return problems
}

func TestNamesSaySomething(t *testing.T) {
	requireClean(t, checkNames)
	for file, want := range map[string]string{
		"internal/record/canon/encode.go":      "",
		"internal/utilisation/a.go":            "",
		"internal/util/a.go":                   "internal/util: ",
		"internal/record/canon/helpers.go":     "helpers.go",
		"internal/record/canon/common_test.go": "common_test.go",
		"docs/misc/x.md":                       "docs/misc: ",
	} {
		requireProblem(t, checkNames, fstest.MapFS{file: {}}, want)
	}
}

// checkReplace refuses replace lines: with one, what a stranger builds from the
// module is not what we tested.
func checkReplace(t *testing.T, tree fs.FS) []string {
	var problems []string
	for _, name := range treeFiles(t, tree) {
		if path.Base(name) != "go.mod" || strings.Contains(name, "testdata/") {
			continue
		}
		mod, err := modfile.Parse(name, readFile(t, tree, name), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range mod.Replace {
			problems = append(problems, fmt.Sprintf("%s:%d: replaces %s: what a stranger builds would not be what we tested", name, r.Syntax.Start.Line, r.Old.Path))
		}
	}
	return problems
}

func TestModulesReplaceNothing(t *testing.T) {
	requireClean(t, checkReplace)
	requireProblem(t, checkReplace, fstest.MapFS{
		"tools/go.mod": {Data: []byte("module x\n\nreplace (\n\ta.example/b => ../b\n)\n")},
	}, "tools/go.mod:4")
}
