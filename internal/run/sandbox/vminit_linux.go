package sandbox

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// vmInitPath is this program's name as the first process of a guest.
const vmInitPath = "/init"

// vmInit runs the job as an ordinary user of the guest, says the answer on the
// serial line, and switches the machine off.
func vmInit() {
	a, err := vmRun()
	if err != nil {
		a = vmAnswer{Exit: 255, Stderr: []byte("guest: " + err.Error())}
	}
	line, err := os.OpenFile("/dev/ttyS0", os.O_RDWR|unix.O_NOCTTY, 0)
	if err == nil {
		// Raw: a terminal would turn line ends and cut at control characters.
		if t, err := unix.IoctlGetTermios(int(line.Fd()), unix.TCGETS); err == nil {
			t.Oflag, t.Lflag, t.Iflag = 0, 0, 0
			unix.IoctlSetTermios(int(line.Fd()), unix.TCSETS, t)
		}
		if j, err := json.Marshal(a); err == nil {
			fmt.Fprintf(line, "%s%s\n", vmMark, j)
		}
		unix.IoctlSetInt(int(line.Fd()), unix.TCSBRK, 1) // wait until it is sent
	}
	unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	select {}
}

func vmRun() (vmAnswer, error) {
	if err := unix.Mount("dev", "/dev", "devtmpfs", 0, ""); err != nil {
		return vmAnswer{}, fmt.Errorf("mounting /dev: %w", err)
	}
	var job vmJob
	b, err := os.ReadFile("/job.json")
	if err == nil {
		err = json.Unmarshal(b, &job)
	}
	if err != nil {
		return vmAnswer{}, err
	}
	stdin, err := os.Open("/stdin")
	if err != nil {
		return vmAnswer{}, err
	}
	return vmExec(job, stdin)
}

func vmExec(job vmJob, stdin *os.File) (vmAnswer, error) {
	// The limits are this process's own from here on; it has no use for more,
	// and the job inherits them.
	for resource, n := range job.Rlimits {
		if resource == unix.RLIMIT_AS || resource == unix.RLIMIT_DATA || resource == unix.RLIMIT_NPROC {
			continue
		}
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			return vmAnswer{}, err
		}
	}
	cmd := &exec.Cmd{Path: job.Command[0], Args: job.Command, Env: job.Env, Dir: rubricDir, Stdin: stdin,
		SysProcAttr: &syscall.SysProcAttr{Chroot: "/root", Credential: &syscall.Credential{Uid: ordinaryUser, Gid: ordinaryUser}}}
	if cmd.Env == nil {
		cmd.Env = []string{}
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return vmAnswer{}, err
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return vmAnswer{}, err
	}
	if err := cmd.Start(); err != nil {
		return vmAnswer{}, err
	}
	// Our own program could not live with these. The job has them a moment after
	// it began; what holds from its first moment is the size of the machine.
	for _, resource := range []int{unix.RLIMIT_AS, unix.RLIMIT_DATA, unix.RLIMIT_NPROC} {
		if n, ok := job.Rlimits[resource]; ok {
			unix.Prlimit(cmd.Process.Pid, resource, &unix.Rlimit{Cur: n, Max: n}, nil)
		}
	}
	over := make(chan Verdict, 2)
	out, errs := streamHead{keep: job.Keep, limit: job.Keep}, streamHead{keep: stderrHeadBytes, limit: job.Keep, last: lastBytes{keep: stderrTailBytes}}
	var readers sync.WaitGroup
	readers.Go(func() { out.fill(stdout, over) })
	readers.Go(func() { errs.fill(stderr, over) })
	done := make(chan struct{})
	go func() { readers.Wait(); close(done) }()
	a := vmAnswer{}
	select {
	case <-over:
		a.TooMuch = true
		cmd.Process.Kill()
		<-done
	case <-done:
	}
	cmd.Wait()
	a.Exit, a.Stdout, a.Stderr = exitCode(cmd.ProcessState), out.bytes, []byte(errs.text())
	return a, nil
}
