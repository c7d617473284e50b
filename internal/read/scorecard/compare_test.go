package scorecard

import (
	"errors"
	"fmt"
	"testing"

	"tallystick/internal/read/history"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/testing/historytest"
)

func compared(t *testing.T, h *history.History, a, b string, o CompareOptions) *Comparison {
	t.Helper()
	c, err := Compare(h.Attempt(a), h.Attempt(b), o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCompareCountsFlipsBothWays(t *testing.T) {
	b := historytest.New(t)
	b.Run(historytest.Registration("repo-fix.agent.1", "agent", 1, 10, 1), 1, 1, 1, 0, 0, 0, 0.5, 1, 1, 0)
	r := historytest.Registration("repo-fix.agent.2", "agent", 2, 10, 1)
	b.Register(r)
	for i, v := range []float64{1, 0, 1, 1, 1, 1, 0.25, 1, -1, 0} { // case-09 is not run
		if v < 0 {
			continue
		}
		s := historytest.Score(r, i, 1, v)
		s.CostMicroUSD, s.Tokens = 100, 500
		s.FinishedAt = evidence.At(s.FinishedAt.Go().Add(1e9))
		b.Case(r, s)
	}
	b.Finish(r)
	h := read(b, history.Options{})
	c := compared(t, h, "repo-fix.agent.1", "repo-fix.agent.2", CompareOptions{})
	if c.Paired != 10 || c.OnlyA != 0 || c.OnlyB != 0 || c.Flips != (Flips{3, 2}) {
		t.Errorf("paired %d, only %d and %d, flips %+v", c.Paired, c.OnlyA, c.OnlyB, c.Flips)
	}
	near(t, "p", c.McNemarP, 1, 1e-12) // 3 against 2: anything is likelier
	near(t, "difference", c.Difference, 0.1, 1e-12)
	if !(c.DifferenceCI95[0] < 0 && c.DifferenceCI95[1] > 0.1) {
		t.Errorf("interval %v", c.DifferenceCI95)
	}
	if c.SolveRate != (ChangeOf[float64]{0.5, 0.6, 0.1}) || c.Cost != (CostChange{A: cost.Of(3000, 0), B: cost.Of(900, 0), Change: cost.Of(-2100, 0)}) || c.Tokens != (ChangeOf[int64]{10000, 4500, -5500}) {
		t.Errorf("rates %+v, cost %+v, tokens %+v", c.SolveRate, c.Cost, c.Tokens)
	}
	// Of ten the sixth, of nine the fifth.
	if c.Latency != (ChangeOf[int64]{600, 1500, 900}) {
		t.Errorf("latency %+v", c.Latency)
	}
	var got []string
	for _, x := range c.Cases {
		got = append(got, x.CaseID+" "+x.Change)
	}
	want := "[case-02 lost case-09 lost case-04 gained case-05 gained case-06 gained case-07 changed]"
	if fmt.Sprint(got) != want {
		t.Errorf("cases %v, want %s", got, want)
	}
	if x := c.Cases[1]; x.B.Outcome != history.NotRun || x.B.Entry != -1 || x.A.Outcome != evidence.Passed || x.A.Score == nil || *x.A.Score != 1 {
		t.Errorf("%+v", x)
	}
	if all := compared(t, h, "repo-fix.agent.1", "repo-fix.agent.2", CompareOptions{AllCases: true}); len(all.Cases) != 10 || all.Cases[9].Change != Same {
		t.Errorf("%d cases", len(all.Cases))
	}
	back := compared(t, h, "repo-fix.agent.2", "repo-fix.agent.1", CompareOptions{})
	if back.Flips != (Flips{2, 3}) || back.Difference != -0.1 {
		t.Errorf("the other way round: %+v, %v", back.Flips, back.Difference)
	}
}

func TestCompareRefusesWhatIsNotComparable(t *testing.T) {
	b := historytest.New(t)
	b.Run(historytest.Registration("repo-fix.agent.1", "agent", 1, 3, 1), 1, 1, 0)
	r := historytest.Registration("repo-fix.agent.2", "agent", 2, 3, 1)
	r.Plan.BenchDigest = digest.IDOf([]byte("bench 2"))
	r.Plan.ScoringDigest = historytest.ContentOf("scoring 2")
	r.Plan.Cases[2].Digest = historytest.ContentOf("another case-03")
	b.Register(r)
	b.Case(r, historytest.Score(r, 0, 1, 1))
	b.Case(r, historytest.Score(r, 1, 1, 0))
	b.Finish(r)
	h := read(b, history.Options{})
	x, y := h.Attempt("repo-fix.agent.1"), h.Attempt("repo-fix.agent.2")
	if _, err := Compare(x, y, CompareOptions{}); !refusal.Is(err, refusal.NotComparable) {
		t.Errorf("got %v, want NotComparable", err)
	}
	if _, err := Compare(x, x, CompareOptions{}); !refusal.Is(err, refusal.Usage) {
		t.Errorf("with itself: %v", err)
	}
	c := compared(t, h, x.ID, y.ID, CompareOptions{AcrossBenches: true})
	if !c.AcrossBenches || c.Paired != 2 || c.OnlyA != 1 || c.OnlyB != 1 || c.Flips.Lost != 1 {
		t.Errorf("%+v", c)
	}
	// A comparison of nothing would say that nothing changed.
	r = historytest.Registration("repo-fix.agent.3", "agent", 3, 1, 1)
	r.Plan.Cases[0].Digest = historytest.ContentOf("another case-01")
	b.Run(r)
	h = read(b, history.Options{})
	if _, err := Compare(h.Attempt(x.ID), h.Attempt(r.Attempt), CompareOptions{AcrossBenches: true}); !refusal.Is(err, refusal.NotComparable) {
		t.Errorf("without a case in common: %v, want NotComparable", err)
	}
}

func TestCompareWithRepetitions(t *testing.T) {
	b := historytest.New(t)
	for k, passes := range [][]int{{3, 1}, {1, 3}} {
		r := historytest.Registration(fmt.Sprintf("repo-fix.agent.%d", k+1), "agent", k+1, 2, 3)
		b.Register(r)
		for i, n := range passes {
			for repeat := 1; repeat <= 3; repeat++ {
				v := 0.0
				if repeat <= n {
					v = 1
				}
				b.Case(r, historytest.Score(r, i, repeat, v))
			}
		}
	}
	once := historytest.Registration("repo-fix.agent.3", "agent", 3, 2, 1)
	b.Run(once, 1, 1)
	h := read(b, history.Options{})
	if c := compared(t, h, "repo-fix.agent.1", once.Attempt, CompareOptions{}); c.Tasks != (ChangeOf[int64]{6, 2, -4}) {
		t.Errorf("tasks %+v", c.Tasks)
	}
	c := compared(t, h, "repo-fix.agent.1", "repo-fix.agent.2", CompareOptions{})
	if c.Paired != 2 || c.Flips != (Flips{1, 1}) || c.Difference != 0 || c.Cases[0].A.Solved != 3 || c.Cases[0].B.Solved != 1 || c.Cases[0].A.Tasks != 3 {
		t.Errorf("%+v", c)
	}
}

func TestCompareAsksWhereFlippedCasesPart(t *testing.T) {
	b := historytest.New(t)
	b.Run(historytest.Registration("repo-fix.agent.1", "agent", 1, 5, 1), 1, 1, 1, 1, -1)
	b.Run(historytest.Registration("repo-fix.agent.2", "agent", 2, 5, 1), 0, 0, 0, 1, 1)
	h := read(b, history.Options{})
	asked := 0
	c := compared(t, h, "repo-fix.agent.1", "repo-fix.agent.2", CompareOptions{MaxDivergences: 2, Divergence: func(x, y *history.Case) (string, error) {
		asked++
		switch x.ID {
		case "case-01":
			return "turn 2: another tool", nil
		case "case-02":
			return "", refusal.Newf(refusal.NotFound, "no evidence")
		}
		return "", nil
	}})
	if asked != 2 || c.Cases[0].Divergence != "turn 2: another tool" || c.Cases[1].DivergenceNote != "no evidence" || c.Cases[2].DivergenceNote == "" {
		t.Errorf("asked %d times: %+v", asked, c.Cases)
	}
	c = compared(t, h, "repo-fix.agent.1", "repo-fix.agent.2", CompareOptions{MaxDivergences: 9, Divergence: func(x, y *history.Case) (string, error) { return "", nil }})
	if c.Cases[0].DivergenceNote != "both did the same; only the score differs" || c.Cases[3].CaseID != "case-05" || c.Cases[3].DivergenceNote != "one of the two was not run" {
		t.Errorf("%+v", c.Cases)
	}
	broken := errors.New("disk")
	if _, err := Compare(h.Attempts[0], h.Attempts[1], CompareOptions{MaxDivergences: 9, Divergence: func(x, y *history.Case) (string, error) { return "", broken }}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func BenchmarkCompare100000(b *testing.B) {
	n := envInt("TALLY_RECORDS", 100_000)
	book, list := fillBook(b, 2, n), listOf(b, n)
	for b.Loop() {
		h := read(book, history.Options{CaseList: list})
		c, err := Compare(h.Attempts[0], h.Attempts[1], CompareOptions{})
		if err != nil {
			b.Fatal(err)
		}
		if c.Paired != n || c.Flips.Gained == 0 {
			b.Fatalf("%+v", c.Flips)
		}
	}
}
