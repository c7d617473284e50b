package scorecard

import (
	"strings"
	"testing"
	"time"

	"tallystick/internal/read/history"
	"tallystick/internal/record/evidence"
	"tallystick/internal/testing/historytest"
)

func TestCurveWeekByWeek(t *testing.T) {
	b := historytest.New(t)
	b.Run(historytest.Registration("repo-fix.agent.1", "agent", 1, 4, 1), 1, 1, 0, 0)
	b.Now = b.Now.AddDate(0, 0, 7)
	b.Run(historytest.Registration("repo-fix.agent.2", "agent", 2, 4, 1), 1, 0, 1, 1) // case-02 regresses
	b.Now = b.Now.AddDate(0, 0, 1)
	b.Run(historytest.Registration("repo-fix.agent.3", "agent", 3, 4, 1), 1, 0, 1, -1) // case-04 was not run
	b.Now = b.Now.AddDate(0, 0, 13)
	r := historytest.Registration("repo-fix.agent.4", "agent", 4, 1, 1)
	r.Plan.Filtered = true
	b.Run(r, 1)
	scratch := historytest.Registration("repo-fix.agent.5", "agent", 5, 1, 1)
	scratch.Scratch, scratch.Signature = true, "none"
	b.Run(scratch, 1)
	b.Run(historytest.Registration("repo-fix.rival.1", "rival", 1, 4, 1), 1, 0, 0, 0)

	c := CurveOf(read(b, history.Options{}), CurveOptions{})
	got := string(c.CSV())
	want := `week,begins,attempts,tasks,solved,solve_rate,solve_rate_lo95,solve_rate_hi95,total_cost_microdollars,cost_per_solve,tokens_per_solve,retries,policy_violations,regressions,level,unpriced_calls,solved_as_corrected,corrections
2026-W20,2026-05-11,1,4,2,0.5,0.150039,0.849961,1200,600,2000,0,0,0,signed,0,2,0
2026-W21,2026-05-18,2,8,5,0.625,0.219427,0.908101,2100,420,1400,0,0,2,signed,0,5,0
2026-W23,2026-06-01,1,4,1,0.25,0.045587,0.699358,1200,1200,4000,0,0,0,signed,0,1,0
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if c.LeftOut != 2 {
		t.Errorf("%d left out, want 2", c.LeftOut)
	}
	if all := CurveOf(read(b, history.Options{}), CurveOptions{All: true}); all.LeftOut != 0 || all.Weeks[2].Attempts != 3 || all.Weeks[2].Level != history.Scratch {
		t.Errorf("with all: %+v", all)
	}
	rival := CurveOptions{Target: "rival"}
	if c := CurveOf(read(b, history.Options{Want: rival.Takes}), rival); len(c.Weeks) != 1 || c.Weeks[0].Tasks != 4 {
		t.Errorf("of one target: %+v", c)
	}
	late := CurveOptions{Since: time.Date(2026, 5, 18, 0, 0, 0, 0, time.UTC), Class: "repo-fix"}
	if c := CurveOf(read(b, history.Options{Want: late.Takes}), late); len(c.Weeks) != 2 {
		t.Errorf("since the second week: %+v", c)
	}
}

// Leaving a case out for an attempt does not hide that it got worse, and
// another version of a case is another case.
func TestRegressionsAreByCaseAndDigest(t *testing.T) {
	b := historytest.New(t)
	b.Run(historytest.Registration("repo-fix.agent.1", "agent", 1, 2, 1), 1, 1)
	b.Run(historytest.Registration("repo-fix.agent.2", "agent", 2, 1, 1), 1)
	b.Run(historytest.Registration("repo-fix.agent.3", "agent", 3, 2, 1), 1, 0)
	changed := historytest.Registration("repo-fix.agent.4", "agent", 4, 2, 1)
	changed.Plan.Cases[0].Digest = historytest.ContentOf("harder")
	b.Register(changed)
	s := historytest.Score(changed, 0, 1, 0)
	s.CaseDigest = historytest.ContentOf("harder")
	b.Case(changed, s)
	b.Case(changed, historytest.Score(changed, 1, 1, 0))
	c := CurveOf(read(b, history.Options{}), CurveOptions{})
	if c.Weeks[0].Regressions != 1 {
		t.Errorf("%d regressions, want 1", c.Weeks[0].Regressions)
	}
}

func TestRepeatedCasesAreSolvedByMajority(t *testing.T) {
	b := historytest.New(t)
	for k, passes := range []int{3, 2, 1} {
		r := historytest.Registration("repo-fix.agent."+string(rune('1'+k)), "agent", k+1, 1, 3)
		b.Register(r)
		for repeat := 1; repeat <= 3; repeat++ {
			v := 0.0
			if repeat <= passes {
				v = 1
			}
			b.Case(r, historytest.Score(r, 0, repeat, v))
		}
	}
	if c := CurveOf(read(b, history.Options{}), CurveOptions{}); c.Weeks[0].Regressions != 1 {
		t.Errorf("%d regressions, want 1: from 2 of 3 to 1 of 3", c.Weeks[0].Regressions)
	}
}

// No cell of the CSV is text that an author of cases or agents chose, so none can be a
// formula to a spreadsheet.
func TestCurveCSVHoldsNoForeignText(t *testing.T) {
	b := historytest.New(t)
	r := historytest.Registration("=cmd|'/c calc'!A1", "+agent", 1, 1, 1)
	r.Class = "@class"
	historytest.Sign(t, r, historytest.Olga)
	b.Register(r)
	s := historytest.Score(r, 0, 1, 1)
	s.Class = r.Class
	s.Tags = []string{"=1+1"}
	b.Case(r, s)
	b.Add(evidence.IntegrityEventKind, &evidence.IntegrityEvent{Name: "x", Severity: evidence.Info, Detail: "=1"})
	csv := string(CurveOf(read(b, history.Options{}), CurveOptions{}).CSV())
	if strings.ContainsAny(csv, "=+@|'\"\t") || strings.Count(csv, "\n") != 2 {
		t.Errorf("%q", csv)
	}
}
