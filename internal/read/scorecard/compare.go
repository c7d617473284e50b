package scorecard

import (
	"cmp"
	"fmt"
	"slices"

	"tallystick/internal/read/history"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
)

// A Comparison sets two attempts side by side, case by case. Differences are
// B minus A.
type Comparison struct {
	// Rules is [Rules] of the program that made it.
	Rules int `json:"rules"`

	A AttemptLine `json:"a"`
	B AttemptLine `json:"b"`
	// AcrossBenches says that the two are not of the same bench, and what
	// differs besides the agent is in the numbers too.
	AcrossBenches bool `json:"across_benches"`
	// ThresholdsChanged says that the registration changed between the two in
	// tiers, thresholds or gates, and in nothing that decides a score.
	ThresholdsChanged bool `json:"thresholds_changed,omitempty"`

	Paired int   `json:"paired"`
	OnlyA  int   `json:"only_a"` // cases that the other did not plan, or another version of
	OnlyB  int   `json:"only_b"`
	Flips  Flips `json:"flips"`
	// McNemarP is the exact test of gained against lost.
	McNemarP float64 `json:"mcnemar_p"`
	// Difference is that of the mean solved share of the paired cases.
	Difference     float64    `json:"difference"`
	DifferenceCI95 [2]float64 `json:"difference_ci95"`

	// Scores compares the scores: cases may keep their side and lose most of
	// theirs. It is nil if no paired case has a score in both.
	Scores *ScoreChange `json:"scores,omitempty"`

	SolveRate ChangeOf[float64] `json:"solve_rate"` // over the paired cases
	Tasks     ChangeOf[int64]   `json:"tasks"`      // repetitions included: cost and tokens are of all
	Cost      CostChange        `json:"cost_microdollars"`
	Tokens    ChangeOf[int64]   `json:"tokens"`
	Latency   ChangeOf[int64]   `json:"median_latency_ms"`

	// Corrected is what stands beside the recorded scores of both, which are compared.
	Corrected []CorrectedRow `json:"corrected,omitempty"`

	// Cases are those that changed, flipped ones first; all of them if asked.
	Cases []ChangeRow `json:"cases"`

	// Ledger is what was read, if the caller says so: a comparison that is kept
	// can then be counted again as it was.
	Ledger *history.Line `json:"ledger,omitempty"`
	// BaselineLedger is where A was read, if that is another ledger, which verified
	// then. It is not here to be counted again.
	BaselineLedger *history.Line `json:"baseline_ledger,omitempty"`
}

// Flips counts the paired cases that changed sides.
type Flips struct {
	Gained int `json:"gained"` // not solved in A, solved in B
	Lost   int `json:"lost"`
}

// A ChangeOf is a number in both attempts, over the paired cases.
type ChangeOf[T int64 | float64] struct {
	A      T `json:"a"`
	B      T `json:"b"`
	Change T `json:"change"`
}

// A CostChange is a cost in both attempts, null where it is not told. The calls that
// are not in it are beside it: a change is at least what it says if only B has some,
// and not known if A has any.
type CostChange struct {
	A         cost.Cost `json:"a"`
	B         cost.Cost `json:"b"`
	Change    cost.Cost `json:"change"`
	UnpricedA int64     `json:"unpriced_calls_a,omitempty"`
	UnpricedB int64     `json:"unpriced_calls_b,omitempty"`
}

// TokensText are the tokens of both and their change for people. A call whose cost is not
// known may have told no tokens: what was told is then the least there were, and the change
// is as that of a cost.
func (c *Comparison) TokensText() (a, b, change string) {
	if c.Cost.UnpricedA == 0 && c.Cost.UnpricedB == 0 {
		return fmt.Sprint(c.Tokens.A), fmt.Sprint(c.Tokens.B), fmt.Sprintf("%+d", c.Tokens.Change)
	}
	change = "unknown"
	if c.Cost.UnpricedA == 0 {
		change = fmt.Sprintf("at least %+d", c.Tokens.Change)
	}
	return leastTold(fmt.Sprint(c.Tokens.A), c.Cost.UnpricedA), leastTold(fmt.Sprint(c.Tokens.B), c.Cost.UnpricedB), change
}

// leastTold is a number of tokens, as the least if calls may have told none.
func leastTold(tokens string, unpriced int64) string {
	if unpriced > 0 {
		return "at least " + tokens
	}
	return tokens
}

// A ScoreChange is about the paired cases that have a score in both attempts,
// each by the mean of its repetitions that have one.
type ScoreChange struct {
	Cases      int               `json:"cases"`
	Mean       ChangeOf[float64] `json:"mean"`
	ChangeCI95 [2]float64        `json:"change_ci95"`
	Higher     int               `json:"higher"`
	Lower      int               `json:"lower"`
}

// movesVersion is the version of the outlines that Moves are told from.
const movesVersion = 3

// A ChangeRow is one paired case.
type ChangeRow struct {
	CaseID string         `json:"case_id"`
	Digest digest.Content `json:"case_digest"`
	Change string         `json:"change"` // gained, lost, changed or same
	A      Side           `json:"a"`
	B      Side           `json:"b"`
	// Divergence is where the two runs part, "" if it was not looked for. Why not is
	// in DivergenceNote.
	Divergence     string `json:"divergence,omitempty"`
	DivergenceNote string `json:"divergence_note,omitempty"`
	// Moves are how what the agent did differs: steps that are missing, new, moved,
	// replaced or denied, or that say something else, and words of the prompt. The
	// version is that of golden outlines; answers without one tell fewer steps.
	Moves        string `json:"moves,omitempty"`
	MovesVersion int    `json:"moves_version,omitempty"`

	a, b *history.Case
}

// A Side is a case in one attempt. With repetitions the outcome is that of the
// first, the other numbers are over all.
type Side struct {
	Outcome   evidence.Outcome `json:"outcome"`
	Solved    int              `json:"solved"` // of Tasks
	Tasks     int              `json:"tasks"`
	Score     *float64         `json:"score"` // mean of the scored ones
	Cost      cost.Cost        `json:"cost_microdollars"`
	Unpriced  int64            `json:"unpriced_calls,omitempty"` // not in the cost
	Tokens    int64            `json:"tokens"`
	LatencyMS int64            `json:"latency_ms"` // mean of those that ran
	Entry     int64            `json:"entry"`      // of the first repetition, -1 if it was not run

	// Qualifications are those of any repetition; see [history.Qualify].
	Qualifications []string `json:"qualifications,omitempty"`
	// Corrected says what stands beside a recorded score of it, if anything does.
	Corrected string `json:"corrected,omitempty"`
}

// The changes of a case.
const (
	Gained  = "gained"
	Lost    = "lost"
	Changed = "changed" // the same side with another score or outcome
	Same    = "same"
)

// NotLookedAt is the note of a flipped case beyond
// [CompareOptions].MaxDivergences.
const NotLookedAt = "not looked at: more cases flipped than were asked for"

// CompareOptions say how to compare.
type CompareOptions struct {
	// AcrossBenches compares attempts of different bench digests, which is
	// refused otherwise: their cases may be other cases.
	AcrossBenches bool
	// AllCases lists the cases that did not change too.
	AllCases bool
	// Divergence finds where two runs of a case part, "" if they do not. It is
	// asked for flipped cases, at most MaxDivergences of them.
	Divergence     func(a, b *history.Case) (string, error)
	MaxDivergences int
	// Moves tells what two runs that part did differently. It may be nil.
	Moves func(a, b *history.Case) (string, error)
}

// Compare pairs two attempts by case id and digest.
func Compare(a, b *history.Attempt, o CompareOptions) (*Comparison, error) {
	differ, across, err := comparable(a, b, o)
	if err != nil {
		return nil, err
	}
	c := &Comparison{Rules: Rules, A: LineOf(a), B: LineOf(b), Corrected: CorrectedCases(a, b), AcrossBenches: across, ThresholdsChanged: differ && !across, Cases: []ChangeRow{}}
	left, right := sidesOf(a), sidesOf(b)
	var scores scoreSum
	var differences []float64
	var latA, latB []int64
	var rateA, rateB float64
	for _, key := range left.order {
		x, y := left.by[key], right.by[key]
		if y == nil {
			c.OnlyA++
			continue
		}
		c.Paired++
		p, q := share(x), share(y)
		rateA, rateB = rateA+p, rateB+q
		differences = append(differences, q-p)
		c.Tasks.A, c.Tasks.B = c.Tasks.A+int64(x.tasks), c.Tasks.B+int64(y.tasks)
		c.Cost.A, c.Cost.B = c.Cost.A.Plus(x.cost), c.Cost.B.Plus(y.cost)
		scores.add(x, y)
		c.Tokens.A, c.Tokens.B = Sum(c.Tokens.A, x.Tokens), Sum(c.Tokens.B, y.Tokens)
		latA, latB = append(latA, x.latencies...), append(latB, y.latencies...)
		change := ChangeRow{CaseID: x.first.ID, Digest: x.first.Digest, A: x.side(), B: y.side(), a: x.first, b: y.first}
		switch won, had := 2*q > 1, 2*p > 1; {
		case won && !had:
			change.Change = Gained
			c.Flips.Gained++
		case had && !won:
			change.Change = Lost
			c.Flips.Lost++
		case sameSide(change.A, change.B):
			change.Change = Same
		default:
			change.Change = Changed
		}
		if change.Change != Same || o.AllCases {
			c.Cases = append(c.Cases, change)
		}
	}
	if c.Paired == 0 {
		return nil, noCaseInCommon(a, b)
	}
	c.OnlyA += a.Unlisted()
	c.OnlyB = len(right.order) - c.Paired + b.Unlisted()

	c.McNemarP = McNemar(c.Flips.Gained, c.Flips.Lost)
	lo, hi := PairedBootstrap(differences, Seed)
	c.Difference, c.DifferenceCI95 = round(Mean(differences)), [2]float64{round(lo), round(hi)}
	n := float64(c.Paired)
	c.SolveRate = ChangeOf[float64]{round(rateA / n), round(rateB / n), round((rateB - rateA) / n)}
	c.Tasks.Change = c.Tasks.B - c.Tasks.A
	c.Cost.Change = c.Cost.B.Minus(c.Cost.A)
	c.Cost.UnpricedA, c.Cost.UnpricedB = c.Cost.A.Unpriced, c.Cost.B.Unpriced
	c.Tokens.Change, c.Scores = c.Tokens.B-c.Tokens.A, scores.change()
	slices.Sort(latA)
	slices.Sort(latB)
	c.Latency.A, c.Latency.B = Percentile(latA, 50), Percentile(latB, 50)
	c.Latency.Change = c.Latency.B - c.Latency.A
	slices.SortStableFunc(c.Cases, func(x, y ChangeRow) int { return cmp.Compare(rank(x.Change), rank(y.Change)) })
	return c, c.diverge(o)
}

// A scoreSum gathers the scores of paired cases.
type scoreSum struct {
	a, b          float64
	differences   []float64
	higher, lower int
}

func (s *scoreSum) add(x, y *sideSum) {
	if x.scored == 0 || y.scored == 0 {
		return
	}
	p, q := x.score/float64(x.scored), y.score/float64(y.scored)
	s.a, s.b, s.differences = s.a+p, s.b+q, append(s.differences, q-p)
	switch d := round(q - p); {
	case d > 0:
		s.higher++
	case d < 0:
		s.lower++
	}
}

func (s *scoreSum) change() *ScoreChange {
	k := len(s.differences)
	if k == 0 {
		return nil
	}
	n := float64(k)
	lo, hi := PairedBootstrap(s.differences, Seed)
	return &ScoreChange{Cases: k, Mean: ChangeOf[float64]{round(s.a / n), round(s.b / n), round((s.b - s.a) / n)},
		ChangeCI95: [2]float64{round(lo), round(hi)}, Higher: s.higher, Lower: s.lower}
}

// rank puts what was lost first.
func rank(change string) int { return slices.Index([]string{Lost, Gained, Changed, Same}, change) }

// diverge looks where flipped cases part.
func (c *Comparison) diverge(o CompareOptions) error {
	if o.Divergence == nil {
		return nil
	}
	looked := 0
	for i := range c.Cases {
		x := &c.Cases[i]
		if x.Change != Gained && x.Change != Lost {
			continue
		}
		if looked++; looked > o.MaxDivergences {
			x.DivergenceNote = NotLookedAt
			continue
		}
		if x.a.Index < 0 || x.b.Index < 0 {
			x.DivergenceNote = "one of the two was not run"
			continue
		}
		d, err := o.Divergence(x.a, x.b)
		switch {
		case refusal.Is(err, refusal.NotFound):
			x.DivergenceNote = err.Error()
		case err != nil:
			return err
		case d == "":
			x.DivergenceNote = "both did the same; only the score differs"
		}
		x.Divergence = d
		if d != "" && o.Moves != nil {
			if x.Moves, err = o.Moves(x.a, x.b); err != nil {
				return err
			}
			if x.Moves != "" {
				x.MovesVersion = movesVersion
			}
		}
	}
	return nil
}

// sides gathers the repetitions of each case of an attempt.
type sides struct {
	by    map[string]*sideSum
	order []string
}

type sideSum struct {
	first     *history.Case
	tasks     int
	solved    int
	scored    int
	score     float64
	cost      cost.Cost
	said      []string // qualifications
	Tokens    int64
	latencies []int64
	corrected string
	reduced   *Reduced // nil if each repetition counts by itself
}

func sidesOf(a *history.Attempt) sides {
	s := sides{by: make(map[string]*sideSum, a.Tasks())}
	for c := range a.Cases() {
		key := caseKey(c)
		x := s.by[key]
		if x == nil {
			x = &sideSum{first: c}
			s.by[key] = x
			s.order = append(s.order, key)
		}
		if c.Repeat < x.first.Repeat {
			x.first = c
		}
		if text := c.BesideText(); text != "" {
			x.corrected = text
		}
		x.tasks++
		m := c.On(history.AsRecorded)
		if m.Passed() {
			x.solved++
		}
		if m.Scored {
			x.scored++
			x.score += m.Score
		}
		x.cost, x.Tokens = x.cost.Plus(c.Cost), Sum(x.Tokens, c.Tokens)
		for _, name := range a.QualificationsOf(c) {
			if !slices.Contains(x.said, name) {
				x.said = append(x.said, name)
			}
		}
		if c.Index >= 0 {
			x.latencies = append(x.latencies, c.LatencyMS)
		}
	}
	if a.Plan.Reduce != "" {
		for _, r := range ReducedCases(a, history.AsRecorded) {
			s.by[caseKey(r.Cases[0])].reduce(r)
		}
	}
	slices.Sort(s.order)
	return s
}

// reduce takes the outcome and the score of the case in place of those of its
// repetitions.
func (x *sideSum) reduce(r Reduced) {
	x.reduced, x.scored, x.score = &r, 0, 0
	if r.Score != nil {
		x.scored, x.score = 1, *r.Score
	}
}

// share is the share of the repetitions of a case that were solved; of a reduced
// one all or nothing.
func share(x *sideSum) float64 {
	switch {
	case x.reduced == nil:
		return float64(x.solved) / float64(x.tasks)
	case x.reduced.Outcome == evidence.Passed:
		return 1
	}
	return 0
}

func (x *sideSum) side() Side {
	s := Side{Outcome: x.first.Outcome(), Solved: x.solved, Tasks: x.tasks, Cost: x.cost, Unpriced: x.cost.Unpriced, Tokens: x.Tokens, Entry: x.first.Index, Qualifications: x.said, Corrected: x.corrected}
	if x.reduced != nil {
		s.Outcome = x.reduced.Outcome
	}
	if x.scored > 0 {
		mean := round(x.score / float64(x.scored))
		s.Score = &mean
	}
	if n := len(x.latencies); n > 0 {
		total := int64(0)
		for _, l := range x.latencies {
			total = Sum(total, l)
		}
		s.LatencyMS = total / int64(n)
	}
	return s
}

func sameSide(a, b Side) bool {
	return a.Outcome == b.Outcome && a.Solved*b.Tasks == b.Solved*a.Tasks && (a.Score == nil) == (b.Score == nil) && (a.Score == nil || *a.Score == *b.Score)
}
