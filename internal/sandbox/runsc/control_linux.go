package runsc

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/control/client"
	"gvisor.dev/gvisor/pkg/sentry/control"
	"gvisor.dev/gvisor/pkg/sentry/kernel/auth"
	"gvisor.dev/gvisor/runsc/boot"
)

// A Control talks to the kernel of one running sandbox, as the commands
// "runsc exec" and "runsc kill" do, without starting a process for each.
type Control struct {
	Socket string
	ID     string
}

// ControlOf finds the control socket of a sandbox below its --root folder.
func ControlOf(root, id string) Control {
	return Control{Socket: filepath.Join(root, "runsc-"+id+".sock"), ID: id}
}

// A Process is one to start in a running sandbox. It gets no capability.
type Process struct {
	Command []string
	Env     []string
	Dir     string
	User    uint32
	Files   [3]*os.File // its standard streams
}

// Start starts a process and returns its number in the sandbox.
func (c Control) Start(p Process) (pid int32, err error) {
	args := control.ExecArgs{
		Argv:             p.Command,
		Envv:             p.Env,
		WorkingDirectory: p.Dir,
		KUID:             auth.KUID(p.User),
		KGID:             auth.KGID(p.User),
		NoNewPrivileges:  true,
		Capabilities:     &auth.TaskCapabilities{},
		ContainerID:      c.ID,
		FilePayload:      control.NewFilePayload(map[int]*os.File{0: p.Files[0], 1: p.Files[1], 2: p.Files[2]}, nil),
	}
	err = c.call(boot.ContMgrExecuteAsync, &args, &pid)
	return pid, err
}

// Wait waits for the end of a process.
func (c Control) Wait(pid int32) (unix.WaitStatus, error) {
	var status uint32
	err := c.call(boot.ContMgrWaitPID, &boot.WaitPIDArgs{PID: pid, CID: c.ID}, &status)
	return unix.WaitStatus(status), err
}

// Kill ends a process.
func (c Control) Kill(pid int32) error {
	return c.call(boot.ContMgrSignal, &boot.SignalArgs{CID: c.ID, PID: pid, Signo: int32(unix.SIGKILL), Mode: boot.DeliverToProcess}, nil)
}

func (c Control) call(method string, arg, result any) error {
	conn, err := client.ConnectTo(c.Socket)
	if err != nil {
		return fmt.Errorf("connecting to gvisor: %w", err)
	}
	defer conn.Close()
	return conn.Call(method, arg, result)
}
