package gate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/sequential"
	"tallystick/internal/run/bench"
)

// A State is what is known of a gate, and of an attempt.
type State string

// The states.
const (
	IsMet        State = "met"
	IsNotMet     State = "not met"
	IsNotDecided State = "not decided"
)

// A Decision is whether an attempt is good enough to continue, and by what. It is made
// here and nowhere else: every command, page, report and export takes it from here.
type Decision struct {
	Met bool `json:"met"`
	// Undecided says that it is neither met nor missed: the gates are for cases that the
	// attempt did not have, it did not come to its end, or its bench has changed.
	Undecided bool `json:"undecided,omitempty"`
	// Unanswered is how many of the attempt's tasks asked for a reply that is not
	// recorded: there is no score, so there is no verdict.
	Unanswered int `json:"unanswered,omitempty"`
	// Part says that the attempt left cases of the class out, by a filter or by stopping
	// early, so that what it selected was asked besides the gates.
	Part bool `json:"part,omitempty"`
	// By is one of the constants below.
	By     string `json:"by"`
	Reason string `json:"reason"`

	// Results are those of the gates, and of what is asked besides. There is always one.
	Results []Result `json:"-"`

	gated bool // the class has gates
}

// What a decision is made by.
const (
	ByGates     = "gates"
	ByEveryCase = "every case"     // without gates
	BySelection = "selected cases" // where a filter left the gates undecided
	ByQuestion  = "stop early"     // the question that the attempt was registered with
	ByNothing   = "nothing"        // there is not enough to decide by, or cases are unanswered
)

// State is that of the decision.
func (d *Decision) State() State { return stateOf(d.Met, d.Undecided) }

// State is that of the result.
func (g Result) State() State { return stateOf(g.Met, g.Undecided) }

// words are those of results that are not gates: what ran may pass where no gate is met.
var words = map[bench.Metric]map[State]string{
	Selection: {IsMet: "passed", IsNotMet: "not passed"},
	Question:  {IsMet: "yes", IsNotMet: "no"},
}

// Word is the state as people read it: only of a gate it is "met".
func (g Result) Word() string { return cmp.Or(words[g.Metric][g.State()], string(g.State())) }

// Word is the state as people read it.
func (d *Decision) Word() string { return string(d.State()) }

func stateOf(met, undecided bool) State {
	switch {
	case met:
		return IsMet
	case undecided:
		return IsNotDecided
	}
	return IsNotMet
}

// together is the state of several results: one that is missed decides, and one that
// is not decided leaves all of them so.
func together(results []Result) State {
	state := IsMet
	for _, r := range results {
		switch r.State() {
		case IsNotMet:
			return IsNotMet
		case IsNotDecided:
			state = IsNotDecided
		}
	}
	return state
}

// Text is the decision in a line: "not met: 1 of 2 gates are met".
func (d *Decision) Text() string { return fmt.Sprintf("%s: %s", d.State(), d.Reason) }

// HasGates reports whether the class has gates.
func (d *Decision) HasGates() bool { return d.gated }

// Of decides about an attempt, by the bench of its class as it is now. Where that
// cannot say, it is not decided.
func Of(d *dossier.Dossier) (*Decision, error) {
	return of(d, func(v *bench.Verified) (Input, error) { return NewInput(v, d) })
}

func of(d *dossier.Dossier, input func(*bench.Verified) (Input, error)) (*Decision, error) {
	if d.Finished == nil {
		return undecided(unfinished), nil
	}
	r := d.Reading()
	v, err := r.Bench(d.Class)
	if err != nil {
		return undecided(fmt.Sprintf("the bench of class %s does not verify: %v", d.Class, err)), nil
	}
	in, err := input(v)
	if err != nil {
		return nil, err
	}
	made, err := Decide(in)
	switch {
	case refusal.Is(err, refusal.BenchChanged):
		return undecided(err.Error()), nil
	case err != nil:
		return nil, r.Refused(err)
	}
	return made, nil
}

// unanswered says of how many tasks it is not known what a model would say.
func unanswered(n, of int) string {
	return fmt.Sprintf("%d of %d cases ask something new, which is not recorded", n, of)
}

const unfinished = "the attempt is not finished"

func undecided(why string) *Decision {
	return &Decision{Undecided: true, By: ByNothing, Reason: why, Results: []Result{{Tag: "*", Metric: Decidable, Undecided: true, Reason: why}}}
}

// Decide says whether an attempt is good enough: its gates are met, and allow the
// cases that errored or have no score; or there are none, and every case passed.
//
// Gates are for the whole class. Those of an attempt that left cases out, by a filter
// or by stopping early, are not decided, unless what ran is enough to break them; what
// was asked of such an attempt is that the selected cases pass, or keep the limits of the
// gates by themselves, or its registered question, and that stands beside the gates.
//
// It refuses an attempt of another registration, or at other cases.
func Decide(in Input) (*Decision, error) {
	a := in.Attempt
	if err := in.sameRegistration(); err != nil {
		return nil, err
	}
	if a.Finished == nil {
		return undecided(unfinished), nil
	}
	if n := a.Unanswered(); n > 0 {
		d := undecided(unanswered(n, a.Tasks()))
		d.Unanswered, d.gated = n, len(in.Bench.Registration().Gates) > 0
		return d, nil
	}
	d := &Decision{By: ByGates, Part: a.Plan.Filtered || a.Plan.StopEarly != nil, gated: len(in.Bench.Registration().Gates) > 0}
	switch {
	case d.gated:
		var err error
		if d.Results, err = in.gates(); err != nil {
			return nil, err
		}
	case a.Plan.Filtered:
		d.Results = []Result{{Tag: "*", Metric: EveryCase, Threshold: 1, Undecided: true, N: a.Plan.CaseCount, Reason: "cases of the bench were not in the attempt"}}
	}
	gates := together(d.Results)
	met := len(slices.DeleteFunc(slices.Clone(d.Results), func(r Result) bool { return !r.Met }))
	d.Reason = fmt.Sprintf("%d of %d gates are met", met, len(d.Results))
	asked, err := in.besides(len(d.Results) > 0 && gates != IsNotDecided)
	if err != nil {
		return nil, err
	}
	if asked != nil {
		d.Results = append(d.Results, *asked)
		if gates != IsNotMet || !asked.Met {
			d.By, d.Reason = impliedBy[asked.Metric], asked.Reason
		}
		if gates == IsNotDecided {
			d.Reason += "; the gates are for the whole class and are not decided, because cases of it were left out"
		}
	}
	state := together(d.Results)
	d.Met, d.Undecided = state == IsMet, state == IsNotDecided
	return d, nil
}

var impliedBy = map[bench.Metric]string{EveryCase: ByEveryCase, Selection: BySelection, Question: ByQuestion}

// besides is what is asked of an attempt besides its gates; nil if they decide.
func (in *Input) besides(decided bool) (*Result, error) {
	switch {
	case in.Attempt.Plan.StopEarly != nil:
		return in.question(), nil
	case decided:
		return nil, nil
	case in.Attempt.Plan.Filtered:
		return in.selection()
	}
	return in.everyCase(), nil
}

// selection asks that every selected case passed, or that those which did not are as few
// as the gates would allow if these were all the cases there are.
func (in *Input) selection() (*Result, error) {
	r := in.everyCase()
	r.Metric = Selection
	if r.Met || len(in.Bench.Registration().Gates) == 0 {
		return r, nil
	}
	alone := *in
	alone.alone = true
	gates, err := alone.gates()
	if err == nil && len(gates) > 0 && together(gates) == IsMet {
		r.Met, r.Reason = true, r.Reason+", which keeps the limits of the gates"
	}
	return r, err
}

// everyCase asks that every case that was planned passed.
func (in *Input) everyCase() *Result {
	a := in.Attempt
	units := in.units(slices.Collect(a.Cases()))
	passed, total, what := 0, len(units)+a.Unlisted(), "tasks"
	for _, u := range units {
		if u.Outcome == evidence.Passed {
			passed++
		}
	}
	r := &Result{Tag: "*", Metric: EveryCase, Threshold: 1, Met: passed == total && total > 0, N: a.Plan.CaseCount}
	if a.Plan.Filtered {
		what = "selected tasks"
	}
	r.Reason = fmt.Sprintf("%d of %d %s passed", passed, total, what)
	if how := a.Plan.ReducedText(); how != "" {
		r.Reason = fmt.Sprintf("%d of %d %s passed, reduced by %s", passed, total, strings.Replace(what, "tasks", "cases", 1), how)
	}
	if total > 0 {
		share := float64(passed) / float64(total)
		r.Value = &share
	}
	return r
}

// question asks whether the registered question of an attempt that stops early has the
// answer that people signed for.
func (in *Input) question() *Result {
	a, signed := in.Attempt, in.Bench.Registration().StopEarly
	r := &Result{Tag: "*", Metric: Question, N: a.Plan.CaseCount}
	switch {
	case signed == nil || *signed != *a.Plan.StopEarly:
		r.Reason = "its plan asks another question than the registration that people signed"
	case a.Stop == nil:
		r.Reason = "its records do not give the answer that it claims"
	default:
		r.Met, r.Reason = a.Stop.Decision == sequential.AtLeastP1, a.Stop.Text()
	}
	return r
}

// Err is the refusal of a run that is not good enough, or nil. A run that left cases
// out is good enough if what it selected passed: its gates were not asked.
func (d *Decision) Err(a *history.Attempt) error {
	switch {
	case d.Met, d.Undecided && d.By != ByNothing:
		return nil
	case d.Unanswered > 0:
		return refusal.Newf(refusal.NotAnswered, "attempt %s: %s; there is no score and no verdict", a.ID, d.Reason).
			WithHint(`"tally run %s --target %s --live" asks the model, and "tally why %s CASE" shows a request`, a.Class, plain.ShellWord(a.Target), a.ID)
	case d.Undecided:
		return d.Demand(a)
	case d.By == ByGates:
		return d.notMet(a)
	case d.By == ByQuestion:
		return refusal.Newf(refusal.GateNotMet, "attempt %s: %s", a.ID, d.Reason)
	}
	if d.gated {
		return refusal.Newf(refusal.GateNotMet, "attempt %s: the selected cases neither all pass nor keep the limits of the gates: %s", a.ID, d.Reason).
			WithHint(`list the cases with "tally scorecard %s --failed"`, a.ID)
	}
	return refusal.Newf(refusal.GateNotMet, "attempt %s: %s; without a gate that allows less, every selected case must pass", a.ID, d.Reason).
		WithHint(`list the cases with "tally scorecard %s --failed"; "gates" in the registration say what is enough`, a.ID)
}

// Demand is the refusal of an attempt that does not meet the gates of its class, or
// nil: what is not decided is not met.
func (d *Decision) Demand(a *history.Attempt) error {
	if !d.Undecided || d.Unanswered > 0 {
		return d.Err(a)
	}
	return refusal.Newf(refusal.GateNotMet, "attempt %s: the gates are not decided: %s", a.ID, d.texts(IsNotDecided)).
		WithHint(`the gates are for the whole class: "tally run %s" without a filter, or "tally run %s --resume" if the attempt was interrupted`, a.Class, a.Class)
}

// notMet is the refusal of an attempt whose gates are not all met.
func (d *Decision) notMet(a *history.Attempt) error {
	unmet := len(slices.DeleteFunc(slices.Clone(d.Results), func(r Result) bool { return r.State() != IsNotMet }))
	return refusal.Newf(refusal.GateNotMet, "attempt %s: %d of %d gates are not met: %s", a.ID, unmet, len(d.Results), d.texts(IsNotMet)).
		WithHint(`list the cases with "tally scorecard %s --failed"`, a.ID)
}

// texts are those of the results of a state.
func (d *Decision) texts(state State) string {
	var list []string
	for _, r := range d.Results {
		if r.State() == state {
			list = append(list, r.Text())
		}
	}
	return strings.Join(list, "; ")
}
