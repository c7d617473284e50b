package harness

import (
	"context"
	"fmt"

	"tallystick/internal/run/bench"
	"tallystick/internal/run/sandbox"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/session"
)

// A Driver drives single cases for a harness that grades them elsewhere.
type Driver struct{ w *Worker }

// A DriverClass is what a driver has of a class. It names no bench, no grader
// and no expected answer: the driver needs none.
type DriverClass struct {
	Registration bench.Registration // signed by the people of the class
	Offered      []string           // tools that the policy allows because cases offer them
}

// NewDriver checks that this machine can run what the config asks for, which has no
// bench. The caller closes the driver.
func NewDriver(ctx context.Context, cfg Config, class DriverClass) (*Driver, error) {
	reg := class.Registration
	w := &Worker{class: cfg.Spec.Class, reg: reg, limits: limitsOf(reg), memory: session.NewMemory(), cfg: cfg}
	var err error
	if w.rules, err = rulesOf(reg, class.Offered); err != nil {
		return nil, err
	}
	w.unlimit = limitMemory()
	w.rubrics = newRubrics(w.cfg, reg.Isolation)
	d := &Driver{w}
	if w.shown, err = cfg.Target.Show(); err != nil {
		d.Close()
		return nil, err
	}
	if cfg.Target.Command != nil && !cfg.Spec.Unsafe() {
		if err := sandbox.CheckAgent(ctx, w.rubrics.accept()); err != nil {
			d.Close()
			return nil, fmt.Errorf("opening the sandbox of programs: %w", err)
		}
	}
	return d, nil
}

// Drive takes the agent through one case. With tested, the case has a test,
// which the grader runs: what comes back is the final folder, and a trajectory
// without an end.
func (d *Driver) Drive(ctx context.Context, c *scenario.Task, j Job, tested bool) (*DriveResult, error) {
	r := &run{w: d.w, job: j, c: c, started: d.w.cfg.Now(), paused: tested}
	defer func() { r.result.Free() }()
	remove, err := r.prepare(ctx)
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
