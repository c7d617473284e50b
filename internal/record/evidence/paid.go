package evidence

import (
	"tallystick/internal/record/cost"
	"tallystick/internal/record/digest"
)

// Paid is what calls of live models cost, whichever execution made them: those
// that were scored, and those that were cut short. It comes from the journal of
// paid calls, see docs/formats/journal.md.
type Paid struct {
	Calls        int       `json:"calls"` // that a provider answered, and whose cost is known
	CostMicroUSD int64     `json:"cost_microdollars"`
	Journal      digest.ID `json:"journal"` // head of the journal when this was counted
	// Refused are calls that got an error status, which providers do not bill.
	Refused int `json:"refused_calls,omitempty"`
	// Unknown are calls that were sent and of which the runner does not know
	// whether they were billed, or how much: UnknownMicroUSD is the most that
	// they can have cost.
	Unknown         int   `json:"unknown_calls,omitempty"`
	UnknownMicroUSD int64 `json:"unknown_ceiling_microdollars,omitempty"`
}

// Most is the most that the calls can have cost together.
func (p *Paid) Most() int64 { return p.CostMicroUSD + p.UnknownMicroUSD }

// Cost is what was paid; the calls of unknown cost are unpriced.
func (p *Paid) Cost() cost.Cost { return cost.Of(p.CostMicroUSD, int64(p.Unknown)) }
