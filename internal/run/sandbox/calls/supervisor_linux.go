package calls

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path"
	"slices"
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

	// Room finds the log of the room that a process is in, if several share the
	// sandbox, and reports whether it may join one. Nil means that there are no
	// rooms.
	Room func(pid int) (log *Log, joins bool)

	// Err says why it could not do its work; to be read after Listen.
	Err error

	execs int
	links LinkCache

	// The list of mounts that the call in hand opens, and its flags; "" for none.
	table      string
	tableFlags uint64
}

// Listen answers questions about the process pid, and those below it, until no
// process is left under the filter. It closes the listener.
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
	if s.Log.agent != nil && (n.nr == unix.SYS_CLONE3 || FilesOf(int(n.nr)) != nil) {
		r.errno = -int32(unix.ENOSYS) // what the C library understands
	}
	s.table = ""
	goesAhead := s.decide(&n, pid)
	switch {
	case s.table != "":
		if giveMountTable(listener, &n, s.table, s.tableFlags) == nil {
			return
		}
		r.errno = -int32(unix.EACCES)
	case goesAhead:
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
	files := FilesOf(int(n.nr))
	goesAhead := isOpen(uintptr(n.nr)) || files != nil && s.allows(int(n.nr))
	if s.Log.agent != nil {
		log := s.Log
		if s.Room != nil {
			var joins bool
			if log, joins = s.Room(int(n.pid)); joins && n.nr == unix.SYS_SETNS {
				return true
			}
		}
		v := view{int(n.pid), &s.links}
		log.nameFiles(v, n, files)
		log.noteAgent(v, n, s.opened)
		return goesAhead || n.nr == unix.SYS_OPENAT2 || isSending(int(n.nr))
	}
	if s.Watch || goesAhead || n.nr == unix.SYS_EXECVE {
		s.Log.nameFiles(view{int(n.pid), &s.links}, n, files)
		s.note(n)
	}
	return goesAhead
}

// allows reports whether a call that names files is one that the filter lets
// through: it asks about those that it denies as well.
func (s *Supervisor) allows(nr int) bool {
	lists := [][]uintptr{allowedCalls, legacyAllowedCalls, {statAtCall}, legacyPathCalls}
	if s.Log.agent != nil {
		lists = append(lists, agentCalls, legacyAgentCalls)
	}
	return slices.ContainsFunc(lists, func(list []uintptr) bool { return slices.Contains(list, uintptr(nr)) })
}

// opened hears of the file that the call in hand opens.
func (s *Supervisor) opened(full string, flags uint64) {
	if isMountTable(full) {
		s.table, s.tableFlags = path.Base(full), flags
	}
}

// nameFiles judges the files that a call names.
func (l *Log) nameFiles(v view, n *notification, files []FileArg) {
	for _, f := range files {
		descriptor := int32(unix.AT_FDCWD)
		if f.Descriptor >= 0 {
			descriptor = int32(n.args[f.Descriptor])
		}
		name := readString(v.pid, n.args[f.Name])
		if name == "" {
			continue
		}
		if full := v.resolve(descriptor, name); l.Hides(full) && !v.has(full) {
			c, _ := namingOf(int(n.nr))
			l.named(c.name, full)
		}
	}
}

// isSending tells the calls that name an address, about which an agent's
// network decides.
func isSending(nr int) bool {
	return nr == unix.SYS_CONNECT || nr == unix.SYS_SENDTO || nr == unix.SYS_SENDMSG || nr == unix.SYS_SENDMMSG
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

// noteAgent records a call of an agent if it is an attempt.
func (l *Log) noteAgent(v view, n *notification, opened func(full string, flags uint64)) {
	pid := v.pid
	openName := func(descriptor int32, name string, flags uint64) {
		if name != "" {
			full := v.resolve(descriptor, name)
			l.open("/", full, flags)
			opened(full, flags)
		}
	}
	open := func(descriptor int32, at, flags uint64) { openName(descriptor, readString(pid, at), flags) }
	switch nr := int(n.nr); nr {
	case unix.SYS_OPENAT:
		open(int32(n.args[0]), n.args[1], n.args[2])
	case unix.SYS_OPENAT2:
		flags, resolve := readHow(pid, n.args[2], n.args[3])
		name := readString(pid, n.args[1])
		if resolve&unix.RESOLVE_IN_ROOT != 0 {
			name = strings.TrimLeft(name, "/")
		}
		openName(int32(n.args[0]), name, flags)
	case openCall:
		open(unix.AT_FDCWD, n.args[0], n.args[1])
	case creatCall:
		open(unix.AT_FDCWD, n.args[0], openCreating)
	case unix.SYS_SOCKET:
		l.socket(int(int32(n.args[0])), int(int32(n.args[2])))
	case unix.SYS_CONNECT:
		l.address("connect", v.address(n.args[1], n.args[2]))
	case unix.SYS_SENDTO:
		l.address("sendto", v.address(n.args[4], n.args[5]))
	case unix.SYS_SENDMSG:
		l.addresses(v, n.args[1], 1, 0)
	case unix.SYS_SENDMMSG:
		l.addresses(v, n.args[1], min(n.args[2], maxMessages), messageBytes)
	case unix.SYS_CLONE:
		l.clone("clone", n.args[0])
	case unix.SYS_CLONE3:
		if flags := readBytes(pid, n.args[0], 8); len(flags) == 8 {
			l.clone("clone3", binary.NativeEndian.Uint64(flags))
		}
	default:
		l.watched(nr)
	}
}

// readHow reads what openat2 is told: flags, mode and how to resolve.
func readHow(pid int, at, size uint64) (flags, resolve uint64) {
	how := readBytes(pid, at, min(size, 24))
	if len(how) < 24 {
		return 0, 0
	}
	return binary.NativeEndian.Uint64(how), binary.NativeEndian.Uint64(how[16:])
}

// The beginning of struct msghdr is the address and its length; struct mmsghdr
// is one with a counter behind it.
const (
	messageBytes = 64
	maxMessages  = 1024 // the kernel takes no more at once
)

// addresses judges the addresses of messages that lie one behind the other.
func (l *Log) addresses(v view, at, count, size uint64) {
	for i := range count {
		h := readBytes(v.pid, at+i*size, 12)
		if len(h) < 12 {
			return
		}
		if name := binary.NativeEndian.Uint64(h); name != 0 {
			l.address("sendto", v.address(name, uint64(binary.NativeEndian.Uint32(h[8:]))))
		}
	}
}

// address reads the bytes of an address, with the file that a Unix socket's
// name means.
func (v view) address(at, size uint64) []byte {
	return ResolveUnix(readBytes(v.pid, at, min(size, 128)), func(name string) string { return v.resolve(unix.AT_FDCWD, name) })
}

// note records a call of a rubric if it is an attempt.
func (s *Supervisor) note(n *notification) {
	l, pid := s.Log, int(n.pid)
	switch nr := int(n.nr); nr {
	case unix.SYS_OPENAT:
		l.open(RubricDir, readString(pid, n.args[1]), n.args[2])
	case openCall:
		l.open(RubricDir, readString(pid, n.args[0]), n.args[1])
	case creatCall:
		l.open(RubricDir, readString(pid, n.args[0]), openCreating)
	case unix.SYS_SOCKET:
		l.socket(int(int32(n.args[0])), int(int32(n.args[2])))
	case unix.SYS_CONNECT:
		l.address("connect", readBytes(pid, n.args[1], min(n.args[2], 128)))
	case unix.SYS_BIND:
		l.address("bind", readBytes(pid, n.args[1], min(n.args[2], 128)))
	case unix.SYS_SENDTO: // its socket was noted
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
