package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/sequencer"
)

func failed(s *evidence.CaseScored) {
	s.Outcome = evidence.Failed
	s.Score.Passed, s.Score.Score, s.Score.FailureModes = false, 0, []string{"wrong_answer"}
}

// signedGates gives the class other gates, signed.
func (l *trial) signedGates(gates string) {
	l.Helper()
	l.edit("bench/example/registration.yaml", `  - {tag: "*", metric: solve_rate, threshold: 1}`+"\n", gates)
	l.sign()
}

func TestGateTellsValueThresholdAndCount(t *testing.T) {
	l := newTrial(t)
	l.signedGates(`  - {tag: "*", metric: solve_rate, threshold: 0.9}
  - {tag: tag-0, metric: solve_rate, threshold: 0.9}
  - {tag: tag-9, metric: solve_rate, threshold: 0.1}
  - {tag: "*", metric: evidence_coverage, threshold: 1, max_errors: 2}
`)
	l.attempt(true, func(s *evidence.CaseScored) bool {
		if s.CaseID == "case-2" {
			failed(s)
		}
		if s.CaseID == "case-4" {
			s.Outcome, s.Score, s.Reason = evidence.Truncated, nil, "turn limit"
		}
		return s.CaseID != "case-6"
	})
	l.attempt(false, nil) // started and not finished: not the newest finished one
	junit, tap := filepath.Join(t.TempDir(), "j.xml"), filepath.Join(t.TempDir(), "t.tap")
	code, stdout, stderr := l.run("gate", "--json", "--junit", junit, "--tap", tap)
	var got struct {
		Met   bool
		Gates []struct {
			Tag, Metric, Reason string
			Value               *float64
			Threshold           float64
			Met                 bool
			N                   int
		}
		Attempt string
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != refusal.ExitGate {
		t.Fatalf("exit %d, %v: %s%s", code, err, stdout, stderr)
	}
	if got.Met || got.Attempt != "example.default.1" || len(got.Gates) != 4 {
		t.Fatalf("%s", stdout)
	}
	all, tagged, none, coverage := got.Gates[0], got.Gates[1], got.Gates[2], got.Gates[3]
	if all.Met || *all.Value < 0.57 || *all.Value > 0.58 || all.N != 7 || all.Threshold != 0.9 {
		t.Errorf("all: %+v", all)
	}
	if !tagged.Met || *tagged.Value != 1 || tagged.N != 3 {
		t.Errorf("tag-0: %+v", tagged)
	}
	if none.Met || none.Value != nil || none.Reason != "no case of the attempt has this tag" {
		t.Errorf("tag-9: %+v", none)
	}
	if !coverage.Met || *coverage.Value != 1 {
		t.Errorf("coverage: %+v", coverage)
	}
	for name, want := range map[string][]string{
		junit: {`name="case-2"`, `failed, score 0: check exact: wrong_answer: another word: got &#34;hi\x1b[2J&#34;, want &#34;hello&#34;`, `truncated: check exact: turn limit`, `type="not_run"`, `errors="2"`, `type="gate"`},
		tap:   {"1..11", "- case-2\n", `got: "hi\u001b[2J"`, `message: "truncated: check exact: turn limit`, "not ok 6 - case-6", "- gate solve_rate of tag tag-9"},
	} {
		data, err := os.ReadFile(name)
		l.must(err)
		for _, text := range want {
			if !strings.Contains(string(data), text) {
				t.Errorf("%s has no %q:\n%s", filepath.Base(name), text, data)
			}
		}
	}
	message, hint := l.refuses(refusal.GateNotMet, "gate", "example.default.1")
	if !strings.Contains(message, "2 of 4 gates are not met: solve_rate of all cases is 0.571429, the gate needs at least 0.9 (7 cases)") || !strings.Contains(hint, "--failed") {
		t.Errorf("%q %q", message, hint)
	}
}

func TestGateIsMetAndChoosesTheAttempt(t *testing.T) {
	l := newTrial(t)
	l.refuses(refusal.NotFound, "gate")
	l.refuses(refusal.NotFound, "gate", "--class", "example")
	l.attempt(true, nil)
	if out := l.ok("gate"); !strings.HasPrefix(out, "met  example.default.1 (number 1 of 1, signed, pinned)\n") {
		t.Error(out)
	}
	l.attempt(true, func(*evidence.CaseScored) bool { return false })
	l.refuses(refusal.GateNotMet, "gate")
	l.ok("gate", "example.default.1")
	l.refuses(refusal.UnknownName, "gate", "example.default.7")
	l.refuses(refusal.Usage, "gate", "example.default.1", "--class", "example")

	// With two classes the user must say which.
	env := newEnv(nil, nil, nil, l.getenv)
	env.WorkspaceDir = l.dir
	w, err := openPlace(env)
	l.must(err)
	cfg, err := w.Config()
	l.must(err)
	led, err := sequencer.Open(t.Context(), cfg)
	l.must(err)
	_, err = led.AppendRecord(evidence.AttemptRegisteredKind, &evidence.AttemptRegistered{SchemaVersion: 1, Attempt: "other.default.1", Origin: cfg.Origin, Class: "other", Target: "default",
		Number: 1, Mode: "replay", Signature: "s", Plan: evidence.Plan{CaseCount: 1, Repeat: 1, Cases: []evidence.PlannedCase{{ID: "a"}}}})
	l.must(err)
	_, err = led.AppendRecord(evidence.AttemptFinishedKind, &evidence.AttemptFinished{SchemaVersion: 1, Attempt: "other.default.1", Outcomes: map[evidence.Outcome]int{},
		RubricDigests: []digest.Content{}, ImageDigests: []digest.Content{}, FailureModes: []string{}})
	l.must(err)
	l.must(led.Close())
	if _, hint := l.refuses(refusal.Usage, "gate"); !strings.Contains(hint, "example, other") {
		t.Error(hint)
	}
	l.refuses(refusal.GateNotMet, "gate", "--class", "example")
}

// A threshold is what two people signed when the attempt was registered: not
// what the file says now, and not what it was changed to afterwards.
func TestGateRefusesOtherThresholds(t *testing.T) {
	l := newTrial(t)
	l.attempt(true, func(s *evidence.CaseScored) bool { failed(s); return true })
	l.edit("bench/example/registration.yaml", "threshold: 1}", "threshold: 0}")
	l.refuses(refusal.RegistrationDigestMismatch, "gate")
	l.sign()
	message, hint := l.refuses(refusal.BenchChanged, "gate")
	if strings.Count(message, "blake3:") != 2 || !strings.Contains(hint, "tally run example") {
		t.Errorf("%q %q", message, hint)
	}
}
