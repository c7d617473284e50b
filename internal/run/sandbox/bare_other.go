//go:build !unix

package sandbox

import "os/exec"

// asGroup returns what kills the program. What that started itself goes on:
// here there is no group to kill.
func asGroup(cmd *exec.Cmd) (kill func() error) {
	return func() error { return cmd.Process.Kill() }
}
