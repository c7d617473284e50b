package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/sandbox/calls"
	"tallystick/internal/run/sandbox/firstprocess"
	"tallystick/internal/run/sandbox/runfolder"
)

// runAgent runs the program in one class, which is known to work.
func runAgent(ctx context.Context, class Class, o AgentOptions, mounts []mount, base *runfolder.Base) (AgentResult, error) {
	s, err := agentSetup(o, mounts, base)
	if err != nil {
		return AgentResult{}, refusal.Newf(refusal.SandboxFailed, "preparing a sandbox: %w", err)
	}
	defer s.remove()
	var owner *folderOwner
	if o.WorkFolder != "" {
		if owner, err = lendFolder(o.WorkFolder); err != nil {
			return AgentResult{}, refusal.Newf(refusal.WriteFailed, "lending the working folder: %w", err)
		}
	}
	out, err := s.run(ctx, class)
	var gone discards
	if owner != nil {
		backErr := owner.takeBack(&gone)
		if backErr != nil && err == nil {
			return AgentResult{}, refusal.Newf(refusal.WriteFailed, "taking the working folder back: %w", backErr)
		}
	}
	seen := AgentResult{Attempted: s.log.Attempts(), Watched: !o.Blind}
	if err != nil && ctx.Err() != nil {
		return seen, context.Cause(ctx)
	}
	if refusal.Is(err, refusal.ShownChanged) {
		return seen, err
	}
	if err != nil {
		return seen, refusal.Newf(refusal.SandboxFailed, "running the agent: %w", err)
	}
	r := out.ofAgent()
	r.Attempted, r.Watched = seen.Attempted, seen.Watched
	r.Discarded, r.Discards = gone.first, gone.count
	return r, nil
}

// agentSetup lays out a sandbox for one run of an agent, or of a test.
func agentSetup(o AgentOptions, mounts []mount, base *runfolder.Base) (*setup, error) {
	s, err := newSetup(o.profile(), o.Executable, base)
	if err != nil {
		return nil, err
	}
	s.command, s.env, s.dir = o.Command, o.Env, o.Dir // as user 0, who owns the working folder in there
	if o.Service {
		s.user = ServiceUser
	}
	s.limits, s.stdin, s.onStdout = o.Limits, o.Stdin, o.OnStdout
	s.gateway, s.port, s.watch = o.Gateway, o.GatewayPort, !o.Blind
	s.services, s.dialer = o.Services, o.world
	s.rlimits = map[int]uint64{ // for each of its processes
		unix.RLIMIT_CORE: 0, unix.RLIMIT_MEMLOCK: 8 << 20, unix.RLIMIT_NOFILE: 4096, unix.RLIMIT_STACK: 8 << 20,
		unix.RLIMIT_FSIZE: uint64(o.Limits.DiskBytes), unix.RLIMIT_NPROC: uint64(o.Limits.Tasks),
	}
	if err := s.layOutAgent(o, mounts); err != nil {
		s.remove()
		return nil, err
	}
	var shown []string
	for _, m := range s.mounts[1:] {
		shown = append(shown, m.inside)
	}
	s.log = calls.AgentLog(o.hiddenNames(), shown, o.Asked...)
	return s, nil
}

// layOutAgent makes the root folder and shows in it what the agent may see.
func (s *setup) layOutAgent(o AgentOptions, mounts []mount) error {
	root := s.folder.Path("root")
	for _, dir := range []string{"dev", "proc", "sys", "tmp", "etc"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	if _, err := s.folder.Write("root/"+mmapMinAddr, []byte("65536\n")); err != nil {
		return err
	}
	if err := s.writeEtc(o.System); err != nil {
		return err
	}
	if o.Service {
		if _, err := s.folder.Write("root/etc/passwd", []byte(ownEtc["passwd"]+servicePasswd)); err != nil {
			return err
		}
	}
	if o.System {
		if err := linkSystem(root); err != nil {
			return err
		}
	}
	if o.Image != nil {
		if err := s.layOutImage(o.Image.Root(), root); err != nil {
			return err
		}
	}
	if o.Tree != "" {
		if err := linkTree(o.WorkFolder, root); err != nil {
			return err
		}
	}
	if o.WorkFolder == "" {
		dir, err := s.folder.Mkdir("work", 0o700)
		if err != nil {
			return err
		}
		mounts = append(mounts, mount{host: dir, inside: workDir, folder: true, writable: true})
	}
	for _, inside := range []string{ToolPath, firstprocess.Path} {
		mounts = append(mounts, mount{host: s.executable, inside: inside})
	}
	for _, m := range append([]mount{{host: root, inside: "/", folder: true}}, mounts...) {
		if err := s.show(m); err != nil {
			return err
		}
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

// linkTree makes the links at the top of a root that is being made; its folders are
// mounted.
func linkTree(tree, root string) error {
	entries, err := os.ReadDir(tree)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink == 0 || filledByUs("/"+e.Name()) {
			continue
		}
		target, err := os.Readlink(filepath.Join(tree, e.Name()))
		if err == nil {
			err = os.Symlink(target, filepath.Join(root, e.Name()))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// layOutImage makes the links and the empty folders of an image's root, and copies
// its /etc, in which our own files come before the image's.
func (s *setup) layOutImage(image, root string) error {
	entries, err := os.ReadDir(image)
	if err != nil {
		return err
	}
	for _, e := range entries {
		from, to := filepath.Join(image, e.Name()), filepath.Join(root, e.Name())
		switch {
		case filledByUs("/" + e.Name()):
		case e.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(from)
			if err == nil {
				err = os.Symlink(target, to)
			}
			if err != nil {
				return err
			}
		case e.IsDir() && isEmpty(from):
			if err := os.Mkdir(to, 0o755); err != nil {
				return err
			}
		}
	}
	return s.copyEtc(filepath.Join(image, "etc"))
}

// Bounds on an image's /etc, which is copied for every run.
const (
	maxEtcFiles = 5000
	maxEtcBytes = 32 << 20
)

func (s *setup) copyEtc(from string) error {
	files, left := 0, int64(maxEtcBytes)
	return filepath.WalkDir(from, func(p string, e fs.DirEntry, err error) error {
		if p == from && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || p == from {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		to := s.folder.Path(filepath.Join("root/etc", rel))
		if files++; files > maxEtcFiles {
			return fmt.Errorf("the image's /etc has more than %d files", maxEtcFiles)
		}
		switch {
		case rel == "resolv.conf" || ownEtc[rel] != "":
			return nil
		case e.IsDir():
			return os.MkdirAll(to, 0o755)
		case e.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			return os.Symlink(target, to)
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		if left -= int64(len(b)); left < 0 {
			return fmt.Errorf("the image's /etc has more than %d bytes", int64(maxEtcBytes))
		}
		_, err = s.folder.Write(filepath.Join("root/etc", rel), b)
		return err
	})
}

// ownEtc is what every agent finds in /etc. There is no resolv.conf: a program
// that asks for a name asks its own loopback, where no server answers, and is
// seen.
var ownEtc = map[string]string{
	"passwd":        "root:x:0:0:agent:/tmp:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
	"group":         "root:x:0:\nnogroup:x:65534:\n",
	"hosts":         "127.0.0.1 localhost sandbox\n",
	"hostname":      "sandbox\n",
	"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
}

// servicePasswd is what a service finds besides in passwd: its own user.
var servicePasswd = fmt.Sprintf("service:x:%d:%d:service:/tmp:/bin/sh\n", ServiceUser, ServiceUser)

// hostEtc are the host's files that programs look for; none of them tells
// more than which programs are installed.
var hostEtc = []string{"ld.so.cache", "localtime", "os-release", "debian_version", "services", "protocols", "mime.types",
	"ssl/openssl.cnf", "ssl/certs/ca-certificates.crt", "pki/tls/certs/ca-bundle.crt"}

func (s *setup) writeEtc(system bool) error {
	for name, text := range ownEtc {
		if _, err := s.folder.Write("root/etc/"+name, []byte(text)); err != nil {
			return err
		}
	}
	if !system {
		return nil
	}
	for _, name := range hostEtc {
		b, err := os.ReadFile("/etc/" + name)
		if err != nil {
			continue // what the host does not have, the agent does not get
		}
		if _, err := s.folder.Write("root/etc/"+name, b); err != nil {
			return err
		}
	}
	return nil
}

// ofAgent is what an agent's end says.
func (o outcome) ofAgent() AgentResult {
	r := AgentResult{Verdict: o.verdict, ExitCode: o.exit, Stdout: o.stdout, StderrHead: o.stderr, NotStarted: o.notStarted, MaxRSS: o.peak}
	switch {
	case r.Verdict != "":
	case r.NotStarted != "":
		r.Verdict = Failed
	case o.exit == 0:
		r.Verdict = OK
	case o.exit > 128:
		r.Verdict = Killed
	default:
		r.Verdict = Failed
	}
	return r
}
