package runsc

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/abi/linux"
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

// A Process is one to start in a running sandbox. It gets no capability,
// unless it is our own and SwitchesUser.
type Process struct {
	Command []string
	Env     []string
	Dir     string
	User    uint32
	Files   []*os.File // its descriptors
	// SwitchesUser lets it start processes as other users, without regard to
	// the limit on their number.
	SwitchesUser bool
}

// Start starts a process and returns its number in the sandbox.
func (c Control) Start(p Process) (pid int32, err error) {
	files := map[int]*os.File{}
	for fd, f := range p.Files {
		files[fd] = f
	}
	caps := &auth.TaskCapabilities{}
	if p.SwitchesUser {
		set := auth.CapabilitySetOfMany([]linux.Capability{linux.CAP_SETUID, linux.CAP_SETGID, linux.CAP_SYS_RESOURCE})
		caps.PermittedCaps, caps.EffectiveCaps, caps.BoundingCaps = set, set, set
	}
	args := control.ExecArgs{
		Argv:             p.Command,
		Envv:             p.Env,
		WorkingDirectory: p.Dir,
		KUID:             auth.KUID(p.User),
		KGID:             auth.KGID(p.User),
		NoNewPrivileges:  true,
		Capabilities:     caps,
		ContainerID:      c.ID,
		FilePayload:      control.NewFilePayload(files, nil),
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
