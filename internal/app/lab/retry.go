package lab

import (
	"slices"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/harness"
)

// errorsOf finds the cases that ended as errors in an attempt that has ended, and the
// name of that attempt. What is unscored has its trajectory: grading it again is
// enough.
func errorsOf(r *dossier.Reading, class, target, name string) (attempt string, cases map[string]bool, err error) {
	if r == nil {
		return "", nil, refusal.Newf(refusal.Failed, "the errors of an attempt cannot be had without the ledger")
	}
	a, err := retried(r, class, target, name)
	if err != nil {
		return "", nil, err
	}
	cases, unscored := map[string]bool{}, 0
	for c := range a.Cases() {
		switch c.Outcome() {
		case evidence.Errored:
			cases[c.ID] = true
		case evidence.Unscored:
			unscored++
		}
	}
	if len(cases) == 0 {
		err := refusal.Newf(refusal.NotFound, "no case of attempt %s ended as an error, so there is nothing to run again", a.ID)
		if unscored > 0 {
			return "", nil, err.WithHint(`%d of its cases are unscored: "tally rescore %s --live" asks the judge again`, unscored, a.ID)
		}
		return "", nil, err.WithHint(`a case that failed did so by its own doing; run the class again to measure it again`)
	}
	return a.ID, cases, nil
}

// retried is the attempt whose errors are meant.
func retried(r *dossier.Reading, class, target, name string) (*history.Attempt, error) {
	if name == harness.Newest {
		for _, a := range slices.Backward(r.History.Attempts) {
			if a.Finished != nil && a.Class == class && a.Target == target {
				return a, nil
			}
		}
		return nil, refusal.Newf(refusal.NotFound, "no finished attempt of class %s by target %s", class, target).
			WithHint(`"tally log --class %s" lists the attempts; one that is not finished is resumed with --resume`, class)
	}
	a, err := r.Attempt(name)
	switch {
	case err != nil:
		return nil, err
	case a.Class != class || a.Target != target:
		return nil, refusal.Newf(refusal.Usage, "--retry-errors %s: it is of class %s by target %s, expected class %s by target %s", a.ID, a.Class, a.Target, class, target).
			WithHint("name the class and --target of that attempt")
	case a.Finished == nil:
		return nil, refusal.Newf(refusal.Usage, "--retry-errors %s: the attempt is not finished", a.ID).WithHint("resume it first: the same command with --resume in place of --retry-errors")
	}
	return a.Attempt, nil
}
