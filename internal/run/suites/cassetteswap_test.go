package suites

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/cassette"
	"tallystick/internal/testing/tape"
)

const swapRegistration = `version: 1
class: geography
trust: scratch
current_tier: bronze
limits: {wall_clock_seconds: 60, memory_bytes: 1073741824, turns: 5, tokens: 10000, cost_microdollars: 0}
governance: autonomous
isolation: {classes: [gvisor], scope: case, allow_weaker: false}
judged_scores_count: false
`

// The attack on a recording needs no agent: an operator puts a cassette with
// better answers in place of the one that was recorded. A case that pins its
// cassette refuses that before anything runs; one that does not would pass.
func TestSwappedCassetteIsRefusedWhereItIsPinned(t *testing.T) {
	recorded, swapped := answering(t, "Lyon"), answering(t, "Paris")
	pin := "cassette_digest: " + fmt.Sprintf("%q", cassette.Digest(recorded).String()) + "\ncassette_provenance: authored\n"
	for _, tt := range []struct {
		name, pin string
		file      []byte
		refused   refusal.Name
		passes    bool
	}{
		{"as recorded", pin, recorded, "", false},
		{"swapped, and the case is vulnerable: it pins nothing", "", swapped, "", true},
		{"swapped, and the case pins its cassette", pin, swapped, refusal.CassetteDigestMismatch, false},
		{"taken away", pin, nil, refusal.CassetteDigestMismatch, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := swapRoot(t, tt.pin, tt.file)
			// Both ways in which a class is verified.
			v, err := bench.Verify(root, "geography", bench.Options{Now: suiteTime})
			_, shipped := bench.VerifyShipped(root, "geography", suiteTime)
			if tt.refused != "" {
				if !refusal.Is(err, tt.refused) || !refusal.Is(shipped, tt.refused) {
					t.Errorf("got %v and %v, want %s", err, shipped, tt.refused)
				}
				return
			}
			if err != nil || shipped != nil {
				t.Fatal(err, shipped)
			}
			target, err := agent.Parse("plain", "plain.yaml", []byte("version: 1\nkind: builtin\nbuiltin: {model: m, api: openai.chat}\n"))
			if err != nil {
				t.Fatal(err)
			}
			if h := rehearse(t, v, target)["capital"]; passed(h) != tt.passes || h.Record.Provenance != "authored" && tt.pin != "" {
				t.Errorf("%s %s, provenance %q; want passed %v", h.Record.Outcome, h.Record.Reason, h.Record.Provenance, tt.passes)
			}
		})
	}
}

// answering is a cassette in which the model gives one answer.
func answering(t *testing.T, answer string) []byte {
	t.Helper()
	c, err := tape.FromYAML("tape.yaml", fmt.Appendf(nil, `format: tallystick-cassette/1-draft
interactions:
  - model:
      api: openai.chat
      request: {model: m, messages: [{role: user, content: "What is the capital of France?"}]}
      reply:
        message: {text: %s}
        usage: {input_tokens: 12, output_tokens: 7}
      cost_microdollars: 100
    latency_ms: 40
`, answer))
	if err != nil {
		t.Fatal(err)
	}
	file, err := c.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// swapRoot is a workspace with one case and, if there is one, its cassette.
func swapRoot(t *testing.T, pin string, tape []byte) *os.Root {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{
		"bench/geography/registration.yaml": swapRegistration,
		"bench/geography/cases/capital/case.yaml": `schema_version: 1
case_id: capital
title: A capital
disposition: positive
difficulty: easy
provenance:
  source: curated
  source_ref: {type: synthetic, value: a test}
  added_at: "2026-05-01T09:00:00Z"
  last_validated_at: "2026-05-01T09:00:00Z"
` + pin,
		"bench/geography/cases/capital/scenario.yaml": "version: 1\nturns:\n  - text: What is the capital of France?\n",
		"bench/geography/cases/capital/grading.yaml":  "grade: {kind: exact, expected: Paris}\n",
	}
	if tape != nil {
		files["cassettes/geography/capital.cassette.zst"] = string(tape)
	}
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}
