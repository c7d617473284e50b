package session

import (
	"context"
	"strings"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/tools"
)

// TestWhatIsWatchedHasTheDigestThatIsKept: arguments are noted as they are kept, in
// canonical JSON, whole and beyond any head, so that a note and the evidence are of
// the same bytes.
func TestWhatIsWatchedHasTheDigestThatIsKept(t *testing.T) {
	p := policy.Policy{Mode: policy.Autonomous, MaxToolCalls: 10, MaxCostMicroUSD: 10}
	long := strings.Repeat("x", 20_000) + " north-west"
	seen := map[string]bool{}
	s := start(t, p, []tools.Definition{fixture("look", policy.Read, `{"found":1}`)}, func(c *Config) {
		c.Watch = func(text string, known digest.Content, redacted bool) {
			if seen[text] = true; !redacted && digest.ContentOf([]byte(text)) != known {
				t.Errorf("%.60q is known as %s, and is %s", text, known, digest.ContentOf([]byte(text)))
			}
		}
	})
	for _, args := range []string{`{"b":1, "a":"x"}`, "{\"q\": \"" + long + "\",\n\"a\":2}", `not JSON ` + long, ``} {
		if _, err := s.Tool(context.Background(), ToolCall{Name: "look", Args: []byte(args)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{`{"a":"x","b":1}`, `{"a":2,"q":"` + long + `"}`, `not JSON ` + long, `{}`} {
		if !seen[want] {
			t.Errorf("%.60q was not watched", want)
		}
	}
}
