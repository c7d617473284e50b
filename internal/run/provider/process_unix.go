//go:build unix

package provider

import (
	"os/exec"
	"syscall"
)

// inOwnGroup lets everything that the program starts be ended with it.
func inOwnGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// endGroup ends the program and what it started. A group that is gone is what
// was wanted.
func endGroup(cmd *exec.Cmd) { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
