package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tallystick/internal/run/sandbox/cgroup"
	"tallystick/internal/run/sandbox/identity"
	"tallystick/internal/run/sandbox/runfolder"
)

// A launch is one program to start in fresh namespaces.
type launch struct {
	executable string
	args       []string // args[0] is the name to start under
	cloneflags uintptr  // beyond CLONE_NEWUSER and CLONE_NEWNS, which are always set
	files      []*os.File
	folder     *runfolder.Folder // nil if the program needs none
	binds      []bind            // see privateMounts
	cgroup     *cgroup.Group     // nil for none
	keepUser   bool              // no user namespace; as root only the other namespaces are new
}

// A bind makes from visible at to, an existing file or folder of the run
// folder, for the started program alone. What lies in the run folder already
// is bound to itself, and needs nothing.
type bind struct {
	from, to string
	writable bool
	is       *identity.ID // what must be bound; nil for whatever is there
}

// A running is a program that was started.
type running struct {
	pid    int           // on this machine; 0 for a process inside gVisor
	kill   func()        // may be called at any time, also after the end
	exited chan struct{} // closed after the end; what follows is then set

	exit   int // 128+n when signal n ended it
	maxRSS int64
	err    error // its end could not be observed
}

// start forks the program. Its parent-death signal is tied to the thread that
// forked it, so that thread is kept until the end: when this process is
// killed, however it is, the sandbox dies with it.
func (l *launch) start(stdin, stdout, stderr *os.File) (*running, error) {
	program, err := openProgram(l.executable)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", l.executable, err)
	}
	defer program.Close()
	uid, gid := runfolder.HostID()
	cmd := &exec.Cmd{
		// By descriptor: the user that the sandbox runs as may not be let
		// through the folders above the program, root's home for one.
		Path: fmt.Sprintf("/proc/self/fd/%d", program.Fd()),
		Args: l.args,
		Env:  []string{}, // not nil, which would mean ours
		Dir:  "/",
		SysProcAttr: &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | l.cloneflags,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: gid, Size: 1}},
			// Without becoming user 0 of the new namespace the exec would
			// lose the capabilities that the set-up needs.
			Credential: &syscall.Credential{Uid: 0, Gid: 0, NoSetGroups: true},
			Pdeathsig:  syscall.SIGKILL,
			Setsid:     true, // Ctrl-C is for us; we end the sandbox ourselves
		},
		ExtraFiles: l.files,
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	if l.keepUser {
		a := cmd.SysProcAttr
		a.UidMappings, a.GidMappings, a.Credential = nil, nil, nil
		a.Cloneflags &^= syscall.CLONE_NEWUSER
		if os.Getuid() != 0 {
			a.Cloneflags = 0 // only a user namespace would let us make the others
		}
	}
	if l.cgroup != nil {
		if fd, ok := l.cgroup.FD(); ok {
			cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, fd
		}
	}

	r := &running{exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		keepThread, err := l.fork(cmd)
		if err == nil {
			r.pid = cmd.Process.Pid
			r.kill = func() { cmd.Process.Kill() } // harmless once it is reaped
		}
		started <- err
		if err == nil {
			cmd.Wait() // what it returns is in ProcessState too
			r.exit, r.maxRSS = exitCode(cmd.ProcessState), maxRSS(cmd.ProcessState)
			close(r.exited)
		}
		if keepThread {
			runtime.UnlockOSThread()
		}
		// Otherwise the thread ends with this goroutine, and the private
		// mount namespace with it.
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return r, nil
}

// highFd is above every descriptor that a started program inherits, so that
// placing those does not overwrite it.
const highFd = 256

// openProgram opens a program for starting it by descriptor.
func openProgram(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, highFd)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// fork runs on a locked thread. It reports whether that thread is still fit
// for other work.
func (l *launch) fork(cmd *exec.Cmd) (threadIsClean bool, err error) {
	threadIsClean = true
	if l.folder != nil && runfolder.NeedsPrivateMounts() {
		threadIsClean = false
		home, err := os.Open("/proc/thread-self/ns/mnt")
		if err != nil {
			return threadIsClean, err
		}
		defer home.Close()
		// The program has a copy by then. This thread ends soon, unless it is
		// the process's first: that one can only be left idle, and for others
		// its mounts are the mounts of this process.
		defer unix.Setns(int(home.Fd()), unix.CLONE_NEWNS)
		if err := l.privateMounts(); err != nil {
			return threadIsClean, err
		}
	}
	if l.cgroup != nil {
		if err := l.cgroup.Enter(); err != nil {
			return false, fmt.Errorf("entering the cgroup: %w", err)
		}
	}
	err = cmd.Start()
	if l.cgroup != nil {
		if leaveErr := l.cgroup.Leave(); leaveErr != nil {
			threadIsClean = false
		}
	}
	if err != nil {
		return threadIsClean, fmt.Errorf("starting in new namespaces: %w", err)
	}
	return threadIsClean, nil
}

// privateMounts gives the calling thread a mount namespace of its own, makes
// the binds there, and then shows the run folder where everybody may go. The
// host's mount table never shows any of it, so no crash can leave one behind.
func (l *launch) privateMounts() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("making a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	for _, b := range l.binds {
		if b.from == b.to {
			continue
		}
		if err := unix.Mount(b.from, b.to, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("binding %s: %w", b.from, err)
		}
		// Nothing of the host's can come between from here on.
		if err := checkPlace(b.to, b.from, b.is); err != nil {
			return err
		}
		flags := uintptr(unix.MS_BIND | unix.MS_REMOUNT | unix.MS_NOSUID | unix.MS_NODEV)
		if !b.writable {
			flags |= unix.MS_RDONLY
		}
		if err := unix.Mount("", b.to, "", flags, ""); err != nil {
			return fmt.Errorf("sealing %s: %w", b.to, err)
		}
	}
	if err := unix.Mount(l.folder.Dir, runfolder.PrivatePlace, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("showing the run folder at %s: %w", runfolder.PrivatePlace, err)
	}
	return nil
}

// An ending is why and how a conversation with a program ended.
type ending struct {
	verdict Verdict // set when we ended it, else empty
	exit    int
	stdout  []byte
	stderr  string
	maxRSS  int64
}

const (
	// afterKill is how long we wait for a killed sandbox before calling it stuck.
	// gVisor's processes take up to a second, and on a busy machine those of an agent
	// that forks without end were seen to take more than 10.
	afterKill = time.Minute
	// afterEnd is how long what a dead sandbox printed is waited for.
	afterEnd = 10 * time.Second
)

// A talk is what goes into a program and how much may come out.
type talk struct {
	stdin    io.Reader // nil for nothing
	timeout  time.Duration
	output   int64        // bytes of each stream
	onStdout func([]byte) // nil discards it
	streams  *streams     // nil for new ones
}

// streams are the two ends of a program's three streams.
type streams struct {
	inR, outW, errW *os.File // the program's
	inW, outR, errR *os.File // ours
}

func newStreams() (*streams, error) {
	s := &streams{}
	var errs [3]error
	s.inR, s.inW, errs[0] = os.Pipe()
	s.outR, s.outW, errs[1] = os.Pipe()
	s.errR, s.errW, errs[2] = os.Pipe()
	if err := errors.Join(errs[:]...); err != nil {
		s.closeTheirs()
		s.closeOurs()
		return nil, err
	}
	letIn(s.inR, s.outW, s.errW)
	return s, nil
}

// letIn hands pipes to the sandbox's user: gVisor opens them again, and root's
// would be closed to it.
func letIn(files ...*os.File) {
	uid, gid := runfolder.HostID()
	for _, f := range files {
		f.Chown(uid, gid)
	}
}

func (s *streams) closeTheirs() { closeAll(s.inR, s.outW, s.errW) }
func (s *streams) closeOurs()   { closeAll(s.inW, s.outR, s.errR) }

func closeAll(files ...*os.File) {
	for _, f := range files {
		f.Close() // nil is fine, and so is twice
	}
}

// converse starts a program, feeds its standard input, collects its output,
// and ends it when a limit is passed, when over says so, or with ctx.
func converse(ctx context.Context, t talk, over <-chan Verdict,
	start func(stdin, stdout, stderr *os.File) (*running, error)) (ending, error) {
	if t.streams == nil {
		var err error
		if t.streams, err = newStreams(); err != nil {
			return ending{}, err
		}
	}
	inW, outR, errR := t.streams.inW, t.streams.outR, t.streams.errR
	deadline := time.NewTimer(t.timeout)
	defer deadline.Stop()
	r, err := start(t.streams.inR, t.streams.outW, t.streams.errW)
	t.streams.closeTheirs()
	if err != nil {
		t.streams.closeOurs()
		return ending{}, err
	}

	tooMuch := make(chan Verdict, 2)
	stdout := streamHead{keep: t.output, limit: t.output, tell: t.onStdout}
	stderr := streamHead{keep: stderrHeadBytes, limit: t.output, last: lastBytes{keep: stderrTailBytes}}
	var readers sync.WaitGroup
	readers.Go(func() { stdout.fill(outR, tooMuch) })
	readers.Go(func() { stderr.fill(errR, tooMuch) })
	go func() {
		if t.stdin != nil {
			io.Copy(inW, t.stdin) // a program that does not read is its own affair
		}
		inW.Close()
	}()

	var e ending
	var cause error
	select {
	case <-r.exited:
	case <-deadline.C:
		e.verdict = Timeout
	case e.verdict = <-tooMuch:
	case e.verdict = <-over:
	case <-ctx.Done():
		cause = context.Cause(ctx)
	}
	r.kill()
	select {
	case <-r.exited:
	case <-time.After(afterKill):
		return ending{}, errors.New("the sandbox does not die")
	}
	// A descendant could hold the pipes open; it must not hold us.
	drained := make(chan struct{})
	go func() { readers.Wait(); close(drained) }()
	select {
	case <-drained:
	case <-time.After(afterEnd):
		outR.SetReadDeadline(time.Now())
		errR.SetReadDeadline(time.Now())
		<-drained
	}
	t.streams.closeOurs()
	if cause != nil {
		return ending{}, cause
	}
	if r.err != nil && e.verdict == "" {
		return ending{}, r.err
	}
	// The process may have ended by itself between writing too much and our
	// noticing.
	if e.verdict == "" {
		select {
		case e.verdict = <-tooMuch:
		default:
		}
	}
	e.stdout, e.stderr = stdout.bytes, stderr.text()
	e.exit, e.maxRSS = r.exit, r.maxRSS
	return e, nil
}

// A streamHead keeps the first bytes of a stream, and the last if asked to.
type streamHead struct {
	keep, limit int64
	tell        func([]byte) // given what is kept as it comes; may be nil
	bytes       []byte
	last        lastBytes // of what came after them
	total       int64
}

// text is what was kept, as text.
func (c *streamHead) text() string { return ends(c.bytes, c.last.end(), c.total) }

// fill reads from r to its end, keeps the first bytes, and says so once when
// more than the limit came.
func (c *streamHead) fill(r io.Reader, over chan<- Verdict) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		kept := buf[:max(0, min(int64(n), c.keep-int64(len(c.bytes))))]
		if c.last.keep > 0 {
			c.last.write(buf[len(kept):n])
		}
		if len(kept) > 0 {
			c.bytes = append(c.bytes, kept...)
			if c.tell != nil {
				c.tell(kept)
			}
		}
		before := c.total
		if c.total += int64(n); before <= c.limit && c.total > c.limit {
			over <- OutputLimit
		}
		if err != nil {
			return
		}
	}
}

func exitCode(s *os.ProcessState) int {
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return s.ExitCode()
}

func maxRSS(s *os.ProcessState) int64 {
	if ru, ok := s.SysUsage().(*syscall.Rusage); ok {
		return ru.Maxrss << 10 // the kernel counts in KiB
	}
	return 0
}
