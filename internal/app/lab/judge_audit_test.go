package lab

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/read/audit"
	"tallystick/internal/read/dossier"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/judge"
)

// isolation is what AUD-4 makes of an attempt.
func (b *tribunal) isolation(attempt string) string { return b.check(attempt, "grader-isolation") }

// check is what a check of the audit makes of an attempt.
func (b *tribunal) check(attempt, id string) string {
	b.t.Helper()
	c, err := b.open().ReadCorpus("", dossier.Ask{Prove: true})
	if err != nil {
		b.t.Fatal(err)
	}
	defer c.Close()
	in, err := AuditInput(c, attempt, false)
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := audit.Run(context.Background(), in)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, check := range r.Checks {
		if check.ID == id {
			return strings.Join(append([]string{check.Status}, check.Evidence...), ": ")
		}
	}
	return "no such check"
}

// What the judge's cache gave rise to is the attempt's that came upon it: it names
// the attempt, and AUD-4 fails on it, also on what is no more than a warning.
func TestTheAuditFailsTheAttemptWhoseJudgeCacheDidNotVerify(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(b *tribunal, file string) error
	}{
		{"edited by hand", func(b *tribunal, file string) error {
			data, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			return os.WriteFile(file, append(data, '\n'), 0o600)
		}},
		{"signed by another key", func(b *tribunal, file string) error {
			for _, suffix := range []string{"", ".pub"} {
				if err := os.Remove(filepath.Join(b.dir, ".tally", "keys", judgeKey+suffix)); err != nil && !os.IsNotExist(err) {
					return err
				}
			}
			return nil // the next live run makes another
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newTribunal(t)
			b.must(b.live())
			if err := tt.spoil(b, b.verdictFile()); err != nil {
				t.Fatal(err)
			}
			b.must(b.live())
			b.must(b.live())
			for attempt, want := range map[string]string{"cities.default.1": "pass", "cities.default.2": "fail: judge_cache_integrity_events=1", "cities.default.3": "pass"} {
				if got := b.isolation(attempt); !strings.HasPrefix(got, want) {
					t.Errorf("%s: AUD-4 is %q, expected %q", attempt, got, want)
				}
			}
			b.visit(func(r ledger.Record) {
				if e, ok := r.Body.(*evidence.IntegrityEvent); ok && e.Name == judge.EventTampered && !strings.Contains(string(e.Data), `"attempt":"cities.default.2"`) {
					t.Errorf("the event names no attempt: %s", e.Data)
				}
			})
		})
	}
}

// The opinion beside GAIA's official scorer is a draw like any other: an entry, a
// verdict in the signed cache, evidence of the case. The score stays, no model
// judged it, and rolling again is seen.
func TestSecondViewIsDrawnAndChangesNoScore(t *testing.T) {
	b := newTribunal(t)
	b.answer = "FINAL ANSWER: Christiania"
	b.dataset(`{"id":"norway","input":"What is the capital of Norway?","expected":"Oslo","grade":{"kind":"gaia"}}`)
	// No model is asked, and nothing is paid, unless the operator said so.
	if ran := b.must(b.live()); ran.Outcomes[evidence.Failed] != 1 || b.asked != 0 {
		t.Fatalf("%+v, the judge was asked %d times without --second-view", ran.Outcomes, b.asked)
	}
	viewed := func(o *harness.Spec) { o.SecondView = evidence.ViewedByJudge }
	for range 2 {
		ran := b.must(b.liveWith(viewed))
		if ran.Outcomes[evidence.Failed] != 1 || b.asked != 1 {
			t.Fatalf("%+v, the judge was asked %d times", ran.Outcomes, b.asked)
		}
	}
	if err := os.Remove(b.verdictFile()); err != nil {
		t.Fatal(err)
	}
	b.must(b.liveWith(viewed))
	draws := 0
	b.visit(func(r ledger.Record) {
		switch e := r.Body.(type) {
		case *evidence.JudgeDrawn:
			draws++
		case *evidence.CaseScored:
			if e.JudgedByModel || e.Outcome != evidence.Failed {
				t.Errorf("recorded as %s, judged by a model: %v", e.Outcome, e.JudgedByModel)
			}
		case *evidence.AttemptRegistered:
			if asked := e.Number > 1; (e.Plan.JudgeDigest != nil) != asked || (e.Plan.SecondView == evidence.ViewedByJudge) != asked {
				t.Errorf("attempt %s: the plan names the judge %v and second views by %q", e.Attempt, e.Plan.JudgeDigest, e.Plan.SecondView)
			}
		}
	})
	if draws != 2 || b.asked != 2 {
		t.Errorf("%d draws, asked %d times", draws, b.asked)
	}
	for attempt, want := range map[string]string{"cities.default.3": "pass", "cities.default.4": "fail: the ledger shows 1 verdicts that were drawn again"} {
		if got := b.check(attempt, "voting-disclosure"); !strings.HasPrefix(got, want) {
			t.Errorf("%s: AUD-6 is %q, expected %q", attempt, got, want)
		}
	}
	c, err := b.open().ReadCorpus("", dossier.Ask{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	a, err := c.Reading.Attempt("cities.default.4")
	if err != nil {
		t.Fatal(err)
	}
	for of := range a.Cases() {
		checks, err := of.Checks()
		if err != nil {
			t.Fatal(err)
		}
		if v := grade.SecondViews(checks); len(v) != 1 || !v[0].Same || v[0].View != grade.ByOpinion {
			t.Errorf("%+v", v)
		}
	}
}
