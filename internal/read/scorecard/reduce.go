package scorecard

import (
	"cmp"
	"slices"
	"strings"

	"tallystick/internal/read/history"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
)

// Mixed is the outcome of a case some of whose repetitions passed, where each
// counts by itself. No record and no total has it.
const Mixed evidence.Outcome = "mixed"

// A Reduced is one case of an attempt with all of its repetitions.
type Reduced struct {
	ID      string
	Digest  digest.Content
	Outcome evidence.Outcome
	Score   *float64 // nil if there is none
	Passed  int      // repetitions that passed, of
	Of      int
	Cases   []*history.Case // the repetitions
}

// ReducedCases puts the repetitions of each case of an attempt together, in the
// order of the plan, by the reducer of its plan. Without one a case whose
// repetitions do not all have one outcome is [Mixed], and its score is their mean.
func ReducedCases(a *history.Attempt, on history.Basis) []Reduced {
	return reducedOf(slices.Collect(a.Cases()), a.Plan.Reduce, on)
}

func reducedOf(cases []*history.Case, by evidence.Reducer, on history.Basis) []Reduced {
	at := make(map[string]int)
	var all []Reduced
	for _, c := range cases {
		i, known := at[c.ID]
		if !known {
			i = len(all)
			at[c.ID] = i
			all = append(all, Reduced{ID: c.ID})
		}
		all[i].Cases = append(all[i].Cases, c)
		if all[i].Digest.IsZero() {
			all[i].Digest = c.Digest
		}
	}
	for i := range all {
		all[i].reduce(by, on)
	}
	return all
}

// A Unit is what one outcome of an attempt is counted by: a repetition of a case,
// or, where a plan reduces them, a case.
type Unit struct {
	ID      string
	Digest  digest.Content
	Outcome evidence.Outcome
	Scored  bool
	Score   float64
}

// Units gives those of some cases of an attempt, all repetitions of each.
func Units(a *history.Attempt, cases []*history.Case, on history.Basis) []Unit {
	if a.Plan.Reduce == "" {
		units := make([]Unit, 0, len(cases))
		for _, c := range cases {
			m := c.On(on)
			units = append(units, Unit{c.ID, c.Digest, m.Outcome, m.Scored, m.Score})
		}
		return units
	}
	var units []Unit
	for _, r := range reducedOf(cases, a.Plan.Reduce, on) {
		u := Unit{ID: r.ID, Digest: r.Digest, Outcome: r.Outcome, Scored: r.Score != nil}
		if u.Scored {
			u.Score = *r.Score
		}
		units = append(units, u)
	}
	return units
}

// A unit is a [Unit] of tasks.
type unit struct {
	sample  uint32
	Outcome evidence.Outcome
	Scored  bool
	Score   float64
}

// unitsOf gives what the outcomes of tasks are counted by.
func unitsOf(tasks []task, on history.Basis) []unit {
	if !slices.ContainsFunc(tasks, func(t task) bool { return t.attempt.Plan.Reduce != "" }) {
		return repetitions(tasks, on)
	}
	var units []unit
	cases := make(map[*history.Attempt][]*history.Case)
	samples := make(map[*history.Case]uint32)
	var order []*history.Attempt
	for _, t := range tasks {
		switch {
		case t.attempt.Plan.Reduce == "" || t.Case == noCase:
			units = append(units, repetitions([]task{t}, on)...)
			continue
		case cases[t.attempt] == nil:
			order = append(order, t.attempt)
		}
		cases[t.attempt], samples[t.Case] = append(cases[t.attempt], t.Case), t.sample
	}
	for _, a := range order {
		for _, r := range reducedOf(cases[a], a.Plan.Reduce, on) {
			u := unit{sample: samples[r.Cases[0]], Outcome: r.Outcome, Scored: r.Score != nil}
			if u.Scored {
				u.Score = *r.Score
			}
			units = append(units, u)
		}
	}
	return units
}

// repetitions counts each task by itself.
func repetitions(tasks []task, on history.Basis) []unit {
	units := make([]unit, len(tasks))
	for i, t := range tasks {
		m := t.On(on)
		units[i] = unit{t.sample, m.Outcome, m.Scored, m.Score}
	}
	return units
}

func (r *Reduced) reduce(by evidence.Reducer, on history.Basis) {
	r.Of = len(r.Cases)
	var scores []float64
	for _, c := range r.Cases {
		m := c.On(on)
		if m.Passed() {
			r.Passed++
		}
		if m.Scored {
			scores = append(scores, m.Score)
		}
	}
	if by == "" {
		r.Outcome = r.Cases[0].On(on).Outcome
		if slices.ContainsFunc(r.Cases, func(c *history.Case) bool { return c.On(on).Outcome != r.Outcome }) {
			r.Outcome = Mixed
		}
		r.Score = scoreOf(scores, func() float64 { return Mean(scores) })
		return
	}
	needed := by.Needed(r.Of)
	r.Outcome = r.decided(needed, on)
	if r.Outcome != evidence.Passed && r.Outcome != evidence.Failed {
		return
	}
	slices.SortFunc(scores, func(x, y float64) int { return cmp.Compare(y, x) })
	r.Score = scoreOf(scores, func() float64 {
		if by == evidence.ReduceMode {
			return commonest(scores)
		}
		return scores[min(needed, len(scores))-1]
	})
}

// decided is the outcome of a case of which so many repetitions must pass. If
// those without a verdict could have made up what is missing, it is unknown: the
// case has the outcome of the first of them, and counts as they do.
func (r *Reduced) decided(needed int, on history.Basis) evidence.Outcome {
	if r.Passed >= needed {
		return evidence.Passed
	}
	open, first := 0, evidence.Failed
	for _, c := range r.Cases {
		if o := c.On(on).Outcome; o != evidence.Passed && o != evidence.Failed {
			if open++; open == 1 {
				first = o
			}
		}
	}
	if r.Passed+open >= needed {
		return first
	}
	return evidence.Failed
}

// BesideChange tells what stands beside the records of the repetitions, "" if nothing
// does.
func (r *Reduced) BesideChange() string {
	var lines []string
	for _, c := range r.Cases {
		if text := c.BesideChange(); text != "" {
			lines = append(lines, text)
		}
	}
	return strings.Join(lines, "; ")
}

func scoreOf(scores []float64, value func() float64) *float64 {
	if len(scores) == 0 {
		return nil
	}
	v := value()
	return &v
}

// commonest is the score that most repetitions have, of several the lowest.
// Scores are sorted, the highest first.
func commonest(scores []float64) float64 {
	best, most := scores[0], 0
	for i := 0; i < len(scores); {
		n := 1
		for i+n < len(scores) && scores[i+n] == scores[i] {
			n++
		}
		if n >= most {
			best, most = scores[i], n
		}
		i += n
	}
	return best
}
