package lab

import (
	"context"
	"path"
	"slices"
	"strings"

	"tallystick/internal/agent"
	"tallystick/internal/archive"
	"tallystick/internal/bench"
	"tallystick/internal/evidence"
	"tallystick/internal/harness"
	"tallystick/internal/judge"
	"tallystick/internal/refusal"
	"tallystick/internal/sandbox"
	"tallystick/internal/scenario"
	"tallystick/internal/workspace"
)

// Options say what is run, and how.
type Options struct {
	Class  string
	Target string
	Cases  string // only cases whose id matches this pattern; "" for all
	Tag    string // only cases with this tag; "" for all
	Errors string // only cases that ended as errors in this attempt, or in the [Newest]; "" for all
	Repeat int    // how often each case runs; 0 for once
	Jobs   int    // cases at once; 0 for a number that suits the target

	Sandbox     sandbox.Class // in place of those of the registration; "" for those
	Scope       sandbox.Scope // the same
	UnsafeAgent bool          // run a command target without a sandbox
	Live        bool          // the network may be used

	ShowHeldOut bool // golden traces of held-out cases too

	Version string // of the program, for the records
}

// A Setup is a class and a target of a workspace, ready to be run.
type Setup struct {
	Bench  *bench.Verified
	Target *agent.Target

	place *archive.Corpus
	o     Options
	retry *retry // nil unless the errors of an attempt are run again
}

// New verifies the class and finds the target. The corpus stays the caller's.
func New(c *archive.Corpus, o Options) (*Setup, error) {
	v, err := c.Bench(o.Class)
	if err != nil {
		return nil, c.Refused(err)
	}
	return setup(c, v, o)
}

func setup(c *archive.Corpus, v *bench.Verified, o Options) (*Setup, error) {
	for _, w := range v.Warnings() {
		if w.Case == "" && v.Level() == string(bench.Scratch) {
			continue // the answer says it, at its end
		}
		c.Note("%s", strings.TrimPrefix(w.Case+": "+w.Detail, ": "))
	}
	if err := o.checkSandbox(v.Registration().Isolation); err != nil {
		return nil, err
	}
	t, err := FindTarget(c, o.Class, o.Target)
	if err != nil {
		return nil, err
	}
	o.Target = t.Name
	if t.HTTP != nil && !t.HTTP.Local() && !o.Live {
		return nil, refusal.Newf(refusal.Usage, "target %s is at %s, and a replay touches no network", t.Name, t.HTTP.URL).WithHint("give --live to allow it")
	}
	s := &Setup{Bench: v, Target: t, place: c, o: o}
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
	return s.rehearse(ctx, s.o.selector(), s.blocked, visit)
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
		Work:  harness.Work{Bench: s.Bench, Target: s.Target, Select: s.selector(), Repeat: s.o.Repeat},
		Means: harness.Means{Jobs: s.o.Jobs, Scope: s.o.Scope, Image: RubricImage, Unsafe: s.o.UnsafeAgent, Hidden: []string{s.place.Dir, state}},
		Now:   s.place.Now, Version: s.o.Version,
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

// selector is the filter that the options describe, nil if there is none.
func (s *Setup) selector() func(*scenario.Case) bool {
	chosen := s.o.selector()
	if s.retry == nil {
		return chosen
	}
	return func(c *scenario.Case) bool { return s.retry.cases[c.ID] && (chosen == nil || chosen(c)) }
}

func (o *Options) selector() func(*scenario.Case) bool {
	if o.Cases == "" && o.Tag == "" {
		return nil
	}
	return func(c *scenario.Case) bool {
		if o.Cases != "" {
			if ok, _ := path.Match(o.Cases, c.ID); !ok {
				return false
			}
		}
		return o.Tag == "" || slices.Contains(c.Tags, o.Tag)
	}
}
