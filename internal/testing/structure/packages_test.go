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

// treeLine is a line of the tree in ARCHITECTURE.md: a folder, then what it is.
var treeLine = regexp.MustCompile(`^(\s*)((?:[A-Za-z0-9._-]+/)+)(?:\s+(.*))?$`)

// checkArchitecture compares the folders drawn in ARCHITECTURE.md with those
// that exist. A folder that is not there yet has the word "planned" in its
// line. An indented folder lies in the nearest one above that is not indented.
func checkArchitecture(t *testing.T, tree fs.FS) []string {
	const page = "ARCHITECTURE.md"
	text, err := fs.ReadFile(tree, page)
	if err != nil {
		return []string{fmt.Sprintf("%s: %v", page, err)}
	}
	var problems []string
	drawn := map[string]bool{}
	fenced, top := false, ""
	for i, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, "```") {
			fenced, top = !fenced, ""
			continue
		}
		m := treeLine.FindStringSubmatch(line)
		if !fenced || m == nil {
			continue
		}
		dir := strings.TrimSuffix(m[2], "/")
		if m[1] == "" {
			top = dir
		} else {
			dir = path.Join(top, dir)
		}
		drawn[dir] = true
		planned := strings.Contains(m[3], "planned")
		st, err := fs.Stat(tree, dir)
		exists := err == nil && st.IsDir()
		switch {
		case exists && planned && hasGoFiles(t, tree, dir):
			problems = append(problems, fmt.Sprintf("%s:%d: %s is there, and the page still calls it planned", page, i+1, dir))
		case !exists && !planned:
			problems = append(problems, fmt.Sprintf("%s:%d: %s does not exist and is not marked planned", page, i+1, dir))
		}
	}
	for _, dir := range packageFolders(t, tree) {
		if !drawn[dir] {
			problems = append(problems, fmt.Sprintf("%s: %s is not in the tree: add it", page, dir))
		}
	}
	return problems
}

func hasGoFiles(t *testing.T, tree fs.FS, dir string) bool {
	return slices.ContainsFunc(treeFiles(t, tree), func(name string) bool {
		return strings.HasPrefix(name, dir+"/") && strings.HasSuffix(name, ".go")
	})
}

// packageFolders lists the packages behind the doors of internal, and the
// programs.
func packageFolders(t *testing.T, tree fs.FS) []string {
	var dirs []string
	for _, f := range goFiles(t, tree) {
		if name, ours := graphNode(f.dir()); ours {
			if !strings.HasPrefix(name, "cmd/") {
				name = "internal/" + name
			}
			dirs = append(dirs, name)
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

func TestArchitectureDescribesTheTree(t *testing.T) {
	requireClean(t, checkArchitecture)
}

func TestArchitectureCheckFindsEachFault(t *testing.T) {
	const canon = "internal/record/canon/a.go"
	for _, tt := range []struct{ name, tree, want string }{
		{"all there", "cmd/tally/  main\ninternal/record/\n  canon/  JSON\n", ""},
		{"planned", "cmd/tally/  main\ninternal/record/\n  canon/  JSON\n  grade/  scores (planned)\n", ""},
		{"drawn but missing", "cmd/tally/  main\ninternal/record/\n  canon/  JSON\n  grade/  scores\n", "internal/record/grade does not exist"},
		{"there but still planned", "cmd/tally/  main\ninternal/record/\n  canon/  JSON (planned)\n", "still calls it planned"},
		{"there but not drawn", "cmd/tally/  main\n", "internal/record/canon is not in the tree"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			requireProblem(t, checkArchitecture, fstest.MapFS{
				canon:               {Data: []byte("package canon\n")},
				"cmd/tally/main.go": {Data: []byte("package main\n")},
				"ARCHITECTURE.md":   {Data: []byte("# A\n\n```\n" + tt.tree + "```\n")},
			}, tt.want)
		})
	}
	requireProblem(t, checkArchitecture, fstest.MapFS{}, "ARCHITECTURE.md")
}

// checkNames refuses names that name nothing. Such a package is where things go
// that nobody thought about, and everybody comes to import it.
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
