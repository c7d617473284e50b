package calls

import (
	"bytes"
	"fmt"
	"path"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// notification is struct seccomp_notif.
type notification struct {
	id    uint64
	pid   uint32
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

// reply is struct seccomp_notif_resp.
type reply struct {
	id    uint64
	val   int64
	errno int32
	flags uint32
}

func ioctl(fd int, request, arg uintptr) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, arg)
	if errno != 0 {
		return errno
	}
	return nil
}

// A Supervisor answers the kernel's questions about a program's calls.
type Supervisor struct {
	Log          *Log
	Watch        bool
	AddressSpace uint64 // of a rubric, set when it begins; 0 for none

	// Err says why it could not do its work; to be read after Listen.
	Err error

	execs int
}

// Listen answers questions about the process pid, and those below it, until
// nobody is left under the filter. It closes the listener.
func (s *Supervisor) Listen(listener, pid int) {
	defer unix.Close(listener)
	ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
	for {
		poll := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, -1); err == unix.EINTR {
			continue
		} else if err != nil {
			s.Err = fmt.Errorf("waiting for system calls: %w", err)
			return
		}
		if poll[0].Revents&unix.POLLIN == 0 {
			return // hung up
		}
		s.answer(listener, pid)
	}
}

// answer takes one question and replies.
func (s *Supervisor) answer(listener, pid int) {
	var n notification
	if ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&n))) != nil {
		return // the caller died meanwhile
	}
	r := reply{id: n.id, errno: -int32(unix.EPERM)}
	if s.decide(&n, pid) {
		r = reply{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	}
	ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&r)))
}

// decide records a call if it is an attempt and reports whether it goes ahead:
// the opening of files, which is only to be seen; what an agent sends, which
// its network decides about; and the one exec that begins a rubric.
func (s *Supervisor) decide(n *notification, pid int) bool {
	first := s.Log.agent == nil && n.nr == unix.SYS_EXECVE && s.execs == 0
	if first {
		s.execs++
		return s.begin(pid) == nil
	}
	opens := isOpen(uintptr(n.nr))
	if s.Watch || opens || n.nr == unix.SYS_EXECVE {
		s.note(n)
	}
	return opens || s.Log.agent != nil && (n.nr == unix.SYS_CONNECT || n.nr == unix.SYS_SENDTO)
}

// begin sets the last limit on the process that is about to become the
// rubric. Our own program, which it still is, could not live with it.
func (s *Supervisor) begin(pid int) error {
	if s.AddressSpace == 0 {
		return nil
	}
	limit := unix.Rlimit{Cur: s.AddressSpace, Max: s.AddressSpace}
	if err := unix.Prlimit(pid, unix.RLIMIT_AS, &limit, nil); err != nil {
		s.Err = fmt.Errorf("limiting the address space: %w", err)
		return s.Err
	}
	return nil
}

// note records a call if it is an attempt.
func (s *Supervisor) note(n *notification) {
	l, pid := s.Log, int(n.pid)
	switch nr := int(n.nr); nr {
	case unix.SYS_OPENAT:
		l.open(l.home(), readString(pid, n.args[1]), n.args[2])
	case openCall:
		l.open(l.home(), readString(pid, n.args[0]), n.args[1])
	case creatCall:
		l.open(l.home(), readString(pid, n.args[0]), openCreating)
	case unix.SYS_SOCKET:
		l.deniedSocket(int(int32(n.args[0])))
	case unix.SYS_CONNECT:
		l.address("connect", readBytes(pid, n.args[1], min(n.args[2], 128)))
	case unix.SYS_BIND:
		l.address("bind", readBytes(pid, n.args[1], min(n.args[2], 128)))
	case unix.SYS_SENDTO:
		if l.agent != nil { // of a rubric its socket was noted
			l.address("sendto", readBytes(pid, n.args[4], min(n.args[5], 128)))
		}
	case unix.SYS_CLONE:
		l.clone("clone", n.args[0])
	case forkCall, vforkCall:
		l.clone("fork", 0)
	case unix.SYS_EXECVE:
		l.exec(readString(pid, n.args[0]))
	default:
		l.watched(nr)
	}
}

// readString reads a name from the program's memory.
func readString(pid int, at uint64) string {
	const longest = 4096
	var name []byte
	// A name may end right before an unmapped page, so read page by page.
	for len(name) < longest {
		chunk := readBytes(pid, at, 4096-at%4096)
		if len(chunk) == 0 {
			break
		}
		if end := bytes.IndexByte(chunk, 0); end >= 0 {
			name = append(name, chunk[:end]...)
			break
		}
		name = append(name, chunk...)
		at += uint64(len(chunk))
	}
	if strings.HasPrefix(string(name), "/") {
		return path.Clean(string(name))
	}
	return string(name)
}

func readBytes(pid int, at, n uint64) []byte {
	if n == 0 {
		return nil
	}
	buf := make([]byte, n)
	local := []unix.Iovec{{Base: &buf[0], Len: n}}
	got, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: uintptr(at), Len: int(n)}}, 0)
	if err != nil {
		return nil
	}
	return buf[:got]
}
