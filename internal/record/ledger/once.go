package ledger

import (
	"maps"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
)

// Once remembers the entries that stand only once in a ledger: what a runner
// signed about a second run of an attempt. An operator who appends such an
// entry again wants the earlier word to be the last one. Entries by hand are
// not a runner's word. The zero value remembers none.
type Once struct{ seen map[digest.ID]int64 }

// Add notes an entry and refuses one that is there already.
func (o *Once) Add(kind evidence.Kind, body []byte, index int64) error {
	if kind != evidence.AttemptReproducedKind {
		return nil
	}
	decoded, err := evidence.DecodeBody(kind, body)
	if err != nil {
		return err
	}
	message, err := decoded.(*evidence.AttemptReproduced).Message()
	if err != nil {
		return err
	}
	id := digest.IDOf(message)
	if before, ok := o.seen[id]; ok {
		return refusal.Newf(refusal.EntryInvalid, "%s: entry %d has the same already; what was signed once counts once", kind, before)
	}
	// A copy, so that what a seal covers does not grow with what follows it.
	// There are few of these entries.
	seen := maps.Clone(o.seen)
	if seen == nil {
		seen = make(map[digest.ID]int64)
	}
	seen[id] = index
	o.seen = seen
	return nil
}

// Once is what the ledger has of entries that stand only once.
func (v *Verified) Once() Once { return v.once }
