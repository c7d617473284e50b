package web

import (
	"strings"
	"testing"

	"tallystick/internal/record/refusal"
)

// A client sent a request: what to do now is never about a file of ours.
func TestHintsAreAboutTheRequest(t *testing.T) {
	for _, name := range []refusal.Name{refusal.Malformed, refusal.TooLarge, refusal.Unreadable} {
		if p := problemOf(refusal.Newf(name, "x")); strings.Contains(p.Hint, "docs/formats") || strings.Contains(p.Hint, "file") || strings.Contains(p.Hint, "path") {
			t.Errorf("%s: %s", name, p.Hint)
		}
	}
	if p := problemOf(refusal.Newf(refusal.Malformed, "x").WithHint("do this")); p.Hint != "do this" {
		t.Errorf("a hint that the place gave became %q", p.Hint)
	}
}
