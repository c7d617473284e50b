package grade

import (
	"context"
	"testing"

	"tallystick/internal/run/extract"
)

// People do not answer in ASCII: a final sigma is a sigma, and \w is a letter of
// any script.
func TestTextsOfOtherScripts(t *testing.T) {
	n := newNormaliser(nil)
	for _, same := range [][]string{{"ΟΔΟΣ", "οδος", "οδοσ"}, {"ΣΊΣΥΦΟΣ", "Σίσυφος", "σίσυφοσ"}, {"Straße", "STRAẞE"}, {"Ǆ", "ǆ", "ǅ"}, {"İ", "i"}, {"K", "k"}} {
		for _, s := range same[1:] {
			if n.text(s) != n.text(same[0]) {
				t.Errorf("%q is %q, %q is %q", same[0], n.text(same[0]), s, n.text(s))
			}
		}
	}
	for _, other := range [][2]string{{"σ", "s"}, {"ß", "b"}, {"é", "e"}, {"ı", "i"}} {
		if n.text(other[0]) == n.text(other[1]) {
			t.Errorf("%q and %q are one", other[0], other[1])
		}
	}
	for _, tt := range []struct {
		pattern, answer string
		want            Outcome
	}{
		{`\w+ \d+`, "Αθήνα ٤٢", Passed}, {`\w+`, "Zürich", Passed}, {`a\sb`, "a\u00a0b", Passed}, {`\d+`, "½", Mismatch}, {`[^\W\d]+`, "κρύο", Passed}, {`\w+`, "a-b", Mismatch},
	} {
		g, err := compileRegex(tt.pattern, "whole")
		if err != nil {
			t.Fatal(err)
		}
		if got := g.grade(context.Background(), &extract.Value{Kind: extract.TextValue, Text: tt.answer}); got.outcome != tt.want {
			t.Errorf("%s on %q: %v", tt.pattern, tt.answer, got)
		}
	}
	if _, err := compileRegex(`a)(b`, "whole"); err == nil {
		t.Error("brackets of the grader pair with those of the pattern")
	}
}
