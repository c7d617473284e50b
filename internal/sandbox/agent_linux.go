package sandbox

import (
	"context"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"tallystick/internal/refusal"
)

// An agentRun is one run of an agent, in any class.
type agentRun struct {
	options AgentOptions
	folder  *runFolder
	mounts  []agentMount
	binds   []bind // of mounts, for launch; same order
	channel *agentChannel
	theirs  *os.File // the other end, until the sandbox has it
	seen    *attempts
}

// runAgent runs the program in one class, which is known to work.
func runAgent(ctx context.Context, class Class, o AgentOptions, mounts []agentMount, base *runBase) (AgentResult, error) {
	folder, err := base.make()
	if err != nil {
		return AgentResult{}, err
	}
	defer folder.remove()
	a := &agentRun{options: o, folder: folder, mounts: mounts}
	if err := a.prepare(); err != nil {
		return AgentResult{}, refusal.Newf(refusal.SandboxFailed, "preparing a sandbox: %w", err)
	}
	defer a.channel.close()
	defer a.theirs.Close()
	var owner *folderOwner
	if o.WorkFolder != "" {
		if owner, err = lendFolder(o.WorkFolder); err != nil {
			return AgentResult{}, refusal.Newf(refusal.WriteFailed, "lending the working folder: %w", err)
		}
	}
	var r AgentResult
	switch class {
	case GVisor:
		r, err = a.runGvisor(ctx)
	case Namespace:
		r, err = a.runNamespace(ctx)
	}
	if owner != nil {
		if backErr := owner.takeBack(); backErr != nil && err == nil {
			return AgentResult{}, refusal.Newf(refusal.WriteFailed, "taking the working folder back: %w", backErr)
		}
	}
	if err != nil && ctx.Err() != nil {
		return AgentResult{}, context.Cause(ctx)
	}
	if err != nil {
		return AgentResult{}, refusal.Newf(refusal.SandboxFailed, "running the agent: %w", err)
	}
	r.Attempted, r.Watched = a.seen.snapshot(), !o.Blind
	return r, nil
}

// prepare lays the root folder out and opens the channel.
func (a *agentRun) prepare() error {
	root, err := a.folder.mkdir("root", 0o755)
	if err != nil {
		return err
	}
	if a.options.WorkFolder == "" {
		dir, err := a.folder.mkdir("work", 0o700)
		if err != nil {
			return err
		}
		a.mounts = append(a.mounts, agentMount{host: dir, inside: workDir, folder: true, writable: true})
	}
	for _, inside := range []string{ToolPath, "/" + programDir + "/" + agentName} {
		a.mounts = append(a.mounts, agentMount{host: a.options.Executable, inside: inside})
	}
	for _, dir := range []string{"dev", "proc", "sys", "tmp", "etc"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	// gVisor, which is linked into our program, looks for this file when the
	// program starts. Where there is a /proc it is covered.
	if _, err := a.folder.write("root/proc/sys/vm/mmap_min_addr", []byte("65536\n")); err != nil {
		return err
	}
	if err := a.writeEtc(); err != nil {
		return err
	}
	if a.options.System {
		if err := linkSystem(root); err != nil {
			return err
		}
	}
	if err := a.makeBinds(root); err != nil {
		return err
	}
	a.seen = &attempts{agent: &agentRules{hidden: a.options.hiddenNames()}}
	for _, m := range a.mounts {
		a.seen.agent.shown = append(a.seen.agent.shown, m.inside)
	}
	a.channel, a.theirs, err = newAgentChannel(a.options.Gateway)
	return err
}

// plan is what the first process is told.
func (a *agentRun) plan() agentPlan {
	p := agentPlan{Command: a.options.Command, Env: a.options.Env, Dir: a.options.Dir}
	if a.options.Gateway != nil {
		p.Port = a.options.GatewayPort
	}
	return p
}

// talk is what goes into the program and comes out.
func (a *agentRun) talk() talk {
	l := a.options.Limits
	return talk{stdin: a.options.Stdin, timeout: l.Timeout, output: l.OutputBytes, onStdout: a.options.OnStdout}
}

// makeBinds makes what mounts are mounted over: in the root, and, where the
// sandbox's user may not reach the host's folders itself, in the run folder.
func (a *agentRun) makeBinds(root string) error {
	for _, m := range a.mounts {
		if err := makeMountPoint(filepath.Join(root, m.inside), m.folder); err != nil {
			return err
		}
	}
	held, err := a.folder.mkdir("m", 0o711)
	if err != nil {
		return err
	}
	for i, m := range a.mounts {
		b := bind{from: m.host, to: filepath.Join(held, string(rune('a'+i/26))+string(rune('a'+i%26))), writable: m.writable}
		if err := makeMountPoint(b.to, m.folder); err != nil {
			return err
		}
		a.binds = append(a.binds, b)
	}
	return nil
}

// linkSystem makes those of the system's folders that are links on the host,
// /bin to usr/bin for one.
func linkSystem(root string) error {
	for _, dir := range systemFolders {
		if target, err := os.Readlink(dir); err == nil {
			if err := os.Symlink(target, filepath.Join(root, dir)); err != nil {
				return err
			}
		}
	}
	return nil
}

// ownEtc is what every agent finds in /etc. There is no resolv.conf: a program
// that asks for a name asks its own loopback, where nobody answers, and is
// seen.
var ownEtc = map[string]string{
	"passwd":        "root:x:0:0:agent:/tmp:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
	"group":         "root:x:0:\nnogroup:x:65534:\n",
	"hosts":         "127.0.0.1 localhost sandbox\n",
	"hostname":      "sandbox\n",
	"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
}

// hostEtc are the host's files that programs look for; none of them tells
// more than which programs are installed.
var hostEtc = []string{"ld.so.cache", "localtime", "os-release", "debian_version", "services", "protocols", "mime.types",
	"ssl/openssl.cnf", "ssl/certs/ca-certificates.crt", "pki/tls/certs/ca-bundle.crt"}

func (a *agentRun) writeEtc() error {
	for name, text := range ownEtc {
		if _, err := a.folder.write("root/etc/"+name, []byte(text)); err != nil {
			return err
		}
	}
	if !a.options.System {
		return nil
	}
	for _, name := range hostEtc {
		b, err := os.ReadFile("/etc/" + name)
		if err != nil {
			continue // what the host does not have, the agent does not get
		}
		if _, err := a.folder.write("root/etc/"+name, b); err != nil {
			return err
		}
	}
	return nil
}

// agentVerdict judges how the program ended.
func (a *agentRun) verdict(e ending) AgentResult {
	r := AgentResult{Verdict: e.verdict, ExitCode: e.exit, Stdout: e.stdout, StderrHead: e.stderr, NotStarted: a.channel.notStarted}
	switch {
	case r.Verdict != "":
	case r.NotStarted != "":
		r.Verdict = Failed
	case e.exit == 0:
		r.Verdict = OK
	case e.exit > 128:
		r.Verdict = Killed
	default:
		r.Verdict = Failed
	}
	return r
}

// withCgroup adds what the kernel counted.
func (r *AgentResult) withCgroup(c *cgroup) {
	if c == nil {
		return
	}
	r.MaxRSS = max(r.MaxRSS, c.peak())
	if c.oomKills() > 0 {
		r.Verdict = OOM
	}
}

// agentRlimits hold for each of the program's processes.
func agentRlimits(l AgentLimits) map[int]uint64 {
	return map[int]uint64{
		unix.RLIMIT_CORE: 0, unix.RLIMIT_MEMLOCK: 8 << 20, unix.RLIMIT_NOFILE: 4096, unix.RLIMIT_STACK: 8 << 20,
		unix.RLIMIT_FSIZE: uint64(l.DiskBytes), unix.RLIMIT_NPROC: uint64(l.Tasks),
	}
}
