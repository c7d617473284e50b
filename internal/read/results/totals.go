package results

import (
	"maps"
	"math"
	"math/big"
	"slices"
)

// Totals are what the rows of a run say for one scorer.
type Totals struct {
	N        int64 // rows with a number
	Unscored int64 // rows that this scorer looked at and gave none
	Passed   int64 // rows that the file says passed
	Failed   int64

	sum       float64
	mean, sq  float64         // Welford's: the mean, and the squared distances from it
	ids       map[uint64]cell // by sample, only under [Builder.KeepAttempts]
	fullCells bool            // there were too many samples to keep
}

// cell is one sample under one scorer, over its attempts.
type cell struct {
	n, correct int32
	sum, most  float64
}

func (t *Totals) add(key uint64, s Score, keep bool) {
	switch {
	case s.Passed == nil:
	case *s.Passed:
		t.Passed++
	default:
		t.Failed++
	}
	if s.Value == nil {
		t.Unscored++
		return
	}
	v := *s.Value
	t.N++
	t.sum += v
	step := v - t.mean
	t.mean += step / float64(t.N)
	t.sq += step * (v - t.mean)
	if keep {
		t.keep(key, v)
	}
}

func (t *Totals) keep(key uint64, v float64) {
	c, known := t.ids[key]
	switch {
	case known:
	case len(t.ids) == maxCells:
		t.fullCells = true
		return
	case t.ids == nil:
		t.ids = map[uint64]cell{}
	}
	if !known {
		c.most = v
	}
	c.n++
	c.sum += v
	c.most = max(c.most, v)
	if v >= 1 {
		c.correct++
	}
	t.ids[key] = c
}

// Add counts one more score.
func (t *Totals) Add(s Score) { t.add(0, s, false) }

// Mean is the mean over rows.
func (t *Totals) Mean() float64 { return t.sum / float64(t.N) }

// Sum is the sum over rows.
func (t *Totals) Sum() float64 { return t.sum }

// StandardDeviation is that of the rows, with n-1 below the line; 0 for fewer
// than two rows, as the harnesses have it.
func (t *Totals) StandardDeviation() float64 {
	if t.N < 2 {
		return 0
	}
	return math.Sqrt(t.sq / float64(t.N-1))
}

// StandardError is the standard deviation of the mean.
func (t *Totals) StandardError() float64 {
	return t.StandardDeviation() / math.Sqrt(float64(t.N))
}

// Kept reports whether the attempts of every sample were kept, which the
// functions below need.
func (t *Totals) Kept() bool { return len(t.ids) > 0 && !t.fullCells }

// Means are the samples' values with the mean over their attempts, in order of
// size: the order of a map is random and additions are not associative.
func (t *Totals) Means() []float64 {
	return t.reduce(func(c cell) float64 { return c.sum / float64(c.n) })
}

// Mosts are the samples' values with the best attempt of each.
func (t *Totals) Mosts() []float64 {
	return t.reduce(func(c cell) float64 { return c.most })
}

// AtLeast are the samples' values, 1 for one with k attempts that are correct.
func (t *Totals) AtLeast(k int) []float64 {
	return t.reduce(func(c cell) float64 {
		if int(c.correct) >= k {
			return 1
		}
		return 0
	})
}

// PassAtK are the samples' values under pass@k.
func (t *Totals) PassAtK(k int) []float64 {
	return t.reduce(func(c cell) float64 { return PassAtK(int64(c.n), int64(c.correct), int64(k)) })
}

func (t *Totals) reduce(f func(cell) float64) []float64 {
	values := make([]float64, 0, len(t.ids))
	for c := range maps.Values(t.ids) {
		values = append(values, f(c))
	}
	slices.Sort(values)
	return values
}

// FewestAttempts is the smallest number of scored attempts of a sample.
func (t *Totals) FewestAttempts() int64 {
	fewest := int64(0)
	for c := range maps.Values(t.ids) {
		if fewest == 0 || int64(c.n) < fewest {
			fewest = int64(c.n)
		}
	}
	return fewest
}

// PassAtK is 1 - C(n-c,k)/C(n,k): the chance that of k attempts drawn from n at
// least one is among the c correct ones (Chen et al. 2021, section 2.1).
func PassAtK(n, c, k int64) float64 {
	if n-c < k {
		return 1
	}
	none := new(big.Rat).SetFrac(new(big.Int).Binomial(n-c, k), new(big.Int).Binomial(n, k))
	value, _ := none.Sub(big.NewRat(1, 1), none).Float64()
	return value
}

// Of makes totals of values, such as those of samples after their attempts were
// reduced to one.
func Of(values []float64) *Totals {
	t := &Totals{}
	for _, v := range values {
		t.add(0, Score{Value: &v}, false)
	}
	return t
}
