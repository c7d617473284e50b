package lab

import (
	"context"
	"fmt"
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
	"tallystick/internal/run/user"
)

// A Setup is a class and a target of a workspace, ready to be run.
type Setup struct {
	Spec   harness.Spec // for this target alone
	Bench  *bench.Verified
	Target *agent.Target

	place   *dossier.Corpus
	errored map[string]bool // cases, if the errors of an attempt are run again

	permission *Permission // under which it pays; nil if the spec has the limit, or it pays nothing
}

// New verifies the class and finds the one target that the spec names. The corpus
// stays the caller's.
func New(c *dossier.Corpus, spec harness.Spec) (*Setup, error) {
	v, err := c.Bench(spec.Class)
	if err != nil {
		return nil, c.Refused(err)
	}
	return setup(c, v, spec)
}

func setup(c *dossier.Corpus, v *bench.Verified, spec harness.Spec) (*Setup, error) {
	warn(c, v)
	t, err := FindTarget(c, spec.Class, spec.Target())
	if err != nil {
		return nil, err
	}
	return setupOf(c, v, t, spec)
}

// warn tells what people should know of a class before it runs.
func warn(c *dossier.Corpus, v *bench.Verified) {
	for _, w := range v.Warnings() {
		if w.Case == "" && v.Level() == string(bench.Scratch) {
			continue // the answer says it, at its end
		}
		c.Note("%s", strings.TrimPrefix(w.Case+": "+w.Detail, ": "))
	}
}

func setupOf(c *dossier.Corpus, v *bench.Verified, t *agent.Target, spec harness.Spec) (*Setup, error) {
	if err := checkSandbox(&spec, v.Registration().Isolation); err != nil {
		return nil, err
	}
	if t.HTTP != nil && t.HTTP.InProcess {
		if err := t.HTTP.Find(c.Getenv); err != nil {
			return nil, fmt.Errorf("target %s: %w", t.Name, err)
		}
	}
	if t.HTTP != nil && !t.HTTP.Local() && !spec.Pays() {
		return nil, refusal.Newf(refusal.Usage, "target %s is at %s, and a replay touches no network", t.Name, t.HTTP.URL).
			WithHint(`"tally run %s --target %s --live --max-cost DOLLARS" allows it; to watch it or replay it, start the agent on this machine`, v.Class(), t.Name)
	}
	s := &Setup{Spec: spec.For(t.Name), Bench: v, Target: t, place: c}
	if spec.ErrorsOf == "" {
		return s, nil
	}
	var err error
	s.Spec.ErrorsOf, s.errored, err = errorsOf(c.Reading, v.Class(), t.Name, spec.ErrorsOf)
	return s, err
}

// checkSandbox refuses a class that is weaker than every one that people signed
// for, unless they allowed that: the result would look like one of theirs.
func checkSandbox(spec *harness.Spec, signed bench.Isolation) error {
	strength := func(class string) int { return -slices.Index(sandbox.Classes(), sandbox.Class(class)) }
	weakest := 0
	for _, class := range signed.Classes {
		weakest = min(weakest, strength(class))
	}
	if spec.Classes() == nil || signed.AllowWeaker || strength(string(spec.Sandbox)) >= weakest {
		return nil
	}
	return refusal.Newf(refusal.Usage, "--sandbox %s: class %s wants %s, and allow_weaker is false", spec.Sandbox, spec.Class, strings.Join(signed.Classes, " or ")).
		WithHint("leave the flag out, or have people sign a registration that allows a weaker class")
}

// Rehearse drives and grades the cases without recording anything, and gives
// them in their order.
func (s *Setup) Rehearse(ctx context.Context, visit func(*harness.Graded) error) error {
	return s.rehearse(ctx, nil, s.blocked, visit)
}

// rehearse is Rehearse for the chosen cases; blocked is told what blocked.
func (s *Setup) rehearse(ctx context.Context, choose func(*scenario.Task) bool, blocked func(evidence.IntegrityEvent) error, visit func(*harness.Graded) error) error {
	return s.rehearseIn(ctx, choose, nil, blocked, visit)
}

// rehearseIn is rehearse in the order that rank gives to the cases.
func (s *Setup) rehearseIn(ctx context.Context, choose func(*scenario.Task) bool, rank func(caseID string) int, blocked func(evidence.IntegrityEvent) error, visit func(*harness.Graded) error) error {
	cfg, err := s.config()
	if err != nil {
		return err
	}
	cfg.Select, cfg.Rank = choose, rank
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
	cfg := harness.Config{Spec: s.Spec, Bench: s.Bench, Target: s.Target, Image: RubricImage, Hidden: []string{s.place.Dir, state}, Steps: StepsOfSpans, Now: s.place.Now}
	if s.errored != nil {
		cfg.Select = func(c *scenario.Task) bool { return s.errored[c.ID] }
	}
	for _, m := range s.place.Settings.TestMounts {
		cfg.TestMounts = append(cfg.TestMounts, sandbox.Mount{Host: m.Host, Inside: m.Inside})
	}
	cfg.TestImage = s.place.Settings.TestImage
	if err := s.reuse(&cfg); err != nil {
		return cfg, err
	}
	if cfg.User, err = user.LoadSettings(s.place.Path(user.SettingsFile)); err != nil {
		return cfg, err
	}
	cfg.Judge, err = s.judge(judge.Replay, nil, nil)
	return cfg, err
}
