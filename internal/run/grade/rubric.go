package grade

import (
	"slices"
	"strings"

	"tallystick/internal/record/evidence"
	"tallystick/internal/run/extract"
)

// rubric notes that grading runs the class's rubric.
func (c *compiler) rubric(place, *node, *Rule) error {
	c.grader.rubric = true
	return nil
}

// rubric gives the value to the class's rubric. What it says of itself is
// recorded whatever comes of the rest, and a rubric that broke is not a
// mismatch: a check that must not match would otherwise pass because of it.
func (r *run) rubric(_ *node, _ *Detail, v extract.Value, counts bool) tally {
	if r.in.Rubric == nil {
		return single(unscored("there is no rubric to run"))
	}
	graded, err := r.in.Rubric(v)
	if err != nil {
		return single(unscored("the rubric could not be run: %v", err))
	}
	return r.answered("the rubric", graded, counts)
}

// answered makes a result of what a sandboxed program of the bench said.
func (r *run) answered(who string, graded Graded, counts bool) tally {
	r.events = append(r.events, graded.Events...)
	score := graded.Score
	if err := score.Validate(); err != nil {
		return single(unscored("%s's score: %v", who, err))
	}
	for _, mode := range score.FailureModes {
		if counts || isReserved(mode) {
			r.always = append(r.always, mode)
		}
	}
	for key, value := range score.Breakdown {
		if _, taken := r.breakdown[key]; !taken {
			r.breakdown[key] = value
		}
	}
	t := tally{verdict: verdict{Mismatch, score.Score, CodeMismatch, who + " says that it does not pass"}, codes: score.FailureModes}
	switch {
	case score.Passed:
		t.outcome, t.code, t.why = Passed, "", who+" says that it passes"
	case slices.ContainsFunc(score.FailureModes, isReserved):
		t.outcome, t.code = Unusable, score.FailureModes[0]
		t.why = who + " broke: " + r.safe(blockedBy(graded.Events))
	case len(score.FailureModes) == 0:
		t.codes = []string{CodeMismatch}
	}
	return t
}

// blockedBy says what kept a rubric's answer from counting.
func blockedBy(events []evidence.IntegrityEvent) string {
	var why []string
	for _, e := range events {
		if e.Severity == evidence.Block {
			why = append(why, e.Detail)
		}
	}
	return strings.Join(why, "; ")
}
