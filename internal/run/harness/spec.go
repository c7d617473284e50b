package harness

import (
	"slices"
	"strings"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/sandbox"
)

// A Spec is what a run is told: plain data, in the words of the flags that fill it.
// It goes unchanged from the command line to the plan that is registered. A matrix
// is one Spec for each target, a resume one with Resume, a reproduction one with the
// class, target and repetitions of an attempt, a worker's job one without a bench.
//
// The zero value replays every case once, in the sandbox that people signed
// for. The caller that fills a Spec calls [Spec.Validate] before anything is
// opened; later callers do not.
type Spec struct {
	Class string
	// Targets are names of agents, or patterns of names; none means
	// [agent.DefaultTarget]. Params, as NAME=VALUE, choose among their variants.
	Targets, Params []string

	Selection        // which cases
	ErrorsOf  string // of these only those that ended as errors in this attempt, or in the [Newest]; "" for all

	Repeat    int              // how often each case runs; 0 for once
	Reduce    evidence.Reducer // what the repetitions of a case amount to; "" for [ReduceMean]
	StopEarly bool             // stop when the question of the registration is answered
	Jobs      int              // cases at once; 0 for a number that suits the target

	// Sandbox is the isolation class in place of those of the registration, or
	// [NoSandbox], which UnsafeAgent says too. Scope is how long a rubric's sandbox
	// lives, in place of what the registration says.
	Sandbox     sandbox.Class
	Scope       sandbox.Scope
	UnsafeAgent bool

	Live            bool   // answer model calls from real models
	Cache           bool   // use what earlier live attempts recorded
	OnMiss          string // fail or live, if no recording answers a call; "" for what Live says
	MaxCostMicroUSD int64  // for the whole run; 0 for no limit
	MaxCalls        int64  // to models, for the whole run; 0 for no limit

	Resume        bool   // the newest unfinished attempt of the class and target
	ResumeCommand string // the command that resumes this run, for hints; "" for one made of class and target

	// SubmitIntent registers that the attempt is meant to be submitted. Recording is
	// what is noted of its texts; "" for nothing.
	SubmitIntent bool
	Recording    evidence.RecordingKind

	// SecondView says who is asked about answers that an official scorer did
	// not take; "" for no second view.
	SecondView evidence.SecondViewer

	ShowHeldOut bool   // golden traces and reports of held-out cases too
	Version     string // of the program, for the records
}

// Newest stands for the newest finished attempt of the class and target.
const Newest = "newest"

// NoSandbox, in place of an isolation class, runs a command target without any.
const NoSandbox sandbox.Class = "none"

// ReduceMean is a reducer that plans do not name: each repetition counts by itself,
// so that rates and scores are means over all.
const ReduceMean evidence.Reducer = "mean"

// Validate refuses what cannot be run, whatever the workspace has. Its messages name
// flags.
func (s *Spec) Validate() error {
	switch {
	case s.Repeat < 0:
		return refusal.Newf(refusal.Usage, "--repeat %d: expected 1 or more", s.Repeat)
	case s.Jobs < 0:
		return refusal.Newf(refusal.Usage, "--jobs %d: expected 1 or more", s.Jobs)
	case s.MaxCostMicroUSD < 0:
		return refusal.Newf(refusal.Usage, "--max-cost %v: expected more than 0", float64(s.MaxCostMicroUSD)/1e6)
	case s.MaxCalls < 0:
		return refusal.Newf(refusal.Usage, "--max-calls %d: expected 1 or more", s.MaxCalls)
	case s.SubmitIntent && s.Recording == "":
		return refusal.Newf(refusal.Usage, "--submit-intent with --record-evidence=false: what is not recorded cannot be submitted").WithHint("leave one of them out")
	}
	if err := oneOf("sandbox-scope", s.Scope, sandbox.ScopeCase, sandbox.ScopeAttempt); err != nil {
		return err
	}
	if err := oneOf("sandbox", s.Sandbox, append(sandbox.Classes(), NoSandbox)...); err != nil {
		return err
	}
	if err := oneOf("second-view", s.SecondView, evidence.ViewedByJudge); err != nil {
		return err
	}
	if err := s.Selection.Validate(); err != nil {
		return err
	}
	if err := s.validateReduce(); err != nil {
		return err
	}
	if _, err := s.Choice(); err != nil {
		return err
	}
	return s.validateReplies()
}

// oneOf refuses the value of a flag that is given and not known.
func oneOf[T ~string](flag string, value T, known ...T) error {
	if value == "" || slices.Contains(known, value) {
		return nil
	}
	return refusal.UnknownValue(flag, value, known...)
}

func (s *Spec) validateReduce() error {
	r, repeat := s.reducer(), s.repeats()
	switch {
	case r == "":
	case r.Needed(1) == 0:
		return refusal.Newf(refusal.Usage, "--reduce %s: expected mean, mode, max, all or at_least:K", r)
	case repeat < 2:
		return refusal.Newf(refusal.Usage, "--reduce %s makes one outcome of several repetitions, and --repeat is %d", r, repeat).WithHint("give --repeat 3, for example")
	case r.Needed(repeat) > repeat:
		return refusal.Newf(refusal.Usage, "--reduce %s needs %d repetitions, and --repeat is %d", r, r.Needed(repeat), repeat)
	}
	return nil
}

func (s *Spec) validateReplies() error {
	switch onMiss := s.onMiss(); {
	case onMiss != evidence.OnMissFail && onMiss != evidence.OnMissLive:
		return refusal.Newf(refusal.Usage, "--on-miss %s: expected fail or live", onMiss)
	case s.Live && !s.Cache && onMiss == evidence.OnMissFail:
		return refusal.Newf(refusal.Usage, "--live --on-miss fail: every call of a live run misses").
			WithHint("add --cache to use what earlier live attempts recorded, or leave out --live to replay the cassettes")
	}
	return nil
}

// For is the same Spec for one target.
func (s Spec) For(target string) Spec {
	s.Targets = []string{target}
	return s
}

// Target is the name of the one target that the run is for, or of the first.
func (s *Spec) Target() string {
	if len(s.Targets) == 0 {
		return agent.DefaultTarget
	}
	return s.Targets[0]
}

// Choice reads Params.
func (s *Spec) Choice() (agent.Choice, error) {
	c := agent.Choice{}
	for _, p := range s.Params {
		name, value, ok := strings.Cut(p, "=")
		if !ok {
			return nil, refusal.Newf(refusal.Usage, "--param %s: expected NAME=VALUE", p)
		}
		c[name] = append(c[name], value)
	}
	return c, nil
}

// repeats is how often each case runs.
func (s *Spec) repeats() int { return max(1, s.Repeat) }

// reducer is Reduce as plans name it.
func (s *Spec) reducer() evidence.Reducer {
	if s.Reduce == ReduceMean {
		return ""
	}
	return s.Reduce
}

// Classes are the isolation classes in place of those of the registration; nil for
// those.
func (s *Spec) Classes() []sandbox.Class {
	if s.Sandbox == "" || s.Sandbox == NoSandbox {
		return nil
	}
	return []sandbox.Class{s.Sandbox}
}

// Unsafe reports whether a command target runs without a sandbox.
func (s *Spec) Unsafe() bool { return s.UnsafeAgent || s.Sandbox == NoSandbox }

// Replies says which recordings answer first, and whether a provider is asked for
// the rest. It is nil for a plain replay, and for a run in which models answer
// everything.
func (s *Spec) Replies() *evidence.PlannedReplies {
	switch onMiss := s.onMiss(); {
	case s.Cache:
		return &evidence.PlannedReplies{From: evidence.FromCache, OnMiss: onMiss}
	case s.OnMiss == evidence.OnMissLive:
		return &evidence.PlannedReplies{From: evidence.FromCassette, OnMiss: onMiss}
	}
	return nil
}

// Pays reports whether models may be asked, which costs money.
func (s *Spec) Pays() bool { return s.onMiss() == evidence.OnMissLive }

// asksWhatIsMissing reports whether cassettes answer first, and models what they do not.
func (s *Spec) asksWhatIsMissing() bool {
	r := s.Replies()
	return r != nil && r.From == evidence.FromCassette && r.OnMiss == evidence.OnMissLive
}

// AnswersLive reports whether a live side answers model calls, from recordings of
// earlier attempts at least.
func (s *Spec) AnswersLive() bool { return s.Live || s.Replies() != nil }

// Mode is where the plan says that models answer from.
func (s *Spec) Mode() string { return modeOf(s.AnswersLive()) }

func (s *Spec) onMiss() string {
	switch {
	case s.OnMiss != "":
		return s.OnMiss
	case s.Live:
		return evidence.OnMissLive
	}
	return evidence.OnMissFail
}
