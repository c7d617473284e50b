package scorecard

import (
	"cmp"
	"fmt"
	"slices"

	"tallystick/internal/read/history"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/evidence"
)

// A Standing is where a target stands with a class, how that differs from the last
// attempt that can be compared with its newest, and how it came there.
type Standing struct {
	ClassTarget
	// Change is nil if no attempt before the newest can be compared with it.
	Change *Change `json:"change"`
	// Trend has every attempt of the target at the class, oldest first.
	Trend []TrendPoint `json:"trend"`
}

// A Change is a [Comparison] at a glance.
type Change struct {
	From string `json:"from"` // the earlier attempt
	To   string `json:"to"`

	Paired     int        `json:"paired"`
	Flips      Flips      `json:"flips"`
	McNemarP   float64    `json:"mcnemar_p"`
	Difference float64    `json:"difference"` // of the solve rate over the paired cases
	CI95       [2]float64 `json:"difference_ci95"`
	// ScoreChange is how much the mean score changed; nil if no paired case has one in both.
	ScoreChange *float64 `json:"score_change,omitempty"`

	Verdict           Verdict `json:"verdict"`
	ThresholdsChanged bool    `json:"thresholds_changed,omitempty"`
}

// A Verdict is what the tests of a comparison come to.
type Verdict string

// The verdicts, the worst first.
const (
	Worse        Verdict = "worse"        // more cases were lost than gained, and not by chance
	ScoresLower  Verdict = "scores lower" // that cannot be said, but the scores fell
	Unclear      Verdict = "could be chance"
	Unchanged    Verdict = "no change"     // every paired case ended as before, with the same score
	ScoresHigher Verdict = "scores higher" // the same the other way
	Better       Verdict = "better"
)

// Verdicts are all of them, the worst first.
var Verdicts = []Verdict{Worse, ScoresLower, Unclear, Unchanged, ScoresHigher, Better}

// Significance is the level of the tests behind a [Verdict]: their intervals are at 95
// percent.
const Significance = 0.05

// Verdict says what the tests of a comparison come to: McNemar's exact test of the cases
// that changed sides, or else the interval of the change of the mean score.
func (c *Comparison) Verdict() Verdict {
	f, scores := c.Flips, c.Scores
	switch {
	case c.McNemarP < Significance && f.Lost > f.Gained:
		return Worse
	case c.McNemarP < Significance && f.Gained > f.Lost:
		return Better
	case scores.moved() && scores.ChangeCI95[1] < 0:
		return ScoresLower
	case scores.moved() && scores.ChangeCI95[0] > 0:
		return ScoresHigher
	case f == Flips{} && c.Difference == 0 && (scores == nil || scores.Higher == 0 && scores.Lower == 0):
		return Unchanged
	}
	return Unclear
}

// moved reports whether more cases have a higher score than a lower one, or the other way
// round, than chance gives: the sign test. The interval of the mean alone is too narrow
// where cases are few, and would find in passes and fails what McNemar's test does not.
func (s *ScoreChange) moved() bool {
	return s != nil && McNemar(s.Higher, s.Lower) < Significance
}

// Change is a comparison at a glance.
func (c *Comparison) Change() *Change {
	out := &Change{From: c.A.ID, To: c.B.ID, Paired: c.Paired, Flips: c.Flips, McNemarP: c.McNemarP, Difference: c.Difference, CI95: c.DifferenceCI95,
		Verdict: c.Verdict(), ThresholdsChanged: c.ThresholdsChanged}
	if c.Scores != nil {
		out.ScoreChange = &c.Scores.Mean.Change
	}
	return out
}

// Text says the change in words.
func (c *Change) Text() string {
	flips := fmt.Sprintf("%d lost, %d gained of %d", c.Flips.Lost, c.Flips.Gained, c.Paired)
	switch c.Verdict {
	case Unchanged:
		return fmt.Sprintf("all %d paired cases as before", c.Paired)
	case ScoresLower, ScoresHigher:
		return fmt.Sprintf("%s; mean score %+.3f", flips, *c.ScoreChange)
	}
	return flips
}

// A TrendPoint is one attempt in the course of a target.
type TrendPoint struct {
	Attempt string        `json:"attempt"`
	Name    string        `json:"name,omitempty"`
	At      evidence.Time `json:"registered_at"`
	Entry   int64         `json:"entry"`
	Tasks   int           `json:"tasks"`
	Passed  int           `json:"passed"`
	Cost    cost.Cost     `json:"cost_microdollars"`
	// Rate and CI95 are of the recorded outcomes; nil of an attempt without a rate: Why
	// says why it has none.
	Rate *float64    `json:"rate"`
	CI95 *[2]float64 `json:"rate_ci95"`
	Why  string      `json:"why,omitempty"`
	// Hollow says that the attempt is no equal of the others: Labels say why.
	Hollow bool     `json:"hollow"`
	Labels []string `json:"labels,omitempty"`
	// Part says that it left out cases or counts them otherwise, so that its rate is of
	// something else.
	Part bool `json:"part"`
}

// TrendOf is how a target, or several, did over attempts, in their order. Scratch and
// filtered attempts are in it, and say so.
func TrendOf(attempts []*history.Attempt) []TrendPoint {
	out := make([]TrendPoint, 0, len(attempts))
	for _, a := range attempts {
		out = append(out, trendPoint(a))
	}
	return out
}

func trendPoint(a *history.Attempt) TrendPoint {
	p := TrendPoint{Attempt: a.ID, Name: a.Name, At: a.Time, Entry: a.Index, Tasks: a.Tasks(), Part: !IsWhole(a)}
	label := func(is bool, text string) {
		if is {
			p.Hollow, p.Labels = true, append(p.Labels, text)
		}
	}
	label(a.Level == history.Scratch, "scratch")
	label(a.Plan.Filtered, "filtered")
	label(a.Plan.StopEarly != nil, "may stop early")
	label(a.Plan.Reduce != "", "reduced by "+string(a.Plan.Reduce))
	if a.Finished == nil {
		p.Why = "not finished"
		return p
	}
	for c := range a.Cases() {
		p.Cost = p.Cost.Plus(c.Cost)
		if c.Outcome() == evidence.Passed {
			p.Passed++
		}
	}
	switch n := a.Unanswered(); {
	case n > 0:
		p.Why = fmt.Sprintf("not answered: %d of %d cases ask something new", n, p.Tasks)
		return p
	case p.Tasks == 0:
		p.Why = "no case was planned"
		return p
	}
	// Repetitions of one case are one sample.
	rate := float64(p.Passed) / float64(p.Tasks)
	lo, hi := WilsonRate(rate, min(p.Tasks, max(a.Plan.CaseCount, 1)), Z95)
	p.Rate, p.CI95 = &rate, &[2]float64{lo, hi}
	return p
}

// Standings are where every target stands with every class it tried, in the order of
// [ByClassTarget].
func Standings(attempts []*history.Attempt) ([]Standing, error) {
	of := make(map[[2]string][]*history.Attempt)
	for _, a := range attempts {
		key := [2]string{a.Class, a.Target}
		of[key] = append(of[key], a)
	}
	var out []Standing
	for _, g := range ByClassTarget(attempts) {
		own := of[[2]string{g.Class, g.Target}]
		s := Standing{ClassTarget: g, Trend: TrendOf(own)}
		if g.Newest != nil {
			i := slices.IndexFunc(own, func(a *history.Attempt) bool { return a.ID == g.Newest.ID })
			if before := LastComparable(own, own[i]); before != nil {
				c, err := Compare(before, own[i], CompareOptions{})
				if err != nil {
					return nil, err
				}
				s.Change = c.Change()
			}
		}
		out = append(out, s)
	}
	return out, nil
}

// WorstFirst orders standings by what got worse: by the verdict, then by how much of the
// solve rate was lost. What has nothing to be compared with comes after all that has.
func WorstFirst(list []Standing) {
	slices.SortStableFunc(list, func(a, b Standing) int {
		x, y := a.Change, b.Change
		if x == nil || y == nil {
			return cmp.Compare(boolRank(x == nil), boolRank(y == nil))
		}
		return cmp.Or(cmp.Compare(slices.Index(Verdicts, x.Verdict), slices.Index(Verdicts, y.Verdict)), cmp.Compare(x.Difference, y.Difference))
	})
}

func boolRank(b bool) int {
	if b {
		return 1
	}
	return 0
}
