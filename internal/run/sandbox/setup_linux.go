package sandbox

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/sandbox/calls"
	"tallystick/internal/run/sandbox/cgroup"
	"tallystick/internal/run/sandbox/firstprocess"
	"tallystick/internal/run/sandbox/identity"
	"tallystick/internal/run/sandbox/runfolder"
)

// A setup is one sandbox to be made for one program, in any class. What a
// profile allows is decided when the setup is filled; a class only makes it.
type setup struct {
	profile    profile
	executable string // this program, for what runs inside beside the rubric or agent
	folder     *runfolder.Folder

	mounts []mount // the first one is the root; later ones lie over it
	binds  []bind  // what launch makes of mounts; see show
	image  *os.Root

	command []string
	env     []string
	dir     string
	user    uint32 // in gVisor and in a guest

	limits   AgentLimits // a rubric's have no disk and no tasks
	python   bool        // a rubric in an image; its interpreter is not ours
	jobs     int         // how many may run in it at once
	rlimits  map[int]uint64
	stdin    io.Reader // nil for nothing
	onStdout func([]byte)

	watch    bool
	log      *calls.Log
	gateway  *Gateway // nil for no way out
	port     int
	services []Service // further ports and what gets their connections
	dialer   *dialer   // of a world, whose first process connects to its ports; else nil
	machine  vmMachine // for microvm

	warm bool // the first process makes rooms, and keeps the sandbox
}

// A mount shows a file or folder of the host at a path of the sandbox.
type mount struct {
	host, inside string
	folder       bool
	writable     bool
	is           *identity.ID // what must be there; nil for whatever is
}

// newSetup makes a run folder for a program and its root's place in it.
func newSetup(p profile, executable string, base *runfolder.Base) (*setup, error) {
	folder, err := base.Make()
	if err != nil {
		return nil, err
	}
	s := &setup{profile: p, executable: executable, folder: folder, jobs: 1}
	if _, err := folder.Mkdir("root", 0o755); err != nil {
		s.remove()
		return nil, err
	}
	if _, err := folder.Mkdir("m", 0o711); err != nil {
		s.remove()
		return nil, err
	}
	return s, nil
}

// show adds a mount: it makes what is mounted over, and, where the sandbox's
// user may not reach the host's folders itself, a place in the run folder
// that launch binds it to.
func (s *setup) show(m mount) error {
	if root := s.folder.Path("root"); m.inside != "/" && s.mounts[0].host == root {
		if err := firstprocess.MakeMountPoint(filepath.Join(root, m.inside), m.folder); err != nil {
			return err
		}
	}
	b := bind{from: m.host, to: m.host, writable: m.writable, is: m.is}
	if !within(s.folder.Dir, m.host) {
		i := len(s.mounts)
		b.to = s.folder.Path(filepath.Join("m", string(rune('a'+i/26))+string(rune('a'+i%26))))
		if err := firstprocess.MakeMountPoint(b.to, m.folder); err != nil {
			return err
		}
	}
	s.mounts, s.binds = append(s.mounts, m), append(s.binds, b)
	return nil
}

// source is how the sandbox's user names what mount i shows.
func (s *setup) source(i int) string {
	b := s.binds[i]
	if b.from != b.to && !runfolder.NeedsPrivateMounts() {
		return b.from
	}
	return s.folder.Seen(b.to)
}

// mmapMinAddr is a file that gVisor, which is linked into our program, looks
// for when the program starts. Where there is a /proc it is covered.
const mmapMinAddr = "proc/sys/vm/mmap_min_addr"

// workFolder is the working folder on the host, if there is one.
func (s *setup) workFolder() string {
	for _, m := range s.mounts {
		if m.inside == workDir {
			return m.host
		}
	}
	return ""
}

// talk is what goes into the program and comes out.
func (s *setup) talk() talk {
	return talk{stdin: s.stdin, timeout: s.limits.Timeout, output: s.limits.OutputBytes, onStdout: s.onStdout}
}

// plan is what a first process of ours is told.
func (s *setup) plan() firstprocess.Plan {
	if s.warm {
		return firstprocess.Plan{Keep: true}
	}
	p := firstprocess.Plan{Command: s.command, Env: s.env, Dir: s.dir, Stay: s.profile.processes}
	if s.gateway != nil {
		p.Port = s.port
	}
	for _, service := range s.services {
		p.Services = append(p.Services, service.Port)
	}
	p.Dials = s.dialer != nil
	return p
}

// remove takes everything away that the setup put on disk.
func (s *setup) remove() error {
	if s.image != nil {
		s.image.Close()
	}
	return s.folder.Remove()
}

// An outcome is how the program in a sandbox ended.
type outcome struct {
	ending
	peak       int64  // bytes of the whole sandbox; 0 when unknown
	notStarted string // why the program could not even be started
}

// counted adds what the kernel counted.
func (o *outcome) counted(c *cgroup.Group) {
	if c == nil {
		return
	}
	o.peak = max(o.peak, c.Peak())
	if c.OOMKills() > 0 {
		o.verdict = OOM
	}
}

// run makes the sandbox in one class, runs the program, and waits for its end.
func (s *setup) run(ctx context.Context, class Class) (outcome, error) {
	if made := class.made(); made != nil {
		return made.run(s, ctx)
	}
	return outcome{}, errors.New("not available on this system")
}

// A fresh backend makes a sandbox for every job.
type fresh struct {
	class   *class
	options Options
	base    *runfolder.Base
	machine vmMachine
}

// openBackend prepares a class. It does not tell whether the class works.
func openBackend(class Class, o Options, base *runfolder.Base) (backend, error) {
	made := class.made()
	if made.attempt != nil && o.Scope == ScopeAttempt {
		return made.attempt(o, base), nil
	}
	f := &fresh{class: made, options: o, base: base}
	if made.find != nil {
		if err := made.find(f); err != nil {
			return nil, refusal.Newf(refusal.SandboxUnavailable, "%w", err)
		}
	}
	return f, nil
}

func (f *fresh) close() error { return nil }

func (f *fresh) run(ctx context.Context, stdin []byte, limits Limits) (Result, error) {
	s, err := rubricSetup(f.options, f.base, limits)
	if err != nil {
		return Result{}, refusal.Newf(refusal.SandboxFailed, "preparing %s: %w", f.class.Name, err)
	}
	defer s.remove()
	s.give(stdin)
	s.machine = f.machine
	o, err := f.class.run(s, ctx)
	if err != nil {
		return Result{}, refusal.Newf(refusal.SandboxFailed, "running %s: %w", f.class.Name, err)
	}
	r := o.ofRubric(s.python)
	if !f.class.blind {
		r.Attempted, r.Watched = s.log.Attempts(), !f.options.Blind
	}
	return r, nil
}

// rlimitNames are the limits that an OCI configuration names.
var rlimitNames = map[int]string{
	unix.RLIMIT_AS: "RLIMIT_AS", unix.RLIMIT_CORE: "RLIMIT_CORE", unix.RLIMIT_FSIZE: "RLIMIT_FSIZE", unix.RLIMIT_MEMLOCK: "RLIMIT_MEMLOCK",
	unix.RLIMIT_NOFILE: "RLIMIT_NOFILE", unix.RLIMIT_NPROC: "RLIMIT_NPROC", unix.RLIMIT_STACK: "RLIMIT_STACK",
}
