package evidence

import "tallystick/internal/record/cost"

// Cost is what the case cost, as far as its record tells.
func (c *CaseScored) Cost() cost.Cost {
	proof := PricedProof{Vantage: c.Vantage, Provenance: c.Provenance}
	if c.Paid != nil {
		proof.Live, proof.UnknownCalls = true, int64(c.Paid.Unknown)
	}
	if c.Cached != nil {
		proof.CachedReplies = int64(c.Cached.Replies)
	}
	return CostOf(c.CostMicroUSD, c.Unpriced, proof)
}

// Cost is what the attempt cost, as far as its end tells. Of an end from before
// unpriced calls were counted all that is known is the least.
func (f *AttemptFinished) Cost() cost.Cost {
	if f.Unpriced == nil {
		return cost.Cost{MicroUSD: f.CostMicroUSD, Untold: 1}
	}
	return cost.Cost{MicroUSD: f.CostMicroUSD, Unpriced: *f.Unpriced, Untold: f.CostUntold}
}

// CostOf is the cost of a record: with the unpriced calls that it counts, or, if it
// does not count them, by what else it proves.
func CostOf(microUSD int64, unpriced *int64, p PricedProof) cost.Cost {
	c := cost.Cost{MicroUSD: microUSD}
	if unpriced != nil {
		c.Unpriced = *unpriced
	}
	if !p.sees() || unpriced == nil && !p.proves() {
		c.Untold = 1
	}
	return c
}

// A PricedProof is what a case.scored record says about the calls of its case beside
// their cost.
type PricedProof struct {
	Vantage, Provenance         string
	Live                        bool // it counts what was paid
	UnknownCalls, CachedReplies int64
}

// sees reports whether the vantage shows every call. Package vantage has the table, and
// a test holds the two together.
func (p PricedProof) sees() bool { return p.Vantage == "inside" || p.Vantage == "gateway" }

// proves reports whether every call must have had a price, in a record that does not
// count those without: each was answered by a reply that a person wrote with its cost,
// or by a provider at a known cost; or there was nothing that could answer. A recording
// may have calls without a cost, which earlier versions counted as nothing.
func (p PricedProof) proves() bool {
	answered := p.Provenance == "" || p.Provenance == "authored" || p.Live && p.CachedReplies == 0
	return answered && p.UnknownCalls == 0
}
