package evidence

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestEveryKindIsInTheTable compares the constants with the table of records.
func TestEveryKindIsInTheTable(t *testing.T) {
	source, err := os.ReadFile("kinds.go")
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`(?m)^\t\w+ +Kind = "([\w.]+)"$`).FindAllSubmatch(source, -1)
	for _, m := range declared {
		if !Kind(m[1]).Known() {
			t.Errorf("%s has a constant and no row in records", m[1])
		}
	}
	if kinds := Kinds(); len(declared) != len(kinds) || len(slices.Compact(slices.Sorted(slices.Values(kinds)))) != len(kinds) {
		t.Errorf("%d constants, %d rows %q: one is missing or there twice", len(declared), len(kinds), kinds)
	}
}
