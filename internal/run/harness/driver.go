package harness

import (
	"context"
	"fmt"
	"time"

	"tallystick/internal/record/evidence"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/sandbox"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/session"
)

// DriverConfig is what a case is driven with. It names no bench, no grader and no
// expected answer: whoever drives needs none.
type DriverConfig struct {
	Class        string
	Registration bench.Registration // signed by the people of the class
	Target       *agent.Target
	Offered      []string // tools that the policy allows because cases offer them
	Sandbox      []sandbox.Class
	Unsafe       bool
	Hidden       []string
	Live         Live // nil in a replay
	Replies      *evidence.PlannedReplies
	Now          func() time.Time
	Version      string
}

// A Driver drives single cases for somebody who grades them elsewhere.
type Driver struct{ w *Worker }

// NewDriver checks that this machine can run what the config asks for. The caller
// closes the driver.
func NewDriver(ctx context.Context, cfg DriverConfig) (*Driver, error) {
	reg := cfg.Registration
	w := &Worker{class: cfg.Class, reg: reg, limits: limitsOf(reg), memory: session.NewMemory(), cfg: Config{
		Work:    Work{Target: cfg.Target},
		Means:   Means{Sandbox: cfg.Sandbox, Unsafe: cfg.Unsafe, Hidden: cfg.Hidden, Replies: cfg.Replies},
		Parties: Parties{Live: cfg.Live},
		Now:     cfg.Now, Version: cfg.Version,
	}}
	var err error
	if w.rules, err = rulesOf(reg, cfg.Offered); err != nil {
		return nil, err
	}
	w.unlimit = limitMemory()
	w.rubrics = newRubrics(w.cfg, reg.Isolation)
	d := &Driver{w}
	if cfg.Target.Command != nil && !cfg.Unsafe {
		if err := sandbox.CheckAgent(ctx, w.rubrics.accept()); err != nil {
			d.Close()
			return nil, fmt.Errorf("opening the sandbox of programs: %w", err)
		}
	}
	return d, nil
}

// Drive takes the agent through one case. With tested, the case has a test, which is run
// by whoever grades: what comes back is the final folder, and a trajectory without an end.
func (d *Driver) Drive(ctx context.Context, c *scenario.Case, j Job, tested bool) (*Driven, error) {
	r := &run{w: d.w, job: j, c: c, started: d.w.cfg.Now(), paused: tested}
	defer func() { r.result.Free() }()
	remove, err := r.prepare()
	if err != nil {
		return nil, err
	}
	defer remove()
	if err := r.driveWithin(ctx); err != nil {
		return nil, err
	}
	return r.travel()
}

// Close gives back what the driver holds of this machine.
func (d *Driver) Close() { d.w.Close() }
