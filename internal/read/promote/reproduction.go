package promote

import (
	"fmt"

	"tallystick/internal/read/history"
)

// reproductionProblems asks for a second runner who got the same, and for none
// who did not. A disagreement stands: a later agreement is listed beside it and
// does not wipe it out.
func (r *review) reproductionProblems() []string {
	found := r.reproductions()
	if found.agreed != nil {
		// A runner who checks his own work is worth nothing and does no harm.
		return found.diverged
	}
	return append(append(found.diverged, found.others...), "no attempt under review was reproduced by a different runner")
}

// secondRuns is what came of running the attempts under review again.
type secondRuns struct {
	agreed   *ground  // the first that counts and got the same; nil if there is none
	diverged []string // lines about those that did not
	others   []string // why the rest counts for nothing
}

func (r *review) reproductions() secondRuns {
	var found secondRuns
	for _, a := range r.attempts {
		for _, x := range a.Reproductions {
			switch why := r.notCounted(a, x); {
			case !x.Agrees && x.Counts:
				found.diverged = append(found.diverged, fmt.Sprintf("attempt %s was run again by %s and diverged: %s", a.ID, x.Signer, x.Divergence))
			case why != "":
				found.others = append(found.others, why)
			case x.Agrees && a.fresh && (found.agreed == nil || x.Index < found.agreed.index):
				found.agreed = &ground{"the reproduction of attempt " + a.ID, x.Index}
			}
		}
	}
	return found
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
