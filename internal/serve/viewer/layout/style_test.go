package layout

import (
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
