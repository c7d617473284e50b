package sandbox

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/sandbox/calls"
	"tallystick/internal/run/sandbox/cgroup"
	"tallystick/internal/run/sandbox/firstprocess"
	"tallystick/internal/run/sandbox/runfolder"
)

//go:embed warm.py
var warmPython []byte

const warmScript = firstprocess.ProgramDir + "/warm.py"

// A Warm is a sandbox in which an agent is preloaded. It is safe for concurrent
// use. Close it.
type Warm struct {
	options WarmOptions
	class   Class
	base    *runfolder.Base
	mounts  []mount
	slots   chan struct{}

	mu     sync.Mutex
	box    *warmBox
	failed error // of the imports: they would fail again
	// unrehearsed says why no rehearsal is tried any more.
	unrehearsed string
}

// OpenWarm finds the class and checks the mounts. The sandbox starts with the
// first run.
func OpenWarm(ctx context.Context, o WarmOptions) (*Warm, error) {
	if err := o.Agent.settle(); err != nil {
		return nil, err
	}
	if o.Jobs == 0 {
		o.Jobs = defaultJobs
	}
	if o.Patience == 0 {
		o.Patience = DefaultPreloadPatience
	}
	class, base, err := o.Agent.chooseClass(ctx)
	if err != nil {
		return nil, err
	}
	w := &Warm{options: o, class: class, base: base, slots: make(chan struct{}, o.Jobs)}
	w.options.Agent.WorkFolder = ""
	if w.mounts, err = w.options.Agent.checkMounts(base); err != nil {
		return nil, err
	}
	return w, nil
}

// Class is the isolation that was chosen.
func (w *Warm) Class() Class { return w.class }

// Close ends the sandbox.
func (w *Warm) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.box == nil {
		return nil
	}
	err := w.box.close()
	w.box = nil
	return err
}

// Preload imports, if that was not done yet, and says what.
func (w *Warm) Preload(ctx context.Context) (Preload, []Attempt, error) {
	b, err := w.ready(ctx)
	if err != nil {
		return Preload{}, nil, err
	}
	return b.preload, b.attempts, nil
}

// ready returns a sandbox with everything imported. One that died is made
// again; imports that failed are not tried again.
func (w *Warm) ready(ctx context.Context) (*warmBox, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed != nil {
		return nil, w.failed
	}
	if w.box != nil && w.box.alive() {
		return w.box, nil
	}
	if w.box != nil {
		w.box.close()
		w.box = nil
	}
	b, err := startWarmBox(ctx, w)
	if errors.As(err, new(*rehearsalError)) { // the next one does without
		b.close()
		w.unrehearsed = err.Error()
		b, err = startWarmBox(ctx, w)
	}
	if b != nil && err != nil {
		b.close()
	}
	var unfit *PreloadError
	if errors.As(err, &unfit) {
		w.failed = err
	}
	if err != nil {
		return nil, err
	}
	w.box = b
	return b, nil
}

func (w *Warm) discard(b *warmBox) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.box == b {
		w.box = nil
	}
	b.close()
}

func (w *Warm) run(ctx context.Context, o AgentOptions) (AgentResult, error) {
	select {
	case w.slots <- struct{}{}:
		defer func() { <-w.slots }()
	case <-ctx.Done():
		return AgentResult{}, context.Cause(ctx)
	}
	b, err := w.ready(ctx)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return AgentResult{}, err
	}
	folder, err := filepath.Rel(w.options.Folders, o.WorkFolder)
	if err != nil || !filepath.IsLocal(folder) || folder == "." {
		return AgentResult{}, refusal.Newf(refusal.Usage, "working folder %s: not in %s", o.WorkFolder, w.options.Folders)
	}
	owner, err := lendFolder(o.WorkFolder)
	if err != nil {
		return AgentResult{}, refusal.Newf(refusal.WriteFailed, "lending the working folder: %w", err)
	}
	seen := calls.AgentLog(o.hiddenNames(), b.shown, o.Asked...)
	var out outcome
	emptied := true
	p, err := b.takeRoom()
	if err == nil {
		out, emptied, err = b.run(ctx, p, o, firstprocess.Task{Work: folder}, seen)
	}
	if !emptied {
		w.discard(b) // so that nothing of the case is left
	}
	var gone discards
	if backErr := owner.takeBack(&gone); backErr != nil && err == nil {
		return AgentResult{}, refusal.Newf(refusal.WriteFailed, "taking the working folder back: %w", backErr)
	}
	r := AgentResult{Attempted: seen.Attempts(), Watched: !w.options.Agent.Blind}
	if err != nil && ctx.Err() != nil {
		return r, context.Cause(ctx)
	}
	if err != nil {
		return r, refusal.Newf(refusal.SandboxFailed, "running the agent: %w", err)
	}
	attempted := r.Attempted
	r = out.ofAgent()
	r.Attempted, r.Watched = attempted, !w.options.Agent.Blind
	r.Discarded, r.Discards = gone.first, gone.count
	return r, nil
}

// A warmBox is one running sandbox with its preloader.
type warmBox struct {
	*setup
	options WarmOptions
	class   Class
	gvisor  *gvisor // nil in namespaces
	channel *channel
	cgroup  *cgroup.Group
	watch   *memoryWatch
	running *running
	shown   []string
	rooms   rooms       // in namespaces
	asked   *supervisor // the same

	preload  Preload
	attempts []Attempt // of the imports
	home     string    // the name of the preloader's room

	mu      sync.Mutex
	last    int
	waiting map[int]chan firstprocess.Report
	idle    []*idleRoom
	closing bool          // no more rooms are made
	ready   chan struct{} // closed when the sandbox is built
	lost    chan struct{} // closed when the keeper is gone
	why     error         // and why, if it said so
	once    sync.Once
	err     error
	making  sync.WaitGroup // of idle rooms
}

func startWarmBox(ctx context.Context, w *Warm) (*warmBox, error) {
	b := &warmBox{options: w.options, class: w.class, waiting: map[int]chan firstprocess.Report{}, ready: make(chan struct{}), lost: make(chan struct{})}
	var err error
	if b.setup, err = warmSetup(w); err == nil {
		for _, m := range b.mounts[1:] {
			b.shown = append(b.shown, m.inside)
		}
		err = b.start()
	}
	if err != nil {
		if b.gvisor != nil && b.gvisor.complaint() != "" {
			err = fmt.Errorf("%w: %s", err, b.gvisor.complaint())
		}
		return b, refusal.Newf(refusal.SandboxFailed, "preparing a warm sandbox: %w", err)
	}
	if err := b.importAll(ctx); err != nil {
		return b, err
	}
	if b.preload.Unrehearsed = w.unrehearsed; w.unrehearsed != "" || w.options.Rehearsal == nil {
		return b, nil
	}
	return b, b.rehearse(ctx)
}

// warmSetup lays out the sandbox: what every case sees, the folder of all
// working folders, and the preloader.
func warmSetup(w *Warm) (*setup, error) {
	s, err := agentSetup(w.options.Agent, w.mounts, w.base)
	if err != nil {
		return nil, err
	}
	s.warm, s.jobs = true, 2*w.options.Jobs+1 // idle forks and the preloader have memory too
	s.rlimits[unix.RLIMIT_NPROC] = uint64((w.options.Agent.Limits.Tasks + 64) * (w.options.Jobs + 1))
	err = s.show(mount{host: w.options.Folders, inside: firstprocess.CasesDir, folder: true, writable: true})
	if err == nil {
		_, err = s.folder.Write("root/"+warmScript, warmPython)
	}
	if err != nil {
		s.remove()
		return nil, err
	}
	return s, nil
}

// start starts the keeper.
func (b *warmBox) start() error {
	l, err := b.class.made().keep(b)
	if err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	if b.running, err = l.start(null, null, null); err != nil {
		return err
	}
	b.channel.theirs.Close()
	b.watch.start(b.running, b.ready) // before, its /tmp is the host's
	// Whose memory it was cannot be told from outside: the whole sandbox goes.
	go func() {
		select {
		case <-b.watch.over:
			b.running.kill()
		case <-b.running.exited:
		}
	}()
	go b.listen()
	return nil
}

// listen takes the keeper's reports until it is gone.
func (b *warmBox) listen() {
	defer close(b.lost)
	buf := make([]byte, 128<<10)
	for {
		n, rights, err := firstprocess.ReceiveMany(int(b.channel.conn.Fd()), buf, 4)
		firstprocess.CloseFds(rights)
		if err != nil {
			return
		}
		switch buf[0] {
		case firstprocess.SaysReady:
			close(b.ready) // once: the keeper is ours
		case firstprocess.SaysFailed:
			b.why = errors.New(firstprocess.HeadString(buf[1:n]))
		case firstprocess.SaysReport:
			var r firstprocess.Report
			if json.Unmarshal(buf[1:n], &r) != nil {
				continue
			}
			b.mu.Lock()
			if c := b.waiting[r.Case]; c != nil {
				c <- r // it has room for what it waits for
				delete(b.waiting, r.Case)
			} else if r.Failed != "" && b.why == nil {
				b.why = errors.New(firstprocess.HeadString([]byte(r.Failed)))
			}
			b.mu.Unlock()
		}
	}
}

// order sends an order, and descriptors with it.
func (b *warmBox) order(o firstprocess.Order, files ...*os.File) error {
	o.Streams = len(files)
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	return unix.Sendmsg(int(b.channel.conn.Fd()), text, rights, nil, unix.MSG_NOSIGNAL)
}

// expect makes the place where a report goes.
func (b *warmBox) expect(id int) chan firstprocess.Report {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := make(chan firstprocess.Report, 1)
	b.waiting[id] = c
	return c
}

func (b *warmBox) room() *firstprocess.Room {
	r := &firstprocess.Room{TmpSize: b.limits.MemoryBytes}
	if add := b.class.made().room; add != nil {
		add(r)
	}
	return r
}

// importAll starts the preloader and waits until it has imported.
func (b *warmBox) importAll(ctx context.Context) error {
	a := b.options.Agent
	command := append([]string{a.Command[0], "/" + warmScript}, a.Command[1:]...)
	seen := calls.AgentLog(a.hiddenNames(), b.shown, a.Asked...)
	c, err := openChannel(nil, firstprocess.Plan{Command: command, Env: a.Env, Dir: "/", Room: b.room()})
	if err != nil {
		return err
	}
	defer c.close()
	name := ""
	c.give(nil, func(room string) { name = room; b.share(room, seen) }, nil)
	answer := b.expect(0)
	var said firstprocess.Report
	done := make(chan struct{})
	e, err := converse(ctx, talk{timeout: b.options.Patience, output: preloadOutput}, nil, func(stdin, stdout, stderr *os.File) (*running, error) {
		r := &running{exited: make(chan struct{}), kill: func() {
			select {
			case <-done:
			default:
				b.running.kill()
			}
		}}
		if err := b.order(firstprocess.Order{}, c.theirs, stdin, stderr, stderr); err != nil {
			return nil, err
		}
		c.start()
		b.supervise(c)
		go func() {
			defer close(r.exited)
			select {
			case said = <-answer:
				close(done)
			case <-b.lost:
				said.Failed = "the sandbox ended while it imported"
			}
		}()
		return r, nil
	})
	c.close()
	if err != nil {
		return err
	}
	if b.settleTrace(); b.gvisor != nil && b.gvisor.trace != nil {
		if err := b.gvisor.trace.Heard(); err != nil {
			return refusal.Newf(refusal.SandboxFailed, "preparing a warm sandbox: %w", err)
		}
	}
	b.share(name, nil)
	b.home = name
	b.rooms.preloader(name)
	b.attempts = seen.Attempts()
	return b.judge(said, e)
}

// preloadOutput is more than imports can print in their time: what they print is
// thrown away but for its beginning.
const preloadOutput = 1 << 40

func (b *warmBox) judge(r firstprocess.Report, e ending) error {
	var said struct {
		Preload
		Failed  string
		At      string
		Network bool
	}
	if len(r.Preloaded) > 0 {
		if err := json.Unmarshal(r.Preloaded, &said); err != nil {
			return &PreloadError{Reason: "the preloader's report cannot be read", Stderr: e.stderr}
		}
	}
	unfit := &PreloadError{Reason: said.Failed, Network: said.Network, Stderr: e.stderr}
	switch {
	case e.verdict == Timeout:
		unfit.Reason = fmt.Sprintf("the imports did not end within %v", b.options.Patience)
	case r.Failed != "":
		unfit.Reason = r.Failed
	case said.Failed != "" && said.At != "":
		unfit.Reason = said.At + ": " + said.Failed
	case said.Failed != "":
	case r.Threads > 1:
		unfit.Reason = fmt.Sprintf("the imports left %d threads running, which no fork has", r.Threads-1)
	default:
		b.preload = said.Preload
		b.preload.StderrHead, b.preload.Left = e.stderr, r.Left
		return nil
	}
	if e.verdict == "" && b.outOfMemory() {
		unfit.Reason = "the imports take more memory than the limit"
	}
	unfit.Reason = strings.ToValidUTF8(unfit.Reason, "\uFFFD")
	for _, a := range b.attempts {
		unfit.Network = unfit.Network || a.Act == calls.Address
	}
	return unfit
}

// share makes the calls in a room go to a log, until that is nil.
func (b *warmBox) share(room string, log *calls.Log) {
	switch {
	case b.gvisor == nil:
		b.rooms.share(room, log)
	case b.gvisor.trace != nil:
		b.gvisor.trace.Settle() // what made the room is not the agent's doing
		b.gvisor.trace.ShareRoom(room, log)
	}
}

// settleTrace returns when every call made so far has been judged. In namespaces
// each is, before it is answered.
func (b *warmBox) settleTrace() {
	if b.gvisor != nil && b.gvisor.trace != nil {
		b.gvisor.trace.Settle()
	}
}

// supervise answers the kernel's questions about the preloader and all that it
// forks.
func (b *warmBox) supervise(c *channel) {
	if b.gvisor != nil {
		return
	}
	b.asked = b.supervisor()
	b.asked.Room = b.rooms.of
	go b.asked.supervise(c, 0)
}

// rooms tell the rooms of a namespace sandbox apart by their mount namespaces.
type rooms struct {
	mu    sync.Mutex
	logs  map[string]*calls.Log
	joins string // the room from which others may be joined
}

func (r *rooms) share(name string, log *calls.Log) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.logs == nil {
		r.logs = map[string]*calls.Log{}
	}
	if r.logs[name] = log; log == nil {
		delete(r.logs, name)
	}
}

// preloader says that imports are over: from its room, processes now join
// others.
func (r *rooms) preloader(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.joins = name
}

// of finds the log for a process. What is in no room of ours is recorded
// nowhere, and allowed nothing.
func (r *rooms) of(pid int) (*calls.Log, bool) {
	name, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/ns/mnt")
	r.mu.Lock()
	defer r.mu.Unlock()
	if log := r.logs[name]; log != nil && err == nil {
		return log, false
	}
	return calls.AgentLog(nil, nil), err == nil && name == r.joins
}

// run gives a room a case, and waits for its end. It reports whether nothing is
// left in the room.
func (b *warmBox) run(ctx context.Context, p *idleRoom, o AgentOptions, t firstprocess.Task, seen *calls.Log) (out outcome, emptied bool, err error) {
	defer b.leave(p)
	t.Env, t.Dir = o.Env, o.Dir
	if o.Gateway != nil {
		t.Port = o.GatewayPort
	}
	over := make(chan Verdict, 1)
	name, peak := "", int64(0)
	p.channel.give(o.Gateway, func(room string) { name = room; b.share(room, seen) }, func(bytes int64, tasks int) {
		if peak = max(peak, bytes); bytes > o.Limits.MemoryBytes {
			end(over, OOM)
		}
		if tasks > o.Limits.Tasks {
			end(over, Killed)
		}
	})
	disk := newDiskWatch(o.WorkFolder, o.Limits, over)
	defer disk.stop()
	var r *running
	e, err := converse(ctx, talk{stdin: o.Stdin, timeout: o.Limits.Timeout, output: o.Limits.OutputBytes, onStdout: o.OnStdout, streams: p.streams}, over,
		func(_, _, _ *os.File) (*running, error) {
			r = &running{pid: b.running.pid, exited: make(chan struct{}), kill: func() { b.order(firstprocess.Order{Case: p.id, End: true}) }}
			if err := p.channel.send(t); err != nil {
				return nil, err
			}
			disk.start(r)
			go b.await(r, p.answer)
			return r, nil
		})
	if err != nil && ctx.Err() == nil && b.outOfMemory() {
		e, err = ending{verdict: OOM, exit: 128 + int(unix.SIGKILL)}, nil
	}
	b.settleTrace()
	p.channel.close()
	b.share(name, nil)
	if err == nil {
		err = p.channel.err
	}
	return outcome{ending: e, peak: peak}, r != nil && r.emptied(), err
}

// emptied reports whether it ended, and was seen to.
func (r *running) emptied() bool {
	select {
	case <-r.exited:
		return r.err == nil
	default:
		return false
	}
}

// await waits for the end of a case.
func (b *warmBox) await(r *running, answer chan firstprocess.Report) {
	defer close(r.exited)
	select {
	case said := <-answer:
		if r.exit = said.Status; said.Failed != "" {
			r.err = errors.New(said.Failed)
		}
	case <-b.lost:
		r.err = errors.Join(errors.New("the warm sandbox ended"), b.why)
	}
}

func (b *warmBox) alive() bool {
	select {
	case <-b.lost:
		return false
	case <-b.running.exited:
		return false
	default:
		return true
	}
}

// outOfMemory reports whether the sandbox as a whole was ended for memory.
func (b *warmBox) outOfMemory() bool {
	return b.watch.wasExceeded() || b.cgroup != nil && b.cgroup.OOMKills() > 0
}

func (b *warmBox) close() error {
	b.once.Do(func() {
		if b.setup == nil {
			return
		}
		if b.running != nil {
			if b.gvisor != nil {
				b.gvisor.memory.pids() // while gVisor still has them written down
			}
			unix.Shutdown(int(b.channel.conn.Fd()), unix.SHUT_RDWR)
			b.running.kill()
			<-b.running.exited
			<-b.lost
		}
		b.leaveAll()
		if b.asked != nil {
			<-b.asked.done
		}
		b.err = errors.Join(b.empty(), b.setup.remove())
	})
	return b.err
}

// empty waits until no process is left and takes away what is not in the run
// folder.
func (b *warmBox) empty() error {
	if b.gvisor != nil {
		return errors.Join(b.gvisor.settle(), b.gvisor.remove())
	}
	if b.watch != nil {
		b.watch.stop()
	}
	if b.channel != nil {
		b.channel.close()
	}
	if b.cgroup != nil {
		return b.cgroup.Remove()
	}
	return nil
}
