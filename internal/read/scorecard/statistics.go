package scorecard

import (
	"math"
	"math/bits"
	"slices"
)

// Z95 is the standard normal quantile of 0.975: the half-width of a 95 %
// interval in standard errors.
const Z95 = 1.959963984540054

// Seed starts the generator of every resampling. It is the same for all, so
// that the operator cannot choose one: the bytes "tallysti" as a big-endian number.
const Seed uint64 = 0x74616c6c79737469

const (
	// Resamples is how many times the bootstrap draws a sample.
	Resamples = 1000
	// MaxResampled is the largest sample that is resampled. Beyond it the
	// normal interval is used, which then differs by less than is printed.
	MaxResampled = 20_000
	// MinSamples is the smallest sample that a bootstrap says anything about.
	MinSamples = 5
)

// Wilson is the score interval of a rate of successes out of n (Wilson 1927),
// clamped to [0,1]. With n of 0 nothing is known: [0,1].
func Wilson(successes, n int, z float64) (lo, hi float64) {
	if n <= 0 {
		return 0, 1
	}
	return WilsonRate(float64(successes)/float64(n), n, z)
}

// WilsonRate is [Wilson] for a rate p over n samples that need not be a whole
// number of successes, as when the samples repeat or are scores.
func WilsonRate(p float64, n int, z float64) (lo, hi float64) {
	if n <= 0 {
		return 0, 1
	}
	m, zz := float64(n), z*z
	centre := p + zz/(2*m)
	half := z * math.Sqrt(p*(1-p)/m+zz/(4*m*m))
	scale := 1 + zz/m
	lo, hi = max(0, (centre-half)/scale), min(1, (centre+half)/scale)
	// At the edges the formula gives the edge but for rounding.
	if p == 0 {
		lo = 0
	}
	if p == 1 {
		hi = 1
	}
	return lo, hi
}

// Mean is the arithmetic mean of the values, in the order of their size so
// that the order they come in does not change the last digit. It is 0 for none.
func Mean(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	return sum(sorted) / float64(len(sorted))
}

func sum(values []float64) float64 {
	s := 0.0
	for _, v := range values {
		s += v
	}
	return s
}

// BCa is the 95 % interval of the mean of scores in [0,1]: the bias-corrected
// and accelerated bootstrap (Efron 1987).
//
//   - Under [MinSamples] values the lower bound is 0 and the upper 1: so few
//     cases show nothing.
//   - If all values are equal a resample is the sample again and the bootstrap
//     would claim certainty; then it is [WilsonRate].
//   - Over [MaxResampled] values it is the normal interval.
//
// The values are sorted first, so their order does not matter.
func BCa(values []float64, seed uint64) (lo, hi float64) {
	n := len(values)
	if n < MinSamples {
		return 0, 1
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	if sorted[0] == sorted[n-1] {
		return WilsonRate(sorted[0], n, Z95)
	}
	lo, hi = bootstrap(sorted, seed)
	return max(0, lo), min(1, hi)
}

// PairedBootstrap is the 95 % interval of the mean of differences in [-1,1],
// one for each pair: [BCa] where resampling says something.
//
// Under [MinSamples] pairs it is [-1,1]. If all differences are the same d, at
// least a share w of all pairs has it, w being Wilson's lower bound of n
// successes in n; the others may have any, so it is d·w ∓ (1-w).
func PairedBootstrap(differences []float64, seed uint64) (lo, hi float64) {
	n := len(differences)
	if n < MinSamples {
		return -1, 1
	}
	sorted := slices.Clone(differences)
	slices.Sort(sorted)
	if d := sorted[0]; d == sorted[n-1] {
		w, _ := Wilson(n, n, Z95)
		return max(-1, d*w-(1-w)), min(1, d*w+(1-w))
	}
	lo, hi = bootstrap(sorted, seed)
	return max(-1, lo), min(1, hi)
}

// bootstrap is the BCa interval of the mean of sorted values that are not all
// equal, or beyond [MaxResampled] the normal one.
func bootstrap(sorted []float64, seed uint64) (lo, hi float64) {
	n := len(sorted)
	mean := sum(sorted) / float64(n)

	// Jackknife: leaving out x moves the mean by (mean-x)/(n-1), so with
	// d = mean(jack) - jack, d is proportional to x - mean, and the factor
	// cancels out of the acceleration.
	var squares, cubes float64
	for _, x := range sorted {
		d := x - mean
		squares += float64(d * d) // the conversion keeps every machine from fusing the two operations
		cubes += float64(d * d * d)
	}
	if n > MaxResampled {
		half := Z95 * math.Sqrt(squares/float64(n-1)/float64(n))
		return mean - half, mean + half
	}
	acceleration := cubes / (6 * math.Pow(squares, 1.5))

	g := generator(seed)
	means := make([]float64, Resamples)
	for b := range means {
		s := 0.0
		for range n {
			s += sorted[g.below(uint64(n))]
		}
		means[b] = s / float64(n)
	}
	slices.Sort(means)

	// The share of resampled means below the mean, ties counting half, kept
	// away from 0 and 1, where the normal quantile is infinite.
	below, _ := slices.BinarySearch(means, mean)
	notAbove := below
	for notAbove < len(means) && means[notAbove] == mean {
		notAbove++
	}
	share := float64(below+notAbove) / 2 / Resamples
	share = min(max(share, 1.0/(2*Resamples)), 1-1.0/(2*Resamples))
	z0 := normalQuantile(share)
	at := func(z float64) float64 {
		return quantile(means, normalCDF(z0+(z0+z)/(1-acceleration*(z0+z))))
	}
	return at(-Z95), at(Z95)
}

// quantile interpolates between the two values around p·(n-1) (type 7 of
// Hyndman and Fan, which most tools use).
func quantile(sorted []float64, p float64) float64 {
	h := p * float64(len(sorted)-1)
	i := min(max(int(math.Floor(h)), 0), len(sorted)-1)
	j := min(i+1, len(sorted)-1)
	return sorted[i] + (h-float64(i))*(sorted[j]-sorted[i])
}

// Percentile is the value at index floor(p·n/100) of the
// ascending values, clamped to the last. It is 0 for none.
func Percentile(sorted []int64, p int) int64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(p*len(sorted)/100, len(sorted)-1)]
}

func normalCDF(z float64) float64      { return 0.5 * math.Erfc(-z/math.Sqrt2) }
func normalQuantile(p float64) float64 { return -math.Sqrt2 * math.Erfcinv(2*p) }

// PassAtK estimates the chance that at least one of k executions passes, given
// c passes in n (Chen et al. 2021): 1 - C(n-c,k)/C(n,k). It is NaN if k is not
// between 1 and n.
func PassAtK(n, c, k int) float64 {
	if !drawable(n, c, k) {
		return math.NaN()
	}
	return 1 - allOf(n, n-c, k)
}

// PassHatK estimates the chance that all of k executions pass, given c passes
// in n: C(c,k)/C(n,k). It is NaN if k is not between 1 and n.
func PassHatK(n, c, k int) float64 {
	if !drawable(n, c, k) {
		return math.NaN()
	}
	return allOf(n, c, k)
}

func drawable(n, c, k int) bool { return k >= 1 && k <= n && c >= 0 && c <= n }

// allOf is C(m,k)/C(n,k): the chance that k drawn out of n are all among m.
func allOf(n, m, k int) float64 {
	p := 1.0
	for i := range k {
		p *= float64(max(m-i, 0)) / float64(n-i)
	}
	return p
}

// McNemar is the exact two-sided test of b against c discordant pairs: twice
// the binomial probability, at one half, of the smaller count or fewer, at
// most 1. Without discordant pairs it is 1.
func McNemar(b, c int) float64 {
	n, k := b+c, min(b, c)
	if n == 0 {
		return 1
	}
	// C(n,i)/2^n by logarithms: the numbers themselves overflow beyond 1,000.
	all, _ := math.Lgamma(float64(n + 1))
	p := 0.0
	for i := 0; i <= k; i++ {
		left, _ := math.Lgamma(float64(i + 1))
		right, _ := math.Lgamma(float64(n - i + 1))
		p += math.Exp(all - left - right - float64(n)*math.Ln2)
	}
	return min(1, 2*p)
}

// PairedRates is the 95 % interval of how much larger the rate of a is than that of b
// over the same n cases, of which both passed some and each passed others alone:
// Newcombe's (1998, method 10), which joins the Wilson intervals of the two rates by
// their correlation.
func PairedRates(both, onlyA, onlyB, n int) (lo, hi float64) {
	if n <= 0 {
		return -1, 1
	}
	a, b, size := float64(both+onlyA), float64(both+onlyB), float64(n)
	p, q := a/size, b/size
	loP, hiP := Wilson(both+onlyA, n, Z95)
	loQ, hiQ := Wilson(both+onlyB, n, Z95)
	phi := 0.0
	if of := a * (size - a) * b * (size - b); of > 0 {
		shared := float64(both)*float64(n-both-onlyA-onlyB) - float64(onlyA)*float64(onlyB)
		if shared > 0 {
			shared = max(0, shared-size/2)
		}
		phi = shared / math.Sqrt(of)
	}
	joined := func(x, y float64) float64 { return math.Sqrt(max(0, x*x-2*phi*x*y+y*y)) }
	return max(-1, p-q-joined(p-loP, hiQ-q)), min(1, p-q+joined(hiP-p, q-loQ))
}

// ClusteredSE is the standard error of the mean over all values when values of
// one cluster (the repetitions of one case) depend on each other:
//
//	sqrt( k/(k-1) · Σ over clusters ( Σ in the cluster (x - mean) )² ) / N
//
// with k clusters and N values. It is 0 for fewer than two clusters, of which
// nothing can be said.
func ClusteredSE(clusters [][]float64) float64 {
	k, n, total := 0, 0, 0.0
	for _, c := range clusters {
		if len(c) > 0 {
			k++
			n += len(c)
			total += sum(c)
		}
	}
	if k < 2 {
		return 0
	}
	mean, squares := total/float64(n), 0.0
	for _, c := range clusters {
		d := sum(c) - float64(len(c))*mean
		squares += float64(d * d) // the conversion keeps every machine from fusing the two operations
	}
	return math.Sqrt(float64(k)/float64(k-1)*squares) / float64(n)
}

// A generator is SplitMix64 (Steele, Lea, Flood 2014): small enough to be
// written again from the page that documents it.
type generator uint64

func (g *generator) next() uint64 {
	*g += 0x9e3779b97f4a7c15
	z := uint64(*g)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below draws from 0 to n-1: the high word of the product of the draw and n.
// The bias is less than n/2^64.
func (g *generator) below(n uint64) uint64 {
	hi, _ := bits.Mul64(g.next(), n)
	return hi
}
