package scorecard

import (
	"testing"

	"tallystick/internal/read/history"
	"tallystick/internal/record/evidence"
	"tallystick/internal/testing/historytest"
)

func TestVerdictOfAComparison(t *testing.T) {
	scores := func(lo, hi float64, higher, lower int) *ScoreChange {
		return &ScoreChange{ChangeCI95: [2]float64{lo, hi}, Higher: higher, Lower: lower}
	}
	tests := []struct {
		name string
		c    Comparison
		want Verdict
	}{
		{"nothing changed", Comparison{McNemarP: 1}, Unchanged},
		{"six lost", Comparison{Flips: Flips{0, 6}, McNemarP: McNemar(0, 6)}, Worse},
		{"six gained", Comparison{Flips: Flips{6, 0}, McNemarP: McNemar(6, 0)}, Better},
		{"five lost", Comparison{Flips: Flips{0, 5}, McNemarP: McNemar(0, 5)}, Unclear},
		{"five lost, as their scores were", Comparison{Flips: Flips{0, 5}, McNemarP: McNemar(0, 5), Scores: scores(-0.7, -0.1, 0, 5)}, Unclear},
		{"no case changed sides and all scores fell", Comparison{McNemarP: 1, Scores: scores(-0.3, -0.1, 0, 9)}, ScoresLower},
		{"no case changed sides and all scores rose", Comparison{McNemarP: 1, Scores: scores(0.1, 0.3, 9, 0)}, ScoresHigher},
		{"scores went both ways", Comparison{McNemarP: 1, Scores: scores(-0.1, 0.1, 9, 8)}, Unclear},
		{"repetitions went both ways", Comparison{McNemarP: 1, Difference: 0.1}, Unclear},
	}
	for _, tt := range tests {
		if got := tt.c.Verdict(); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// A trend leaves out no attempt: what is no equal of the others is hollow and says why,
// and what has no rate says why it has none.
func TestTrendLeavesOutNothing(t *testing.T) {
	b := historytest.New(t)
	b.Run(historytest.Sign(t, historytest.Registration("repo-fix.agent.1", "agent", 1, 4, 1), 1), 1, 1, 1, 0)
	part := historytest.Registration("repo-fix.agent.2", "agent", 2, 1, 1)
	part.Plan.Filtered = true
	b.Run(part, 1)
	b.Register(historytest.Registration("repo-fix.agent.3", "agent", 3, 4, 1))
	asked := historytest.Registration("repo-fix.agent.4", "agent", 4, 1, 1)
	b.Register(asked)
	s := historytest.UnscoredCase(asked, 0, 1, evidence.Errored)
	s.Unanswered = true
	b.Case(asked, s)
	b.Finish(asked)
	h := read(b, history.Options{})
	points := TrendOf(h.Attempts)
	if len(points) != 4 {
		t.Fatalf("%d points", len(points))
	}
	if p := points[0]; p.Rate == nil || *p.Rate != 0.75 || p.Passed != 3 || p.Tasks != 4 || p.Part {
		t.Errorf("%+v", p)
	}
	lo, hi := Wilson(3, 4, Z95)
	if ci := points[0].CI95; ci == nil || *ci != [2]float64{lo, hi} {
		t.Errorf("interval %v, want %v and %v", ci, lo, hi)
	}
	if p := points[1]; !p.Hollow || !p.Part || p.Rate == nil {
		t.Errorf("the filtered one: %+v", p)
	}
	if p := points[2]; p.Rate != nil || p.Why != "not finished" {
		t.Errorf("the unfinished one: %+v", p)
	}
	if p := points[3]; p.Rate != nil || p.Why != "not answered: 1 of 1 cases ask something new" {
		t.Errorf("the unanswered one: %+v", p)
	}
}

func TestStandingsComeWorstFirst(t *testing.T) {
	b := historytest.New(t)
	run := func(id, target string, n int, scores ...float64) {
		b.Run(historytest.Registration(id, target, n, len(scores), 1), scores...)
	}
	run("repo-fix.new.1", "new", 1, 1, 1, 1, 1, 1, 1)
	run("repo-fix.good.2", "good", 2, 0, 0, 0, 0, 0, 0)
	run("repo-fix.good.3", "good", 3, 1, 1, 1, 1, 1, 1)
	run("repo-fix.bad.4", "bad", 4, 1, 1, 1, 1, 1, 1)
	run("repo-fix.bad.5", "bad", 5, 0, 0, 0, 0, 0, 0)
	run("repo-fix.same.6", "same", 6, 1, 1, 1, 1, 1, 0)
	run("repo-fix.same.7", "same", 7, 1, 1, 1, 1, 1, 0)
	list, err := Standings(read(b, history.Options{}).Attempts)
	if err != nil {
		t.Fatal(err)
	}
	WorstFirst(list)
	var got []string
	for _, s := range list {
		verdict := "none"
		if s.Change != nil {
			verdict = string(s.Change.Verdict)
		}
		got = append(got, s.Target+" "+verdict)
	}
	want := []string{"bad worse", "same no change", "good better", "new none"}
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Fatalf("%q, want %q", got, want)
		}
	}
	if c := list[0].Change; c.From != "repo-fix.bad.4" || c.To != "repo-fix.bad.5" || c.Flips.Lost != 6 || c.Text() != "6 lost, 0 gained of 6" {
		t.Errorf("%+v: %s", c, c.Text())
	}
}
