package derive

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/record/evidence"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/trajectory"
)

var update = flag.Bool("update", false, "write the texts in docs/formats/bundle.md")

// TestPageShowsTheTexts keeps the texts that docs/formats/bundle.md shows byte by
// byte in step with what is derived.
func TestPageShowsTheTexts(t *testing.T) {
	c := newTold(t).begin(policy.ForMode(policy.Restricted))
	c.record.Outcome, c.record.Reason = evidence.Failed, "1 of 2 checks failed"
	c.record.Score = &evidence.Score{Score: 0.5, FailureModes: []string{"wrong_answer"}}
	c.ask("Refund order 7.\nIt was bought in January.\n")
	args := trajectory.NewArgs([]byte(`{"command":"rm"}`))
	c.propose("c1", "Bash", args)
	c.decide("c1", "Bash", policy.Deny, policy.Denied)
	c.event(&trajectory.PolicyViolation{Call: "c1", Rule: "deny-list", Text: "denied tool: Bash"})
	c.event(&trajectory.TurnStarted{Agent: "main"})
	c.end()
	got, want := trajectory.NewContent([]byte("yes\nof course"), 100), trajectory.NewContent([]byte("no"), 100)
	c.grade(grade.Result{Score: 0.5, FailureModes: []string{"wrong_answer"}, Details: []grade.Detail{
		{Check: "polite", Grader: grade.Contains, Outcome: grade.Passed, Why: "it contains \"course\"", Weight: 1},
		{Check: "answer", Grader: grade.Exact, Outcome: grade.Mismatch, Why: "the value is another one", Weight: 1, Extracted: &got, Expected: &want},
	}})
	log := []byte("ok 1 - builds")
	c.files.TestLog = c.put(log)
	b := c.mustBundle()

	path := filepath.Join("..", "..", "..", "..", "docs", "formats", "bundle.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	for name, value := range map[string][]byte{"SPEC": b.Spec, "TEST_LOG": b.TestLog, "POSTMORTEM": b.Postmortem} {
		begin := "```text " + name + "\n"
		before, rest, ok := strings.Cut(text, begin)
		_, after, closed := strings.Cut(rest, "```\n")
		if !ok || !closed {
			t.Fatalf("the page has no block %q", begin)
		}
		text = before + begin + string(value) + "```\n" + after
	}
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if text != string(page) {
		t.Errorf("%s does not show the texts as they are; run \"go test ./internal/read/bundle/derive -run Page -update\" and read the diff", path)
	}
}
