package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"strconv"
	"syscall"
)

// ownUser says as whom the server runs. PostgreSQL refuses to run as root, so root
// gives the folder to another user: postgres, or nobody. Both must be in the
// user database, because initdb looks its own name up.
func ownUser(dir string) (*syscall.SysProcAttr, error) {
	attributes := &syscall.SysProcAttr{}
	if os.Geteuid() != 0 {
		return attributes, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 != nil || err2 != nil {
			continue
		}
		attributes.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		return attributes, os.Chown(dir, int(uid), int(gid))
	}
	return nil, fmt.Errorf("%w: it does not run as root, and there is neither a user postgres nor nobody", ErrNone)
}

// dieWithParent lets the kernel stop the server when the thread that started it
// ends, so that a test that panics or is killed leaves none behind. The thread is
// the caller's for as long as the caller waits for the server.
func dieWithParent(cmd *exec.Cmd) {
	runtime.LockOSThread()
	attributes := *cmd.SysProcAttr
	attributes.Pdeathsig = syscall.SIGQUIT
	cmd.SysProcAttr = &attributes
}
