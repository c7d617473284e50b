package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/sandbox/calls"
	"tallystick/internal/run/sandbox/firstprocess"
	"tallystick/internal/run/sandbox/runfolder"
	"tallystick/internal/run/sandbox/runsc"
)

// A gvisorPool keeps gVisor running between jobs and starts a fresh
// process for each, as a user of its own. It starts with the first job. A
// sandbox in which something could not be ended is thrown away.
type gvisorPool struct {
	options Options
	base    *runfolder.Base
	slots   chan struct{} // bounds the jobs at once

	mu   sync.Mutex
	warm map[int64]*warmGvisor // by memory limit, which belongs to the sandbox
	user uint32                // the last one given to a job
}

// defaultJobs is how many jobs share a sandbox at once; chosen for the two
// cores of a small machine.
const defaultJobs = 2

// firstUser is above every user that an image could know.
const firstUser = 100000

func newGvisorPool(o Options, base *runfolder.Base) *gvisorPool {
	if o.Jobs == 0 {
		o.Jobs = defaultJobs
	}
	return &gvisorPool{options: o, base: base, slots: make(chan struct{}, o.Jobs),
		warm: map[int64]*warmGvisor{}, user: firstUser}
}

func (g *gvisorPool) close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	var errs []error
	for memory, w := range g.warm {
		errs = append(errs, w.close())
		delete(g.warm, memory)
	}
	return errors.Join(errs...)
}

func (g *gvisorPool) run(ctx context.Context, stdin []byte, limits Limits) (Result, error) {
	select {
	case g.slots <- struct{}{}:
		defer func() { <-g.slots }()
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	}
	w, user, err := g.sandboxFor(ctx, limits)
	if err != nil && ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	if err != nil {
		return Result{}, refusal.Newf(refusal.SandboxFailed, "starting gvisor: %w", err)
	}
	r, err := w.run(ctx, stdin, limits, user)
	if err != nil {
		g.discard(limits.MemoryBytes, w)
		if ctx.Err() != nil {
			return Result{}, context.Cause(ctx)
		}
		return Result{}, refusal.Newf(refusal.SandboxFailed, "running gvisor: %w", err)
	}
	return r, nil
}

// sandboxFor returns a running sandbox with this memory limit and a user that
// no job had before.
func (g *gvisorPool) sandboxFor(ctx context.Context, limits Limits) (*warmGvisor, uint32, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.user++
	w := g.warm[limits.MemoryBytes]
	if w != nil && w.alive() {
		return w, g.user, nil
	}
	if w != nil {
		delete(g.warm, limits.MemoryBytes)
		w.close()
	}
	w, err := startWarm(ctx, g.options, g.base, limits)
	if err != nil {
		return nil, 0, err
	}
	g.warm[limits.MemoryBytes] = w
	return w, g.user, nil
}

func (g *gvisorPool) discard(memory int64, w *warmGvisor) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.warm[memory] == w {
		delete(g.warm, memory)
	}
	w.close()
}

// A warmGvisor is a sandbox whose first process only waits.
type warmGvisor struct {
	*gvisor
	options Options
	control runsc.Control
	running *running
	stdin   *os.File // closing it ends the first process
	forking sync.Mutex
	zygote  *zygote // for Python; guarded by forking
	once    sync.Once
	err     error
}

const startDeadline = 20 * time.Second

func startWarm(ctx context.Context, o Options, base *runfolder.Base, limits Limits) (*warmGvisor, error) {
	s, err := rubricSetup(o, base, limits)
	if err != nil {
		return nil, err
	}
	s.jobs = o.Jobs
	if err := s.pause(o); err != nil {
		s.remove()
		return nil, err
	}
	g, err := newGvisor(s, true)
	if err != nil {
		s.remove()
		return nil, err
	}
	w := &warmGvisor{gvisor: g, options: o, control: runsc.ControlOf(s.folder.Path(stateDir), gvisorID)}
	if err := w.start(ctx); err != nil {
		if msg := g.complaint(); msg != "" {
			err = fmt.Errorf("%w: %s", err, msg)
		}
		w.close()
		return nil, err
	}
	return w, nil
}

// pause makes the first process one that only waits.
func (s *setup) pause(o Options) error {
	if o.Image == nil {
		inside := "/" + firstprocess.ProgramDir + "/" + pauseName
		s.command = []string{inside}
		return s.show(mount{host: s.executable, inside: inside})
	}
	if _, err := s.folder.Write("pause/pause.py", []byte(pausePython)); err != nil {
		return err
	}
	if _, err := s.folder.Write("pause/zygote.py", zygotePython); err != nil {
		return err
	}
	s.command = append(append([]string{}, o.Image.About.Command...), "/tmp/pause.py")
	return s.show(mount{host: s.folder.Path("pause"), inside: "/tmp", folder: true})
}

func (w *warmGvisor) start(ctx context.Context) error {
	l, err := w.launch()
	if err != nil {
		return err
	}
	inR, inW, err := os.Pipe()
	if err != nil {
		return err
	}
	defer inR.Close()
	w.stdin = inW
	outR, outW, err := os.Pipe()
	if err != nil {
		return err
	}
	defer outR.Close()
	letIn(inR, outW)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	w.running, err = l.start(inR, outW, null)
	outW.Close()
	if err != nil {
		return err
	}
	w.watch.start(w.running, nil)
	// Whose memory it was cannot be told from outside: the whole sandbox goes.
	go func() {
		select {
		case <-w.watch.over:
			w.running.kill()
		case <-w.running.exited:
		}
	}()
	return awaitPause(ctx, outR)
}

// awaitPause waits until the first process says that it waits.
func awaitPause(ctx context.Context, said *os.File) error {
	said.SetReadDeadline(time.Now().Add(startDeadline))
	stop := context.AfterFunc(ctx, func() { said.SetReadDeadline(time.Now()) })
	defer stop()
	line, err := bufio.NewReader(said).ReadString('\n')
	if err == nil && line != pauseReady {
		err = fmt.Errorf("its first process said %q", line)
	}
	if err != nil {
		return fmt.Errorf("waiting for the sandbox: %w", err)
	}
	return nil
}

func (w *warmGvisor) alive() bool {
	select {
	case <-w.running.exited:
		return false
	default:
		return true
	}
}

func (w *warmGvisor) run(ctx context.Context, stdin []byte, limits Limits, user uint32) (Result, error) {
	seen := calls.RubricLog(w.image)
	if w.trace != nil {
		w.trace.Share(user, seen)
		defer w.trace.Unshare(user)
	}
	e, err := w.converse(ctx, stdin, limits, user)
	if err != nil && ctx.Err() == nil && w.outOfMemory() {
		e, err = ending{verdict: OOM, exit: 128 + int(unix.SIGKILL)}, nil
	}
	if err != nil {
		return Result{}, err
	}
	if w.trace != nil {
		w.trace.Settle()
		if err := w.trace.Heard(); err != nil {
			return Result{}, err
		}
	}
	o := outcome{ending: e, peak: w.watch.peak()}
	o.counted(w.cgroup)
	r := o.ofRubric(w.python)
	r.Attempted, r.Watched = seen.Attempts(), !w.options.Blind
	return r, nil
}

// converse runs the rubric as a process of its own, forked if it is Python.
func (w *warmGvisor) converse(ctx context.Context, stdin []byte, limits Limits, user uint32) (ending, error) {
	t := talk{stdin: bytes.NewReader(stdin), timeout: limits.Timeout, output: limits.OutputBytes}
	if !w.python {
		return converse(ctx, t, nil, func(stdin, stdout, stderr *os.File) (*running, error) {
			return w.watched(w.control.Start(runsc.Process{
				Command: rubricCommand(w.options, limits),
				Env:     rubricEnv(w.options),
				Dir:     rubricDir,
				User:    user,
				Files:   []*os.File{stdin, stdout, stderr},
			}))
		})
	}
	w.forking.Lock()
	z, run, s, err := w.nextRun()
	w.forking.Unlock()
	if err != nil {
		return ending{}, err
	}
	defer func() {
		w.forking.Lock()
		z.done()
		w.forking.Unlock()
	}()
	t.streams = s
	return converse(ctx, t, nil, func(_, _, _ *os.File) (*running, error) {
		w.forking.Lock()
		defer w.forking.Unlock()
		return w.watched(z.fork(run, user))
	})
}

// nextRun takes a run of the present zygote, or of a new one.
func (w *warmGvisor) nextRun() (z *zygote, run int, s *streams, err error) {
	if w.zygote == nil || w.zygote.next == len(w.zygote.streams) {
		if w.zygote, err = startZygote(w.control, w.options); err != nil {
			return nil, 0, nil, err
		}
	}
	run, s = w.zygote.take()
	return w.zygote, run, s, nil
}

// outOfMemory reports whether the sandbox as a whole was ended for memory.
func (w *warmGvisor) outOfMemory() bool {
	return w.watch.wasExceeded() || w.cgroup != nil && w.cgroup.OOMKills() > 0
}

// watched is a process of the sandbox that was just started.
func (w *warmGvisor) watched(pid int32, err error) (*running, error) {
	if err != nil {
		return nil, err
	}
	r := &running{exited: make(chan struct{}), kill: func() { w.control.Kill(pid) }}
	go func() {
		defer close(r.exited)
		var status unix.WaitStatus
		if status, r.err = w.control.Wait(pid); status.Signaled() {
			r.exit = 128 + int(status.Signal())
		} else {
			r.exit = status.ExitStatus()
		}
	}()
	return r, nil
}

func (w *warmGvisor) close() error {
	w.once.Do(func() {
		if w.stdin != nil {
			w.stdin.Close()
		}
		w.forking.Lock()
		if w.zygote != nil {
			w.zygote.close()
		}
		w.forking.Unlock()
		if w.running != nil {
			w.memory.pids() // while gVisor still has them written down
			w.running.kill()
			<-w.running.exited
		}
		w.err = errors.Join(w.settle(), w.gvisor.remove(), w.setup.remove())
	})
	return w.err
}
