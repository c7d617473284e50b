package history

import (
	"maps"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/seal"
)

// known is who is who at one place of the ledger. It is replaced and not changed, so
// that an entry is judged by what stood before it, however the ledger is read.
type known struct {
	people seal.People
	// operators are who signed registrations under an operator's hash.
	operators map[digest.ID]seal.Signature
}

// met also knows that an operator of this hash signs with this key.
func (k *known) met(hash digest.ID, s seal.Signature) *known {
	if before, ok := k.operators[hash]; ok && before.Key().Equal(s.Key()) {
		return k
	}
	next := &known{k.people, maps.Clone(k.operators)}
	if next.operators == nil {
		next.operators = make(map[digest.ID]seal.Signature)
	}
	next.operators[hash] = s
	return next
}

// RanBy says in which way the person behind a signature ran an attempt, whatever name
// or key of theirs it bears, as far as the signers file tells; "" if they did not. The
// attempt was read with its records.
func (h *History) RanBy(a *Attempt, s seal.Signature) string { return h.known.ran(a, s) }

// ran is [History.RanBy] at one place of the ledger. Where the ledger does not tell
// which operator ran an attempt, each who ever was one may have: a scratch attempt is not signed, and
// the hash in a record tells only of an operator who signed a registration.
func (k *known) ran(a *Attempt, s seal.Signature) string {
	if a.runner != nil && k.people.Same(s, *a.runner) {
		return "ran the attempt"
	}
	mayHave := a.runner == nil
	looked := make(map[*Context]bool)
	for c := range a.Cases() {
		x := c.Context
		if c.Index < 0 || x == nil || looked[x] {
			continue
		}
		looked[x] = true
		if x.Worker != "" && k.people.Holds(s, x.Worker) {
			return "drove cases of the attempt"
		}
		if a.runner != nil && x.Operator == a.Operator {
			continue
		}
		if by, ok := k.operators[x.Operator]; !ok {
			mayHave = true
		} else if k.people.Same(s, by) {
			return "ran cases of the attempt"
		}
	}
	if mayHave && k.people.Ran(s) {
		return "is or was an operator, and the ledger does not tell which operator ran the attempt"
	}
	return ""
}
