package harness

import (
	"context"
	"fmt"
	"os"
	"testing"

	"tallystick/internal/record/evidence"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/cassette"
	"tallystick/internal/testing/tape"
)

// What a case claims of its cassette cannot be more than the cassette says of
// itself: a recording that was replaced by hand does not stay one.
func TestARecordClaimsNoMoreThanTheCassette(t *testing.T) {
	authored, err := tape.FromYAML("a.yaml", []byte(`format: tallystick-cassette/1-draft
interactions:
  - model: {api: openai.chat, request: {model: m, messages: [{role: user, content: "What is 1 plus 1?"}]}, reply: {message: {text: "2"}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		says  cassette.Provenance // the cassette
		claim bench.CassetteProvenance
		want  string
	}{
		{cassette.Recorded, bench.Recorded, "recorded"},
		{cassette.Recorded, bench.Authored, "authored"},
		{cassette.Edited, bench.Recorded, "edited"},
		{cassette.Authored, bench.Recorded, "authored"},
		{cassette.Authored, bench.Edited, "edited"},
	} {
		t.Run(fmt.Sprintf("%s called %s", tt.says, tt.claim), func(t *testing.T) {
			p := newPlace(t, sum(1, "2"))
			made := *authored
			made.Header.Provenance = tt.says
			data, err := made.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			p.write("cassettes/sums/played.cassette.zst", string(data))
			p.write("bench/sums/cases/played/input/prompt.txt", "What is 1 plus 1?")
			p.write("bench/sums/cases/played/grading.yaml", "version: 1\ngrade: {kind: exact, expected: \"2\"}\n")
			p.write("bench/sums/cases/played/case.yaml", fmt.Sprintf(`schema_version: 1
case_id: played
title: Add
disposition: positive
difficulty: easy
provenance:
  source: curated
  source_ref: {type: synthetic, value: a test}
  added_at: "2026-05-01T09:00:00Z"
  last_validated_at: "2026-05-01T09:00:00Z"
cassette_digest: %q
cassette_provenance: %s
`, cassette.Digest(data), tt.claim))
			root, err := os.OpenRoot(p.dir)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			draft, err := bench.Load(root, "sums")
			if err != nil {
				t.Fatal(err)
			}
			yaml, err := draft.Cases[0].WithDigests()
			if err != nil {
				t.Fatal(err)
			}
			p.write("bench/sums/cases/played/case.yaml", string(yaml))
			if _, err := p.run(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
			found := ""
			for _, r := range p.records(evidence.CaseScoredKind) {
				if s := r.Body.(*evidence.CaseScored); s.CaseID == "played" {
					found = s.Provenance
				}
			}
			if found != tt.want {
				t.Errorf("the record says %q, want %q", found, tt.want)
			}
		})
	}
}
