package history

import (
	"bytes"
	"fmt"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/sequential"
)

// A Stop is what the records of an attempt answer that was registered with a
// question, computed from them in the order of the plan.
type Stop struct {
	evidence.StopEarly
	evidence.Stopped
	// NotNeeded is how many planned cases were not run because the question was
	// answered. They are not among the attempt's cases: the agent did not fail them.
	NotNeeded int
}

// Text says what was asked and what the answer is.
func (s *Stop) Text() string {
	answer := "not decided: the cases ran out"
	switch s.Decision {
	case sequential.AtLeastP1:
		answer = fmt.Sprintf("%v or more", s.P1)
	case sequential.AtMostP0:
		answer = fmt.Sprintf("%v or less", s.P0)
	}
	return fmt.Sprintf("solve rate %s, after %d cases of which %d passed, %d not needed (%s)", answer, s.After, s.Passed, s.NotNeeded, s.Question())
}

// stop computes the answer of a finished attempt and leaves out the cases that it
// did not need. If the attempt claims another answer than its records give, they
// stay: then it is unknown why they were not run.
func (a *Attempt) stop() {
	rule := a.Plan.StopEarly
	if rule == nil || a.Finished == nil || a.Stop != nil || !a.Listed || a.Plan.Repeat != 1 {
		return
	}
	if !a.inDrawnOrder() {
		a.fault("stopped", a.Index, "the cases of the plan are not in the order that the seed of stop_early gives")
		return
	}
	end := rule.Test().Run(func(yield func(bool) bool) {
		for c := range a.cases.all() {
			if c.Index < 0 || !yield(c.Outcome() == evidence.Passed) {
				return
			}
		}
	})
	now := evidence.Stopped{Decision: end.Decision, After: end.N, Passed: end.Passed}
	claimed := a.Finished.Stopped
	if claimed == nil || *claimed != now {
		a.fault("stopped", a.Finished.Index, "the attempt says that it stopped with %s, its records in the order of the plan give %s", stoppedText(claimed), stoppedText(&now))
		return
	}
	a.Stop = &Stop{StopEarly: *rule, Stopped: now}
	if now.Decision == sequential.Undecided {
		return
	}
	var kept caseList
	for c := range a.cases.all() {
		if c.Index < 0 && c.Started == 0 {
			a.Stop.NotNeeded++
			continue
		}
		*kept.add() = *c
	}
	a.cases = kept
}

// inDrawnOrder reports whether the plan has its cases in the order of the seed.
func (a *Attempt) inDrawnOrder() bool {
	var last digest.Content
	for c := range a.cases.all() {
		place := a.Plan.StopEarly.Place(c.ID)
		if bytes.Compare(place[:], last[:]) < 0 {
			return false
		}
		last = place
	}
	return true
}

func stoppedText(s *evidence.Stopped) string {
	if s == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s after %d cases of which %d passed", s.Decision, s.After, s.Passed)
}
