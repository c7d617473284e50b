package structure

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

var (
	namedTest = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z][A-Za-z0-9]+\b[*…]?`) // TestImage* stands for several
	testFunc  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z][A-Za-z0-9]+)\(`)
	pageLink  = regexp.MustCompile(`\]\(([^)\s]+)\)`)

	namedScript = regexp.MustCompile("\\bscripts? `([a-z0-9_*]+)`") // ledger_* stands for several
	unbuilt     = regexp.MustCompile("package `([a-z0-9]+)` does not exist")
)

// scripts is the folder of script tests, fleetScripts that of those of a fleet,
// storeScripts that of those that need an
// object store.
const (
	scripts      = "cmd/tally/testdata/script"
	storeScripts = "internal/testing/storetest/testdata/script"
	fleetScripts = "cmd/tally-fleet/testdata/script"
	userScripts  = "cmd/tally/testdata/users"
)

// checkDocs looks for tests and scripts that pages name and that do not exist,
// for links that lead nowhere, and for packages that are said to be missing and
// are there. A threat model whose tests are gone is a wish.
func checkDocs(t *testing.T, tree fs.FS) []string {
	have := map[string]bool{}
	var pages []string
	for _, name := range treeFiles(t, tree) {
		switch {
		case strings.HasSuffix(name, "_test.go"):
			for _, m := range testFunc.FindAllSubmatch(readFile(t, tree, name), -1) {
				have[string(m[1])] = true
			}
		case strings.HasSuffix(name, ".md"):
			pages = append(pages, name)
		}
	}
	var problems []string
	for _, page := range pages {
		text := readFile(t, tree, page)
		for _, at := range namedTest.FindAllIndex(text, -1) {
			name := string(text[at[0]:at[1]])
			stem := strings.TrimRight(name, "*…")
			if !have[name] && (stem == name || !anyHas(have, stem)) {
				problems = append(problems, fmt.Sprintf("%s:%d: names the test %s, which does not exist", page, lineAt(text, at[0]), name))
			}
		}
		for _, at := range namedScript.FindAllSubmatchIndex(text, -1) {
			name := string(text[at[2]:at[3]])
			found, err := fs.Glob(tree, path.Join(scripts, name+".txtar"))
			for _, more := range []string{storeScripts, fleetScripts, userScripts} {
				if len(found) == 0 && err == nil {
					found, err = fs.Glob(tree, path.Join(more, name+".txtar"))
				}
			}
			if err != nil || len(found) == 0 {
				problems = append(problems, fmt.Sprintf("%s:%d: names the script %s, which does not exist", page, lineAt(text, at[0]), name))
			}
		}
		for _, at := range unbuilt.FindAllSubmatchIndex(text, -1) {
			name := string(text[at[2]:at[3]])
			if _, err := fs.Stat(tree, path.Join("internal", name)); err == nil {
				problems = append(problems, fmt.Sprintf("%s:%d: says that package %s does not exist, and it does", page, lineAt(text, at[0]), name))
			}
		}
		for _, at := range pageLink.FindAllSubmatchIndex(text, -1) {
			link, _, _ := strings.Cut(string(text[at[2]:at[3]]), "#")
			if link == "" || strings.Contains(link, ":") {
				continue // within the page, or somewhere else
			}
			if _, err := fs.Stat(tree, path.Join(path.Dir(page), link)); err != nil {
				problems = append(problems, fmt.Sprintf("%s:%d: links to %s, which does not exist", page, lineAt(text, at[0]), link))
			}
		}
	}
	return problems
}

func anyHas(names map[string]bool, prefix string) bool {
	for name := range names {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

func TestPagesNameTestsAndFilesThatExist(t *testing.T) {
	requireClean(t, checkDocs)
}

func TestDocsCheckFindsEachFault(t *testing.T) {
	const code = "package a\n\nfunc TestReal(t *testing.T) {}\n"
	for _, tt := range []struct{ name, text, want string }{
		{"a test and a link that exist", "`TestReal`, [code](a_test.go#L3), [here](#x), [there](https://example.com/x)", ""},
		{"a test that is gone", "see\n`TestGone`", "docs/a.md:2: names the test TestGone"},
		{"a name that only begins like one", "FuzzReal", "docs/a.md:1: names the test FuzzReal"},
		{"several tests", "TestRe*, TestRe…", ""},
		{"several tests that are gone", "TestGo*", "docs/a.md:1: names the test TestGo*"},
		{"words that are not names", "Tests, Testing, Fuzzy", ""},
		{"scripts that exist", "script `real_one`, scripts `real_*`", ""},
		{"a script that is gone", "script `gone`", "docs/a.md:1: names the script gone"},
		{"a package that is missing", "package `gone` does not exist yet", ""},
		{"a package that was built since", "package `real` does not exist yet", "docs/a.md:1: says that package real"},
		{"a link to nowhere", "[x](../gone.md)", "docs/a.md:1: links to ../gone.md"},
		{"a link to a folder", "[x](../docs/)", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := checkDocs(t, fstest.MapFS{"docs/a.md": {Data: []byte(tt.text)}, "docs/a_test.go": {Data: []byte(code)},
				"internal/real/real.go": {}, scripts + "/real_one.txtar": {}})
			if tt.want == "" && len(got) > 0 || tt.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], tt.want)) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
