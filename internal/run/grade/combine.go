package grade

import (
	"fmt"
	"math/big"
)

// A combination adds up the checks of an all, any, not or weighted.
//
// Checks of weight 0 are left out. A check that is unscored leaves the whole
// unscored unless it makes no difference, whatever it would have said:
//
//	all       another check did not pass: it fails
//	any       another check passed: it passes
//	weighted  the threshold is reached without it, or out of reach even with
//	          full marks for it; the score is then the mean of the others
//	not       never
//
// Otherwise an agent whose answer fails a plain check could confuse a judge and
// be unscored instead of failed.
type combination struct {
	threshold *big.Rat // of a weighted; nil asks that every check passes

	passed, mismatched, unusable, unscored, skipped int

	codes   []string
	reasons []string // of the unscored
	first   string   // why the first that did not pass did not

	sum, weight, open *big.Rat // of scores times weights, of weights with and without a score
}

func (c *combination) add(weight *big.Rat, t tally) {
	if weight.Sign() == 0 {
		return
	}
	if t.skipped {
		c.skipped++
		if c.first == "" {
			c.first = t.why
		}
		return
	}
	if c.sum == nil {
		c.sum, c.weight, c.open = new(big.Rat), new(big.Rat), new(big.Rat)
	}
	if t.outcome == Unscored {
		c.unscored++
		c.open.Add(c.open, weight)
		c.reasons = append(c.reasons, t.why)
		return
	}
	c.weight.Add(c.weight, weight)
	c.sum.Add(c.sum, new(big.Rat).Mul(weight, decimal(t.score)))
	if t.outcome == Passed {
		c.passed++
		return
	}
	if t.outcome == Unusable {
		c.unusable++
	} else {
		c.mismatched++
	}
	c.codes = append(c.codes, t.codes...)
	if c.first == "" {
		c.first = t.why
	}
}

func (c *combination) all() tally {
	failed := c.mismatched + c.unusable
	return c.decide(failed == 0, c.unscored > 0 && failed == 0, c.mismatched == 0)
}

func (c *combination) any() tally {
	return c.decide(c.passed > 0, c.unscored > 0 && c.passed == 0, c.unusable > 0)
}

func (c *combination) summary() string {
	return fmt.Sprintf("%d of %d checks pass", c.passed, c.passed+c.mismatched+c.unusable+c.unscored)
}

// decide ends an all or any. Unusable says that it fails only because some
// check could not compare, so that a not around it does not pass.
func (c *combination) decide(pass, open, unusable bool) tally {
	switch {
	case open:
		return tally{verdict: unscored("%s", c.reasons[0])}
	case pass:
		return tally{verdict: passed("%s", c.summary())}
	}
	return c.fail(0, c.summary(), unusable)
}

func (c *combination) fail(score float64, why string, unusable bool) tally {
	if c.first != "" {
		why += "; the first that does not: " + c.first
	}
	t := tally{verdict: verdict{Mismatch, score, CodeMismatch, why}, codes: c.codes}
	if unusable {
		t.outcome = Unusable
		if len(c.codes) > 0 {
			t.code = c.codes[0]
		}
	}
	return t
}

func validateNot(at place, r *Rule) error {
	if len(r.Checks) != 1 {
		return at.in("checks").bad("has %d checks, expected the one that must not match", len(r.Checks))
	}
	return nil
}

// not passes only when the check looked at a value and found it different.
func (c *combination) not() tally {
	switch {
	case c.unscored > 0:
		return tally{verdict: unscored("%s", c.reasons[0])}
	case c.passed > 0:
		return single(mismatch("the check matches, and it must not"))
	case c.unusable > 0:
		return c.fail(0, "the check could not compare", true)
	}
	return tally{verdict: passed("the check does not match: %s", c.first)}
}

func (c *combination) mean() tally {
	if c.threshold == nil {
		return c.everyCheck()
	}
	total := new(big.Rat).Add(c.weight, c.open)
	needed := new(big.Rat).Mul(c.threshold, total)
	best := new(big.Rat).Add(c.sum, c.open)
	reached, reachable := c.sum.Cmp(needed) >= 0, best.Cmp(needed) >= 0
	if c.unscored > 0 && (reachable && !reached || c.weight.Sign() == 0) {
		return tally{verdict: unscored("%s", c.reasons[0])}
	}
	score, _ := new(big.Rat).Quo(c.sum, c.weight).Float64()
	threshold, _ := c.threshold.Float64()
	why := fmt.Sprintf("%s; the weighted mean is %v, needed %v", c.summary(), score, threshold)
	if !reached {
		return c.fail(score, why, c.unusable > 0)
	}
	return tally{verdict: verdict{Passed, score, "", why}}
}

// everyCheck ends the list of a whole document: it passes when each check does,
// by whatever threshold of its own, and the score is the weighted mean.
func (c *combination) everyCheck() tally {
	failed := c.mismatched + c.unusable
	if c.unscored > 0 && failed == 0 {
		return tally{verdict: unscored("%s", c.reasons[0])}
	}
	score, _ := new(big.Rat).Quo(c.sum, c.weight).Float64()
	why := fmt.Sprintf("%s; the weighted mean is %v", c.summary(), score)
	if failed > 0 {
		return c.fail(score, why, c.unusable > 0)
	}
	return tally{verdict: verdict{Passed, score, "", why}}
}
