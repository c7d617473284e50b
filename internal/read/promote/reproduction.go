package promote

import (
	"fmt"

	"tallystick/internal/read/history"
)

// reproductionProblems asks for a second runner who got the same, and for none
// who did not. A disagreement stands: a later agreement is listed beside it and
// does not wipe it out.
func (r *review) reproductionProblems() []string {
	var diverged, others []string
	agreed := false
	for _, a := range r.attempts {
		for _, x := range a.Reproductions {
			switch why := r.notCounted(a, x); {
			case !x.Agrees && x.Counts:
				diverged = append(diverged, fmt.Sprintf("attempt %s was run again by %s and diverged: %s", a.ID, x.Signer, x.Divergence))
			case why != "":
				others = append(others, why)
			case x.Agrees && a.fresh:
				agreed = true
			}
		}
	}
	if agreed {
		// A runner who checks his own work is worth nothing and does no harm.
		return diverged
	}
	return append(append(diverged, others...), "no attempt under review was reproduced by a different runner")
}

// notCounted says why a second run of an attempt counts for nothing.
func (r *review) notCounted(a attempt, x history.Reproduction) string {
	switch {
	case !x.Counts:
		return fmt.Sprintf("attempt %s was run again by its own runner (entry %d)", a.ID, x.Index)
	case !r.pinned(x.Key):
		return fmt.Sprintf("attempt %s was run again with a key that the registration does not name (entry %d)", a.ID, x.Index)
	}
	return ""
}
