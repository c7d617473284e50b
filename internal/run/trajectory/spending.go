package trajectory

import "tallystick/internal/record/cost"

// A Spending adds up what events say was spent. It is the one way to do so: a model
// call that has neither a reply nor an error was cut off, and what it cost is not
// known either.
type Spending struct {
	tokens    int64
	cost      cost.Cost
	uncounted int64
	open      map[string]bool // model calls under way
}

// SpendingOf adds up a whole run.
func SpendingOf(v *Verified) *Spending {
	s := &Spending{}
	for e := range v.Events() {
		s.Add(e.Payload)
	}
	return s
}

// Add takes the next event.
func (s *Spending) Add(p Payload) {
	if p, ok := p.(Spender); ok {
		tokens, of := p.Spent()
		s.tokens, s.cost = s.tokens+tokens, s.cost.Plus(of)
	}
	switch p := p.(type) {
	case *ModelCallStarted:
		if s.open == nil {
			s.open = map[string]bool{}
		}
		s.open[p.Call] = true
	case *ModelCallCompleted:
		delete(s.open, p.Call)
		// A call has tokens each way, unless its reply does not tell.
		if p.Unpriced && (p.TokensIn == 0 || p.TokensOut == 0) {
			s.uncounted++
		}
	case *Failure:
		delete(s.open, p.Call)
		if p.Unpriced {
			s.uncounted++
		}
	}
}

// Cost is what was spent.
func (s *Spending) Cost() cost.Cost { return s.cost.Plus(cost.Of(0, int64(len(s.open)))) }

// Tokens are those that were told, and how many model calls do not tell all of theirs.
func (s *Spending) Tokens() (told, uncounted int64) {
	return s.tokens, s.uncounted + int64(len(s.open))
}
