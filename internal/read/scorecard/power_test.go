package scorecard

import (
	"math"
	"testing"

	"tallystick/internal/read/history"
)

// The numbers are what statsmodels 0.15.0's multipletests(method="holm") gives.
func TestHolm(t *testing.T) {
	got := Holm([]float64{0.01, 0.04, 0.03, 0.005, 0.9})
	for i, want := range []float64{0.04, 0.09, 0.09, 0.025, 0.9} {
		if math.Abs(got[i]-want) > 1e-12 {
			t.Errorf("the p value %d: %v, expected %v", i, got[i], want)
		}
	}
	if len(Holm(nil)) != 0 || Holm([]float64{0.7, 0.6})[0] != 1 {
		t.Error("none stays none, and 1 is the most")
	}
}

// The cells are the textbook one-way layout: the within and between mean squares of
// {6,8,4,5,3,4}, {8,12,9,11,6,8}, {13,9,11,8,7,12} are 68/15 and 42, of six each.
func TestSpreadOf(t *testing.T) {
	s := SpreadOf([][]float64{{6, 8, 4, 5, 3, 4}, {8, 12, 9, 11, 6, 8}, {13, 9, 11, 8, 7, 12}})
	if math.Abs(*s.Run-68.0/15) > 1e-6 || math.Abs(*s.Case-(42-68.0/15)/6) > 1e-6 {
		t.Errorf("run %v, case %v", *s.Run, *s.Case)
	}
	if s := SpreadOf([][]float64{{0}, {1}}); s.Case != nil || s.Run != nil {
		t.Error("without repetitions the two cannot be told apart")
	}
	if s := SpreadOf([][]float64{{0, 1}, {1, 0}, {0, 1}}); *s.Case != 0 {
		t.Errorf("alike cases have a variance of %v, expected 0 and not less", *s.Case)
	}
}

// Connor's example is in many texts: 20 % discordant, a difference of 10 points.
func TestCasesNeeded(t *testing.T) {
	for _, c := range []struct {
		difference, discordant float64
		want                   int
	}{{0.1, 0.2, 155}, {0.05, 0.2, 626}, {0.2, 0.2, 37}, {0.3, 0.2, 0}, {0, 0.2, 0}, {math.NaN(), 0.2, 0}} {
		if got := CasesNeeded(c.difference, c.discordant); got != c.want {
			t.Errorf("%v of %v: %d cases, expected %d", c.difference, c.discordant, got, c.want)
		}
	}
	for _, n := range []int{40, 155, 1000} {
		d := Detectable(n, 0.2)
		if CasesNeeded(d, 0.2) > n || CasesNeeded(d-1e-6, 0.2) <= n {
			t.Errorf("%d cases show %v, which needs %d", n, d, CasesNeeded(d, 0.2))
		}
	}
	if Detectable(3, 0.2) != 1 || Detectable(100, 0) != 1 {
		t.Error("too few cases show something")
	}
}

func TestPowerOfOneAttempt(t *testing.T) {
	h := reducedAttempt(t, "", "1 1 1", "1 0 1", "0 0 0", "0 1 0")
	p, err := PowerOf([]*history.Attempt{h.Attempts[0]}, 0.1)
	if err != nil {
		t.Fatal(err)
	}
	// Two cases of four are 1/3 and 2/3: 2·(1/3)(2/3)·3/2 = 2/3 each.
	if p.Basis != BasisRepetitions || p.Discordant != round(1.0/3) || p.Cases != 4 || p.Detectable != 1 || *p.Needed != CasesNeeded(0.1, round(1.0/3)) {
		t.Errorf("%+v", p)
	}
	a := p.Attempts[0]
	if a.Runs != 12 || a.Mean != 0.5 || *a.Variance.Run != round(4.0/3/8) || len(a.ByTokens) == 0 {
		t.Errorf("%+v", a)
	}
	if last := a.ByTokens[len(a.ByTokens)-1]; last.Solved != 0.5 {
		t.Errorf("with every token half of the tasks are solved, not %v", last.Solved)
	}
}
