package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"tallystick/internal/refusal"
)

// A namespaceCase runs every job in fresh namespaces on the host's kernel.
type namespaceCase struct {
	options Options
	base    *runBase
}

func (n *namespaceCase) close() error { return nil }

func (n *namespaceCase) run(ctx context.Context, stdin []byte, limits Limits) (Result, error) {
	began := time.Now()
	folder, err := n.base.make()
	if err != nil {
		return Result{}, err
	}
	defer folder.remove()
	r, err := n.runIn(ctx, folder, stdin, limits)
	if err != nil {
		return Result{}, refusal.Newf(refusal.SandboxFailed, "running in namespaces: %w", err)
	}
	r.Wall = time.Since(began)
	return r, nil
}

func (n *namespaceCase) runIn(ctx context.Context, folder *runFolder, stdin []byte, limits Limits) (Result, error) {
	plan, binds, err := n.plan(folder, limits)
	if err != nil {
		return Result{}, err
	}
	group := newCgroup(folder, limits.MemoryBytes+namespaceOverhead, maxTasks)
	if group != nil {
		defer group.remove()
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return Result{}, err
	}
	defer ours.Close()

	l := &launch{
		executable: n.options.Executable,
		args:       []string{initName},
		cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP,
		files:      []*os.File{theirs},
		binds:      binds,
		cgroup:     group,
	}
	seen := &attempts{}
	if n.options.Image != nil {
		if seen.image, err = os.OpenRoot(n.options.Image.Root()); err != nil {
			theirs.Close()
			return Result{}, err
		}
		defer seen.image.Close()
	}
	s := &supervisor{attempts: seen, watch: plan.Policy.Watch, done: make(chan struct{})}
	if n.options.Image != nil {
		s.addressSpace = uint64(limits.MemoryBytes)
	}
	started := false
	e, err := converse(ctx, talkOf(stdin, limits), nil, func(stdin, stdout, stderr *os.File) (*running, error) {
		r, err := l.start(stdin, stdout, stderr)
		theirs.Close()
		if err == nil {
			started = true
			go s.serve(ours, plan, r.pid)
		}
		return r, err
	})
	if !started {
		return Result{}, err
	}
	ours.Close()
	<-s.done
	if err != nil {
		return Result{}, err
	}
	if e.verdict == "" && s.err != nil {
		return Result{}, s.err
	}
	r := verdictOf(e, n.options.Image != nil)
	if group != nil {
		r.MaxRSS = max(r.MaxRSS, group.peak())
		if group.oomKills() > 0 {
			r.Verdict = OOM
		}
	}
	r.Attempted = seen.snapshot()
	r.Watched = !n.options.Blind
	return r, nil
}

// namespaceOverhead is what our own program needs, in the cgroup, until it
// becomes the rubric.
const namespaceOverhead = 64 << 20

// plan lays the run folder out and says what the first process shall do.
func (n *namespaceCase) plan(folder *runFolder, limits Limits) (initPlan, []bind, error) {
	rubric, err := folder.writeRubric(n.options.Rubric)
	if err != nil {
		return initPlan{}, nil, err
	}
	root, err := folder.mkdir("root", 0o755)
	if err != nil {
		return initPlan{}, nil, err
	}
	plan := initPlan{
		Root:    root,
		Binds:   map[string]string{"/": root, rubricDir: rubric},
		Command: rubricCommand(n.options, limits),
		Env:     rubricEnv(n.options),
		Policy:  policy{Threads: n.options.Image == nil, Watch: n.options.Image != nil && !n.options.Blind},
		Rlimits: map[int]uint64{
			unix.RLIMIT_CORE: 0, unix.RLIMIT_FSIZE: 0, unix.RLIMIT_MEMLOCK: 0, unix.RLIMIT_MSGQUEUE: 0,
			unix.RLIMIT_NOFILE: 64, unix.RLIMIT_STACK: 8 << 20,
		},
	}
	if n.options.Image != nil {
		b := bind{from: n.options.Image.Root(), to: root}
		plan.Binds["/"] = b.source()
		return plan, []bind{b}, nil
	}
	// Go's runtime reserves far more address space than it uses; what it
	// really writes to counts as data.
	plan.Rlimits[unix.RLIMIT_DATA] = uint64(limits.MemoryBytes) + namespaceOverhead
	exe, err := folder.write("exe", nil)
	if err != nil {
		return initPlan{}, nil, err
	}
	inside := filepath.Join(programDir, starlarkName)
	if _, err := folder.write(filepath.Join("root", inside), nil); err != nil {
		return initPlan{}, nil, err
	}
	// gVisor, which is linked into the interpreter, looks for this file when
	// the program starts. An ordinary file will do; there is no /proc.
	if _, err := folder.write("root/proc/sys/vm/mmap_min_addr", []byte("65536\n")); err != nil {
		return initPlan{}, nil, err
	}
	if err := os.Mkdir(filepath.Join(root, rubricDir), 0o755); err != nil {
		return initPlan{}, nil, err
	}
	b := bind{from: n.options.Executable, to: exe}
	plan.Binds["/"+inside] = b.source()
	return plan, []bind{b}, nil
}

// socketPair makes the channel to the first process; packets keep messages
// apart.
func socketPair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "sandbox"), os.NewFile(uintptr(fds[1]), "sandbox"), nil
}

// A supervisor answers the kernel's questions about the rubric's calls.
type supervisor struct {
	attempts     *attempts
	watch        bool
	addressSpace uint64 // set when the rubric begins; 0 for none
	agent        bool   // answer as for an agent

	execs int
	done  chan struct{}
	err   error
}

// serve sends the plan, takes the listener, and answers until the rubric has
// ended.
func (s *supervisor) serve(conn *os.File, plan initPlan, pid int) {
	defer close(s.done)
	listener, err := handshake(int(conn.Fd()), plan)
	if err != nil {
		s.err = err
		return
	}
	s.listen(listener, pid)
}

// listen answers questions until nobody is left under the filter.
func (s *supervisor) listen(listener, pid int) {
	defer unix.Close(listener)
	ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
	for {
		poll := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, -1); err == unix.EINTR {
			continue
		} else if err != nil {
			s.err = fmt.Errorf("waiting for system calls: %w", err)
			return
		}
		if poll[0].Revents&unix.POLLIN == 0 {
			return // hung up
		}
		s.answer(listener, pid)
	}
}

func handshake(conn int, plan initPlan) (listener int, err error) {
	b, err := json.Marshal(plan)
	if err != nil {
		return -1, err
	}
	if err := unix.Sendto(conn, b, unix.MSG_NOSIGNAL, nil); err != nil {
		return -1, fmt.Errorf("sending the plan: %w", err)
	}
	msg, rights := make([]byte, 4096), make([]byte, unix.CmsgSpace(4))
	var n, rn int
	for {
		n, rn, _, _, err = unix.Recvmsg(conn, msg, rights, unix.MSG_CMSG_CLOEXEC)
		if err != unix.EINTR {
			break
		}
	}
	switch {
	case err != nil:
		return -1, fmt.Errorf("waiting for the sandbox: %w", err)
	case n == 0:
		return -1, errors.New("the sandbox ended before it was ready")
	case msg[0] != initReady:
		return -1, errors.New(headString(msg[1:n]))
	}
	cmsgs, err := unix.ParseSocketControlMessage(rights[:rn])
	if err != nil || len(cmsgs) != 1 {
		return -1, errors.New("the sandbox sent no listener")
	}
	fds, err := unix.ParseUnixRights(&cmsgs[0])
	if err != nil || len(fds) != 1 {
		return -1, errors.New("the sandbox sent no listener")
	}
	return fds[0], nil
}
