package history

import (
	"fmt"
	"math"

	"tallystick/internal/record/cost"
	"tallystick/internal/record/evidence"
)

// Paid is what calls of live models cost, those of executions that were cut short
// and those of the judge included.
type Paid struct {
	Calls             int     `json:"calls"`
	CostUSD           float64 `json:"cost_usd"`
	RefusedCalls      int     `json:"refused_calls,omitempty"` // answered with an error status
	UnknownCalls      int     `json:"unknown_calls"`           // sent, and not known whether they were billed, or how much
	UnknownCeilingUSD float64 `json:"unknown_ceiling_usd"`
}

// PaidOf adds up what records say that was paid; nil if none of them says.
func PaidOf(all ...*evidence.Paid) *Paid {
	var sum evidence.Paid
	known := false
	for _, p := range all {
		if p == nil {
			continue
		}
		known = true
		sum.Calls += p.Calls
		sum.CostMicroUSD += p.CostMicroUSD
		sum.Refused += p.Refused
		sum.Unknown += p.Unknown
		sum.UnknownMicroUSD += p.UnknownMicroUSD
	}
	if !known {
		return nil
	}
	return &Paid{sum.Calls, float64(sum.CostMicroUSD) / 1e6, sum.Refused, sum.Unknown, float64(sum.UnknownMicroUSD) / 1e6}
}

// PaidBy adds up what attempts paid; nil if none of them was live and has ended.
func PaidBy(attempts ...*Attempt) *Paid {
	var all []*evidence.Paid
	for _, a := range attempts {
		if a.Finished != nil {
			all = append(all, a.Finished.Paid)
		}
	}
	return PaidOf(all...)
}

// Cost is what was paid; the calls of unknown outcome are unpriced.
func (p *Paid) Cost() cost.Cost {
	return cost.Of(int64(math.Round(p.CostUSD*1e6)), int64(p.UnknownCalls))
}

// Beside says what was paid, if that is more than what is said of the scored
// executions; else it is "".
func (p *Paid) Beside(scored cost.Cost) string {
	if p == nil || p.Calls+p.UnknownCalls == 0 || p.UnknownCeilingUSD == 0 && scored == p.Cost() {
		return ""
	}
	text := fmt.Sprintf("$%.6f for %d calls by every execution and the judge", p.CostUSD, p.Calls)
	if p.UnknownCalls > 0 {
		text += fmt.Sprintf("; %d more of unknown cost", p.UnknownCalls)
	}
	if p.UnknownCeilingUSD > 0 {
		text += fmt.Sprintf(", at most $%.6f for those with a price", p.UnknownCeilingUSD)
	}
	if scored.Untold > 0 {
		text += "; what the agent paid elsewhere is not known"
	}
	return text
}
