package lab

import (
	"context"
	"slices"
	"strings"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/workspace"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/judge"
	"tallystick/internal/run/sandbox"
	"tallystick/internal/run/scenario"
)

// Options say what is run, and how.
type Options struct {
	Class  string
	Target string
	Params agent.Choice // of the variants of several targets; nil for all

	harness.Selection        // which cases
	Errors            string // of these only those that ended as errors in this attempt, or in the [Newest]; "" for all

	Repeat    int              // how often each case runs; 0 for once
	StopEarly bool             // stop when the question of the registration is answered
	Reduce    evidence.Reducer // what makes one outcome of the repetitions of a case; "" for nothing
	Jobs      int              // cases at once; 0 for a number that suits the target

	Sandbox     sandbox.Class // in place of those of the registration; "" for those
	Scope       sandbox.Scope // the same
	UnsafeAgent bool          // run a command target without a sandbox
	Live        bool          // the network may be used
	Cache       bool          // use what earlier live attempts recorded
	OnMiss      string        // fail or live, what to do about calls that no recording answers; "" for what Live says

	SubmitIntent bool                   // part of the plan
	Recording    evidence.RecordingKind // the same; "" for none

	// SecondView says who is asked about answers that an official scorer did not
	// take; "" for nobody. Part of the plan.
	SecondView evidence.SecondViewer

	ShowHeldOut bool // golden traces of held-out cases too

	Version string // of the program, for the records
}

// A Setup is a class and a target of a workspace, ready to be run.
type Setup struct {
	Bench  *bench.Verified
	Target *agent.Target

	place   *dossier.Corpus
	o       Options
	retry   *retry                   // nil unless the errors of an attempt are run again
	resume  string                   // the command that resumes a run of it
	replies *evidence.PlannedReplies // nil for a plain replay, and if all is live
}

// New verifies the class and finds the target. The corpus stays the caller's.
func New(c *dossier.Corpus, o Options) (*Setup, error) {
	v, err := c.Bench(o.Class)
	if err != nil {
		return nil, c.Refused(err)
	}
	return setup(c, v, o)
}

func setup(c *dossier.Corpus, v *bench.Verified, o Options) (*Setup, error) {
	o.warn(c, v)
	t, err := FindTarget(c, o.Class, o.Target)
	if err != nil {
		return nil, err
	}
	return setupOf(c, v, t, o)
}

// warn tells what people should know of a class before it runs.
func (o *Options) warn(c *dossier.Corpus, v *bench.Verified) {
	for _, w := range v.Warnings() {
		if w.Case == "" && v.Level() == string(bench.Scratch) {
			continue // the answer says it, at its end
		}
		c.Note("%s", strings.TrimPrefix(w.Case+": "+w.Detail, ": "))
	}
}

func setupOf(c *dossier.Corpus, v *bench.Verified, t *agent.Target, o Options) (*Setup, error) {
	if err := o.checkSandbox(v.Registration().Isolation); err != nil {
		return nil, err
	}
	replies, err := o.replies()
	if err != nil {
		return nil, err
	}
	if replies != nil {
		o.Live = replies.OnMiss == evidence.OnMissLive
	}
	o.Target = t.Name
	if t.HTTP != nil && !t.HTTP.Local() && !o.Live {
		return nil, refusal.Newf(refusal.Usage, "target %s is at %s, and a replay touches no network", t.Name, t.HTTP.URL).
			WithHint(`"tally run %s --target %s --live --max-cost DOLLARS" allows it; to watch it or replay it, start the agent on this machine`, v.Class(), t.Name)
	}
	s := &Setup{Bench: v, Target: t, place: c, o: o, replies: replies}
	if o.Errors != "" {
		s.retry, err = errorsOf(c.Reading, v.Class(), t.Name, o.Errors)
	}
	return s, err
}

// checkSandbox refuses a class that is weaker than every one that people signed
// for, unless they allowed that: the result would look like one of theirs.
func (o *Options) checkSandbox(signed bench.Isolation) error {
	strength := func(class string) int { return -slices.Index(sandbox.Classes(), sandbox.Class(class)) }
	weakest := 0
	for _, class := range signed.Classes {
		weakest = min(weakest, strength(class))
	}
	if o.Sandbox == "" || signed.AllowWeaker || strength(string(o.Sandbox)) >= weakest {
		return nil
	}
	return refusal.Newf(refusal.Usage, "--sandbox %s: class %s wants %s, and allow_weaker is false", o.Sandbox, o.Class, strings.Join(signed.Classes, " or ")).
		WithHint("leave the flag out, or have people sign a registration that allows a weaker class")
}

// Rehearse drives and grades the cases without recording anything, and gives
// them in their order.
func (s *Setup) Rehearse(ctx context.Context, visit func(*harness.Graded) error) error {
	return s.rehearse(ctx, nil, s.blocked, visit)
}

// rehearse is Rehearse for the chosen cases; blocked is told what blocked.
func (s *Setup) rehearse(ctx context.Context, choose func(*scenario.Case) bool, blocked func(evidence.IntegrityEvent) error, visit func(*harness.Graded) error) error {
	cfg, err := s.config()
	if err != nil {
		return err
	}
	cfg.Select = choose
	crossed := s.unattempted()
	cfg.Crossed = crossed.write
	err = harness.Rehearse(ctx, cfg, func(g *harness.Graded) error {
		if err := crossed.add(g.Crossings, blocked); err != nil {
			return err
		}
		return visit(g)
	})
	if cerr := crossed.close(); err == nil {
		err = cerr
	}
	return err
}

// config is that of a run which records nothing and in which no model answers.
func (s *Setup) config() (harness.Config, error) {
	state, err := workspace.StateDir(s.place.Getenv)
	if err != nil {
		return harness.Config{}, err
	}
	cfg := harness.Config{
		Work: harness.Work{Bench: s.Bench, Target: s.Target, Selection: s.o.Selection, Select: s.retried(), Repeat: s.o.Repeat, StopEarly: s.o.StopEarly, Reduce: s.o.Reduce,
			SubmitIntent: s.o.SubmitIntent, Recording: s.o.Recording, SecondView: s.o.SecondView},
		Means: harness.Means{Jobs: s.o.Jobs, Scope: s.o.Scope, Image: RubricImage, Replies: s.replies, Unsafe: s.o.UnsafeAgent, Hidden: []string{s.place.Dir, state}},
		Now:   s.place.Now, Version: s.o.Version,
	}
	for _, m := range s.place.Settings.TestMounts {
		cfg.TestMounts = append(cfg.TestMounts, sandbox.Mount{Host: m.Host, Inside: m.Inside})
	}
	if s.retry != nil {
		cfg.Retries = s.retry.attempt
	}
	if s.o.Sandbox != "" {
		cfg.Sandbox = []sandbox.Class{s.o.Sandbox}
	}
	cfg.Judge, err = s.judge(judge.Replay, nil)
	return cfg, err
}

// retried chooses the cases that are run again, nil unless there are such.
func (s *Setup) retried() func(*scenario.Case) bool {
	if s.retry == nil {
		return nil
	}
	return func(c *scenario.Case) bool { return s.retry.cases[c.ID] }
}
