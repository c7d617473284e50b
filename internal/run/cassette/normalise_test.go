package cassette

import (
	"strings"
	"testing"

	"tallystick/internal/record/evidence"
	"tallystick/internal/run/wire"
)

// normalised is what one text becomes.
func normalised(text string, names []evidence.Normaliser, given ...string) string {
	tree := wire.ObjectNode("messages", wire.ArrayNode(wire.ObjectNode("content", wire.StringNode(text), "role", wire.StringNode("user"))), "model", wire.StringNode("m"))
	newNormaliser(names, newGiven(given)).request(wire.OpenAIChat, &tree)
	return tree.Items("messages")[0].Str("content")
}

func TestNormalisersReplaceWhatChangesFromRunToRun(t *testing.T) {
	tests := []struct {
		by         evidence.Normaliser
		text, want string
	}{
		{"dates", "Today is 2026-11-15.", "Today is ⟨date⟩."},
		{"dates", "Today is Sunday, 2026-11-15, 23:34.", "Today is ⟨date⟩, ⟨time⟩."},
		{"dates", "Today is 2026-11-15 (Sunday) and warm", "Today is ⟨date⟩ and warm"},
		{"dates", `{"now":"2026-11-15T23:34:33.123456+00:00"}`, `{"now":"⟨date⟩T⟨time⟩"}`},
		{"dates", "at 2026-11-15T23:34Z", "at ⟨date⟩T⟨time⟩"},
		{"dates", "2026-11-15 23:34:33.123 UTC", "⟨date⟩ ⟨time⟩"},
		{"dates", "Sun, 15 Nov 2026 23:34:33 GMT", "⟨date⟩ ⟨time⟩"},
		{"dates", "Sun Nov 15 23:34:33 UTC 2026", "⟨date⟩ ⟨time⟩ ⟨date⟩"},
		{"dates", "It is Sunday, November 15.", "It is ⟨date⟩."},
		{"dates", "November 15th, 2026 at 9:05 PM", "⟨date⟩ at ⟨time⟩"},
		{"dates", "15 November 2026; 15-Nov-2026", "⟨date⟩; ⟨date⟩"},
		{"dates", "dates 2026-13-01, 1234-11-11, 20261115, 2026-11-15-rc1, v2026-11-15, gpt-4o-2026-11-15, a/2026-11-15/b, 2026-11-15.log", ""},
		{"dates", "16:9, John 3:16, 12:34:56:78, 25:00, 10:75, may 5 people, May 15, on Monday, 192.168.10:30", ""},

		{"ids", "order 550e8400-e29b-41d4-a716-446655440000 again 550e8400-e29b-41d4-a716-446655440000", "order ⟨id1⟩ again ⟨id1⟩"},
		{"ids", "01ARZ3NDEKTSV4RRFFQ69G5FAV and trace_4bf92f3577b34da6", "⟨id1⟩ and trace_⟨id2⟩"},
		{"ids", "call_Ab3dEf9hIjKl, toolu_01A09q90qw90lq917835lq9, chatcmpl-550e8400-e29b-41d4-a716-446655440000", "⟨id1⟩, ⟨id2⟩, ⟨id3⟩"},
		{"ids", "req_550e8400-e29b-41d4-a716-446655440000", "req_⟨id1⟩"},
		{"ids", "4111111111111111, deadbeef, call_1, call_center_4th, msg_counters, feedfacefeedface, ABCDEFGHJKMNPQRSTVWXYZABCD", ""},

		{"paths", "in /tmp/tmpab12cd_9/out.txt and " + home + "alice/src/a.go.", "in ⟨tmp⟩/out.txt and ⟨home⟩/src/a.go."},
		{"paths", "/ro" + "ot/x /Us" + "ers/bob/x file://" + home + "carol", "⟨home⟩/x ⟨home⟩/x file://⟨home⟩"},
		{"paths", "/proc/4711/maps, /tmp/tally-work-2930482304/work, /tmp/tmp.Ab3dEf9hIj/x", "/proc/⟨pid⟩/maps, ⟨tmp⟩/work, ⟨tmp⟩/x"},
		{"paths", "/var/folders/zz/zyxvpxvq6csfxvn_n0000/T/tmpab12cd_9/f", "⟨tmp⟩/f"},
		{"paths", "/tmp/report.csv /tmp/report-202401/a /tmp/release-v2beta/b /rooted/x https://a.example" + home + "alice /proc/self/maps /homes/x src/tmp/tmpab12cd_9", ""},

		{"whitespace", "  a \t b\r\n\r\nc\n", "a␣b␣c"},
		{"whitespace", "ab", ""},
	}
	for _, tt := range tests {
		want := tt.want
		if want == "" {
			want = tt.text
		}
		if got := normalised(tt.text, []evidence.Normaliser{tt.by}); got != want {
			t.Errorf("%s: %q\n got %q\nwant %q", tt.by, tt.text, got, want)
		}
	}
}

// What the case says is the question: it stays, however the agent spells it.
func TestNormalisersLeaveWhatTheCaseGives(t *testing.T) {
	tests := []struct {
		by                evidence.Normaliser
		given, text, want string
	}{
		{"dates", "refund on 2024-01-01", "Today is 2026-11-15. Refund on 2024-01-01", "Today is ⟨date⟩. Refund on 2024-01-01"},
		{"dates", "refund on 2024-01-01", "Refund on January 1, 2024", "Refund on January 1, 2024"},
		{"dates", "refund on 1/2/2024", "Refund on 2024-02-01 or 2024-01-02, not 2024-03-01", "Refund on 2024-02-01 or 2024-01-02, not ⟨date⟩"},
		{"dates", "refund on January 1st", "Refund on 2024-01-01", "Refund on 2024-01-01"},
		{"dates", "open report-2024-01-01.csv", "The report is of 2024-01-01", "The report is of 2024-01-01"},
		{"dates", "call me at 3pm", "at 15:00, now 15:01", "at 15:00, now ⟨time⟩"},
		{"dates", "call me at 9:30", "at 09:30:00", "at 09:30:00"},
		{"ids", "order 550E8400-E29B-41D4-A716-446655440000", "order 550e8400e29b41d4a716446655440000", "order 550e8400e29b41d4a716446655440000"},
		{"paths", "read " + home + "alice/notes", home + "alice/notes in " + home + "bob", home + "alice/notes in ⟨home⟩"},
		{"whitespace", "fix this:\nif x:\n    y()\n", "You  help. fix this:\nif x:\n    y()", "You␣help.␣fix this:\nif x:\n    y()"},
	}
	for _, tt := range tests {
		if got := normalised(tt.text, []evidence.Normaliser{tt.by}, tt.given); got != tt.want {
			t.Errorf("%s, given %q: %q\n got %q\nwant %q", tt.by, tt.given, tt.text, got, tt.want)
		}
	}
}

// Names of models, roles, schemas and sampling are never touched.
func TestNormalisersTouchOnlyTexts(t *testing.T) {
	body := `{"messages":[{"content":"hi","name":"2026-11-15","role":"user"}],"model":"gpt-4o-2024-08-06","response_format":{"type":"2026-11-15"},"tools":[{"function":{"description":"Today is 2026-11-15","name":"2026-11-15","parameters":{"properties":{"2026-11-15":{"const":"2026-11-15"}}}},"type":"function"}]}`
	tree := wire.ParseCanonical(body)
	newNormaliser(evidence.Normalisers(), newGiven(nil)).request(wire.OpenAIChat, &tree)
	want := strings.Replace(body, "Today is 2026-11-15", "Today␣is␣⟨date⟩", 1)
	if got := string(tree.AppendJSON(nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
