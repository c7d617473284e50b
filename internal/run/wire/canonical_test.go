package wire

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// The author of a second matcher needs the lists of what a match ignores complete:
// members that do not count, and the beginnings of ids that are drawn at random.
func TestFormatPageListsWhatAMatchIgnores(t *testing.T) {
	page, err := os.ReadFile("../../../docs/formats/cassette.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, api := range APIs() {
		for _, w := range slices.Concat(api.must().irrelevant, api.must().idPrefixes) {
			if !strings.Contains(string(page), "`"+w+"`") {
				t.Errorf("the page does not list %s of %s", w, api)
			}
		}
	}
}
