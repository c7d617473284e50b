package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"tallystick/internal/run/sandbox/firstprocess"
	"tallystick/internal/run/sandbox/isolation"
)

var microVM = class{
	Class: isolation.Class{Name: "microvm",
		Between:      "hardware virtualisation, a kernel of its own, QEMU's seccomp sandbox, one serial line",
		SharesKernel: "no", Promotes: true},
	run: (*setup).runMicroVM,
	find: func(f *fresh) (err error) {
		f.machine, err = findVM()
		return err
	},
	blind: true,
}

// A vmMachine is what a virtual machine is made with.
type vmMachine struct {
	qemu, kernel string
	accel        []string // QEMU flags; kvm unless a test says otherwise
}

// findVM looks for QEMU, hardware virtualisation and a kernel. Finding them
// does not mean that they work together: only a probe tells.
func findVM() (vmMachine, error) {
	qemu, err := findQEMU()
	if err != nil {
		return vmMachine{}, err
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

func findQEMU() (string, error) {
	if runtime.GOARCH != "amd64" {
		return "", fmt.Errorf("no virtual machine is set up for %s", runtime.GOARCH)
	}
	const name = "qemu-system-x86_64"
	qemu, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is not installed", name)
	}
	return qemu, nil
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

// runMicroVM runs the rubric in a virtual machine under QEMU with hardware
// virtualisation. The guest's kernel is the host's own kernel file, its whole
// disk an archive in memory that is made for the run, its first process this
// program. It has no device but one serial line, on which the answer comes out.
func (s *setup) runMicroVM(ctx context.Context) (outcome, error) {
	disk, size, err := s.disk()
	if err != nil {
		return outcome{}, err
	}
	// The answer is JSON with base64 in it, so it may be longer on the line.
	line := talk{timeout: s.limits.Timeout, output: 4 * s.limits.OutputBytes}
	e, err := converse(ctx, line, nil, s.virtualMachine(disk, size).start)
	if err != nil || e.verdict != "" {
		return outcome{ending: e}, err
	}
	_, after, found := bytes.Cut(e.stdout, []byte(vmMark))
	var a vmAnswer
	if !found {
		return outcome{}, fmt.Errorf("the guest gave no answer (QEMU ended with status %d): %s", e.exit, e.stderr)
	}
	if err := json.NewDecoder(bytes.NewReader(after)).Decode(&a); err != nil {
		return outcome{}, fmt.Errorf("the guest's answer: %w", err)
	}
	out := ending{exit: a.Exit, stdout: a.Stdout, stderr: firstprocess.HeadString(a.Stderr[:min(len(a.Stderr), maxStderr)]), maxRSS: e.maxRSS}
	if a.TooMuch {
		out.verdict = OutputLimit
	}
	return outcome{ending: out}, nil
}

// virtualMachine is QEMU with a disk of size bytes.
func (s *setup) virtualMachine(disk string, size int64) *launch {
	megabytes := (s.limits.MemoryBytes + guestOverhead + 2*size) >> 20
	args := append([]string{s.machine.qemu}, s.machine.accel...)
	args = append(args, "-M", "pc", "-m", fmt.Sprint(megabytes), "-smp", "1", "-nodefaults", "-no-user-config", "-display", "none",
		"-no-reboot", "-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
		"-chardev", "stdio,id=line,signal=off", "-serial", "chardev:line",
		"-kernel", s.machine.kernel, "-initrd", disk, "-append", "console=null quiet panic=-1 rdinit=/init")
	return &launch{executable: s.machine.qemu, args: args, keepUser: true,
		cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS}
}

// guestJob is what the guest's first process shall run.
func (s *setup) guestJob() vmJob {
	job := vmJob{Command: s.command, Env: s.env, Keep: s.limits.OutputBytes, Rlimits: s.rlimits}
	if s.python {
		job.Rlimits[unix.RLIMIT_AS] = uint64(s.limits.MemoryBytes)
		job.Rlimits[unix.RLIMIT_NPROC] = 1
	} else {
		job.Rlimits[unix.RLIMIT_DATA] = uint64(s.limits.MemoryBytes)
	}
	return job
}

// disk writes the guest's whole file system, in the kernel's "newc" archive
// format, and returns its size.
func (s *setup) disk() (file string, size int64, err error) {
	j, err := json.Marshal(s.guestJob())
	if err != nil {
		return "", 0, err
	}
	stdin, err := io.ReadAll(s.stdin)
	if err != nil {
		return "", 0, err
	}
	file = s.folder.Path("disk")
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	w := newCPIO(f)
	w.file("init", s.executable, 0o755)
	for _, dir := range []string{"dev", "proc", "proc/sys", "proc/sys/vm", "root"} {
		w.dir(dir)
	}
	// Without a console the first process has no streams; Go's runtime opens
	// this in their place, before main.
	w.device("dev/null", 1, 3)
	w.bytes(mmapMinAddr, []byte("65536\n"), 0o444)
	w.bytes("job.json", j, 0o400)
	w.bytes("stdin", stdin, 0o400)
	for _, m := range s.mounts {
		if m.folder {
			w.tree(path.Join("root", m.inside), m.host)
		} else {
			w.file(path.Join("root", m.inside), m.host, 0o755)
		}
	}
	return file, w.size, w.finish()
}
