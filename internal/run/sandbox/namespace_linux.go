package sandbox

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"tallystick/internal/run/sandbox/calls"
	"tallystick/internal/run/sandbox/cgroup"
	"tallystick/internal/run/sandbox/firstprocess"
	"tallystick/internal/run/sandbox/isolation"
)

var namespace = class{
	Class: isolation.Class{Name: "namespace",
		Between:      "user, mount, pid, net, ipc, uts and cgroup namespaces, a read-only root, no /proc, a system call allow-list, Landlock, no capabilities",
		SharesKernel: "yes", Agents: true,
		Shows: "the host's kernel and processor; and an agent that exchanges a file's name while it is opened reads where on the host its mounts come from (/proc/self/mountinfo)"},
	run:  (*setup).runNamespace,
	keep: (*warmBox).keepNamespace,
	room: func(r *firstprocess.Room) {
		r.Policy = &calls.Policy{Agent: true, Watch: true}
	},
}

// namespaceOverhead is what our own program needs, in the cgroup, until it
// becomes the rubric, or beside the agent.
const namespaceOverhead = 64 << 20

// maxTasks bounds the tasks of a rubric's sandbox, gVisor's own threads
// included.
const maxTasks = 512

// runNamespace runs the program on the host's kernel, in fresh namespaces that
// a first process of ours builds from inside.
func (s *setup) runNamespace(ctx context.Context) (outcome, error) {
	tasks := maxTasks
	if s.profile.processes {
		tasks = s.limits.Tasks + 64
	}
	group := cgroup.New(s.folder.Dir, s.limits.MemoryBytes+namespaceOverhead, tasks)
	if group != nil {
		defer group.Remove()
	}
	p := s.plan()
	p.Build = s.namespaceBuild()
	channel, err := openChannel(s.gateway, p)
	if err != nil {
		return outcome{}, err
	}
	defer channel.close()
	channel.connects(s.services, s.dialer)
	l := s.namespaceLaunch(channel, group)
	asked := s.supervisor()
	memory := newMemoryWatch(s.limits.MemoryBytes, processMemory{s.limits.MemoryBytes})
	defer memory.stop()
	disk := newDiskWatch(s.workFolder(), s.limits, memory.over)
	defer disk.stop()
	e, err := converse(ctx, s.talk(), memory.over, func(stdin, stdout, stderr *os.File) (*running, error) {
		r, err := l.start(stdin, stdout, stderr)
		if err != nil {
			return nil, err
		}
		channel.start()
		go asked.supervise(channel, r.pid)
		if s.profile.processes { // a rubric is one process, and its address space is limited
			memory.start(r, channel.ready)
			disk.start(r)
		}
		return r, nil
	})
	if !channel.started() {
		return outcome{}, err
	}
	memory.stop()
	channel.close()
	<-asked.done
	if err == nil && e.verdict == "" {
		err = errors.Join(channel.err, asked.err())
	}
	if err != nil {
		return outcome{}, err
	}
	o := outcome{ending: e, peak: memory.peak(), notStarted: channel.notStarted}
	o.counted(group)
	return o, nil
}

// namespaceLaunch starts the first process in fresh namespaces.
func (s *setup) namespaceLaunch(c *channel, group *cgroup.Group) *launch {
	return &launch{
		executable: s.executable,
		args:       []string{firstprocess.Name},
		cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP,
		files:      []*os.File{c.theirs},
		folder:     s.folder,
		binds:      s.binds,
		cgroup:     group,
	}
}

// namespaceBuild is how the first process builds the sandbox.
func (s *setup) namespaceBuild() *firstprocess.Build {
	b := &firstprocess.Build{
		Root:    s.folder.Seen(s.folder.Path("root")),
		TmpSize: s.limits.MemoryBytes,
		Rlimits: s.rlimits,
		Policy:  calls.Policy{Agent: s.profile.processes, Threads: !s.python, Watch: s.watch},
	}
	if !s.profile.processes {
		b.Rlimits[unix.RLIMIT_MSGQUEUE], b.Rlimits[unix.RLIMIT_STACK] = 0, 8<<20
		if !s.python {
			// Go's runtime reserves far more address space than it uses; what
			// it really writes to counts as data.
			b.Rlimits[unix.RLIMIT_DATA] = uint64(s.limits.MemoryBytes) + namespaceOverhead
		}
	}
	for i, m := range s.mounts {
		b.Mounts = append(b.Mounts, firstprocess.Mount{From: s.source(i), At: m.inside, Folder: m.folder, Writable: m.writable, Is: m.is})
	}
	return b
}

// A supervisor answers the kernel's questions as soon as the sandbox is built.
type supervisor struct {
	calls.Supervisor
	unready error
	done    chan struct{}
}

func (s *setup) supervisor() *supervisor {
	v := &supervisor{Supervisor: calls.Supervisor{Log: s.log, Watch: s.watch}, done: make(chan struct{})}
	if s.python {
		v.AddressSpace = uint64(s.limits.MemoryBytes)
	}
	return v
}

// supervise waits until the sandbox is built and then answers until no process
// is left to ask about.
func (v *supervisor) supervise(c *channel, pid int) {
	defer close(v.done)
	select {
	case <-c.ready:
	case <-c.done:
		select {
		case <-c.ready:
		default:
			v.unready = errors.New("the sandbox ended before it was ready")
			return
		}
	}
	if c.listener < 0 {
		v.unready = errors.New("the sandbox sent no listener")
		return
	}
	v.Listen(c.listener, pid)
}

// err says why the supervisor could not do its work; to be read after done.
func (v *supervisor) err() error { return errors.Join(v.unready, v.Err) }

// keepNamespace launches a first process of ours for a preloaded agent.
func (b *warmBox) keepNamespace() (*launch, error) {
	memory := b.limits.MemoryBytes * int64(b.jobs)
	b.watch = newMemoryWatch(memory, processMemory{memory})
	b.cgroup = cgroup.New(b.folder.Dir, memory+namespaceOverhead*int64(b.jobs), (b.limits.Tasks+64)*b.jobs)
	p := b.setup.plan()
	p.Build = b.namespaceBuild()
	p.Build.Keep = true
	var err error
	b.channel, err = openChannel(nil, p)
	if err != nil {
		return nil, err
	}
	return b.namespaceLaunch(b.channel, b.cgroup), nil
}
