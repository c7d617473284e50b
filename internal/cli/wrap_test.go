package cli

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

// Nothing that a terminal shows is broken inside of a word: whatever the line, the words
// that come out are those that went in, none of the lines is too wide unless one word is.
func TestWrapBreaksBetweenWordsOnly(t *testing.T) {
	r := rand.New(rand.NewPCG(30, 2))
	words := []string{"helpdesk.desk.14", "0.833333", "$0.012345", "sha256:" + strings.Repeat("0a", 32), "gate", "NOT", "MET:", "(6", "cases);", `"tally`, "run", `x"`, good.of("met"), "12", "a", "é試"}
	space := regexp.MustCompile(`\s+`)
	for range 2000 {
		line := []string{"gate    ", "  - ", "", "selected"}[r.IntN(4)]
		for range 1 + r.IntN(30) {
			line += " " + words[r.IntN(len(words))]
		}
		columns := 20 + r.IntN(100)
		out := string(wrap([]byte(line+"\nnext\n"), columns))
		if got, want := strings.Fields(out), strings.Fields(line+" next"); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%d columns: %q became %q", columns, line, out)
		}
		for got := range strings.Lines(out) {
			if got = strings.TrimSuffix(got, "\n"); width(got) > columns && len(space.Split(strings.TrimSpace(got), -1)) > 3 {
				t.Fatalf("%d columns: %q is %d wide in\n%s", columns, got, width(got), out)
			}
		}
	}
}

func TestWrapIndentsToTheLabel(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{"short\n", "short\n"},
		{"gate     NOT MET: solve_rate of all cases is 0.833333\n", "gate     NOT MET: solve_rate of all\n         cases is 0.833333\n"},
		{"selected passed: 2 of 2 selected tasks passed\n", "selected passed: 2 of 2 selected tasks\n         passed\n"},
		{"tally: hint: run it again with \"tally run x\" now\n", "tally: hint: run it again with\n  \"tally run x\" now\n"},
		{strings.Repeat("y", 60) + "\n", strings.Repeat("y", 60) + "\n"},
	} {
		if got := string(wrap([]byte(tt.line), 40)); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

// A cut line shows no part of a number or an id, which would read as another one.
func TestACutLineHasWholeWords(t *testing.T) {
	for _, tt := range []struct {
		line    string
		columns int
		want    string
	}{
		{"a.b.1  helpdesk.desk.14", 22, "a.b.1…"}, {"met  2026  $0.012345", 15, "met  2026…"}, {"met  2026 $0.012345 x", 20, "met  2026 $0.012345…"},
	} {
		if got := shorten(tt.line, tt.columns); got != tt.want {
			t.Errorf("shorten(%q, %d) = %q, want %q", tt.line, tt.columns, got, tt.want)
		}
	}
}
