package structure

import (
	"bytes"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"
)

// originsPage names the designs that the program follows, by title and number.
const originsPage = "docs/origins.md"

// elsewhere finds a number of a document that the reader does not have: the
// papers this project began with, and decision records of other projects. The
// project's own records are called by their file names.
var elsewhere = find(`[Ss]eed ?00\d|ADR-\d+|\bTest\w*ADR\d+`)

// numbersInRecords are texts of a vector that another program wrote:
// TestWitnessManifestIsTheOriginals has its bytes.
var numbersInRecords = map[string][]string{
	"internal/share/submission/submission_test.go": {"exploit audit clean (ADR-167)"},
}

// checkOrigins wants that no file sends its reader to a number of a document that
// is not here: it says the idea instead.
func checkOrigins(t *testing.T, tree fs.FS) []string {
	var problems []string
	for _, name := range treeFiles(t, tree) {
		if name == originsPage || name == "internal/testing/structure/origins_test.go" {
			continue
		}
		data := readFile(t, tree, name)
		if !bytes.Contains(data, []byte("ADR")) && !bytes.Contains(data, []byte("eed 00")) && !bytes.Contains(data, []byte("eed00")) || !utf8.Valid(data) {
			continue // most files, so that the pattern need not run over all of the tree
		}
		text := string(data)
		for _, kept := range numbersInRecords[name] {
			text = strings.Replace(text, kept, strings.Repeat("-", len(kept)), 1)
		}
		for _, hit := range elsewhere.FindAllStringIndex(text, -1) {
			problems = append(problems, fmt.Sprintf("%s:%d: %q names a document that the reader does not have: say the idea, or name the source in %s", name, lineAt(data, hit[0]), text[hit[0]:hit[1]], originsPage))
		}
	}
	return problems
}

func TestNoFileNeedsADocumentOfElsewhere(t *testing.T) {
	requireClean(t, checkOrigins)
}

func TestOriginsCheckFindsEachFault(t *testing.T) {
	for _, tt := range []struct{ name, file, text, want string }{
		{"a page", "docs/a.md", "as seed 003 asks", `"seed 003"`},
		{"a comment", "internal/a/a.go", "// ADR-0053: deny wins\npackage a\n", `internal/a/a.go:1: "ADR-0053"`},
		{"the name of a test", "internal/a/a_test.go", "package a\n\nfunc TestAnswersAsSeed004() {}\n", "Seed004"},
		{"another name of a test", "internal/a/a_test.go", "package a\n\nfunc TestRunOfADR035() {}\n", "TestRunOfADR035"},
		{"a script", "benchmarks/a.sh", "# Seed 004's body\n", "a.sh:1"},
		{"a text of a record, elsewhere", "internal/a/a.go", "package a\n\nconst a = \"exploit audit clean (ADR-167)\"\n", `a.go:3: "ADR-167"`},
		{"a text of a record", "internal/share/submission/submission_test.go", "package a\n\nconst a = \"exploit audit clean (ADR-167)\"\n", ""},
		{"the page of origins", originsPage, "ADR-035", ""},
		{"the seed of a draw", "docs/a.md", "--seed 7, and the seed 0x74", ""},
		{"a decision of ours", "docs/a.md", "decisions/0006-plain-http-providers.md", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			requireProblem(t, checkOrigins, fstest.MapFS{tt.file: {Data: []byte(tt.text)}}, tt.want)
		})
	}
}
