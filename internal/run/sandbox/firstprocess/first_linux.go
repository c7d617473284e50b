package firstprocess

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Name is how this program is started to be the first process of a
// sandbox, and Path where it is in an agent's.
const (
	Name = "tally-sandbox-first"
	Path = "/" + ProgramDir + "/" + Name
)

// Socket is the descriptor of the channel to the harness.
const Socket = 3

// NotStartedStatus is what a shell says, too, when there is no such program.
const NotStartedStatus = 127

// Main is the first process of a sandbox. For a rubric it builds the
// sandbox and becomes the rubric. For an agent it listens on the gateway's port
// and forwards, starts the program, reaps whatever loses its parent, and ends
// with the program; its end is the end of everything in the sandbox.
//
// It holds nothing that an agent may not have: no capability, no file, and a
// channel over which nothing but connections to the gateway can be got.
func Main() {
	unix.CloseOnExec(Socket)
	runtime.LockOSThread() // see startProgram and become
	status, err := follow()
	if err != nil {
		tell(SaysFailed, err.Error())
		os.Exit(1)
	}
	os.Exit(status)
}

func tell(kind byte, text string) {
	unix.Sendto(Socket, append([]byte{kind}, text[:min(len(text), 4000)]...), unix.MSG_NOSIGNAL, nil)
}

// follow does what the plan says, and returns the program's status.
func follow() (status int, err error) {
	var p Plan
	if err := receiveJSON(&p); err != nil {
		return 0, fmt.Errorf("reading the plan: %w", err)
	}
	if p.Build != nil {
		if err := p.Build.build(); err != nil {
			return 0, err
		}
	}
	if p.Keep {
		return keep(p.Build == nil)
	}
	if p.Room != nil {
		if err := p.Room.furnish(); err != nil {
			unix.Sendto(roomSocket, []byte(err.Error()), unix.MSG_NOSIGNAL, nil)
			return 0, err
		}
		if p.Hold {
			return hold(p)
		}
		return becomePreloader(p)
	}
	if !p.Stay {
		return become(p)
	}
	return attend(p)
}

// receiveJSON reads what the harness sends before all other messages.
func receiveJSON(v any) error {
	buf := make([]byte, MaxPlanBytes)
	n, err := unix.Read(Socket, buf)
	if err != nil {
		return err
	}
	return json.Unmarshal(buf[:n], v)
}

// become turns this process into the program. Everything that was given up was
// given up on one thread; that thread becomes the program, and exec ends all
// others.
func become(p Plan) (status int, err error) {
	debug.SetGCPercent(-1) // it would run under the rubric's filter
	argv, err := syscall.SlicePtrFromStrings(p.Command)
	if err != nil {
		return 0, err
	}
	envv, err := syscall.SlicePtrFromStrings(p.Env)
	if err != nil {
		return 0, err
	}
	if err := unix.CloseRange(Socket+1, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil && err != unix.ENOSYS {
		return 0, fmt.Errorf("closing files: %w", err)
	}
	if err := unix.Chdir(p.Dir); err != nil {
		return 0, fmt.Errorf("entering the rubric's folder: %w", err)
	}
	if err := p.Build.restrict(); err != nil {
		return 0, err
	}
	// Not RawSyscall: on a machine with one processor the other thread needs
	// this one's turn. The harness is asked about this call and sets the last
	// limit, the address space, before it says yes.
	_, _, errno := syscall.Syscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(argv[0])),
		uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&envv[0])))
	fmt.Fprintf(os.Stderr, "%s: %v\n", p.Command[0], errno)
	return 126, nil
}

// attend starts the program and stays beside it until its end.
func attend(p Plan) (status int, err error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	if p.Port != 0 {
		ln, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", p.Port))
		if err != nil {
			return 0, fmt.Errorf("listening for the gateway: %w", err)
		}
		go forwardAll(ln, "")
	}
	for _, port := range p.Services {
		ln, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return 0, fmt.Errorf("listening for the service at port %d: %w", port, err)
		}
		go forwardAll(ln, strconv.Itoa(port))
	}
	if p.Dials {
		go takeConns()
	}
	if p.Build != nil {
		// From here on this thread, and what it starts, is under the filter.
		if err := p.Build.restrict(); err != nil {
			return 0, err
		}
	} else {
		tell(SaysReady, "")
	}
	if err := keepInherited(); err != nil {
		return 0, err
	}
	pid, err := startProgram(p)
	if err != nil {
		tell(SaysNotStarted, err.Error())
		return NotStartedStatus, nil
	}
	// What comes is for the program. Held open here, its output would have no
	// end before ours.
	for fd := range 3 {
		if err := unix.Dup3(int(null.Fd()), fd, 0); err != nil {
			return 0, fmt.Errorf("letting go of the program's streams: %w", err)
		}
	}
	return reap(pid)
}

// keepInherited keeps what this process inherited from the program that must not have
// it: descriptors that the caller of tally had left open go through every exec.
func keepInherited() error {
	err := unix.CloseRange(Socket+1, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC)
	if err == nil || err != unix.ENOSYS {
		return err
	}
	var most unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &most); err != nil {
		return err
	}
	for fd := Socket + 1; fd < int(min(most.Max, 1<<20)); fd++ {
		unix.CloseOnExec(fd) // one that is not open is fine
	}
	return nil
}

// startProgram runs on the locked thread: what that thread gave up, the
// program never had.
func startProgram(p Plan) (pid int, err error) {
	if err := os.Chdir(p.Dir); err != nil {
		return 0, fmt.Errorf("entering the working folder: %w", err)
	}
	file, err := findProgram(p.Command[0], p.Env)
	if err != nil {
		return 0, err
	}
	// The modes of new files are the same on every machine.
	syscall.Umask(0o022)
	pid, err = syscall.ForkExec(file, p.Command, &syscall.ProcAttr{
		Env: p.Env, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		return 0, fmt.Errorf("starting %s: %w", file, err)
	}
	return pid, nil
}

// findProgram looks where a shell in the sandbox would.
func findProgram(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	dirs := "/usr/local/bin:/usr/bin:/bin"
	for _, e := range env {
		if p, ok := strings.CutPrefix(e, "PATH="); ok {
			dirs = p
		}
	}
	for _, dir := range filepath.SplitList(dirs) {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("%s: no such program in %s", name, dirs)
}

// reap waits for the program, and for every process that lost its parent.
func reap(program int) (status int, err error) {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return 0, fmt.Errorf("waiting for the program: %w", err)
		case pid == program && ws.Signaled():
			return 128 + int(ws.Signal()), nil
		case pid == program && ws.Exited():
			return ws.ExitStatus(), nil
		}
	}
}

// asking is held while the harness is asked for a connection: its answers come in
// the order of the questions.
var asking sync.Mutex

// forwardAll carries connections to the port of the gateway, or of a service, out of
// the sandbox.
func forwardAll(ln net.Listener, service string) {
	for {
		c, err := ln.Accept()
		if err != nil {
			continue // out of descriptors, for the moment
		}
		go func() {
			defer c.Close()
			asking.Lock()
			out, err := askForConn(service)
			asking.Unlock()
			if err != nil {
				return
			}
			defer out.Close()
			forward(c.(*net.TCPConn), out)
		}()
	}
}

// askForConn gets a connection from the harness.
func askForConn(service string) (*net.UnixConn, error) {
	tell(WantsConn, service)
	kind, _, rights, err := Receive(Socket)
	if err != nil {
		return nil, err
	}
	if kind != GrantsConn || len(rights) != 1 {
		CloseFds(rights)
		return nil, errors.New("the gateway is closed")
	}
	return connOf(rights[0])
}

// takeConns connects what the harness sends to ports in here, where a world's services
// listen, until the harness is gone.
func takeConns() {
	for {
		kind, port, rights, err := Receive(Socket)
		if err != nil {
			return
		}
		if kind != TakesConn || len(rights) != 1 {
			CloseFds(rights)
			continue
		}
		go func() {
			out, err := connOf(rights[0])
			if err != nil {
				return
			}
			defer out.Close()
			c, err := net.Dial("tcp4", net.JoinHostPort("127.0.0.1", port))
			if err != nil {
				return // as it is for who connects to a port where no program listens
			}
			defer c.Close()
			forward(c.(*net.TCPConn), out)
		}()
	}
}

// connOf is the connection of a descriptor that came from the harness.
func connOf(fd int) (*net.UnixConn, error) {
	file := os.NewFile(uintptr(fd), "gateway")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

// forward copies both ways. Each side's end of speech is passed on by itself:
// a client may close its half and still wait for the answer.
func forward(a *net.TCPConn, b *net.UnixConn) {
	var both sync.WaitGroup
	both.Go(func() {
		io.Copy(b, a)
		b.CloseWrite()
	})
	both.Go(func() {
		io.Copy(a, b)
		a.CloseWrite()
	})
	both.Wait()
}
