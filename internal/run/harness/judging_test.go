package harness

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/grade"
)

const judgedCase = `{"id":"judged","input":"What is 2 plus 2?","model":[{"text":"4"}],"expected":"4","grade":{"kind":"judge","criteria":"The sum is right."}}`

// A bench of one judge, whose settings have a digest.
type magistrate struct {
	settings digest.Content
	ask      func(Judging) (Judged, error)
}

func (m magistrate) Ask(_ context.Context, j Judging) (Judged, error) { return m.ask(j) }
func (m magistrate) Knows(string) error                               { return nil }
func (m magistrate) Models() []string                                 { return []string{"judge-1"} }
func (m magistrate) Digest() digest.Content                           { return m.settings }
func (m magistrate) Texts() digest.Content                            { return m.settings }

func says(score float64, evidence ...[]byte) func(Judging) (Judged, error) {
	return func(Judging) (Judged, error) {
		return Judged{JudgeOutcome: grade.JudgeOutcome{Score: score, Votes: []float64{score}, Reason: "because"}, Evidence: evidence}, nil
	}
}

func TestJudgeIsToldTheCaseAndItsVerdictIsEvidence(t *testing.T) {
	p := newPlace(t, judgedCase)
	settings := digest.ContentOf([]byte("judge.yaml"))
	var asked Judging
	_, err := p.run(context.Background(), func(c *setup) {
		c.Judge = magistrate{settings, func(j Judging) (Judged, error) {
			asked = j
			return says(0.75, []byte("verdict"), []byte("request"), []byte("reply"))(j)
		}}
	})
	if err != nil {
		t.Fatal(err)
	}
	if asked.Attempt != "sums.default.1" || asked.Class != "sums" || asked.Case.ID != "judged" || asked.Value.Text != "4" || asked.Spec.Criteria != "The sum is right." {
		t.Errorf("the judge was told %+v", asked)
	}
	registered := p.records(evidence.AttemptRegisteredKind)[0].Body.(*evidence.AttemptRegistered)
	if registered.Plan.JudgeDigest == nil || *registered.Plan.JudgeDigest != settings {
		t.Error("the plan does not name the judge")
	}
	scored := p.records(evidence.CaseScoredKind)[0].Body.(*evidence.CaseScored)
	if !scored.JudgedByModel || scored.Score.Score != 0.75 {
		t.Errorf("recorded as %+v", scored)
	}
	vault := store.OpenVault(store.OS{}, filepath.Join(p.dir, "evidence"))
	data, err := vault.Get(scored.EvidenceDigests[0], 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	var files evidence.CaseFiles
	if err := canon.UnmarshalCanonical(data, &files); err != nil {
		t.Fatal(err)
	}
	if len(files.Verdicts) != 1 || len(files.Verdicts[0].Pieces) != 2 || files.Verdicts[0].Document != digest.ContentOf([]byte("verdict")) {
		t.Errorf("verdicts: %+v", files.Verdicts)
	}
	for _, d := range files.All() {
		if _, err := vault.Get(d, 1<<20); err != nil {
			t.Error(err)
		}
	}
}

// A judge that could not do its work, as when the ledger takes no more, says
// nothing about the agent: the case has no record, and not one without a score.
func TestAJudgeThatCannotWorkStopsTheAttempt(t *testing.T) {
	p := newPlace(t, judgedCase)
	full := errors.New("the disk is full")
	_, err := p.run(context.Background(), func(c *setup) {
		c.Judge = magistrate{ask: func(Judging) (Judged, error) { return Judged{}, full }}
	})
	if !errors.Is(err, full) {
		t.Fatalf("got %v", err)
	}
	if n := len(p.records(evidence.CaseScoredKind)); n != 0 {
		t.Errorf("%d records", n)
	}
}

func TestResumeRefusesAnotherJudge(t *testing.T) {
	p := newPlace(t, judgedCase)
	one, two := digest.ContentOf([]byte("one")), digest.ContentOf([]byte("two"))
	stop := errors.New("stop")
	_, err := p.run(context.Background(), func(c *setup) {
		c.Judge = magistrate{one, func(Judging) (Judged, error) { return Judged{}, stop }}
	})
	if !errors.Is(err, stop) {
		t.Fatal(err)
	}
	for _, other := range []Judge{magistrate{two, says(1)}, nil} {
		if _, err := p.run(context.Background(), func(c *setup) { c.Spec.Resume, c.Judge = true, other }); !refusal.Is(err, refusal.PlanChanged) {
			t.Errorf("got %v", err)
		}
	}
	if _, err := p.run(context.Background(), func(c *setup) { c.Spec.Resume, c.Judge = true, magistrate{one, says(1)} }); err != nil {
		t.Error(err)
	}
}

func TestPlanNamesAJudgeOnlyIfACaseNeedsOne(t *testing.T) {
	p := newPlace(t, sum(1, "2"))
	one := digest.ContentOf([]byte("one"))
	if _, err := p.run(context.Background(), func(c *setup) { c.Judge = magistrate{one, says(1)} }); err != nil {
		t.Fatal(err)
	}
	if r := p.records(evidence.AttemptRegisteredKind)[0].Body.(*evidence.AttemptRegistered); r.Plan.JudgeDigest != nil {
		t.Error("the plan names a judge that is never asked")
	}
}

func TestPastCountsDrawsByCaseAndQuestion(t *testing.T) {
	p := newPlace(t, sum(1, "2"))
	if _, err := p.run(context.Background(), func(c *setup) {
		for i, d := range []evidence.JudgeDrawn{{CaseID: "a", Draw: 1, Key: "k"}, {CaseID: "a", Draw: 2, Key: "k"}, {CaseID: "b", Draw: 1, Key: "k"}, {CaseID: "a", Draw: 1, Key: "l"}} {
			d.Verdict = digest.ContentOf([]byte{byte(i)})
			if _, err := c.Ledger.AppendRecord(evidence.JudgeDrawnKind, &d); err != nil {
				t.Fatal(err)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.run(context.Background(), func(c *setup) {
		for _, want := range []struct {
			caseID, key string
			count       int
			last        byte
		}{{"a", "k", 2, 1}, {"b", "k", 1, 2}, {"a", "l", 1, 3}} {
			if n, last := c.Past.Drawn(want.caseID, want.key); n != want.count || last != digest.ContentOf([]byte{want.last}) {
				t.Errorf("%s %s: %d draws, the last %s", want.caseID, want.key, n, last)
			}
		}
		if n, last := c.Past.Drawn("c", "k"); n != 0 || !last.IsZero() {
			t.Errorf("of nothing: %d, %s", n, last)
		}
	}); err != nil {
		t.Fatal(err)
	}
}
