//go:build unix

package sandbox

import (
	"os/exec"
	"syscall"
)

// asGroup makes a program and what it starts one group, and returns what kills
// all of it.
func asGroup(cmd *exec.Cmd) (kill func() error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
