package sandbox

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

// answer takes one question and replies. Only the first exec and the opening
// of files go ahead; what is read from the rubric's memory for the record may
// have been changed by the time the kernel reads it, so nothing is ever
// allowed because of it.
func (s *supervisor) answer(listener, pid int) {
	var n notification
	if ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&n))) != nil {
		return // the caller died meanwhile
	}
	r := reply{id: n.id, errno: -int32(unix.EPERM)}
	switch {
	case s.agent:
		s.noteAgent(&n)
		switch {
		case isOpen(uintptr(n.nr)), n.nr == unix.SYS_CONNECT, n.nr == unix.SYS_SENDTO:
			r = reply{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		}
	case n.nr == unix.SYS_EXECVE && s.execs == 0:
		s.execs++
		if s.begin(pid) == nil {
			r = reply{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		}
	case isOpen(uintptr(n.nr)):
		s.note(&n)
		r = reply{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	case s.watch || n.nr == unix.SYS_EXECVE:
		s.note(&n)
	}
	ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&r)))
}

// begin sets the last limit on the process that is about to become the
// rubric. Our own program, which it still is, could not live with it.
func (s *supervisor) begin(pid int) error {
	if s.addressSpace == 0 {
		return nil
	}
	limit := unix.Rlimit{Cur: s.addressSpace, Max: s.addressSpace}
	if err := unix.Prlimit(pid, unix.RLIMIT_AS, &limit, nil); err != nil {
		s.err = fmt.Errorf("limiting the address space: %w", err)
		return s.err
	}
	return nil
}

// note records a call if it is an attempt.
func (s *supervisor) note(n *notification) {
	a, pid := s.attempts, int(n.pid)
	switch nr := int(n.nr); nr {
	case unix.SYS_OPENAT:
		a.open(rubricDir, readString(pid, n.args[1]), n.args[2])
	case openCall:
		a.open(rubricDir, readString(pid, n.args[0]), n.args[1])
	case creatCall:
		a.open(rubricDir, readString(pid, n.args[0]), openCreating)
	case unix.SYS_SOCKET:
		a.socket(int(int32(n.args[0])))
	case unix.SYS_CONNECT, unix.SYS_BIND:
		name := map[int]string{unix.SYS_CONNECT: "connect", unix.SYS_BIND: "bind"}[nr]
		a.address(name, readBytes(pid, n.args[1], min(n.args[2], 128)))
	case unix.SYS_CLONE:
		a.clone("clone", n.args[0])
	case forkCall, vforkCall:
		a.clone("fork", 0)
	case unix.SYS_EXECVE:
		a.exec(readString(pid, n.args[0]))
	default:
		if call, ok := watchedCalls[nr]; ok && call.what != "" {
			a.add(call.what, "%s", call.name)
		} else if call, ok := legacyWatchedCalls[nr]; ok {
			a.add(call.what, "%s", call.name)
		}
	}
}

// noteAgent records a call of an agent if it is an attempt.
func (s *supervisor) noteAgent(n *notification) {
	a, pid := s.attempts, int(n.pid)
	switch nr := int(n.nr); nr {
	case unix.SYS_OPENAT:
		a.open(workDir, readString(pid, n.args[1]), n.args[2])
	case openCall, creatCall:
		a.open(workDir, readString(pid, n.args[0]), 0)
	case unix.SYS_SOCKET:
		a.add(aboutNetwork, "socket of family %d", int32(n.args[0]))
	case unix.SYS_CONNECT:
		a.address("connect", readBytes(pid, n.args[1], min(n.args[2], 128)))
	case unix.SYS_SENDTO:
		a.address("sendto", readBytes(pid, n.args[4], min(n.args[5], 128)))
	default:
		if what, name := agentWatched(nr); what != "" {
			a.add(what, "%s", name)
		}
	}
}

// readString reads a name from the rubric's memory.
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
