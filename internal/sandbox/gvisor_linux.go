package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"tallystick/internal/refusal"
	"tallystick/internal/sandbox/image"
	"tallystick/internal/sandbox/runsc"
)

// gvisorOverhead is memory of gVisor itself, which a cgroup counts too: its
// kernel, its file server, and the runsc command that starts them.
const gvisorOverhead = 256 << 20

// A gvisorCase runs every job in a fresh gVisor sandbox.
type gvisorCase struct {
	options Options
	base    *runBase
}

func (g *gvisorCase) close() error { return nil }

func (g *gvisorCase) run(ctx context.Context, stdin []byte, limits Limits) (Result, error) {
	began := time.Now()
	b, err := newGvisorBundle(g.options, g.base, limits, 1)
	if err != nil {
		return Result{}, refusal.Newf(refusal.SandboxFailed, "preparing gvisor: %w", err)
	}
	defer b.remove()
	if err := b.writeSpec(rubricCommand(g.options, limits), ordinaryUser); err != nil {
		return Result{}, refusal.Newf(refusal.SandboxFailed, "preparing gvisor: %w", err)
	}
	l := b.launch("run", "--bundle="+b.folder.dir, gvisorID)
	watch := newMemoryWatch(limits.MemoryBytes)
	defer watch.stop()
	e, err := converse(ctx, talkOf(stdin, limits), watch.over, func(stdin, stdout, stderr *os.File) (*running, error) {
		r, err := l.start(stdin, stdout, stderr)
		if err == nil {
			watch.start(r)
		}
		return r, err
	})
	if err != nil {
		return Result{}, refusal.Newf(refusal.SandboxFailed, "running gvisor: %w", err)
	}
	if err := b.settle(watch.lastPIDs()); err != nil {
		return Result{}, refusal.Newf(refusal.SandboxFailed, "ending gvisor: %w", err)
	}
	if e.verdict == "" {
		// gVisor writes to this log only when it could not do its own work.
		// The rubric cannot reach it.
		if msg := b.complaint(); msg != "" {
			return Result{}, refusal.Newf(refusal.SandboxFailed, "running gvisor: %s", msg)
		}
	}
	r := b.result(e, watch.peak())
	r.Wall = time.Since(began)
	return r, nil
}

// stateDir and gvisorID are short because gVisor makes a socket of them below
// the run folder, and a socket's path may have only 107 bytes.
const (
	stateDir = "s"
	gvisorID = "c"
)

// ordinaryUser is who the rubric is inside gVisor.
const ordinaryUser = 1000

// A gvisorBundle is one sandbox's folder and what goes with it.
type gvisorBundle struct {
	options  Options
	limits   Limits
	folder   *runFolder
	cgroup   *cgroup
	attempts *attempts
	trace    *trace // nil when blind
	config   string // the trace's, for gVisor
	root     bind   // what becomes /
	jobs     int    // how many may run in it at once
	program  bind   // this program, for Starlark and for pausing
	more     []bind // an agent's; then program and root are not set
	rubric   string
	pause    string // a folder with what the first process runs, if it is kept
}

func newGvisorBundle(o Options, base *runBase, limits Limits, jobs int) (*gvisorBundle, error) {
	folder, err := base.make()
	if err != nil {
		return nil, err
	}
	b := &gvisorBundle{options: o, limits: limits, jobs: jobs, folder: folder, attempts: &attempts{}}
	if err := b.prepare(); err != nil {
		b.remove()
		return nil, err
	}
	return b, nil
}

func (b *gvisorBundle) prepare() error {
	var err error
	if b.rubric, err = b.folder.writeRubric(b.options.Rubric); err != nil {
		return err
	}
	root, err := b.folder.mkdir("root", 0o755)
	if err != nil {
		return err
	}
	if _, err := b.folder.mkdir(stateDir, 0o700); err != nil {
		return err
	}
	b.root = bind{from: root, to: root}
	if b.options.Image != nil {
		b.root.from = b.options.Image.Root()
		if b.attempts.image, err = os.OpenRoot(b.root.from); err != nil {
			return err
		}
	} else {
		for _, m := range append([]string{programDir}, image.MountPoints...) {
			if err := os.Mkdir(filepath.Join(root, m), 0o755); err != nil {
				return err
			}
		}
		// gVisor's file server mounts over it and may not make it.
		for _, name := range []string{starlarkName, pauseName} {
			if _, err := b.folder.write(filepath.Join("root", programDir, name), nil); err != nil {
				return err
			}
		}
	}
	exe, err := b.folder.write("exe", nil)
	if err != nil {
		return err
	}
	b.program = bind{from: b.options.Executable, to: exe}
	b.cgroup = newCgroup(b.folder, b.limits.MemoryBytes*int64(b.jobs)+gvisorOverhead, maxTasks)
	// Starlark has no means to try anything, so there is nothing to watch.
	if !b.options.Blind && b.options.Image != nil {
		if b.trace, b.config, err = listenTrace(b.folder, b.attempts, tracePoints(b.options.Scope == ScopeAttempt)); err != nil {
			return err
		}
	}
	return nil
}

// launch makes a runsc command. Its namespaces are ours to make: then gVisor
// need not start itself once more to get them, and as root it is an ordinary
// user of this machine.
func (b *gvisorBundle) launch(command ...string) *launch {
	args := []string{runsc.Name,
		"--root=" + b.folder.path(stateDir),
		"--log=" + b.folder.path(stateDir+"/log"),
		"--platform=systrap",
		// Its fast path spins while it waits; a rubric is short, and two of them
		// on two cores get further without (measured: 15 % faster).
		"--systrap-disable-fast-path",
		"--network=none",
		"--gofer-network-namespace=host", // ours is new and empty
		"--rootless",
		"--ignore-cgroups", // we make them
		"--overlay2=none",
		"--oci-seccomp",
		"--host-uds=none",
		"--file-access=exclusive",
	}
	if b.trace != nil {
		args = append(args, "--pod-init-config="+b.config)
	}
	return &launch{
		executable: b.options.Executable,
		args:       append(args, command...),
		cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		binds:      b.binds(),
		cgroup:     b.cgroup,
	}
}

func (b *gvisorBundle) binds() []bind {
	if b.more != nil {
		return b.more
	}
	binds := []bind{b.program}
	if b.options.Image != nil {
		binds = append(binds, b.root)
	}
	return binds
}

// rubricCommand is the rubric's interpreter with its arguments. Its first
// element is both the file and, for Starlark, the name to run under.
func rubricCommand(o Options, limits Limits) []string {
	script := rubricDir + "/" + o.Rubric.Main
	if o.Image != nil {
		return append(append([]string{}, o.Image.About.Command...), script)
	}
	return []string{"/" + programDir + "/" + starlarkName, script, strconv.FormatInt(limits.MemoryBytes, 10)}
}

// rubricEnv is the rubric's whole environment. gVisor adds HOME by itself, so
// every class has it.
func rubricEnv(o Options) []string {
	env := []string{"HOME=/"}
	if o.Image != nil {
		env = append(env, o.Image.About.Env...)
	}
	return env
}

// writeSpec writes the OCI configuration of the sandbox.
func (b *gvisorBundle) writeSpec(command []string, user uint32) error {
	mounts := []specs.Mount{
		{Destination: rubricDir, Type: "bind", Source: b.rubric, Options: []string{"bind", "ro"}},
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"ro"}},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"ro"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"ro"}},
		{Destination: "/tmp", Type: "tmpfs", Source: "tmpfs", Options: []string{"ro", "size=0"}},
	}
	if b.pause != "" {
		mounts[len(mounts)-1] = specs.Mount{Destination: "/tmp", Type: "bind", Source: b.pause, Options: []string{"bind", "ro"}}
	}
	if b.options.Image == nil {
		for _, name := range []string{starlarkName, pauseName} {
			mounts = append(mounts, specs.Mount{Destination: "/" + programDir + "/" + name,
				Type: "bind", Source: b.program.source(), Options: []string{"bind", "ro"}})
		}
	}
	spec := specs.Spec{
		Version:  "1.0.2",
		Hostname: "sandbox",
		Root:     &specs.Root{Path: b.root.source(), Readonly: true},
		Mounts:   mounts,
		Process: &specs.Process{
			User: specs.User{UID: user, GID: user},
			Args: command, Env: rubricEnv(b.options), Cwd: rubricDir,
			Capabilities:    b.capabilities(),
			Rlimits:         b.rlimits(),
			NoNewPrivileges: true,
		},
		Linux: &specs.Linux{
			Namespaces: []specs.LinuxNamespace{{Type: specs.PIDNamespace}, {Type: specs.IPCNamespace},
				{Type: specs.UTSNamespace}, {Type: specs.MountNamespace}, {Type: specs.NetworkNamespace}},
			Seccomp: gvisorSeccomp(),
		},
	}
	j, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	_, err = b.folder.write("config.json", j)
	return err
}

// goAddressSpace is what the Go runtime of our interpreter reserves without
// using it, and 4 GiB that the Starlark library reserves for its integers.
// gVisor counts both against RLIMIT_AS.
const goAddressSpace = 6 << 30

// rlimits hold without any cgroup. With one process, the limit on its address
// space is a limit on the whole sandbox; everything outside an address space
// that could hold bytes is denied or tiny.
func (b *gvisorBundle) rlimits() []specs.POSIXRlimit {
	limit := func(name string, n uint64) specs.POSIXRlimit {
		return specs.POSIXRlimit{Type: name, Hard: n, Soft: n}
	}
	limits := []specs.POSIXRlimit{limit("RLIMIT_CORE", 0), limit("RLIMIT_FSIZE", 0), limit("RLIMIT_NOFILE", 64), limit("RLIMIT_MEMLOCK", 0)}
	if b.options.Image != nil {
		return append(limits, limit("RLIMIT_AS", uint64(b.limits.MemoryBytes)), limit("RLIMIT_NPROC", b.processes()))
	}
	return append(limits, limit("RLIMIT_AS", uint64(b.limits.MemoryBytes)+goAddressSpace), limit("RLIMIT_NPROC", 64))
}

// capabilities are none; a first process that only waits may exist in spite of
// the limit on processes.
func (b *gvisorBundle) capabilities() *specs.LinuxCapabilities {
	if b.pause == "" {
		return &specs.LinuxCapabilities{}
	}
	set := []string{"CAP_SYS_RESOURCE"}
	return &specs.LinuxCapabilities{Bounding: set, Effective: set, Permitted: set, Ambient: set}
}

// processes is how many a user may start. gVisor counts a process for the user
// who forked it, whoever it becomes: for a user that a zygote's fork became,
// even the first one is one too many.
func (b *gvisorBundle) processes() uint64 {
	if b.pause != "" {
		return 0
	}
	return 1
}

// gvisorSeccomp is a filter inside gVisor, in front of its own kernel. Only
// what gVisor itself would let pass and we do not want is in it: a call that
// it denies is not seen by the trace.
func gvisorSeccomp() *specs.LinuxSeccomp {
	var names []string
	for _, c := range storingCalls {
		names = append(names, c.name)
	}
	eperm, enosys := uint(unix.EPERM), uint(unix.ENOSYS)
	return &specs.LinuxSeccomp{
		DefaultAction: specs.ActAllow,
		Syscalls: []specs.LinuxSyscall{
			{Names: names, Action: specs.ActErrno, ErrnoRet: &eperm},
			// Its flags are behind a pointer. Told that it does not exist, the
			// C library takes clone, whose flags the trace can see.
			{Names: []string{"clone3"}, Action: specs.ActErrno, ErrnoRet: &enosys},
		},
	}
}

// complaint is what gVisor said when it failed.
func (b *gvisorBundle) complaint() string {
	log, err := os.ReadFile(b.folder.path(stateDir + "/log"))
	if err != nil || len(log) == 0 {
		return ""
	}
	return strings.Join(strings.Fields(headString(log[:min(len(log), 1000)])), " ")
}

// settle waits until no process of the sandbox is left.
func (b *gvisorBundle) settle(pids []int) error {
	for deadline := time.Now().Add(afterKill); ; time.Sleep(5 * time.Millisecond) {
		alive := 0
		for _, pid := range pids {
			if !gone(pid) {
				unix.Kill(pid, unix.SIGKILL)
				alive++
			}
		}
		if alive == 0 {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of its processes do not die", alive)
		}
	}
	b.finishTrace()
	return nil
}

func (b *gvisorBundle) finishTrace() {
	if b.trace != nil {
		b.trace.finish()
		b.trace = nil
	}
}

func (b *gvisorBundle) removeCgroup() error {
	if b.cgroup == nil {
		return nil
	}
	return b.cgroup.remove()
}

// result turns how the process ended into a Result.
func (b *gvisorBundle) result(e ending, peak int64) Result {
	r := verdictOf(e, b.options.Image != nil)
	r.MaxRSS = max(r.MaxRSS, peak)
	if b.cgroup != nil {
		r.MaxRSS = max(r.MaxRSS, b.cgroup.peak())
		if b.cgroup.oomKills() > 0 {
			r.Verdict = OOM
		}
	}
	r.Attempted = b.attempts.snapshot()
	r.Watched = !b.options.Blind
	return r
}

func (b *gvisorBundle) remove() error {
	b.finishTrace()
	if b.attempts.image != nil {
		b.attempts.image.Close()
	}
	err := b.removeCgroup()
	if rmErr := b.folder.remove(); err == nil {
		err = rmErr
	}
	return err
}
