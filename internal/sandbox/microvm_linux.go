package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"tallystick/internal/refusal"
)

// A microvmCase runs every job in a fresh virtual machine under QEMU with
// hardware virtualisation. The guest's kernel is the host's own kernel file,
// its whole disk an archive in memory that is made for the run, its first
// process this program. It has no device but one serial line, on which the
// answer comes out.
type microvmCase struct {
	options Options
	base    *runBase
	machine vmMachine
}

// A vmMachine is what a virtual machine is made with.
type vmMachine struct {
	qemu, kernel string
	accel        []string // QEMU flags; kvm unless a test says otherwise
}

var qemuNames = map[string]string{"amd64": "qemu-system-x86_64", "arm64": "qemu-system-aarch64"}

// findVM looks for QEMU, hardware virtualisation and a kernel. Finding them
// does not mean that they work together: only a probe tells.
func findVM() (vmMachine, error) {
	name := qemuNames[runtime.GOARCH]
	if runtime.GOARCH != "amd64" {
		return vmMachine{}, fmt.Errorf("no virtual machine is set up for %s", runtime.GOARCH)
	}
	qemu, err := exec.LookPath(name)
	if err != nil {
		return vmMachine{}, fmt.Errorf("%s is not installed", name)
	}
	kvm, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return vmMachine{}, fmt.Errorf("no hardware virtualisation: %w", err)
	}
	kvm.Close()
	kernel, err := findKernel()
	if err != nil {
		return vmMachine{}, err
	}
	return vmMachine{qemu: qemu, kernel: kernel, accel: []string{"-accel", "kvm", "-cpu", "host"}}, nil
}

func findKernel() (string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", err
	}
	release := unix.ByteSliceToString(u.Release[:])
	candidates := []string{"/boot/vmlinuz-" + release, "/usr/lib/modules/" + release + "/vmlinuz"}
	more, _ := filepath.Glob("/boot/vmlinuz*")
	for _, k := range append(candidates, more...) {
		if f, err := os.Open(k); err == nil {
			f.Close()
			return k, nil
		}
	}
	return "", errors.New("no readable kernel in /boot for the guest")
}

func (m *microvmCase) close() error { return nil }

// guestOverhead is memory for the guest's kernel and our program in it.
const guestOverhead = 256 << 20

// A vmJob is what the guest's first process reads, and a vmAnswer what it
// says.
type vmJob struct {
	Command []string
	Env     []string
	Rlimits map[int]uint64
	Keep    int64 // bytes of each stream
}

type vmAnswer struct {
	Exit           int
	Stdout, Stderr []byte
	TooMuch        bool
}

// vmMark is in front of the answer: a kernel may write to the line before.
const vmMark = "\x02tally "

func (m *microvmCase) run(ctx context.Context, stdin []byte, limits Limits) (Result, error) {
	began := time.Now()
	folder, err := m.base.make()
	if err != nil {
		return Result{}, err
	}
	defer folder.remove()
	e, err := m.boot(ctx, folder, stdin, limits)
	if err != nil {
		return Result{}, refusal.Newf(refusal.SandboxFailed, "running a microvm: %w", err)
	}
	r := verdictOf(e, m.options.Image != nil)
	r.Wall = time.Since(began)
	return r, nil
}

func (m *microvmCase) boot(ctx context.Context, folder *runFolder, stdin []byte, limits Limits) (ending, error) {
	disk, size, err := m.disk(folder, stdin, limits)
	if err != nil {
		return ending{}, err
	}
	megabytes := (limits.MemoryBytes + guestOverhead + 2*size) >> 20
	args := append([]string{m.machine.qemu}, m.machine.accel...)
	args = append(args, "-M", "pc", "-m", fmt.Sprint(megabytes), "-smp", "1", "-nodefaults", "-no-user-config", "-display", "none",
		"-no-reboot", "-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
		"-chardev", "stdio,id=line,signal=off", "-serial", "chardev:line",
		"-kernel", m.machine.kernel, "-initrd", disk, "-append", "console=null quiet panic=-1 rdinit=/init")
	l := &launch{executable: m.machine.qemu, args: args, keepUser: true,
		cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS}
	// The answer is JSON with base64 in it, so it may be longer on the line.
	line := limits
	line.OutputBytes = 4 * limits.OutputBytes
	e, err := converse(ctx, talkOf(nil, line), nil, l.start)
	if err != nil || e.verdict != "" {
		return e, err
	}
	_, after, found := bytes.Cut(e.stdout, []byte(vmMark))
	var a vmAnswer
	if !found {
		return e, fmt.Errorf("the guest gave no answer (QEMU ended with status %d): %s", e.exit, e.stderr)
	}
	if err := json.NewDecoder(bytes.NewReader(after)).Decode(&a); err != nil {
		return e, fmt.Errorf("the guest's answer: %w", err)
	}
	out := ending{exit: a.Exit, stdout: a.Stdout, stderr: headString(a.Stderr[:min(len(a.Stderr), stderrHeadBytes)]), maxRSS: e.maxRSS}
	if a.TooMuch {
		out.verdict = OutputLimit
	}
	return out, nil
}

// disk writes the guest's whole file system, in the kernel's "newc" archive
// format, and returns its size.
func (m *microvmCase) disk(folder *runFolder, stdin []byte, limits Limits) (file string, size int64, err error) {
	job := vmJob{Command: rubricCommand(m.options, limits), Env: rubricEnv(m.options), Keep: limits.OutputBytes,
		Rlimits: map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_FSIZE: 0, unix.RLIMIT_NOFILE: 64}}
	if m.options.Image != nil {
		job.Rlimits[unix.RLIMIT_AS] = uint64(limits.MemoryBytes)
		job.Rlimits[unix.RLIMIT_NPROC] = 1
	} else {
		job.Rlimits[unix.RLIMIT_DATA] = uint64(limits.MemoryBytes)
	}
	j, err := json.Marshal(job)
	if err != nil {
		return "", 0, err
	}
	file = folder.path("disk")
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	w := newCPIO(f)
	w.file("init", m.options.Executable, 0o755)
	for _, dir := range []string{"dev", "proc", "proc/sys", "proc/sys/vm", "root"} {
		w.dir(dir)
	}
	// Without a console the first process has no streams; Go's runtime opens
	// this in their place, before main.
	w.device("dev/null", 1, 3)
	// gVisor, which is linked into our program, looks for it at the start.
	w.bytes("proc/sys/vm/mmap_min_addr", []byte("65536\n"), 0o444)
	w.bytes("job.json", j, 0o400)
	w.bytes("stdin", stdin, 0o400)
	if m.options.Image != nil {
		w.tree("root", m.options.Image.Root())
	} else {
		for _, dir := range []string{"root/" + programDir, "root/proc", "root/proc/sys", "root/proc/sys/vm", "root" + rubricDir} {
			w.dir(dir)
		}
		w.bytes("root/proc/sys/vm/mmap_min_addr", []byte("65536\n"), 0o444)
		w.file("root/"+programDir+"/"+starlarkName, m.options.Executable, 0o755)
	}
	made := map[string]bool{".": true}
	for _, name := range m.options.Rubric.names() {
		w.parents("root"+rubricDir, filepath.Dir(name), made)
		w.bytes("root"+rubricDir+"/"+name, m.options.Rubric.Files[name], 0o444)
	}
	return file, w.size, w.finish()
}
