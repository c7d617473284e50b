// Package submittable is the rule that says whether an attempt can be submitted. A
// run, a recount and a package come by the facts in different ways, and
// are decided by the same rule. It is pure, and the stranger's verifier has it too.
package submittable

import (
	"fmt"

	"tallystick/internal/record/evidence"
)

// A Decision says whether an attempt can be submitted, and if not, why.
type Decision struct {
	Submittable bool   `json:"submittable"`
	Reason      string `json:"reason"`
}

// Facts are what decides whether an attempt can be submitted.
type Facts struct {
	Plan     *evidence.Plan
	Scratch  bool
	Level    string
	Finished bool
	Tasks    int      // planned
	Missing  int      // of them without a record of every repetition
	Partial  []string // whose texts were not noted whole, in the order of the plan
}

// Decide says whether the attempt can be submitted.
func Decide(f Facts) Decision {
	switch {
	case !f.Plan.SubmitIntent:
		return Decision{Reason: "it was not registered with --submit-intent: who decides after seeing the result has chosen it"}
	case f.Scratch || f.Level != "signed":
		return Decision{Reason: "it is of the level " + f.Level + ": nobody vouches for the bench or the ledger"}
	case f.Plan.Filtered:
		return Decision{Reason: "only some cases of the class were selected: a rate over a choice is no rate of the split"}
	case !f.Finished:
		return Decision{Reason: "it has not finished"}
	case f.Missing > 0:
		return Decision{Reason: fmt.Sprintf("%d of %d planned tasks have no record, or not of every repetition", f.Missing, f.Tasks)}
	case len(f.Partial) > 0:
		return Decision{Reason: fmt.Sprintf("the texts of %d tasks were not recorded whole, the first is %s", len(f.Partial), f.Partial[0])}
	}
	return Decision{Submittable: true, Reason: "registered with --submit-intent, " + f.Level + ", recorded whole, every planned task has its record"}
}
