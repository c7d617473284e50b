package scorecard

import (
	"cmp"
	"math"
	"slices"

	"tallystick/internal/read/history"
	"tallystick/internal/record/evidence"
)

// Z80 is the standard normal quantile of 0.8: a comparison of 80 % power.
const Z80 = 0.8416212335729143

// Holm corrects p values for there being several of them (Holm 1979): the smallest
// times their number, the next times one less, never smaller than one before, at
// most 1. They come back in the order given.
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	corrected, least := make([]float64, len(p)), 0.0
	for rank, i := range order {
		least = max(least, min(1, p[i]*float64(len(p)-rank)))
		corrected[i] = least
	}
	return corrected
}

// A Spread says where the differences between scores come from.
type Spread struct {
	// Case is the variance between cases: some are harder. Run is the variance
	// between repetitions of one case: the same thing done again comes out
	// otherwise. Run is nil without repetitions.
	Case *float64 `json:"case"`
	Run  *float64 `json:"run"`
}

// SpreadOf splits the variance of scores, one cluster for each case with a value
// for each repetition, by the estimators of a one-way random effects model (ANOVA).
// Case cannot be told from Run without repetitions, and is nil for fewer than two
// cases.
func SpreadOf(clusters [][]float64) Spread {
	k, n, squaredSizes, total := 0, 0.0, 0.0, 0.0
	for _, c := range clusters {
		if len(c) > 0 {
			k++
			n += float64(len(c))
			squaredSizes += float64(len(c) * len(c))
			total += sum(c)
		}
	}
	if k == 0 || n == float64(k) {
		return Spread{}
	}
	within, between := 0.0, 0.0
	for _, c := range clusters {
		if len(c) == 0 {
			continue
		}
		mean := sum(c) / float64(len(c))
		for _, x := range c {
			within += float64((x - mean) * (x - mean))
		}
		d := mean - total/n
		between += float64(float64(len(c)) * d * d)
	}
	within /= n - float64(k)
	s := Spread{Run: new(round(within))}
	if k > 1 {
		between /= float64(k - 1)
		size := (n - squaredSizes/n) / float64(k-1) // of a cluster, if they differ
		s.Case = new(round(max(0, (between-within)/size)))
	}
	return s
}

// CasesNeeded is how many pairs a comparison needs that finds a difference in
// solve rates with 80 % power at a two-sided 5 %, if a share of the pairs is
// discordant (Connor 1987, for McNemar's test). It is 0 if that cannot be: a
// difference is at most the discordant share.
func CasesNeeded(difference, discordant float64) int {
	if !(difference > 0) || difference > discordant || discordant > 1 {
		return 0
	}
	root := Z95*math.Sqrt(discordant) + Z80*math.Sqrt(discordant-difference*difference)
	return int(math.Ceil(root * root / (difference * difference)))
}

// Detectable is the smallest difference in solve rates that n pairs show, as
// [CasesNeeded] has it; 1 if they show none.
func Detectable(n int, discordant float64) float64 {
	if n < 1 || !(discordant > 0) {
		return 1
	}
	if needed := CasesNeeded(discordant, discordant); needed == 0 || needed > n {
		return 1
	}
	lo, hi := 0.0, discordant
	for range 60 {
		if mid := (lo + hi) / 2; mid > 0 && CasesNeeded(mid, discordant) <= n {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}

// A Power says what some attempts can show and what they cannot.
type Power struct {
	Attempts []PowerLine `json:"attempts"`
	// Discordant is the share of cases on which two attempts are expected to
	// disagree, and Basis how that is known.
	Discordant float64 `json:"discordant"`
	Basis      string  `json:"basis"` // pairs, repetitions or assumed
	Cases      int     `json:"cases"` // that a paired comparison would have
	// Detectable is the smallest difference in solve rates that a comparison on
	// these cases finds four times out of five; 1 if none.
	Detectable float64 `json:"detectable"`
	// Needed is how many cases would find the difference that was asked about; 0
	// if that difference cannot be.
	Asked  *float64 `json:"asked,omitempty"`
	Needed *int     `json:"needed,omitempty"`
	// Trend is over the attempts in the order given; nil for fewer than three.
	Trend *Trend `json:"trend,omitempty"`
	// Pairs compares each two attempts, corrected for there being several.
	Pairs []PowerPair `json:"pairs"`
}

// A PowerLine is one attempt of a [Power].
type PowerLine struct {
	Attempt   string         `json:"attempt"`
	Corrected []CorrectedRow `json:"corrected,omitempty"` // beside the recorded scores, which are counted
	Cases     int            `json:"cases"`
	Runs      int            `json:"runs"` // scored repetitions of all cases
	Mean      float64        `json:"mean"`
	Error     float64        `json:"standard_error"` // of the mean, clustered by case
	Variance  Spread         `json:"variance"`
	ByCost    []Budget       `json:"by_cost"` // empty also if a cost is not known
	ByTokens  []Budget       `json:"by_tokens"`
	ByLatency []Budget       `json:"by_latency"`
}

// A Budget is the share of all tasks that were solved within an amount: of
// millionths of a dollar, tokens or milliseconds.
type Budget struct {
	Within int64   `json:"within"`
	Solved float64 `json:"solved"`
}

// A Trend is how scores change from one attempt to the next, by the slope of each
// case that is in all of them.
type Trend struct {
	Cases int        `json:"cases"`
	Slope float64    `json:"slope"` // of the mean score, an attempt
	CI95  [2]float64 `json:"slope_ci95"`
}

// A PowerPair is McNemar's test of two attempts.
type PowerPair struct {
	A        string  `json:"a"`
	B        string  `json:"b"`
	Paired   int     `json:"paired"`
	McNemarP float64 `json:"mcnemar_p"`
	HolmP    float64 `json:"holm_p"`
}

// The bases of [Power.Discordant].
const (
	BasisPairs       = "pairs"
	BasisRepetitions = "repetitions"
	BasisAssumed     = "assumed"
)

// PowerOf says what attempts can show. Asked is a difference in solve rates, or 0.
func PowerOf(attempts []*history.Attempt, asked float64) (*Power, error) {
	p := &Power{Attempts: []PowerLine{}, Pairs: []PowerPair{}, Basis: BasisAssumed}
	for _, a := range attempts {
		p.Attempts = append(p.Attempts, powerLine(a))
	}
	if err := p.compare(attempts); err != nil {
		return nil, err
	}
	if p.Basis == BasisAssumed && len(attempts) > 0 {
		p.expect(ReducedCases(attempts[0], history.AsRecorded))
	}
	p.Discordant = round(p.Discordant)
	p.Detectable = round(Detectable(p.Cases, p.Discordant))
	if asked > 0 {
		p.Asked, p.Needed = &asked, new(CasesNeeded(asked, p.Discordant))
	}
	p.Trend = trendOf(attempts)
	return p, nil
}

func powerLine(a *history.Attempt) PowerLine {
	line := PowerLine{Attempt: a.ID, Corrected: CorrectedCases(a)}
	var clusters [][]float64
	var all []float64
	for _, c := range ReducedCases(a, history.AsRecorded) {
		scores := scoresOf(c)
		if len(scores) > 0 {
			clusters = append(clusters, scores)
			all = append(all, scores...)
		}
	}
	tasks := slices.Collect(a.Cases())
	line.Cases, line.Runs, line.Mean, line.Error = len(clusters), len(all), round(Mean(all)), round(ClusteredSE(clusters))
	line.Variance = SpreadOf(clusters)
	line.ByCost = []Budget{}
	if !slices.ContainsFunc(tasks, func(c *history.Case) bool { return c.WasScored() && !c.Cost.Known() }) {
		line.ByCost = budgets(tasks, func(c *history.Case) int64 { return c.Cost.MicroUSD })
	}
	line.ByTokens = budgets(tasks, func(c *history.Case) int64 { return c.Tokens })
	line.ByLatency = budgets(tasks, func(c *history.Case) int64 { return c.LatencyMS })
	return line
}

func scoresOf(c Reduced) []float64 {
	var scores []float64
	for _, r := range c.Cases {
		if m := r.On(history.AsRecorded); m.Scored {
			scores = append(scores, m.Score)
		}
	}
	return scores
}

// budgets gives the share of tasks that were solved within each tenth of what
// solving took. What was not solved is not solved at any price.
func budgets(tasks []*history.Case, amount func(*history.Case) int64) []Budget {
	var solved []int64
	for _, c := range tasks {
		if c.Outcome() == evidence.Passed {
			solved = append(solved, amount(c))
		}
	}
	slices.Sort(solved)
	list := []Budget{}
	for tenth := 1; tenth <= 10 && len(solved) > 0; tenth++ {
		within := solved[(len(solved)*tenth+9)/10-1]
		if n := len(list); n > 0 && list[n-1].Within == within {
			list = list[:n-1]
		}
		count, _ := slices.BinarySearch(solved, within+1)
		list = append(list, Budget{within, round(float64(count) / float64(len(tasks)))})
	}
	return list
}

// compare tests each two attempts, and takes from the pairs how often two attempts
// disagree.
func (p *Power) compare(attempts []*history.Attempt) error {
	var ps []float64
	disagree, paired := 0, 0
	for i, a := range attempts {
		for _, b := range attempts[i+1:] {
			c, err := Compare(a, b, CompareOptions{})
			if err != nil {
				return err
			}
			gained, lost := c.Flips.Gained, c.Flips.Lost
			disagree, paired = disagree+gained+lost, paired+c.Paired
			p.Cases = max(p.Cases, c.Paired)
			p.Pairs = append(p.Pairs, PowerPair{A: a.ID, B: b.ID, Paired: c.Paired, McNemarP: c.McNemarP})
			ps = append(ps, c.McNemarP)
		}
	}
	for i, corrected := range Holm(ps) {
		p.Pairs[i].HolmP = round(corrected)
	}
	if disagree > 0 {
		p.Basis, p.Discordant = BasisPairs, float64(disagree)/float64(paired)
	}
	return nil
}

// expect takes how often two attempts would disagree from the repetitions of one:
// two runs of a case that passes with chance q disagree with chance 2q(1-q). Without
// repetitions the cases are taken to be alike, which says more than is true.
func (p *Power) expect(cases []Reduced) {
	p.Cases = max(p.Cases, len(cases))
	sum, repeated, passed, runs := 0.0, 0, 0, 0
	for _, c := range cases {
		passed, runs = passed+c.Passed, runs+c.Of
		if c.Of > 1 {
			n, q := float64(c.Of), float64(c.Passed)/float64(c.Of)
			sum += 2 * q * (1 - q) * n / (n - 1) // unbiased
			repeated++
		}
	}
	switch {
	case repeated > 0:
		p.Basis, p.Discordant = BasisRepetitions, sum/float64(repeated)
	case runs > 0:
		q := float64(passed) / float64(runs)
		p.Discordant = 2 * q * (1 - q)
	}
}

// trendOf is the mean slope of the scores of each case over the attempts, with
// the interval that resampling the cases gives: the cases are the sample, and
// harder ones stay hard in every attempt.
func trendOf(attempts []*history.Attempt) *Trend {
	if len(attempts) < 3 {
		return nil
	}
	scores := map[string][]float64{}
	for i, a := range attempts {
		for _, c := range ReducedCases(a, history.AsRecorded) {
			if values := scoresOf(c); len(values) > 0 && len(scores[c.ID]) == i {
				scores[c.ID] = append(scores[c.ID], Mean(values))
			}
		}
	}
	var slopes []float64
	for _, ys := range scores {
		if len(ys) == len(attempts) {
			slopes = append(slopes, slope(ys))
		}
	}
	if len(slopes) == 0 {
		return nil
	}
	t := &Trend{Cases: len(slopes), Slope: round(Mean(slopes))}
	lo, hi := PairedBootstrap(slopes, Seed)
	t.CI95 = [2]float64{round(lo), round(hi)}
	return t
}

// slope is that of the least squares line through values at 0, 1, 2 and so on.
func slope(ys []float64) float64 {
	middle, mean := float64(len(ys)-1)/2, sum(ys)/float64(len(ys))
	above, below := 0.0, 0.0
	for i, y := range ys {
		x := float64(i) - middle
		above += float64(x * (y - mean))
		below += float64(x * x)
	}
	return above / below
}
