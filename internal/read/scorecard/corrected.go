package scorecard

import (
	"fmt"
	"slices"

	"tallystick/internal/read/history"
)

// A CorrectedRow is a task with a score beside the recorded one.
type CorrectedRow = history.CorrectedRow

// CorrectedCases lists the tasks of attempts that were corrected; nil if none
// was, so that answers without any say nothing about it.
func CorrectedCases(attempts ...*history.Attempt) []CorrectedRow {
	var out []CorrectedRow
	for _, a := range attempts {
		for c := range a.Cases() {
			out = append(out, c.Corrections(a.ID)...)
		}
	}
	return out
}

// asCorrected is the totals of tasks as corrected, nil if that changes none of them.
func asCorrected(tasks []task) *Totals {
	if !slices.ContainsFunc(tasks, func(t task) bool { return t.IsCorrected() }) {
		return nil
	}
	totals := totalsOf(tasks, history.AsCorrected)
	return &totals
}

// CorrectedText tells in few words what the totals are as corrected.
func (t *Totals) CorrectedText() string {
	text := fmt.Sprintf("%d of %d solved, solve rate %s", t.Solved, t.TotalTasks, short(t.SolveRate))
	if t.MeanScore != nil {
		text += ", mean score " + short(*t.MeanScore)
	}
	return text
}
