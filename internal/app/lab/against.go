package lab

import (
	"cmp"
	"context"
	"slices"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/sandbox"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/share/foreign"
)

// A Happened is the trajectory of something that happened, here or elsewhere.
type Happened struct {
	Verified *trajectory.Verified
	Content  func(digest.Content) ([]byte, bool) // whole texts; may be nil
	Foreign  bool                                // it is another system's
}

// DriveAgainst drives a target with what happened, and says where it first does
// something else; nil if it does the same. Everything is compared if the
// trajectory is ours, what the agent did if it is another system's.
func DriveAgainst(ctx context.Context, c *dossier.Corpus, h Happened, name string) (*trajectory.Divergence, error) {
	s, err := scenario.FromTrajectory(h.Verified, h.Content)
	if err != nil {
		return nil, refusal.Newf(refusal.Malformed, "the trajectory cannot be driven again: %w", err)
	}
	first := firstOf(h.Verified)
	target, err := FindTarget(c, first.Class, name)
	if err != nil {
		return nil, err
	}
	result, err := harness.DriveAgain(ctx, target, againOf(c, first, s), agent.Options{Hidden: []string{c.Dir}, Accept: []sandbox.Class{sandbox.GVisor}})
	if err != nil {
		return nil, err
	}
	var traces [2]*trajectory.Trace
	for i, v := range []*trajectory.Verified{h.Verified, result.Verified} {
		if h.Foreign {
			if v, err = foreign.Actions(v); err != nil {
				return nil, err
			}
		}
		if traces[i], err = comparedTrace(v); err != nil {
			return nil, err
		}
	}
	return trajectory.Compare(traces[0], traces[1]), nil
}

// comparedTrace is the canonical form without who approved something: a person once,
// and what the person said now.
func comparedTrace(v *trajectory.Verified) (*trajectory.Trace, error) {
	t, err := trajectory.Canonical(v, dossier.GoldenTrace)
	if err != nil {
		return nil, err
	}
	for i := range t.Steps {
		if s := &t.Steps[i]; s.Type == trajectory.ApprovalResolvedType {
			s.Fields = slices.DeleteFunc(s.Fields, func(f trajectory.Field) bool { return f.Path == "by" })
		}
	}
	return t, nil
}

// againOf adds to a scenario what the case of its trajectory has, if the
// workspace has it: its tools as they are described, its files, and the policy
// and limits of its class.
func againOf(c *dossier.Corpus, first trajectory.RunStarted, s *scenario.Scenario) harness.Again {
	again := harness.Again{Scenario: s, First: first}
	v, err := c.Bench(first.Class)
	if err != nil {
		return again
	}
	reg := v.Registration()
	again.Registration = &reg
	cases := scenario.Of(v, first.Target)
	for i := range cases.Len() {
		if cases.Ref(i).ID != first.Case {
			continue
		}
		if x, err := cases.Case(i); err == nil {
			s.Offer(x.Scenario.Tools)
			again.Files = x.Files
		}
	}
	return again
}

func firstOf(v *trajectory.Verified) trajectory.RunStarted {
	for e := range v.Events() {
		if p, ok := e.Payload.(*trajectory.RunStarted); ok {
			return *p
		}
	}
	return trajectory.RunStarted{}
}

// Incident makes an incident of what happened, for a draft case called id or, if
// that is "", as the trajectory's: its input is what was said, and the scenario
// among its files answers as the model and the tools did.
func Incident(h Happened, id string) (incident []byte, files map[string][]byte, err error) {
	s, err := scenario.FromTrajectory(h.Verified, h.Content)
	if err != nil {
		return nil, nil, refusal.Newf(refusal.Malformed, "no case can be made of the trajectory: %w", err)
	}
	written, err := canon.Marshal(s)
	if err != nil {
		return nil, nil, err
	}
	first := firstOf(h.Verified)
	incident, err = canon.Marshal(map[string]any{"id": cmp.Or(id, first.Case), "outcome": outcomeOf(h.Verified), "title": "From the trajectory of " + first.Case,
		"input": map[string]any{"turns": s.Turns}, "trajectory_head": h.Verified.Head(), "class": first.Class, "target": first.Target})
	return incident, map[string][]byte{bench.ScenarioFile: append(written, '\n')}, err
}

// outcomeOf says how a run ended, in a word.
func outcomeOf(v *trajectory.Verified) string {
	out := "incomplete"
	for e := range v.Events() {
		switch p := e.Payload.(type) {
		case *trajectory.RunCompleted:
			out = p.Status
		case *trajectory.RunFailed:
			out = "failed"
		}
	}
	return out
}
