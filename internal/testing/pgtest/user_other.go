//go:build !linux

package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// ownUser says as whom the server runs: as ourselves, and not at all as root.
func ownUser(string) (*syscall.SysProcAttr, error) {
	if os.Geteuid() == 0 {
		return nil, fmt.Errorf("%w: it does not run as root", ErrNone)
	}
	return &syscall.SysProcAttr{}, nil
}

// dieWithParent needs Linux: elsewhere a killed test leaves its server behind.
func dieWithParent(*exec.Cmd) {}
