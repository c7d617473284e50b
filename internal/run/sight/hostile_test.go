package sight

import (
	"strings"
	"testing"
)

// TestHostileTextsTakeOneLookEach: the work for a text is bounded by its length, so a
// text ten times as long takes about ten times as much of it. What is counted is
// bytes that Unwrap makes, not time.
func TestHostileTextsTakeOneLookEach(t *testing.T) {
	for name, piece := range map[string]string{
		"spaces": " ", "the first letter": "P ", "all but the last": "P a r i ", "all but the first": "aris ", "line breaks in JSON": `\n`, "backslashes": `\`, "entities": "&#80;",
		"an entity without end": "&", "percent": "%50", "half of it": "%5", "base64": "QUFB", "base64 of the answer": "UGFyaXM", "base64 in lines": "UGFyaXMgUGFyaXMgUGFyaXMgUGFy\n", "the answer": "Paris ",
		"in base64 of base64": "VUdGeWFYTWdVR0Z5YVhNZ1VHRnlhWE1nVUdGeWFYTWc=", "other letters": "Ра", "not UTF-8": "\xff", "digits": "4 2 1 8 ",
	} {
		text := []byte(strings.Repeat(piece, 200_000/len(piece)))
		total := 0
		Unwrap(text, func(plainer []byte) { total += len(plainer) })
		if total > 16*len(text) {
			t.Errorf("%s: %d bytes unwrap to %d", name, len(text), total)
		}
		search := NewSearch("Paris", "42188")
		hits := search.Find(text)
		if len(hits) > len(text) {
			t.Errorf("%s: %d hits in %d bytes", name, len(hits), len(text))
		}
	}
}
