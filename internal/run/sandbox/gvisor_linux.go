package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/runsc/boot"

	"tallystick/internal/run/sandbox/calls"
	"tallystick/internal/run/sandbox/cgroup"
	"tallystick/internal/run/sandbox/firstprocess"
	"tallystick/internal/run/sandbox/isolation"
	"tallystick/internal/run/sandbox/proc"
	"tallystick/internal/run/sandbox/runfolder"
	"tallystick/internal/run/sandbox/runsc"
)

var gVisor = class{
	Class: isolation.Class{Name: "gvisor",
		Between:      "gVisor's user-space kernel, linked into `tally`; around it user, mount, net, ipc and uts namespaces, gVisor's own seccomp filter and chroot",
		SharesKernel: "only through gVisor's few calls", Promotes: true, Agents: true, Attempts: true},
	run:     (*setup).runGvisor,
	attempt: func(o Options, base *runfolder.Base) backend { return newGvisorPool(o, base) },
	keep:    (*warmBox).keepGvisor,
}

// gvisorOverhead is memory of gVisor itself, which a cgroup counts too: its
// kernel, its file server, and the runsc command that starts them.
const gvisorOverhead = 256 << 20

// runGvisor runs the program on gVisor's kernel.
func (s *setup) runGvisor(ctx context.Context) (outcome, error) {
	g, err := newGvisor(s, false)
	if err != nil {
		return outcome{}, err
	}
	defer g.remove()
	l, err := g.launch()
	if err != nil {
		return outcome{}, err
	}
	disk := newDiskWatch(s.workFolder(), s.limits, g.watch.over)
	defer disk.stop()
	e, err := converse(ctx, s.talk(), g.watch.over, func(stdin, stdout, stderr *os.File) (*running, error) {
		r, err := l.start(stdin, stdout, stderr)
		if err != nil {
			return nil, err
		}
		g.channel.start()
		g.watch.start(r, nil)
		disk.start(r)
		return r, nil
	})
	if err == nil {
		err = g.settle()
	}
	g.channel.close()
	if err == nil && e.verdict == "" {
		err = g.failure()
	}
	if err != nil {
		return outcome{}, err
	}
	o := outcome{ending: e, peak: g.watch.peak(), notStarted: g.channel.notStarted}
	o.counted(g.cgroup)
	return o, nil
}

// stateDir and gvisorID are short because gVisor makes a socket of them below
// the run folder, and a socket's path may have only 107 bytes.
const (
	stateDir = "s"
	gvisorID = "c"
)

// A gvisor is one sandbox on gVisor's kernel.
type gvisor struct {
	*setup
	cgroup  *cgroup.Group
	trace   *calls.Trace // nil when blind
	channel *channel     // to the first process, if that is ours
	memory  *gvisorMemory
	watch   *memoryWatch
	kept    bool
	deaf    error // why nothing was heard of the program's calls
}

// newGvisor prepares one. Kept says that its first process only waits, see
// warmGvisor.
func newGvisor(s *setup, kept bool) (*gvisor, error) {
	g := &gvisor{setup: s, kept: kept, channel: &channel{}, memory: &gvisorMemory{state: s.folder.Path(stateDir + "/" + gvisorID + "_sandbox:" + gvisorID + ".state")}}
	g.watch = newMemoryWatch(s.limits.MemoryBytes*int64(s.jobs)+gvisorSlack, g.memory)
	// gVisor has a process of the host's for each address space inside, and
	// threads of its own.
	g.cgroup = cgroup.New(s.folder.Dir, s.limits.MemoryBytes*int64(s.jobs)+gvisorOverhead, 4*s.limits.Tasks+maxTasks)
	_, err := s.folder.Mkdir(stateDir, 0o700)
	if err == nil && s.watch {
		uid, gid := runfolder.HostID()
		var config []byte
		socket := s.folder.Path(traceSocket)
		if g.trace, config, err = calls.ListenTrace(socket, s.folder.Seen(socket), uid, gid, s.log, kept); err == nil {
			_, err = s.folder.Write(traceConfig, config)
		}
	}
	if err != nil {
		g.remove()
		return nil, err
	}
	return g, nil
}

const (
	traceSocket = "t"
	traceConfig = "trace.json"
)

// launch makes the command that starts gVisor. Its namespaces are ours to make:
// then gVisor need not start itself once more to get them, and as root it is an
// ordinary user of this machine.
func (g *gvisor) launch() (*launch, error) {
	seen := func(name string) string { return g.folder.Seen(g.folder.Path(name)) }
	args := []string{runsc.Name,
		"--root=" + seen(stateDir),
		"--log=" + seen(stateDir+"/log"),
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
		// No process changes what is shown while a program runs, so that gVisor
		// need not look again at every name; see sharedMounts for the
		// exception.
		"--file-access=exclusive",
		"--file-access-mounts=exclusive",
		"--host-settings=ignore", // advice to an administrator, into a log that is not read
	}
	if !g.profile.processes {
		// Rewriting a program's system calls pays after thousands of them; a
		// rubric ends before (measured: a tenth of its processor time).
		args = append(args, "--systrap-disable-syscall-patching")
	}
	if g.trace != nil {
		args = append(args, "--pod-init-config="+seen(traceConfig))
	}
	args = append(args, "run", "--bundle="+seen("."))
	l := &launch{
		executable: g.executable,
		cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		folder:     g.folder,
		binds:      g.binds,
		cgroup:     g.cgroup,
	}
	if g.profile.processes {
		var err error
		if g.channel, err = openChannel(g.gateway, g.plan()); err != nil {
			return nil, err
		}
		g.channel.connects(g.services, g.dialer)
		args = append(args, fmt.Sprintf("--pass-fd=%d:%d", firstprocess.Socket, firstprocess.Socket))
		l.files = []*os.File{g.channel.theirs}
	}
	l.args = append(args, gvisorID)
	return l, g.writeSpec()
}

// writeSpec writes the OCI configuration of the sandbox.
func (g *gvisor) writeSpec() error {
	process := &specs.Process{
		User: specs.User{UID: g.user, GID: g.user},
		Args: g.command, Env: g.env, Cwd: g.dir,
		Capabilities:    g.capabilities(),
		Rlimits:         g.ociRlimits(),
		NoNewPrivileges: true,
	}
	if g.profile.processes {
		process.Args, process.Env, process.Cwd = []string{firstprocess.Path}, []string{}, "/"
	}
	spec := specs.Spec{
		Version:  "1.0.2",
		Hostname: "sandbox",
		Root:     &specs.Root{Path: g.source(0), Readonly: true},
		Mounts:   g.ociMounts(),
		Process:  process,

		Annotations: g.sharedMounts(),
		Linux: &specs.Linux{
			Namespaces: []specs.LinuxNamespace{{Type: specs.PIDNamespace}, {Type: specs.IPCNamespace},
				{Type: specs.UTSNamespace}, {Type: specs.MountNamespace}, {Type: specs.NetworkNamespace}},
		},
	}
	if !g.profile.processes {
		spec.Linux.Seccomp = gvisorSeccomp()
	}
	j, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	_, err = g.folder.Write("config.json", j)
	return err
}

// ociMounts are gVisor's own file systems, read-only for a rubric, and what is
// shown of the host.
func (g *gvisor) ociMounts() []specs.Mount {
	kernels := func(at, kind string, options ...string) specs.Mount {
		return specs.Mount{Destination: at, Type: kind, Source: kind, Options: options}
	}
	mounts := []specs.Mount{kernels("/proc", "proc", "ro"), kernels("/sys", "sysfs", "ro")}
	if g.profile.processes {
		mounts = append(mounts, kernels("/dev", "tmpfs"), kernels("/dev/shm", "tmpfs", "nosuid", "nodev", "mode=1777"),
			kernels("/tmp", "tmpfs", "nosuid", "nodev", "mode=1777"))
	} else {
		mounts = append(mounts, kernels("/dev", "tmpfs", "ro"))
		if !slices.ContainsFunc(g.mounts, func(m mount) bool { return m.inside == "/tmp" }) {
			mounts = append(mounts, kernels("/tmp", "tmpfs", "ro", "size=0"))
		}
	}
	for i, m := range g.mounts[1:] {
		mode := "ro"
		if m.writable {
			mode = "rw"
		}
		mounts = append(mounts, specs.Mount{Destination: m.inside, Type: "bind", Source: g.source(i + 1), Options: []string{"bind", mode, "nosuid", "nodev"}})
	}
	return mounts
}

// sharedMounts are gVisor's annotations for what is written to: the harness
// looks at an agent's working folder while the agent runs, and nothing in it
// may be lost when the agent is killed.
func (g *gvisor) sharedMounts() map[string]string {
	notes := map[string]string{}
	for i, m := range g.mounts {
		if m.writable {
			hint := boot.MountPrefix + "m" + strconv.Itoa(i) + "."
			notes[hint+"source"], notes[hint+"type"], notes[hint+"share"] = g.source(i), boot.Bind, "shared"
		}
	}
	return notes
}

// goAddressSpace is what the Go runtime of our interpreter reserves without
// using it, and 4 GiB that the Starlark library reserves for its integers.
// gVisor counts both against RLIMIT_AS.
const goAddressSpace = 6 << 30

// ociRlimits hold without any cgroup. With one process, the limit on a rubric's
// address space is a limit on the whole sandbox; everything outside an address
// space that could hold bytes is denied or tiny.
func (g *gvisor) ociRlimits() []specs.POSIXRlimit {
	var limits []specs.POSIXRlimit
	add := func(resource int, n uint64) {
		limits = append(limits, specs.POSIXRlimit{Type: rlimitNames[resource], Hard: n, Soft: n})
	}
	for resource, n := range g.rlimits {
		add(resource, n)
	}
	switch {
	case g.profile.processes:
	case !g.python:
		add(unix.RLIMIT_AS, uint64(g.limits.MemoryBytes)+goAddressSpace)
		add(unix.RLIMIT_NPROC, 64)
	case g.kept:
		// gVisor counts a process for the user who forked it, whichever user it
		// becomes: for a user that a zygote's fork became, even the first one
		// is one too many.
		add(unix.RLIMIT_AS, uint64(g.limits.MemoryBytes))
		add(unix.RLIMIT_NPROC, 0)
	default:
		add(unix.RLIMIT_AS, uint64(g.limits.MemoryBytes))
		add(unix.RLIMIT_NPROC, 1)
	}
	return limits
}

// capabilities are empty, except that a first process that only waits may exist
// in spite of the limit on processes.
func (g *gvisor) capabilities() *specs.LinuxCapabilities {
	if g.warm {
		return &specs.LinuxCapabilities{Bounding: keeperCaps, Effective: keeperCaps, Permitted: keeperCaps}
	}
	if !g.kept || !g.python {
		return &specs.LinuxCapabilities{}
	}
	set := []string{"CAP_SYS_RESOURCE"}
	return &specs.LinuxCapabilities{Bounding: set, Effective: set, Permitted: set, Ambient: set}
}

// keeperCaps are what the keeper of a warm sandbox needs, of gVisor's kernel, to
// make rooms and to give up in them what it has.
var keeperCaps = []string{"CAP_SYS_ADMIN", "CAP_SYS_CHROOT", "CAP_NET_ADMIN", "CAP_SETPCAP", "CAP_MKNOD"}

// gvisorSeccomp is a filter inside gVisor, in front of its own kernel. Only
// what gVisor itself would let pass and we do not want is in it: a call that
// it denies is not seen by the trace.
func gvisorSeccomp() *specs.LinuxSeccomp {
	eperm, enosys := uint(unix.EPERM), uint(unix.ENOSYS)
	return &specs.LinuxSeccomp{
		DefaultAction: specs.ActAllow,
		Syscalls: []specs.LinuxSyscall{
			{Names: calls.StoringCalls, Action: specs.ActErrno, ErrnoRet: &eperm},
			// Its flags are behind a pointer. Told that it does not exist, the
			// C library takes clone, whose flags the trace can see.
			{Names: []string{"clone3"}, Action: specs.ActErrno, ErrnoRet: &enosys},
		},
	}
}

// failure says why gVisor or our first process could not do their work.
func (g *gvisor) failure() error {
	if g.channel.err != nil {
		return g.channel.err
	}
	// gVisor writes to this log only when it could not do its own work. What
	// runs inside cannot reach it.
	if msg := g.complaint(); msg != "" {
		return errors.New(msg)
	}
	return g.deaf
}

// complaint is what gVisor said when it failed.
func (g *gvisor) complaint() string {
	log, err := os.ReadFile(g.folder.Path(stateDir + "/log"))
	if err != nil || len(log) == 0 {
		return ""
	}
	return strings.Join(strings.Fields(firstprocess.HeadString(log[:min(len(log), 1000)])), " ")
}

// settle waits until no process of the sandbox is left, and no call of it
// unjudged.
func (g *gvisor) settle() error {
	g.watch.stop()
	pids := g.memory.pids()
	for deadline := time.Now().Add(afterKill); ; time.Sleep(time.Millisecond) {
		alive := slices.DeleteFunc(slices.Clone(pids), func(pid int) bool { return proc.Gone(pid) || !isGvisor(pid) })
		if len(alive) == 0 {
			break
		}
		for _, pid := range alive {
			unix.Kill(pid, unix.SIGKILL)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of its processes do not die", len(alive))
		}
	}
	g.finishTrace()
	return nil
}

func (g *gvisor) finishTrace() {
	if g.trace != nil {
		g.trace.Finish()
		g.deaf = g.trace.Heard()
		g.trace = nil
	}
}

// remove takes away what is not in the run folder.
func (g *gvisor) remove() error {
	g.watch.stop()
	g.memory.close()
	g.channel.close()
	g.finishTrace()
	if g.cgroup == nil {
		return nil
	}
	return g.cgroup.Remove()
}

// keepGvisor launches a kernel for a preloaded agent.
func (b *warmBox) keepGvisor() (*launch, error) {
	var err error
	if b.gvisor, err = newGvisor(b.setup, true); err != nil {
		return nil, err
	}
	b.watch, b.cgroup = b.gvisor.watch, b.gvisor.cgroup
	l, err := b.gvisor.launch()
	b.channel = b.gvisor.channel
	return l, err
}
