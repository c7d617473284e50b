package scorecard

import (
	"fmt"
	"testing"

	"tallystick/internal/read/history"
	"tallystick/internal/testing/historytest"
)

// Cases with the same past stand together, those that fail now first; a case that an
// attempt did not plan is no failure of it.
func TestHeatPutsTheSamePastTogether(t *testing.T) {
	b := historytest.New(t)
	run := func(n int, scores ...float64) {
		b.Run(historytest.Registration(fmt.Sprintf("repo-fix.agent.%d", n), "agent", n, len(scores), 1), scores...)
	}
	run(1, 1, 1, 0, 1, 0)
	run(2, 1, 0, 0, 1, 1)
	run(3, 1, 0, 0, 0, 1, 1)
	h := HeatOf(read(b, history.Options{}).Attempts)
	var got []string
	for _, c := range h.Cases {
		got = append(got, c.ID+" "+c.Past)
	}
	want := "[case-02 pff case-04 ppf case-06 ..p case-05 fpp case-03 fff case-01 ppp]"
	if fmt.Sprint(got) != want || h.Differ != 4 || h.Never != 1 || h.Always != 1 {
		t.Errorf("%v: %d, %d, %d; want %s", got, h.Differ, h.Never, h.Always, want)
	}
	for _, tt := range []struct {
		past    string
		since   int
		passes  bool
		changes int
	}{{"pff", 1, false, 1}, {"ppf", 2, false, 1}, {"..p", 2, true, 0}, {"fff", 0, false, 0}, {"pfp", 2, true, 2}, {"pp.", -1, false, 0}, {"p.f", 2, false, 1}, {"fe", 0, false, 0}} {
		c := HeatCase{Past: tt.past}
		if since, passes := c.Since(); since != tt.since || passes != tt.passes || c.Changes() != tt.changes {
			t.Errorf("%s: since %d, passes %v, %d changes; want %+v", tt.past, since, passes, c.Changes(), tt)
		}
	}
	rows := h.Rows(h.Cases[:3])
	if r := rows[2].Results; r[0] != nil || r[1] != nil || r[2] == nil || r[2].Passed != 1 {
		t.Errorf("%+v", r)
	}
}

func TestPairsCountWhatCannotBeCompared(t *testing.T) {
	b := historytest.New(t)
	for n := 1; n <= 3; n++ {
		r := historytest.Registration(fmt.Sprintf("repo-fix.agent.%d", n), "agent", n, 2, 1)
		if n == 3 {
			r.Plan.ScoringDigest = historytest.ContentOf("another rubric")
			r.Plan.BenchDigest[0] ^= 1
		}
		b.Run(r, 1, float64(n%2))
	}
	pairs, apart, err := Pairs(read(b, history.Options{}).Attempts)
	if err != nil || len(pairs) != 1 || apart != 2 || len(pairs[0].Lost) != 1 || pairs[0].HolmP != pairs[0].McNemarP {
		t.Errorf("%+v, %d apart, %v", pairs, apart, err)
	}
}
