package gate

import (
	"fmt"
	"slices"
	"strings"

	"tallystick/internal/read/history"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/sequential"
)

// A Decision is whether an attempt is good enough to continue, and by what.
type Decision struct {
	Met bool `json:"met"`
	// By is "gates", or "every case": without gates, and with a filter, whose
	// cases may be too few for a gate, all of them passing is enough.
	By     string `json:"by"`
	Reason string `json:"reason"`

	Results []Result `json:"-"` // of the gates; nil if there are none
}

// What a decision is made by.
const (
	ByGates     = "gates"
	ByEveryCase = "every case"
	ByQuestion  = "stop early" // the question that the attempt was registered with
)

// Decide says whether an attempt is good enough: its gates are met, and allow the
// cases that errored or have no score; or there are none, and every case passed.
// Of a filtered attempt the gates are held against the selected cases, and it is
// enough that every one of them passed.
//
// An attempt that stops early decides its registered question and nothing else.
func Decide(in Input) (*Decision, error) {
	if in.Attempt.Plan.StopEarly != nil {
		return in.byQuestion(), nil
	}
	units := in.units(slices.Collect(in.Attempt.Cases()))
	passed, total := 0, len(units)+in.Attempt.Unlisted()
	for _, u := range units {
		if u.Outcome == evidence.Passed {
			passed++
		}
	}
	d := &Decision{By: ByEveryCase, Met: passed == total && total > 0, Reason: fmt.Sprintf("%d of %d tasks passed", passed, total)}
	if how := in.Attempt.Plan.ReducedText(); how != "" {
		d.Reason = fmt.Sprintf("%d of %d cases passed, reduced by %s", passed, total, how)
	}
	in.selected = in.Attempt.Plan.Filtered
	if len(in.Bench.Registration().Gates) == 0 {
		return d, nil
	}
	results, err := Evaluate(in)
	if err != nil || len(results) == 0 || in.selected && d.Met {
		return d, err
	}
	unmet := 0
	for _, r := range results {
		if !r.Met {
			unmet++
		}
	}
	return &Decision{By: ByGates, Met: unmet == 0, Reason: fmt.Sprintf("%d of %d gates are met", len(results)-unmet, len(results)), Results: results}, nil
}

func (in *Input) byQuestion() *Decision {
	a, signed := in.Attempt, in.Bench.Registration().StopEarly
	if signed == nil || *signed != *a.Plan.StopEarly {
		return &Decision{By: ByQuestion, Reason: "its plan asks another question than the registration that people signed"}
	}
	if a.Stop == nil {
		return &Decision{By: ByQuestion, Reason: "its records do not give the answer that it claims"}
	}
	return &Decision{By: ByQuestion, Met: a.Stop.Decision == sequential.AtLeastP1, Reason: a.Stop.Text()}
}

// Err is the refusal of an attempt that is not good enough, or nil.
func (d *Decision) Err(a *history.Attempt) error {
	switch {
	case d.Met:
		return nil
	case d.By == ByGates:
		return NotMet(a, d.Results)
	case d.By == ByQuestion:
		return refusal.Newf(refusal.GateNotMet, "attempt %s: %s", a.ID, d.Reason)
	}
	return refusal.Newf(refusal.GateNotMet, "attempt %s: %s; without a gate that allows less, every selected case must pass", a.ID, d.Reason).
		WithHint(`list the cases with "tally scorecard %s --failed"; "gates" in the registration say what is enough`, a.ID)
}

// NotMet is the refusal of an attempt whose gates are not all met, or nil.
func NotMet(a *history.Attempt, results []Result) error {
	var unmet []string
	for _, r := range results {
		if !r.Met {
			unmet = append(unmet, r.Text())
		}
	}
	if len(unmet) == 0 {
		return nil
	}
	return refusal.Newf(refusal.GateNotMet, "attempt %s: %d of %d gates are not met: %s", a.ID, len(unmet), len(results), strings.Join(unmet, "; ")).
		WithHint(`list the cases with "tally scorecard %s --failed"`, a.ID)
}
