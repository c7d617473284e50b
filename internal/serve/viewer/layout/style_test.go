package layout

import (
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
)

// Pages that open from disk (verify.html, reports) carry a subset of the viewer's look.
// Every line of its first part stands in the viewer's stylesheet too, in the same order,
// so that a colour that is changed in one place is changed in both. Lines that differ on
// purpose are named here.
func TestPagesFromDiskLookAsTheViewerDoes(t *testing.T) {
	whole, err := files.ReadFile("style.css")
	if err != nil {
		t.Fatal(err)
	}
	subset, err := os.ReadFile("../../../share/browser/page.css")
	if err != nil {
		t.Fatal(err)
	}
	shared, _, found := strings.Cut(string(subset), "/* Only here. */")
	if !found {
		t.Fatal("page.css does not say where its own part begins")
	}
	_, shared, _ = strings.Cut(shared, "*/\n") // what it is
	lines, at := strings.Split(string(whole), "\n"), 0
	for line := range strings.Lines(shared) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(strings.TrimSpace(line), ".cols") { // a grid there, columns here
			continue
		}
		next := slices.Index(lines[at:], line)
		if next < 0 {
			t.Errorf("page.css has a line that style.css does not have, or in another order: %s", line)
			continue
		}
		at += next + 1
	}
	if at < 60 {
		t.Errorf("only %d lines were compared", at)
	}
}

// A file that no line names is loaded by no page, and a line that names none has every
// page fail.
func TestEveryLookIsAFileAndEveryFileALook(t *testing.T) {
	for _, l := range looks {
		if _, found := FindAsset(l.file); !found {
			t.Errorf("looks names %s, which is not there", l.file)
		}
	}
	for _, pattern := range []string{"*.css", "*.js"} {
		names, err := fs.Glob(files, pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v, %v", pattern, names, err)
		}
		for _, name := range names {
			if !slices.ContainsFunc(looks, func(l look) bool { return l.file == name }) {
				t.Errorf("no line of looks names %s", name)
			}
		}
	}
	everywhere := &Page{Template: "none of ours"}
	if got := everywhere.Styles(); !slices.Equal(got, []string{"style.css", "check.css"}) {
		t.Errorf("every page loads %q", got)
	}
}
