package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// runGvisor runs the program on gVisor's kernel.
func (a *agentRun) runGvisor(ctx context.Context) (AgentResult, error) {
	limits := a.options.Limits
	b := &gvisorBundle{options: Options{Executable: a.options.Executable}, folder: a.folder, attempts: a.seen, more: a.binds}
	if _, err := a.folder.mkdir(stateDir, 0o700); err != nil {
		return AgentResult{}, err
	}
	// gVisor has a process of the host's for each address space inside, and
	// threads of its own.
	b.cgroup = newCgroup(a.folder, limits.MemoryBytes+gvisorOverhead, 4*limits.Tasks+maxTasks)
	defer b.removeCgroup()
	if !a.options.Blind {
		var err error
		if b.trace, b.config, err = listenTrace(a.folder, a.seen, agentTracePoints()); err != nil {
			return AgentResult{}, err
		}
		defer b.finishTrace()
	}
	if err := a.writeGvisorSpec(); err != nil {
		return AgentResult{}, err
	}
	if err := a.channel.send(a.plan()); err != nil {
		return AgentResult{}, err
	}

	l := b.launch("run", "--bundle="+a.folder.dir, fmt.Sprintf("--pass-fd=%d:%d", initSocket, initSocket), gvisorID)
	l.files = []*os.File{a.theirs}
	memory := newMemoryWatch(limits.MemoryBytes)
	defer memory.stop()
	disk := newDiskWatch(a.workFolder(), limits.DiskBytes, memory.over)
	defer disk.stop()
	a.channel.start()
	e, err := converse(ctx, a.talk(), memory.over, func(stdin, stdout, stderr *os.File) (*running, error) {
		r, err := l.start(stdin, stdout, stderr)
		a.theirs.Close()
		if err == nil {
			memory.start(r)
			disk.start(r)
		}
		return r, err
	})
	if err == nil {
		err = b.settle(memory.lastPIDs())
	}
	a.channel.close()
	if err != nil {
		return AgentResult{}, err
	}
	if e.verdict == "" {
		if err := a.channel.err; err != nil {
			return AgentResult{}, err
		}
		// gVisor writes to this log only when it could not do its own work.
		if msg := b.complaint(); msg != "" {
			return AgentResult{}, errors.New(msg)
		}
	}
	r := a.verdict(e)
	r.MaxRSS = memory.peak()
	r.withCgroup(b.cgroup)
	return r, nil
}

// agentTracePoints are the calls of an agent that gVisor reports.
func agentTracePoints() []map[string]any {
	points := []map[string]any{
		{"name": "syscall/openat/enter", "context_fields": []string{"cwd"}, "optional_fields": []string{"fd_path"}},
	}
	for _, n := range legacyOpens {
		points = append(points, map[string]any{"name": "syscall/" + n + "/enter", "context_fields": []string{"cwd"}})
	}
	for _, n := range []string{"socket", "connect"} {
		points = append(points, map[string]any{"name": "syscall/" + n + "/enter", "context_fields": []string{}})
	}
	for _, n := range watchedNumbers() {
		points = append(points, map[string]any{"name": fmt.Sprintf("syscall/sysno/%d/enter", n), "context_fields": []string{}})
	}
	return points
}

// writeGvisorSpec writes the OCI configuration.
func (a *agentRun) writeGvisorSpec() error {
	mounts := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"ro"}},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"ro"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs"},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev", "mode=1777"}},
		{Destination: "/tmp", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev", "mode=1777"}},
	}
	for i, m := range a.mounts {
		mode := "ro"
		if m.writable {
			mode = "rw"
		}
		mounts = append(mounts, specs.Mount{Destination: m.inside, Type: "bind", Source: a.binds[i].source(), Options: []string{"bind", mode, "nosuid", "nodev"}})
	}
	var rlimits []specs.POSIXRlimit
	for resource, n := range agentRlimits(a.options.Limits) {
		rlimits = append(rlimits, specs.POSIXRlimit{Type: rlimitNames[resource], Soft: n, Hard: n})
	}
	spec := specs.Spec{
		Version:  "1.0.2",
		Hostname: "sandbox",
		Root:     &specs.Root{Path: a.folder.path("root"), Readonly: true},
		Mounts:   mounts,
		Process: &specs.Process{
			// User 0 is the one who owns the working folder, in here.
			User: specs.User{UID: 0, GID: 0},
			Args: []string{"/" + programDir + "/" + agentName}, Env: []string{}, Cwd: "/",
			Capabilities:    &specs.LinuxCapabilities{},
			Rlimits:         rlimits,
			NoNewPrivileges: true,
		},
		Linux: &specs.Linux{
			Namespaces: []specs.LinuxNamespace{{Type: specs.PIDNamespace}, {Type: specs.IPCNamespace},
				{Type: specs.UTSNamespace}, {Type: specs.MountNamespace}, {Type: specs.NetworkNamespace}},
		},
	}
	j, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	_, err = a.folder.write("config.json", j)
	return err
}

var rlimitNames = map[int]string{
	unix.RLIMIT_CORE: "RLIMIT_CORE", unix.RLIMIT_MEMLOCK: "RLIMIT_MEMLOCK", unix.RLIMIT_NOFILE: "RLIMIT_NOFILE",
	unix.RLIMIT_STACK: "RLIMIT_STACK", unix.RLIMIT_FSIZE: "RLIMIT_FSIZE", unix.RLIMIT_NPROC: "RLIMIT_NPROC",
}

// workFolder is the working folder on the host.
func (a *agentRun) workFolder() string {
	for _, m := range a.mounts {
		if m.inside == workDir {
			return m.host
		}
	}
	return ""
}
