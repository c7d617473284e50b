package grade

import "math/big"

// QuasiExact is the label of the view in a [SecondView].
const QuasiExact = "quasi-exact, unit-aware; not the score"

// A SecondView is another way of looking at what the official scorer compared. It
// is made when somebody looks, is in no record, and changes no score.
type SecondView struct {
	Check string `json:"check,omitempty"`
	View  string `json:"view"`
	Same  bool   `json:"same"`
	Why   string `json:"why"`
}

// SecondViews looks again at each check of the GAIA scorer whose answer and expected
// answer are both one number with or without a unit. There is none for other checks.
func SecondViews(details []Detail) []SecondView {
	var views []SecondView
	for _, d := range details {
		if d.Grader != GAIA || d.Expected == nil || d.Extracted == nil {
			continue
		}
		if v, ok := quasiExact(d.Extracted.Head, d.Expected.Head); ok {
			views = append(views, SecondView{d.Check, QuasiExact, v.outcome == Passed, v.why})
		}
	}
	return views
}

// quasiExact compares two quantities as the grader of numbers does: exactly, and
// within a thousandth if one had to be converted. A unit that the expected answer
// does not have is told and not checked: the question asks for it, and is not read.
func quasiExact(answer, expected string) (verdict, bool) {
	if len(answer) > 2*maxNumberBytes || len(expected) > 2*maxNumberBytes {
		return verdict{}, false
	}
	want, ok := parseQuantity(expected)
	got, isNumber := parseQuantity(answer)
	if !ok || !isNumber {
		return verdict{}, false
	}
	rule := &numberRule{want: want.value, tolerance: new(big.Rat), relative: new(big.Rat), unit: want.unit}
	switch {
	case want.unit == got.unit:
		return rule.against(got.value), true
	case want.unit == "":
		v := rule.against(got.value)
		v.why += "; the unit " + quoted(got.unit) + " is not in the expected answer and was not checked"
		return v, true
	case got.unit == "":
		v := rule.against(got.value)
		v.why += "; the answer has no unit"
		return v, true
	}
	if _, known := units()[want.unit]; !known {
		return verdict{}, false // words after a number, and other words
	}
	value, err := got.convert(want.unit)
	if err != nil {
		return mismatch("%v", err), true
	}
	rule.relative = big.NewRat(1, 1000)
	return rule.against(value), true
}
