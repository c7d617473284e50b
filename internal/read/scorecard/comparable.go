package scorecard

import (
	"slices"

	"tallystick/internal/read/history"
	"tallystick/internal/record/refusal"
)

// comparable refuses two attempts that [Compare] does not set side by side, as far as
// their plans and ends say. It reports whether their benches differ, and whether that is
// more than thresholds.
func comparable(a, b *history.Attempt, o CompareOptions) (differ, across bool, err error) {
	if a == b {
		return false, false, refusal.Newf(refusal.Usage, "%s is given twice", a.ID).WithHint("name two attempts")
	}
	for _, x := range []*history.Attempt{a, b} {
		if err := RequireAnswered(x); err != nil {
			return false, false, err
		}
	}
	differ = a.Plan.BenchDigest != b.Plan.BenchDigest || a.Class != b.Class
	across = differ && (o.AcrossBenches || !sameScoring(a, b))
	if across && !o.AcrossBenches {
		return differ, across, refusal.Newf(refusal.NotComparable, "%s is of bench %s (%s), %s of bench %s (%s)", a.ID, a.Plan.BenchDigest, a.Class, b.ID, b.Plan.BenchDigest, b.Class).
			WithHint("their cases or rubric differ; --across-benches compares the cases that are the same, and says so")
	}
	return differ, across, nil
}

func noCaseInCommon(a, b *history.Attempt) error {
	return refusal.Newf(refusal.NotComparable, "no case of %s is also one of %s", a.ID, b.ID).
		WithHint("a case is the same if its id and its digest are; compare attempts that share some")
}

// sameScoring reports whether two attempts are of one class and the same things
// decided their scores, as their plans say.
func sameScoring(a, b *history.Attempt) bool {
	return a.Class == b.Class && a.Plan.ScoringDigest == b.Plan.ScoringDigest
}

// LastComparable is the newest of the attempts before this one, by the same target at the
// same class, that came to its end and that [Compare] sets beside it; nil if there is
// none. An attempt that left out cases is beside one that did not only where there is no
// other: a run of three cases must not hide what a whole run before it had. The attempts
// are in the order of their registration.
func LastComparable(attempts []*history.Attempt, of *history.Attempt) *history.Attempt {
	return lastComparable(attempts, of, func(a *history.Attempt) bool { return a.Target == of.Target })
}

// LastComparablePair is the newest attempt that has one to be compared with, and that
// one: the last comparable of its target, or else the newest of another target of its
// class. Both are nil if no two can be compared. An empty class is all classes.
func LastComparablePair(attempts []*history.Attempt, class string) (a, b *history.Attempt) {
	for _, b := range slices.Backward(attempts) {
		if class != "" && b.Class != class || b.Finished == nil {
			continue
		}
		if a := LastComparable(attempts, b); a != nil {
			return a, b
		}
		if a := lastComparable(attempts, b, func(*history.Attempt) bool { return true }); a != nil {
			return a, b
		}
	}
	return nil, nil
}

func lastComparable(attempts []*history.Attempt, of *history.Attempt, wanted func(*history.Attempt) bool) *history.Attempt {
	var partial *history.Attempt
	for _, a := range slices.Backward(attempts) {
		if a.Index >= of.Index || a.Class != of.Class || a.Finished == nil || !wanted(a) {
			continue
		}
		whole := IsWhole(a) || !IsWhole(of)
		if !whole && partial != nil {
			continue
		}
		if _, _, err := comparable(a, of, CompareOptions{}); err != nil || !shareCase(a, of) {
			continue
		}
		if whole {
			return a
		}
		partial = a
	}
	return partial
}

// IsWhole reports whether an attempt ran its whole bench and every repetition counts by
// itself: no filter, no early end, no reducer.
func IsWhole(a *history.Attempt) bool {
	return !a.Plan.Filtered && a.Plan.Reduce == "" && a.Plan.StopEarly == nil
}

// shareCase reports whether some case is in both attempts.
func shareCase(a, b *history.Attempt) bool {
	if x, y := firstCase(a), firstCase(b); x != nil && y != nil && caseKey(x) == caseKey(y) {
		return true // plans of one bench begin alike
	}
	of := make(map[string]bool, a.Tasks())
	for c := range a.Cases() {
		of[caseKey(c)] = true
	}
	for c := range b.Cases() {
		if of[caseKey(c)] {
			return true
		}
	}
	return false
}

func firstCase(a *history.Attempt) *history.Case {
	for c := range a.Cases() {
		return c
	}
	return nil
}
