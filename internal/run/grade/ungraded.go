package grade

import "tallystick/internal/run/extract"

// validateUngraded lets a case be without a grade only as a whole. Among checks
// it would make a score of what was meant to have none.
func validateUngraded(at place, _ *Rule) error {
	if len(at) != 1 {
		return at.in("kind").bad("is %s, which is for a whole case and not for one of its checks", Ungraded)
	}
	return nil
}

// ungraded gives no score and looks at nothing but whether there is an answer,
// which the details then show.
func (r *run) ungraded(_ *node, _ *Detail, _ extract.Value, _ bool) tally {
	return single(unscored("the case states that nothing grades it: grade is %s", Ungraded))
}
