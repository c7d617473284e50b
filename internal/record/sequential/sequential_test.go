package sequential

import (
	"math"
	"math/rand/v2"
	"testing"
)

var example = Test{P0: 0.6, P1: 0.8, Alpha: 0.05, Beta: 0.1}

// simulate runs random sequences at a solve rate and returns how often the test said
// what, and how many cases it needed on average.
func simulate(t Test, p float64, runs, most int, seed uint64) (p1, p0 float64, mean float64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	for range runs {
		e := t.Run(func(yield func(bool) bool) {
			for i := 0; i < most && yield(rng.Float64() < p); i++ {
			}
		})
		mean += float64(e.N) / float64(runs)
		switch e.Decision {
		case AtLeastP1:
			p1 += 1 / float64(runs)
		case AtMostP0:
			p0 += 1 / float64(runs)
		}
	}
	return p1, p0, mean
}

// In 2,000 random sequences each the stated error rates hold, within three standard
// errors, and the number of cases is about what docs say.
func TestErrorRatesHold(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and one goroutine has nothing to race with")
	}
	const runs = 2000
	for _, test := range []Test{example, {0.5, 0.7, 0.05, 0.05}, {0.8, 0.9, 0.05, 0.1}, {0.2, 0.4, 0.01, 0.2}} {
		room := func(rate float64) float64 { return rate + 3*math.Sqrt(rate*(1-rate)/runs) }
		falseP1, _, atP0 := simulate(test, test.P0, runs, 100_000, 1)
		_, falseP0, atP1 := simulate(test, test.P1, runs, 100_000, 2)
		if falseP1 > room(test.Alpha) || falseP0 > room(test.Beta) {
			t.Errorf("%+v: said p1 at p0 in %.4f, said p0 at p1 in %.4f", test, falseP1, falseP0)
		}
		// Wald's approximation leaves out by how much the last step overshoots.
		for _, n := range [][2]float64{{atP0, test.Expected(test.P0)}, {atP1, test.Expected(test.P1)}} {
			if n[0] < 0.95*n[1] || n[0] > 1.3*n[1] {
				t.Errorf("%+v: needed %.1f cases on average, Expected says %.1f", test, n[0], n[1])
			}
		}
		t.Logf("%+v: %.4f and %.4f wrong; %.1f and %.1f cases, Wald says %.1f and %.1f", test, falseP1, falseP0, atP0, atP1, test.Expected(test.P0), test.Expected(test.P1))
	}
}

// When cases run out there is no decision, and the error rates are still kept.
func TestErrorRatesHoldWhenCasesRunOut(t *testing.T) {
	falseP1, saidP0, _ := simulate(example, example.P0, 2000, 30, 3)
	_, falseP0, _ := simulate(example, example.P1, 2000, 30, 4)
	if falseP1 > 0.05+0.015 || falseP0 > 0.1+0.02 || saidP0+falseP1 > 0.95 {
		t.Errorf("said p1 at p0 in %.4f, p0 at p1 in %.4f; decided %.4f", falseP1, falseP0, saidP0+falseP1)
	}
}

func TestWhereItStops(t *testing.T) {
	all := func(passed bool) func(func(bool) bool) {
		return func(yield func(bool) bool) {
			for i := 0; i < 100 && yield(passed); i++ {
			}
		}
	}
	// log(0.9/0.05) / log(0.8/0.6) = 10.05; log(0.1/0.95) / log(0.2/0.4) = 3.25.
	if got := example.Run(all(true)); got != (End{AtLeastP1, 11, 11}) {
		t.Errorf("only passes: %+v", got)
	}
	if got := example.Run(all(false)); got != (End{AtMostP0, 4, 0}) {
		t.Errorf("only failures: %+v", got)
	}
	if got := example.Run(func(func(bool) bool) {}); got != (End{Undecided, 0, 0}) {
		t.Errorf("nothing: %+v", got)
	}
}
