package scorecard

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"tallystick/internal/read/history"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
)

// A Week is one row of the cost-to-outcome curve.
type Week struct {
	Week           string     `json:"week"`   // as in 2026-W20
	Begins         string     `json:"begins"` // its Monday
	Attempts       int        `json:"attempts"`
	Tasks          int        `json:"tasks"`
	Solved         int        `json:"solved"`
	SolveRate      float64    `json:"solve_rate"`
	SolveRateCI95  [2]float64 `json:"solve_rate_ci95"`
	TotalCost      cost.Cost  `json:"total_cost_microdollars"`
	Unpriced       int64      `json:"unpriced_calls,omitempty"` // not in the cost
	CostPerSolve   cost.Cost  `json:"cost_per_solve"`
	TokensPerSolve Count      `json:"tokens_per_solve"`
	Retries        Count      `json:"retries"`
	Violations     Count      `json:"policy_violations"`
	// Regressions counts cases that the attempt before of the same class and
	// target solved and this one did not.
	Regressions int           `json:"regressions"`
	Level       history.Level `json:"level"` // of the weakest attempt
	// Corrected and AsCorrected are as in a [Card]: the numbers above are as recorded.
	Corrected   []CorrectedRow `json:"corrected,omitempty"`
	AsCorrected *Totals        `json:"as_corrected,omitempty"`
}

// A Curve is how cost and outcome go over time.
type Curve struct {
	Weeks []Week `json:"weeks"`
	// LeftOut counts scratch and filtered attempts, which would bend the curve.
	LeftOut int `json:"left_out"`
}

// CurveOptions choose attempts for a curve.
type CurveOptions struct {
	Class, Target string    // "" for all
	Since         time.Time // zero for the beginning
	// All takes scratch and filtered attempts too.
	All bool
}

// Takes reports whether the curve would show the attempt, as far as its
// registration tells; for [history.Options].Want.
func (o CurveOptions) Takes(a *history.Attempt) bool {
	return (o.Class == "" || a.Class == o.Class) && (o.Target == "" || a.Target == o.Target) && !a.Time.Go().Before(o.Since)
}

// CurveOf puts attempts into the weeks of their registration. A week without
// an attempt has no row.
func CurveOf(h *history.History, o CurveOptions) *Curve {
	c := &Curve{Weeks: []Week{}}
	weeks := make(map[string][]*history.Attempt)
	regressions := make(map[string]int)
	before := make(map[[2]string]map[string]bool) // by class and target: what was solved
	for _, a := range h.Attempts {
		if !a.Kept || !o.Takes(a) {
			continue
		}
		if !o.All && (a.Level == history.Scratch || a.Plan.Filtered || a.Plan.Reduce != "" || a.Plan.StopEarly != nil) {
			c.LeftOut++
			continue
		}
		week := WeekOf(a.Time.Go())
		weeks[week] = append(weeks[week], a)
		kind := [2]string{a.Class, a.Target}
		if before[kind] == nil {
			before[kind] = make(map[string]bool)
		}
		regressions[week] += regress(before[kind], a)
	}
	for _, week := range slices.Sorted(maps.Keys(weeks)) {
		c.Weeks = append(c.Weeks, weekOf(week, weeks[week], regressions[week]))
	}
	return c
}

func weekOf(week string, attempts []*history.Attempt, regressions int) Week {
	tasks := tasksOf(attempts)
	t := totalsOf(tasks, history.AsRecorded)
	w := Week{Week: week, Begins: monday(attempts[0].Time.Go()).Format(time.DateOnly), Attempts: len(attempts),
		Tasks: t.TotalTasks, Solved: t.Solved, SolveRate: t.SolveRate, SolveRateCI95: t.SolveRateCI95, TotalCost: t.TotalCost, Unpriced: t.Unpriced,
		CostPerSolve: t.CostPerSolve, TokensPerSolve: t.TokensPerSolve, Retries: t.TotalRetries, Violations: t.PolicyViolations,
		Regressions: regressions, Level: history.Reproduced, Corrected: CorrectedCases(attempts...), AsCorrected: asCorrected(tasks)}
	for _, a := range attempts {
		w.Level = min(w.Level, a.Level)
	}
	return w
}

// monday is the first day of the ISO week of t.
func monday(t time.Time) time.Time {
	t = t.UTC()
	return t.AddDate(0, 0, -(int(t.Weekday())+6)%7)
}

// regress counts the cases that were solved before and are not now, and
// updates what was solved. A case that an attempt does not plan keeps its
// place: leaving it out for a while does not hide that it got worse. The
// digest is part of what a case is: a changed case cannot regress.
func regress(solved map[string]bool, a *history.Attempt) int {
	n := 0
	for key, now := range solvedCases(a) {
		if solved[key] && !now {
			n++
		}
		solved[key] = now
	}
	return n
}

// solvedCases says of every case of an attempt whether it is solved: in more
// than half of its planned repetitions.
func solvedCases(a *history.Attempt) map[string]bool {
	passes := make(map[string]int, a.Tasks())
	for c := range a.Cases() {
		key := caseKey(c)
		n := passes[key]
		if c.Outcome() == evidence.Passed { // regressions are counted on originals
			n++
		}
		passes[key] = n
	}
	solved := make(map[string]bool, len(passes))
	for key, n := range passes {
		solved[key] = 2*n > a.Plan.Repeat
	}
	return solved
}

func caseKey(c *history.Case) string { return c.ID + "\x00" + string(c.Digest[:]) }

// CSV is the curve as comma-separated values. No cell begins with a character
// that a spreadsheet takes for a formula: all are numbers, weeks, days and
// level names of our own, and the cell of corrections begins with their number.
func (c *Curve) CSV() []byte {
	out := []byte("week,begins,attempts,tasks,solved,solve_rate,solve_rate_lo95,solve_rate_hi95,total_cost_microdollars,cost_per_solve,tokens_per_solve,retries,policy_violations,regressions,level,unpriced_calls,solved_as_corrected,corrections\n")
	for _, w := range c.Weeks {
		solved := w.Solved
		if w.AsCorrected != nil {
			solved = w.AsCorrected.Solved
		}
		out = fmt.Appendf(out, "%s,%s,%d,%d,%d,%v,%v,%v,%s,%s,%s,%s,%s,%d,%s,%d,%d,%s\n", w.Week, w.Begins, w.Attempts, w.Tasks, w.Solved, w.SolveRate, w.SolveRateCI95[0], w.SolveRateCI95[1],
			w.TotalCost.Cell(), w.CostPerSolve.Cell(), w.TokensPerSolve.cell(), w.Retries.cell(), w.Violations.cell(), w.Regressions, w.Level, w.Unpriced, solved, correctionsCell(w.Corrected))
	}
	return out
}

// correctionsCell tells how many corrections there are, and each, in one quoted cell.
func correctionsCell(rows []CorrectedRow) string {
	if len(rows) == 0 {
		return "0"
	}
	text := strconv.Itoa(len(rows))
	for _, r := range rows {
		text += "; " + plain.Line(r.Text())
	}
	return `"` + strings.ReplaceAll(text, `"`, `""`) + `"`
}
