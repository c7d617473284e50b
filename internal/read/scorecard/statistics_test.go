package scorecard

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s is %.9f, want %.9f", what, got, want)
	}
}

// The intervals of Newcombe, Statistics in Medicine 17 (1998) 857-872, table I,
// method 3, which are Wilson's.
func TestWilsonAgreesWithThePublishedTable(t *testing.T) {
	for _, tt := range []struct {
		successes, n int
		lo, hi       float64
	}{
		{81, 263, 0.2553, 0.3662},
		{15, 148, 0.0624, 0.1605},
		{0, 20, 0, 0.1611},
		{1, 29, 0.0061, 0.1718},
	} {
		lo, hi := Wilson(tt.successes, tt.n, Z95)
		near(t, "lower bound", lo, tt.lo, 5e-5)
		near(t, "upper bound", hi, tt.hi, 5e-5)
	}
}

func TestFivePerfectCasesDoNotProvePerfection(t *testing.T) {
	lo, hi := Wilson(5, 5, Z95)
	near(t, "lower bound", lo, 0.565518, 1e-6) // 5/(5+1.96²)
	if hi != 1 {
		t.Errorf("upper bound %v", hi)
	}
	blo, bhi := BCa([]float64{1, 1, 1, 1, 1}, Seed)
	if blo != lo || bhi != hi {
		t.Errorf("BCa of equal scores is [%v,%v], want Wilson's [%v,%v]", blo, bhi, lo, hi)
	}
	if lo, hi := BCa([]float64{1, 1, 1, 1}, Seed); lo != 0 || hi != 1 {
		t.Errorf("of four cases [%v,%v], want [0,1]", lo, hi)
	}
	if lo, hi := Wilson(0, 0, Z95); lo != 0 || hi != 1 {
		t.Errorf("of no cases [%v,%v], want [0,1]", lo, hi)
	}
}

// The interval holds the rate and narrows with n.
func TestWilsonBoundsAreOrdered(t *testing.T) {
	for n := 1; n < 60; n++ {
		for k := 0; k <= n; k++ {
			lo, hi := Wilson(k, n, Z95)
			p := float64(k) / float64(n)
			if !(0 <= lo && lo <= p && p <= hi && hi <= 1) {
				t.Fatalf("%d of %d: [%v,%v] does not hold %v", k, n, lo, hi, p)
			}
			if wlo, whi := Wilson(k*10, n*10, Z95); whi-wlo >= hi-lo {
				t.Fatalf("%d of %d: ten times the sample is not narrower", k, n)
			}
			mlo, mhi := Wilson(n-k, n, Z95)
			near(t, "mirror", mlo, 1-hi, 1e-12)
			near(t, "mirror", mhi, 1-lo, 1e-12)
		}
	}
}

// The generator is SplitMix64: its published first outputs for the seed 1234567.
func TestGeneratorIsSplitMix64(t *testing.T) {
	g := generator(1234567)
	for i, want := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821} {
		if got := g.next(); got != want {
			t.Errorf("output %d is %d, want %d", i, got, want)
		}
	}
}

// Computed once by a separate program in Python from docs/formats/scorecard.md:
// the jackknife from its definition, the normal distribution of its library.
func TestBCaAgreesWithASecondImplementation(t *testing.T) {
	ramp := slices.Repeat([]float64{1}, 20)
	for i := range 11 {
		ramp = append(ramp, 0.1*float64(i))
	}
	for _, tt := range []struct {
		name   string
		values []float64
		lo, hi float64
	}{
		{"ten scores", []float64{0, 0.25, 0.5, 0.75, 1, 1, 1, 1, 0.5, 0}, 0.325, 0.825},
		{"57 of 100", append(slices.Repeat([]float64{1}, 57), slices.Repeat([]float64{0}, 43)...), 0.47, 0.67},
		{"skewed", ramp, 0.6896482113850213, 0.9},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lo, hi := BCa(tt.values, Seed)
			near(t, "lower bound", lo, tt.lo, 1e-9)
			near(t, "upper bound", hi, tt.hi, 1e-9)
			slices.Reverse(tt.values)
			if rlo, rhi := BCa(tt.values, Seed); rlo != lo || rhi != hi {
				t.Errorf("another order of the values gives [%v,%v], want [%v,%v]", rlo, rhi, lo, hi)
			}
		})
	}
	d := append(append(slices.Repeat([]float64{0}, 80), slices.Repeat([]float64{1}, 15)...), slices.Repeat([]float64{-1}, 5)...)
	lo, hi := PairedBootstrap(d, Seed)
	near(t, "lower bound of the difference", lo, 0.02, 1e-9)
	near(t, "upper bound of the difference", hi, 0.18, 1e-9)
}

// Of many samples of 40, about 95 in 100 intervals hold the true mean.
func TestBCaCoversTheMean(t *testing.T) {
	g := rand.New(rand.NewPCG(7, 7))
	const trials, n = 300, 40
	held := 0
	for range trials {
		values := make([]float64, n)
		for i := range values {
			values[i] = math.Sqrt(g.Float64()) // mean 2/3
		}
		if lo, hi := BCa(values, Seed); lo <= 2.0/3 && 2.0/3 <= hi {
			held++
		}
	}
	if held < trials*90/100 || held > trials*99/100 {
		t.Errorf("%d of %d intervals hold the mean", held, trials)
	}
}

// Where resampling stops the normal interval takes over without a jump.
func TestBCaOfALargeSampleIsTheNormalInterval(t *testing.T) {
	values := make([]float64, MaxResampled+2)
	for i := range values {
		values[i] = float64(i % 2)
	}
	lo, hi := BCa(values, Seed)
	half := Z95 * 0.5 / math.Sqrt(float64(len(values)))
	near(t, "lower bound", lo, 0.5-half, 1e-6)
	near(t, "upper bound", hi, 0.5+half, 1e-6)
	lo, hi = BCa(values[:20_000], Seed)
	half = Z95 * 0.5 / math.Sqrt(20_000)
	near(t, "resampled lower bound", lo, 0.5-half, half/10)
	near(t, "resampled upper bound", hi, 0.5+half, half/10)
}

func TestEqualDifferencesAreNotCertain(t *testing.T) {
	zeros := make([]float64, 100)
	lo, hi := PairedBootstrap(zeros, Seed)
	_, none := Wilson(0, 100, Z95) // at most so many pairs could differ
	near(t, "lower bound", lo, -none, 1e-12)
	near(t, "upper bound", hi, none, 1e-12)
	if lo, hi := PairedBootstrap(zeros[:4], Seed); lo != -1 || hi != 1 {
		t.Errorf("of four pairs [%v,%v], want [-1,1]", lo, hi)
	}
}

// Exact rational arithmetic in Python; 6 against 16 is the example of Fagerland,
// Lydersen and Laake, BMC Medical Research Methodology 13:91 (2013), 0.0525.
func TestMcNemarIsTheExactBinomialTest(t *testing.T) {
	for _, tt := range []struct {
		b, c int
		want float64
	}{
		{0, 0, 1}, {1, 0, 1}, {0, 1, 1}, {5, 1, 0.21875}, {2, 8, 0.109375}, {10, 3, 0.09228515625},
		{6, 16, 0.052478790283203125}, {59, 6, 4.964650327128617e-12}, {121, 59, 4.434449263755176e-06},
		{600, 500, 0.0028195449914364275}, {3000, 2800, 0.008969436001193416},
	} {
		if got := McNemar(tt.b, tt.c); !(math.Abs(got-tt.want) <= 1e-9*max(tt.want, 1e-6)) {
			t.Errorf("McNemar(%d, %d) is %v, want %v", tt.b, tt.c, got, tt.want)
		}
		if McNemar(tt.b, tt.c) != McNemar(tt.c, tt.b) {
			t.Errorf("McNemar(%d, %d) depends on the order", tt.b, tt.c)
		}
	}
}

// By counting all draws of k out of n, for every small n, c and k.
func TestPassAtKCountsDraws(t *testing.T) {
	for n := 1; n <= 7; n++ {
		for c := 0; c <= n; c++ {
			for k := 1; k <= n; k++ {
				draws, some, all := 0, 0, 0
				for set := range 1 << n {
					passes, size := 0, 0
					for i := range n {
						if set>>i&1 == 1 {
							size++
							if i < c {
								passes++
							}
						}
					}
					if size == k {
						draws++
						if passes > 0 {
							some++
						}
						if passes == k {
							all++
						}
					}
				}
				near(t, "pass@k", PassAtK(n, c, k), float64(some)/float64(draws), 1e-12)
				near(t, "pass^k", PassHatK(n, c, k), float64(all)/float64(draws), 1e-12)
			}
		}
	}
	for _, v := range []float64{PassAtK(3, 1, 0), PassAtK(3, 1, 4), PassHatK(3, 4, 1), PassHatK(0, 0, 1)} {
		if !math.IsNaN(v) {
			t.Errorf("a draw that cannot be made has the chance %v", v)
		}
	}
}

func TestClusteredErrorsCountCasesAndNotExecutions(t *testing.T) {
	near(t, "standard error", ClusteredSE([][]float64{{1, 1, 0}, {0, 0, 0}, {1, 1, 1}, {1, 0, 0}}), 0.2151657414559676, 1e-12)
	// Running every case ten times over does not make the error smaller.
	once := [][]float64{{1}, {0}, {1}, {1}, {0}}
	var tenfold [][]float64
	for _, c := range once {
		tenfold = append(tenfold, slices.Repeat(c, 10))
	}
	near(t, "standard error", ClusteredSE(tenfold), ClusteredSE(once), 1e-12)
	if ClusteredSE([][]float64{{1, 0}}) != 0 {
		t.Error("one cluster has an error")
	}
}

// Index floor(p·n/100), clamped, so the upper of two medians.
func TestPercentileIsTheUpperOfTwo(t *testing.T) {
	latencies := make([]int64, 20)
	for i := range latencies {
		latencies[i] = int64(100 * (i + 1))
	}
	for _, tt := range []struct {
		values []int64
		p      int
		want   int64
	}{
		{latencies, 50, 1100}, {latencies, 95, 2000}, {latencies, 100, 2000}, {latencies, 0, 100},
		{[]int64{1, 2}, 50, 2}, {[]int64{7}, 95, 7}, {nil, 50, 0},
	} {
		if got := Percentile(tt.values, tt.p); got != tt.want {
			t.Errorf("p%d of %v is %d, want %d", tt.p, tt.values, got, tt.want)
		}
	}
}

// TestPairedRatesCoversTheDifference draws pairs of runs whose rates are known: the
// interval has the difference 95 times of 100, whatever the two have in common.
func TestPairedRatesCoversTheDifference(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, tt := range []struct{ both, onlyA, onlyB float64 }{
		{0.6, 0.1, 0.1}, {0.3, 0.3, 0.2}, {0.85, 0.1, 0.02}, {0.02, 0.03, 0.05}, {0.5, 0, 0.1}, {0, 0.4, 0.5},
	} {
		const draws, n = 2000, 80
		covered := 0
		for range draws {
			var both, onlyA, onlyB int
			for range n {
				switch x := r.Float64(); {
				case x < tt.both:
					both++
				case x < tt.both+tt.onlyA:
					onlyA++
				case x < tt.both+tt.onlyA+tt.onlyB:
					onlyB++
				}
			}
			lo, hi := PairedRates(both, onlyA, onlyB, n)
			if d := tt.onlyA - tt.onlyB; lo <= d && d <= hi {
				covered++
			}
		}
		if share := float64(covered) / draws; share < 0.93 || share > 0.995 {
			t.Errorf("%+v: covered in %.3f of the draws", tt, share)
		}
	}
	// Worked by hand from the formula.
	if lo, hi := PairedRates(20, 12, 2, 50); math.Abs(lo-0.05616) > 1e-5 || math.Abs(hi-0.32921) > 1e-5 {
		t.Errorf("20, 12 and 2 of 50: %.5f to %.5f", lo, hi)
	}
	if lo, hi := PairedRates(10, 0, 0, 10); lo >= 0 || hi <= 0 {
		t.Errorf("ten cases that both passed: %.3f to %.3f", lo, hi)
	}
	if lo, hi := PairedRates(0, 0, 0, 0); lo != -1 || hi != 1 {
		t.Errorf("no cases: %.3f to %.3f", lo, hi)
	}
}
