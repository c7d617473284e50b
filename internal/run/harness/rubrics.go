package harness

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/sandbox"
)

// rubrics runs the class's rubric for one case after the other. The sandbox is
// opened for the first case that needs it.
type rubrics struct {
	cfg       Config
	isolation bench.Isolation // that the registration asks for
	once      sync.Once
	box       *sandbox.Sandbox
	err       error
	free      chan struct{} // one for each run that the machine has a core for
}

func newRubrics(cfg Config, isolation bench.Isolation) *rubrics {
	return &rubrics{cfg: cfg, isolation: isolation, free: make(chan struct{}, runtime.NumCPU())}
}

// openSandboxes finds out whether this machine can run what the attempt needs:
// the rubric, the tests of cases, and an agent that is a program.
func (w *Worker) openSandboxes(ctx context.Context) error {
	w.unlimit = limitMemory()
	w.rubrics = newRubrics(w.cfg, w.reg.Isolation)
	if w.usesRubric {
		if err := w.rubrics.open(ctx); err != nil {
			return err
		}
	}
	w.scripts = newScripts(w.rubrics.accept())
	for _, script := range w.userScripts {
		if _, err := w.scripts.open(ctx, script); err != nil {
			return err
		}
	}
	w.testing = w.tests()
	if !w.usesTest && len(w.worlds)+len(w.programs) == 0 && (w.cfg.Drivers != nil || w.cfg.Target.Command == nil || w.cfg.Spec.Unsafe()) {
		return nil // drivers look at their own machines
	}
	err := sandbox.CheckAgent(ctx, w.rubrics.accept())
	if err == nil && w.cfg.Drivers != nil {
		return nil // only the tests of cases run here
	}
	if err == nil {
		return w.openWarm(ctx)
	}
	err = fmt.Errorf("opening the sandbox of programs: %w", err)
	if !w.usesTest && refusal.Is(err, refusal.SandboxUnavailable) {
		return refusal.Newf(refusal.SandboxUnavailable, "%w", err).
			WithHint(`"tally doctor" says what this machine lacks. To run the agent without any: tally run %s --target %s --sandbox none. It can then do what you can, the result says so, and it never counts for promotion`, w.class, w.cfg.Target.Name)
	}
	return err
}

// openWarm preloads an agent that asks for it.
func (w *Worker) openWarm(ctx context.Context) error {
	if !w.cfg.Target.IsWarm() || w.cfg.Spec.Unsafe() {
		return nil
	}
	var err error
	if w.warm, err = w.cfg.Target.OpenWarm(ctx, w.agentOptions(nil), atOnce(w.cfg.Spec.Jobs, w.tasks)); err != nil {
		return fmt.Errorf("opening the sandbox of the preloaded agent: %w", err)
	}
	if err := w.warm.Preload(ctx); err != nil {
		return fmt.Errorf("preloading the agent: %w", err)
	}
	return nil
}

// accept lists the isolation classes that the operator chose, or else those of
// the registration.
func (r *rubrics) accept() []sandbox.Class {
	if chosen := r.cfg.Spec.Classes(); chosen != nil {
		return chosen
	}
	return accepted(r.isolation)
}

// accepted lists the classes that a registration accepts, in the order in which
// they are tried.
func accepted(isolation bench.Isolation) []sandbox.Class {
	var accept []sandbox.Class
	for _, c := range isolation.Classes {
		accept = append(accept, sandbox.Class(c))
	}
	if isolation.AllowWeaker {
		// The strongest of the others that starts.
		for _, c := range sandbox.Classes() {
			if !slices.Contains(accept, c) {
				accept = append(accept, c)
			}
		}
	}
	return accept
}

func (r *rubrics) scope() sandbox.Scope {
	return cmp.Or(r.cfg.Spec.Scope, sandbox.Scope(r.isolation.Scope))
}

// options are what the signed registration asks for, or what the operator chose
// by name.
func (r *rubrics) options() (sandbox.Options, error) {
	rubric := r.cfg.Bench.Rubric()
	o := sandbox.Options{Scope: r.scope(), Rubric: sandbox.Rubric{Main: rubric.Main, Files: rubric.Program()}, Jobs: cap(r.free), Accept: r.accept()}
	if rubric.Main != "rubric.py" {
		return o, nil
	}
	pinned, ok := r.cfg.Bench.Image()
	if !ok && r.cfg.Bench.Registration().Trust != bench.Scratch {
		return o, refusal.Newf(refusal.PinMismatch, "the rubric is Python and %s pins no image", bench.PinsFile)
	}
	var err error
	if o.Image, err = r.cfg.Image(pinned); err != nil {
		return o, err
	}
	if kind := r.cfg.Bench.ImageKind(); kind != "" && kind != string(o.Image.About.Kind) {
		return o, refusal.Newf(refusal.PinMismatch, "%s says that the image %s is %s, the image itself says %s", bench.PinsFile, pinned, kind, o.Image.About.Kind).
			WithHint("the signed pin is wrong; pin the image again with \"tally bench digest --image DIGEST\"")
	}
	return o, nil
}

// open makes the sandbox, once.
func (r *rubrics) open(ctx context.Context) error {
	r.once.Do(func() {
		var o sandbox.Options
		if o, r.err = r.options(); r.err == nil {
			// The sandbox of an attempt outlives the case that happened to be
			// the first.
			r.box, r.err = sandbox.Open(context.WithoutCancel(ctx), o)
		}
	})
	if r.err != nil {
		return fmt.Errorf("opening the sandbox of the rubric: %w", r.err)
	}
	return nil
}

// run gives the rubric one input. Before it starts, begin is told in which class
// of sandbox; if that fails it does not start.
func (r *rubrics) run(ctx context.Context, input []byte, limits bench.RubricLimits, begin func(sandbox.Class) error) (sandbox.Result, error) {
	if err := r.open(ctx); err != nil {
		return sandbox.Result{}, err
	}
	r.free <- struct{}{}
	defer func() { <-r.free }()
	if err := begin(r.box.Class()); err != nil {
		return sandbox.Result{}, err
	}
	return r.box.Run(ctx, sandbox.Job{Stdin: input, Limits: sandbox.Limits{
		Timeout: time.Duration(limits.WallClockSeconds) * time.Second, MemoryBytes: limits.MemoryBytes}})
}

func (r *rubrics) close() {
	if r != nil && r.box != nil {
		_ = r.box.Close()
	}
}
