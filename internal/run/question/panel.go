package question

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
)

// The ways to combine the opinions of a panel.
const (
	Majority  = "majority"  // more than half pass; the score is the share that do
	Mean      = "mean"      // the mean of the scores
	Median    = "median"    // the median; of an even number, the lower of the two in the middle
	Unanimous = "unanimous" // all pass; the score is the lowest
)

// Combinations lists them.
func Combinations() []string { return []string{Majority, Mean, Median, Unanimous} }

// An Opinion is what one judge of a panel said.
type Opinion struct {
	Score  float64
	Choice string // of a scale; "" if there is none
}

// A Panel is what the opinions of several judges come to.
type Panel struct {
	Score  float64
	Passed bool
	// Differ is the share of pairs of judges that differ: in their choice, or,
	// without a scale, in whether the answer passes.
	Differ float64
	// Range is the distance between the highest score and the lowest.
	Range float64
}

// Combine comes to the result of a panel with at least one opinion. A tie of a
// majority does not pass.
func Combine(how string, opinions []Opinion, threshold float64) (Panel, error) {
	if len(opinions) == 0 {
		return Panel{}, fmt.Errorf("there is no opinion to combine")
	}
	scores := make([]float64, len(opinions))
	pass, sum := 0, new(big.Rat)
	for i, o := range opinions {
		scores[i] = o.Score
		sum.Add(sum, decimal(o.Score))
		if o.Score >= threshold {
			pass++
		}
	}
	slices.Sort(scores)
	n := len(scores)
	p := Panel{Range: scores[n-1] - scores[0], Differ: differ(opinions, threshold)}
	switch how {
	case Majority:
		p.Score, p.Passed = float64(pass)/float64(n), 2*pass > n
	case Mean:
		mean := sum.Quo(sum, big.NewRat(int64(n), 1))
		p.Score, _ = mean.Float64()
		p.Passed = mean.Cmp(decimal(threshold)) >= 0
	case Median:
		p.Score = scores[(n-1)/2]
		p.Passed = p.Score >= threshold
	case Unanimous:
		p.Score, p.Passed = scores[0], pass == n
	default:
		return Panel{}, fmt.Errorf("combine is %.40q", how)
	}
	return p, nil
}

// decimal is a score as it is written: three times 0.7 has the mean 0.7.
func decimal(x float64) *big.Rat {
	r, ok := new(big.Rat).SetString(strconv.FormatFloat(x, 'g', -1, 64))
	if !ok {
		return new(big.Rat)
	}
	return r
}

func differ(opinions []Opinion, threshold float64) float64 {
	pairs, different := 0, 0
	for i, a := range opinions {
		for _, b := range opinions[i+1:] {
			pairs++
			if a.Choice != b.Choice || a.Choice == "" && (a.Score >= threshold) != (b.Score >= threshold) {
				different++
			}
		}
	}
	if pairs == 0 {
		return 0
	}
	return float64(different) / float64(pairs)
}
