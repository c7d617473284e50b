// Package agreement measures how far two people, or a person and a judge, agree
// about the same things.
//
// It counts pairs of labels in a table and says of it: how often both said the
// same, and Cohen's kappa, which is what is left of that when agreement by chance
// is taken off. Kappa with linear or quadratic weights forgives neighbours on a
// scale more than ends of it. Values are those of scikit-learn's
// cohen_kappa_score, intervals those of statsmodels' cohens_kappa; the script
// .ci/conformance.d/agreement compares.
//
// Pure: no input, no output, nothing random.
package agreement

import (
	"fmt"
	"math"
	"slices"
)

// A Pair is what two raters said about one thing.
type Pair struct{ First, Second string }

// A Table counts pairs: Counts[i][j] is how often the first rater said Labels[i]
// and the second Labels[j].
type Table struct {
	Labels []string `json:"labels"`
	Counts [][]int  `json:"counts"`
	N      int      `json:"n"`
}

// NewTable counts pairs of the given labels, which stand in the order of their
// scale: weights count steps of it. A label that is not among them is refused.
func NewTable(labels []string, pairs []Pair) (*Table, error) {
	at := make(map[string]int, len(labels))
	t := &Table{Labels: slices.Clone(labels), Counts: make([][]int, len(labels))}
	for i, l := range labels {
		if _, twice := at[l]; twice {
			return nil, fmt.Errorf("the label %q is listed twice", l)
		}
		at[l] = i
		t.Counts[i] = make([]int, len(labels))
	}
	for _, p := range pairs {
		i, ok := at[p.First]
		j, ok2 := at[p.Second]
		if !ok || !ok2 {
			return nil, fmt.Errorf("found the labels %q and %q, expected two of %q", p.First, p.Second, labels)
		}
		t.Counts[i][j]++
		t.N++
	}
	return t, nil
}

// Agreed is how often both said the same.
func (t *Table) Agreed() int {
	n := 0
	for i := range t.Counts {
		n += t.Counts[i][i]
	}
	return n
}

// Rate is the share on which both said the same; 0 of an empty table.
func (t *Table) Rate() float64 {
	if t.N == 0 {
		return 0
	}
	return float64(t.Agreed()) / float64(t.N)
}

// Weights say how much of an agreement two different labels still are.
type Weights string

// The weights. Linear and quadratic ones need labels in the order of a scale.
const (
	Unweighted Weights = "unweighted"
	Linear     Weights = "linear"
	Quadratic  Weights = "quadratic"
)

// weight is 1 for the same label and 0 for the two ends of the scale.
func (w Weights) weight(i, j, labels int) float64 {
	if i == j {
		return 1
	}
	apart := math.Abs(float64(i-j)) / float64(labels-1)
	switch w {
	case Linear:
		return 1 - apart
	case Quadratic:
		return 1 - apart*apart
	}
	return 0
}

// A Kappa is Cohen's kappa with the interval that covers it in 95 of 100 samples.
type Kappa struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// z95 is the normal quantile of a two-sided interval of 95 %.
const z95 = 1.959963984540054

// Kappa is Cohen's kappa (Cohen 1960, 1968) with the large-sample interval of
// Fleiss, Cohen and Everitt (1969), cut to [-1, 1]. It reports false where kappa
// is not defined: nothing was rated, or agreement by chance alone is complete, as
// when both raters used one and the same label throughout. The interval is an
// approximation that is too narrow below some fifty pairs.
func (t *Table) Kappa(w Weights) (Kappa, bool) {
	k := len(t.Labels)
	if t.N == 0 {
		return Kappa{}, false
	}
	share := func(i, j int) float64 { return float64(t.Counts[i][j]) / float64(t.N) }
	rows, columns := make([]float64, k), make([]float64, k)
	for i := range k {
		for j := range k {
			rows[i] += share(i, j)
			columns[j] += share(i, j)
		}
	}
	// The mean weight that a label meets if the other rater rolled dice.
	var observed, chance float64
	ofRow, ofColumn := make([]float64, k), make([]float64, k)
	for i := range k {
		for j := range k {
			weight := w.weight(i, j, k)
			observed += weight * share(i, j)
			chance += weight * rows[i] * columns[j]
			ofRow[i] += weight * columns[j]
			ofColumn[j] += weight * rows[i]
		}
	}
	rest := 1 - chance
	if rest < 1e-12 {
		return Kappa{}, false
	}
	value := (observed - chance) / rest
	// What one pair adds to kappa has this mean; its variance is that of kappa.
	mean := observed*chance - 2*chance + observed
	variance := 0.0
	for i := range k {
		for j := range k {
			d := w.weight(i, j, k)*rest - (ofRow[i]+ofColumn[j])*(1-observed) - mean
			variance += share(i, j) * d * d
		}
	}
	half := z95 * math.Sqrt(variance/float64(t.N)) / (rest * rest)
	return Kappa{value, max(-1, value-half), min(1, value+half)}, true
}

// Word is how Landis and Koch (1977) call a kappa: a convention, not a verdict.
func (k Kappa) Word() string {
	switch {
	case k.Value < 0:
		return "poor"
	case k.Value <= 0.2:
		return "slight"
	case k.Value <= 0.4:
		return "fair"
	case k.Value <= 0.6:
		return "moderate"
	case k.Value <= 0.8:
		return "substantial"
	}
	return "almost perfect"
}
