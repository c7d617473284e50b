package lab

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/journal"
)

// reading is the workspace as readers see it.
func (p *place) reading() *dossier.Corpus {
	p.t.Helper()
	c, err := p.open().ReadCorpus("", dossier.Ask{})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { c.Close() })
	return c
}

func (b *tribunal) rescore(change func(*RescoreOptions)) (*Rescored, error) {
	b.t.Helper()
	c := b.reading()
	a, err := c.Reading.Attempt("cities.default.1")
	if err != nil {
		b.t.Fatal(err)
	}
	o := RescoreOptions{Reason: "the judge was down", Live: true, MaxCostMicroUSD: 1_000_000, Version: "test"}
	if change != nil {
		change(&o)
	}
	return Rescore(context.Background(), c, Original{Attempt: a.Attempt, Read: c.Reading.Piece}, o)
}

// theCase is the only case of the first attempt.
func (b *tribunal) theCase() (found *history.Case) {
	b.t.Helper()
	for c := range b.reading().Reading.History.Attempt("cities.default.1").Cases() {
		found = c
	}
	return found
}

func TestRescoreAsksTheJudgeThatWasDown(t *testing.T) {
	b := newTribunal(t)
	b.verdicts = []string{"500", "500", "500", "500", "500", verdict(0.75, "It is right.")}
	b.must(b.live())
	if c := b.theCase(); c.Effective() != evidence.Unscored || b.asked != 5 {
		t.Fatalf("%s, asked %d times", c.Effective(), b.asked)
	}
	// Without a model nothing is better, and a dry run of it costs nothing.
	if got, err := b.rescore(func(o *RescoreOptions) { o.Live = false }); err != nil || len(got.Changed) != 0 || len(got.Not) != 1 || b.asked != 5 {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := b.rescore(func(o *RescoreOptions) { o.MaxCostMicroUSD = 0 }); !refusal.Is(err, refusal.Usage) {
		t.Errorf("without a limit: %v", err)
	}
	if got, err := b.rescore(func(o *RescoreOptions) { o.MaxCostMicroUSD = 1 }); err != nil || len(got.Changed) != 0 || b.asked != 5 {
		t.Errorf("with too small a limit: %+v, %v, asked %d times", got, err, b.asked)
	}
	got, err := b.rescore(nil)
	if err != nil || len(got.Changed) != 1 || !got.Changed[0].Fills || got.Changed[0].Now != 0.75 || got.Paid.Calls != 1 || got.Paid.CostUSD != 0.00003 || b.asked != 6 {
		t.Fatalf("%+v, %v, asked %d times", got, err, b.asked)
	}
	c := b.theCase()
	if c.Effective() != evidence.Passed || c.EffectiveScore() != 0.75 || c.Outcome() != evidence.Unscored || c.Uncorrected() != evidence.Unscored || c.Raises() {
		t.Errorf("effective %s %v, recorded %s", c.Effective(), c.EffectiveScore(), c.Outcome())
	}
	// What is there is used: no model is asked again.
	if got, err := b.rescore(nil); err != nil || len(got.Changed) != 0 || got.Paid.Calls != 0 || b.asked != 6 {
		t.Errorf("%+v, %v, asked %d times", got, err, b.asked)
	}
	if _, err := os.Stat(filepath.Join(b.dir, ".tally", "runs", "cities.default.1", "rescore", journal.File)); err != nil {
		t.Error(err)
	}
	_, drawn := b.entries()
	if n := len(drawn); n == 0 || drawn[n-1].Attempt != "cities.default.1" {
		t.Errorf("%+v", drawn)
	}
}

// TestFirstScoreOfAnUnscoredCaseStays: an operator who throws the verdict away and asks
// again can lower the score and not raise it.
func TestFirstScoreOfAnUnscoredCaseStays(t *testing.T) {
	b := newTribunal(t)
	b.verdicts = []string{"500", "500", "500", "500", "500", verdict(0.25, "No."), verdict(1, "Yes!"), verdict(0.1, "Never.")}
	b.must(b.live())
	for _, want := range []float64{0.25, 0.25, 0.1} {
		if _, err := b.rescore(nil); err != nil {
			t.Fatal(err)
		}
		if c := b.theCase(); c.Effective() != evidence.Failed || c.EffectiveScore() != want {
			t.Errorf("%s %v, want failed %v", c.Effective(), c.EffectiveScore(), want)
		}
		if err := os.RemoveAll(filepath.Join(b.dir, ".tally", "judge-cache")); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRescoreAsksOnlyAboutNewCriteria(t *testing.T) {
	b := newTribunal(t)
	line := `{"id":"%","input":"What is the capital of %?","expected":"Oslo","grade":{"kind":"judge","criteria":"CRITERIA"}}`
	both := func(second string) {
		b.dataset(strings.ReplaceAll(strings.ReplaceAll(line, "%", "norway"), "CRITERIA", "Names the capital."),
			strings.ReplaceAll(strings.ReplaceAll(line, "%", "sweden"), "CRITERIA", second))
	}
	both("Names the capital.")
	b.must(b.live())
	if b.asked != 2 {
		t.Fatal(b.asked)
	}
	both("Names the capital and nothing else.")
	b.verdicts = []string{verdict(0.5, "Half.")}
	got, err := b.rescore(nil)
	if err != nil || b.asked != 3 || got.Graded != 2 || len(got.Changed) != 1 || got.Changed[0].Case != "sweden" || got.Changed[0].Fills {
		t.Errorf("%+v, %v, asked %d times", got, err, b.asked)
	}
}

// TestKilledRescoreDoesNotPayForVotesAgain: a rescore is cut off in the second of three
// votes. The first was paid for and is not asked for again; the one that was cut off is
// in the books as unknown.
func TestKilledRescoreDoesNotPayForVotesAgain(t *testing.T) {
	b := newTribunal(t)
	b.dataset(`{"id":"norway","input":"What is the capital of Norway?","expected":"Oslo","grade":{"kind":"judge","criteria":"Names it.","votes":3}}`)
	b.verdicts = []string{"500", "500", "500", "500", "500", verdict(1, "One."), "cut", verdict(0.5, "Two."), verdict(1, "Three.")}
	b.must(b.live())
	if b.asked != 5 {
		t.Fatalf("asked %d times", b.asked)
	}
	c := b.reading()
	a, err := c.Reading.Attempt("cities.default.1")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.cut = cancel
	o := RescoreOptions{Reason: "the judge was down", Live: true, MaxCostMicroUSD: 1_000_000, Version: "test"}
	if _, err := Rescore(ctx, c, Original{Attempt: a.Attempt, Read: c.Reading.Piece}, o); err == nil || b.asked != 7 {
		t.Fatalf("%v, asked %d times", err, b.asked)
	}
	got, err := b.rescore(nil)
	if err != nil || b.asked != 9 {
		t.Fatalf("%+v, %v, asked %d times, want 9", got, err, b.asked)
	}
	if c := b.theCase(); c.Effective() != evidence.Passed {
		t.Errorf("%s", c.Effective())
	}
	owner := journal.Owner{Attempt: a.ID, Origin: c.Settings.Origin}
	paid, err := journal.Verify(store.OS{}, filepath.Join(c.Private("runs"), a.ID, "rescore"), owner)
	if err != nil || paid.Calls != 3 || paid.Unknown != 1 {
		t.Errorf("the books have %+v, %v", paid, err)
	}

	// A reply that is no verdict is kept: the second time no model is asked.
	b.verdicts = []string{"nonsense"}
	asked := b.asked
	b.dataset(`{"id":"norway","input":"What is the capital of Norway?","expected":"Oslo","grade":{"kind":"judge","criteria":"Names it well.","votes":3}}`)
	for range 2 {
		if _, err := b.rescore(nil); err != nil {
			t.Fatal(err)
		}
	}
	if again := b.asked - asked; again != 1 {
		t.Errorf("two failed draws asked %d times, want once", again)
	}
}
