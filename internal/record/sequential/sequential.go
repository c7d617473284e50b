// Package sequential decides after each case whether enough is known: Wald's
// sequential probability ratio test (1945) on passed or not passed.
//
// The question is registered before the run: is the solve rate p0 or less, or p1 or
// more? The test stops as soon as one answer is that much likelier than the other.
// Saying p1 where the rate is p0 happens with a probability of at most about alpha,
// saying p0 where it is p1 of at most about beta (exactly, at most alpha/(1-beta) and
// beta/(1-alpha)). If the cases run out first, nothing is decided: a decision that
// was forced would not have these error rates. Between p0 and p1 either answer may
// come.
//
// The rates hold for cases in an order that was drawn before the run, of which each
// counts once. Where a test stops depends on what it saw, so the share of cases that
// passed until then is a biased estimate of the solve rate; the decision is the
// result. Pure: no input, no output, nothing random.
package sequential

import "math"

// A Test is what is asked, and how often the answer may be wrong.
type Test struct {
	P0, P1      float64 // solve rates, P0 below P1
	Alpha, Beta float64
}

// A Decision is what a test says.
type Decision string

// The decisions. Undecided is that of a test that has not come to its end.
const (
	AtLeastP1 Decision = "p1" // the rate is not p0
	AtMostP0  Decision = "p0" // the rate is not p1
	Undecided Decision = "undecided"
)

// steps are what a pass and a failure add to the logarithm of the likelihood ratio.
func (t Test) steps() (pass, fail float64) {
	return math.Log(t.P1 / t.P0), math.Log((1 - t.P1) / (1 - t.P0))
}

// bounds are where it stops.
func (t Test) bounds() (low, high float64) {
	return math.Log(t.Beta / (1 - t.Alpha)), math.Log((1 - t.Beta) / t.Alpha)
}

// slack keeps the last bit of a logarithm, in which machines may differ, from
// deciding.
const slack = 1e-9

// After is the decision after n cases of which so many passed, if none fell before.
func (t Test) After(n, passed int) Decision {
	pass, fail := t.steps()
	low, high := t.bounds()
	ratio := float64(passed)*pass + float64(n-passed)*fail
	switch {
	case ratio >= high-slack:
		return AtLeastP1
	case ratio <= low+slack:
		return AtMostP0
	}
	return Undecided
}

// An End is where a test stopped: after N cases, of which Passed passed.
type End struct {
	Decision  Decision
	N, Passed int
}

// Run goes through outcomes in their order until the test decides or they end.
func (t Test) Run(outcomes func(yield func(passed bool) bool)) End {
	e := End{Decision: Undecided}
	for passed := range outcomes {
		e.N++
		if passed {
			e.Passed++
		}
		if e.Decision = t.After(e.N, e.Passed); e.Decision != Undecided {
			break
		}
	}
	return e
}

// Expected is how many cases the test needs on average if the solve rate is p, by
// Wald's approximation, without an end of the cases.
func (t Test) Expected(p float64) float64 {
	pass, fail := t.steps()
	low, high := t.bounds()
	drift := p*pass + (1-p)*fail
	if math.Abs(drift) < 1e-12 {
		return -low * high / (p*pass*pass + (1-p)*fail*fail)
	}
	accept := t.power(p)
	return (accept*high + (1-accept)*low) / drift
}

// power is the probability of deciding for p1 if the solve rate is p. It solves
// Wald's equation p (p1/p0)^h + (1-p) ((1-p1)/(1-p0))^h = 1 by halving.
func (t Test) power(p float64) float64 {
	pass, fail := t.steps()
	f := func(h float64) float64 { return p*math.Exp(h*pass) + (1-p)*math.Exp(h*fail) - 1 }
	// One root is 0; the other has the sign opposite to the drift.
	a, b := 1e-9, 1e-9
	if p*pass+(1-p)*fail > 0 {
		for b = -1; f(b) < 0; b *= 2 {
		}
		a = -1e-9
	} else {
		for b = 1; f(b) < 0; b *= 2 {
		}
	}
	for range 200 {
		if middle := (a + b) / 2; f(middle) < 0 {
			a = middle
		} else {
			b = middle
		}
	}
	low, high := t.bounds()
	return (1 - math.Exp(b*low)) / (math.Exp(b*high) - math.Exp(b*low))
}
