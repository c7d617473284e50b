package grade

import (
	"math/big"

	"tallystick/internal/run/extract"
)

// The labels of the views.
const (
	QuasiExact = "quasi-exact, unit-aware; not the score"
	ByOpinion  = "quasi-exact, a model's opinion; not the score"
)

// A SecondView is another way of looking at what the official scorer compared.
// It changes no score. That of numbers is made when a reader looks and is in no
// record; what a judge said is in the grading document, because it cannot be
// had again.
type SecondView struct {
	Check string `json:"check,omitempty"`
	View  string `json:"view"`
	Same  bool   `json:"same"`
	Why   string `json:"why"`
	// Unknown says that there is no opinion, and why; Same then means nothing.
	Unknown bool `json:"unknown,omitempty"`
}

// NoJudge is why there is no opinion where no judge is configured.
const NoJudge = "no judge"

// SecondViews looks again at each check of the GAIA scorer whose answer and expected
// answer are both one number with or without a unit, and tells the judge's opinion
// of an answer that the scorer did not take. There is none for other checks.
func SecondViews(details []Detail) []SecondView {
	var views []SecondView
	for _, d := range details {
		if d.Grader != GAIA || d.Expected == nil || d.Extracted == nil {
			continue
		}
		numbers, ok := quasiExact(d.Extracted.Head, d.Expected.Head)
		if ok {
			views = append(views, SecondView{Check: d.Check, View: QuasiExact, Same: numbers.outcome == Passed, Why: numbers.why})
		}
		switch {
		case d.Second != nil:
			opinion := *d.Second
			opinion.Check = d.Check
			views = append(views, opinion)
		case d.Outcome == Mismatch && !(ok && numbers.outcome == Passed):
			views = append(views, SecondView{Check: d.Check, View: ByOpinion, Why: NoJudge, Unknown: true})
		}
	}
	return views
}

// sameAnswer is what a judge goes by. It is part of the question, so that a verdict
// by other words is another verdict.
const sameAnswer = "The answer and the expected answer say the same, as an examiner would see it who wants one short answer to the task: " +
	"the same person, place, thing, number or list, however it is spelled, abbreviated or ordered, and in whatever unit. " +
	"An answer that says more than one thing, that is not complete, or that only could be the expected one does not meet this."

// secondView asks the judge about an answer that the official scorer did not
// take. If the numbers are the same, the judge is not asked. Whatever it says
// or fails to say, the score stays.
func (r *run) secondView(n *node, d *Detail, v extract.Value) *SecondView {
	if r.in.SecondView == nil {
		return nil
	}
	if numbers, ok := quasiExact(d.Extracted.Head, d.Expected.Head); ok && numbers.outcome == Passed {
		return nil
	}
	view := &SecondView{View: ByOpinion, Unknown: true}
	o, err := r.in.SecondView(JudgeSpec{Criteria: sameAnswer, Expected: n.expected, Votes: 1, Threshold: 0.5}, v)
	r.events = append(r.events, o.Events...)
	switch {
	case err != nil:
		view.Why = r.safe("the judge failed: " + err.Error())
	case o.Unscored != "":
		view.Why = r.safe("the judge: " + o.Unscored)
	default:
		view.Same, view.Unknown, view.Why = o.Score >= 0.5, false, r.safe("the judge says "+quoted(o.Reason))
	}
	return view
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
