package scorecard

import (
	"fmt"
	"slices"

	"tallystick/internal/read/history"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/evidence"
)

// A Matrix is attempts by several targets at the same cases, side by side.
type Matrix struct {
	// Targets are in the order in which the caller named them.
	Targets []MatrixTarget `json:"targets"`
	// Cases are those that any of them planned: first those that did not pass
	// everywhere, then the others, each in the order of the first plan.
	Cases []MatrixRow `json:"cases"`
	// Pairs compares each two, in the order of the targets; of more than
	// [MaxPaired] the first with each.
	Pairs []MatrixPair `json:"pairs"`
}

// MaxPaired is how many targets are compared each with each. Of more, the first is
// compared with the others: a person does not read two thousand comparisons.
const MaxPaired = 12

// A MatrixTarget is one attempt of a matrix, by its scorecard.
type MatrixTarget struct {
	Target  string           `json:"target"`
	Attempt string           `json:"attempt,omitempty"`
	Error   string           `json:"error,omitempty"` // why there is no attempt, or none that finished
	Reduce  evidence.Reducer `json:"reduce,omitempty"`
	// Unanswered is how many of its cases asked for replies that are not recorded. Then
	// it has no rate, and the zeros below say nothing.
	Unanswered int `json:"unanswered,omitempty"`

	Tasks     int         `json:"tasks"`
	Solved    int         `json:"solved"`
	Cases     int         `json:"distinct_cases"`
	SolveRate float64     `json:"solve_rate"`
	CI95      [2]float64  `json:"solve_rate_ci95"`
	MeanScore *float64    `json:"mean_score"`
	MeanCI95  *[2]float64 `json:"mean_score_ci95"`
	Cost      cost.Cost   `json:"cost_microdollars"`
	Unpriced  int64       `json:"unpriced_calls,omitempty"` // not in the cost
	RuntimeMS *int64      `json:"runtime_ms"`               // null of an attempt that did not finish
}

// A MatrixRow is one case by every target that planned it.
type MatrixRow struct {
	Case    string                `json:"case"`
	Results map[string]MatrixCell `json:"results"`
}

// A MatrixCell is what became of a case, with all of its repetitions.
type MatrixCell struct {
	Outcome evidence.Outcome `json:"outcome"`
	Score   *float64         `json:"score"`
	Passed  int              `json:"passed"` // repetitions, of
	Of      int              `json:"of"`
	// Corrected says what stands beside the recorded scores, "" if nothing does.
	Corrected string `json:"corrected,omitempty"`
	// Unanswered says that it asks something new, which is not recorded.
	Unanswered bool `json:"unanswered,omitempty"`
}

// A MatrixPair is a comparison of two targets. HolmP is McNemarP corrected for
// there being several pairs.
type MatrixPair struct {
	A              string      `json:"a"`
	B              string      `json:"b"`
	Paired         int         `json:"paired"`
	Gained         []string    `json:"gained"` // cases that B solved and A did not
	Lost           []string    `json:"lost"`
	McNemarP       float64     `json:"mcnemar_p"`
	HolmP          float64     `json:"holm_p"`
	Difference     float64     `json:"difference"`
	DifferenceCI95 [2]float64  `json:"difference_ci95"`
	ScoreChange    *float64    `json:"score_change,omitempty"`
	ScoreCI95      *[2]float64 `json:"score_change_ci95,omitempty"`
}

// A MatrixEntry is one target of a matrix: its attempt and scorecard, or why it
// has none.
type MatrixEntry struct {
	Target  string
	Attempt *history.Attempt // nil if it was not registered
	Card    *Card            // of the attempt
	Error   string
}

// MatrixOf sets attempts side by side. Targets without an attempt are listed and
// not compared.
func MatrixOf(entries []MatrixEntry) (*Matrix, error) {
	m := GridOf(entries)
	for i, a := range entries {
		if i > 0 && len(entries) > MaxPaired {
			break
		}
		for _, b := range entries[i+1:] {
			if !a.whole() || !b.whole() {
				continue
			}
			p, err := pairOf(a, b)
			if err != nil {
				return nil, err
			}
			m.Pairs = append(m.Pairs, p)
		}
	}
	var ps []float64
	for _, p := range m.Pairs {
		ps = append(ps, p.McNemarP)
	}
	for i, corrected := range Holm(ps) {
		m.Pairs[i].HolmP = corrected
	}
	return m, nil
}

// GridOf is the matrix without its pairs: what ended how, also where the benches differ
// and no two columns can be compared.
func GridOf(entries []MatrixEntry) *Matrix {
	m := &Matrix{Targets: []MatrixTarget{}, Cases: []MatrixRow{}, Pairs: []MatrixPair{}}
	at := make(map[string]int)
	for _, e := range entries {
		m.Targets = append(m.Targets, e.line())
		if e.Attempt == nil {
			continue
		}
		for _, c := range ReducedCases(e.Attempt, history.AsRecorded) {
			i, known := at[c.ID]
			if !known {
				i = len(m.Cases)
				at[c.ID] = i
				m.Cases = append(m.Cases, MatrixRow{c.ID, map[string]MatrixCell{}})
			}
			m.Cases[i].Results[e.Target] = MatrixCell{c.Outcome, c.Score, c.Passed, c.Of, c.BesideChange(), slices.ContainsFunc(c.Cases, (*history.Case).Unanswered)}
		}
	}
	slices.SortStableFunc(m.Cases, func(a, b MatrixRow) int { return m.rank(a) - m.rank(b) })
	return m
}

// whole reports whether there is an attempt that can be compared: one that is not
// answered has no rate.
func (e *MatrixEntry) whole() bool { return e.Attempt != nil && e.Attempt.Unanswered() == 0 }

func (e *MatrixEntry) line() MatrixTarget {
	t := MatrixTarget{Target: e.Target, Error: e.Error}
	if e.Attempt == nil {
		return t
	}
	t.Attempt, t.Reduce = e.Attempt.ID, e.Attempt.Plan.Reduce
	if f := e.Attempt.Finished; f != nil {
		t.RuntimeMS = &f.RuntimeMS
	}
	if t.Unanswered = e.Attempt.Unanswered(); t.Unanswered > 0 {
		t.Error = fmt.Sprintf("not answered: %d of %d cases ask something new", t.Unanswered, e.Attempt.Tasks())
		return t
	}
	if c := e.Card; c != nil {
		t.Tasks, t.Solved, t.Cases, t.SolveRate, t.CI95 = c.TotalTasks, c.Solved, c.DistinctCases, c.SolveRate, c.SolveRateCI95
		t.MeanScore, t.MeanCI95, t.Cost, t.Unpriced = c.MeanScore, c.MeanScoreCI95, c.TotalCost, c.Unpriced
	}
	return t
}

// rank puts cases that differ between targets first, then those that none
// solved, then those that all did.
func (m *Matrix) rank(c MatrixRow) int {
	passed := 0
	for _, cell := range c.Results {
		if cell.Outcome == evidence.Passed {
			passed++
		}
	}
	switch {
	case passed == len(c.Results):
		return 2
	case passed == 0 && c.alike():
		return 1
	}
	return 0
}

// alike reports whether every target had the same outcome.
func (c MatrixRow) alike() bool {
	var first evidence.Outcome
	for _, cell := range c.Results {
		if first == "" {
			first = cell.Outcome
		}
		if cell.Outcome != first {
			return false
		}
	}
	return true
}

// AllPassed reports whether every target solved the case.
func (c MatrixRow) AllPassed() bool {
	for _, cell := range c.Results {
		if cell.Outcome != evidence.Passed {
			return false
		}
	}
	return true
}

func pairOf(a, b MatrixEntry) (MatrixPair, error) {
	c, err := Compare(a.Attempt, b.Attempt, CompareOptions{})
	if err != nil {
		return MatrixPair{}, err
	}
	p := MatrixPair{A: a.Target, B: b.Target, Paired: c.Paired, Gained: []string{}, Lost: []string{}, McNemarP: c.McNemarP, Difference: c.Difference, DifferenceCI95: c.DifferenceCI95}
	for _, x := range c.Cases {
		switch x.Change {
		case Gained:
			p.Gained = append(p.Gained, x.CaseID)
		case Lost:
			p.Lost = append(p.Lost, x.CaseID)
		}
	}
	if s := c.Scores; s != nil {
		p.ScoreChange, p.ScoreCI95 = &s.Mean.Change, &s.ChangeCI95
	}
	return p, nil
}
