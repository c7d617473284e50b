package calls

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
	pb "gvisor.dev/gvisor/pkg/sentry/seccheck/points/points_go_proto"
	"gvisor.dev/gvisor/pkg/sentry/seccheck/sinks/remote/wire"
)

// A Trace receives gVisor's stream of system calls of one sandbox over a
// socket and tells the attempts among them. gVisor calls this a seccheck
// remote sink.
type Trace struct {
	log      *Log
	listener int
	done     chan struct{} // closed when the sandbox's end is closed

	// reading is held while a message is taken and judged.
	reading sync.Mutex
	conn    int // -1 before and after
	heard   bool
	dropped uint32
	byUser  map[uint32]*Log // for a sandbox that several runs share
	byRoom  map[string]*Log // the same for agents, by mount namespace
}

// tracePoints are the calls to watch, each reported with its user if several
// runs share the sandbox. gVisor reports a call when it is
// entered, whether it then succeeds or not.
func tracePoints(agent, withUser bool) []map[string]any {
	cwd, who := []string{"cwd"}, []string{}
	if withUser {
		cwd, who = []string{"cwd", "credentials"}, []string{"credentials"}
	}
	points := []map[string]any{
		{"name": "syscall/openat/enter", "context_fields": cwd, "optional_fields": []string{"fd_path"}},
	}
	add := func(fields []string, format string, args ...any) {
		points = append(points, map[string]any{"name": fmt.Sprintf("syscall/"+format+"/enter", args...), "context_fields": fields})
	}
	for _, n := range legacyOpens {
		add(cwd, "%s", n)
	}
	named, numbers := tracedCalls, slices.Concat(WatchedNumbers(agent), namingNumbers())
	if agent {
		named, numbers = []string{"socket", "clone"}, append(numbers, ToldCalls...)
		add(cwd, "connect")
	}
	for _, n := range named {
		add(who, "%s", n)
	}
	slices.Sort(numbers)
	for _, n := range slices.Compact(numbers) {
		add(who, "sysno/%d", n)
	}
	return points
}

// ListenTrace opens the socket, for user uid who finds it as seen, and returns
// gVisor's configuration for it. Shared says that several runs share the
// sandbox.
func ListenTrace(socket, seen string, uid, gid int, log *Log, shared bool) (t *Trace, config []byte, err error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	t = &Trace{log: log, listener: fd, done: make(chan struct{}), conn: -1, byUser: map[uint32]*Log{}, byRoom: map[string]*Log{}}
	if err = unix.Bind(fd, &unix.SockaddrUnix{Name: socket}); err == nil {
		err = os.Chown(socket, uid, gid)
	}
	if err == nil {
		err = unix.Listen(fd, 1)
	}
	if err == nil {
		config, err = json.Marshal(map[string]any{"trace_session": map[string]any{
			"name":   "Default",
			"points": tracePoints(log.agent != nil, shared),
			// Rather slow down a rubric that floods the socket than miss a call.
			"sinks": []map[string]any{{"name": SinkName, "config": map[string]any{
				"agent": log.agent != nil, "rooms": log.agent != nil && shared, "rules": log.rules(), "endpoint": seen, "retries": 1000, "backoff": "50us", "backoff_max": "5ms"}}},
		}})
	}
	if err != nil {
		unix.Close(fd)
		return nil, nil, fmt.Errorf("listening for attempts: %w", err)
	}
	go t.serve()
	return t, config, nil
}

// Finish ends the listening. It is called after the sandbox's end, when
// everything that was sent has been received or is waiting in the socket.
func (t *Trace) Finish() {
	unix.Shutdown(t.listener, unix.SHUT_RDWR) // wakes an accept that got no connection
	<-t.done
	unix.Close(t.listener)
	if t.dropped > 0 {
		t.log.act(Flood, aboutKernel, "%d further calls came too fast to be recorded", t.dropped)
	}
}

func (t *Trace) serve() {
	defer close(t.done)
	conn, _, err := unix.Accept4(t.listener, unix.SOCK_CLOEXEC)
	if err != nil {
		return
	}
	defer unix.Close(conn)
	buf := make([]byte, 256<<10)
	// Each side says its version first.
	hello, err := proto.Marshal(&pb.Handshake{Version: wire.CurrentVersion})
	if err != nil {
		return
	}
	if _, err := unix.Read(conn, buf); err != nil {
		return
	}
	if _, err := unix.Write(conn, hello); err != nil {
		return
	}
	t.reading.Lock()
	t.conn, t.heard = conn, true
	t.reading.Unlock()
	for {
		poll := []unix.PollFd{{Fd: int32(conn), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, -1); err != nil && err != unix.EINTR {
			return
		}
		if !t.take(conn, buf) {
			return
		}
		time.Sleep(traceNap)
	}
}

// traceNap lets calls gather. Waking up for each one would take the processor
// from the program that makes them; the socket holds a few hundred.
const traceNap = 500 * time.Microsecond

// take reads and judges what waits, and reports whether more may come.
func (t *Trace) take(conn int, buf []byte) bool {
	t.reading.Lock()
	defer t.reading.Unlock()
	for {
		n, _, err := unix.Recvfrom(conn, buf, unix.MSG_DONTWAIT)
		switch {
		case err == unix.EAGAIN:
			return true
		case err == unix.EINTR:
		case err != nil || n == 0:
			t.conn = -1
			return false
		default:
			t.message(buf[:n])
		}
	}
}

// Settle returns when every call made so far has been judged. gVisor sends
// before the call proceeds, so what a process did is in the socket when the
// process has ended.
func (t *Trace) Settle() {
	for {
		t.reading.Lock()
		waiting := 0
		if t.conn >= 0 {
			waiting, _ = unix.IoctlGetInt(t.conn, fionread)
		}
		t.reading.Unlock()
		if waiting == 0 {
			return
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// Heard says whether gVisor ever spoke. It begins before it starts a program; a
// configuration that it does not understand it mentions nowhere, and goes on
// without.
func (t *Trace) Heard() error {
	t.reading.Lock()
	defer t.reading.Unlock()
	if !t.heard {
		return errors.New("gVisor does not tell what the program does")
	}
	return nil
}

// Share makes the calls of one user go to a.
func (t *Trace) Share(user uint32, a *Log) {
	t.reading.Lock()
	defer t.reading.Unlock()
	t.byUser[user] = a
}

// Unshare undoes Share.
func (t *Trace) Unshare(user uint32) {
	t.reading.Lock()
	defer t.reading.Unlock()
	delete(t.byUser, user)
}

// ShareRoom makes the calls in one mount namespace go to a. It is called before
// the first of them; a nil log undoes it.
func (t *Trace) ShareRoom(name string, a *Log) {
	t.reading.Lock()
	defer t.reading.Unlock()
	if t.byRoom[name] = a; a == nil {
		delete(t.byRoom, name)
	}
}

// of finds whose call it is.
func (t *Trace) of(c *pb.ContextData) *Log {
	if a, ok := t.byRoom[c.GetContainerId()]; ok {
		return a
	}
	if a, ok := t.byUser[c.GetCredentials().GetRealUid()]; ok {
		return a
	}
	return t.log
}

// message judges one call. The layout of the header is in gVisor's package
// wire: its own size, the message's type, the number of messages lost.
func (t *Trace) message(b []byte) {
	if len(b) < wire.HeaderStructSize {
		return
	}
	size := binary.NativeEndian.Uint16(b)
	kind := pb.MessageType(binary.NativeEndian.Uint16(b[2:]))
	t.dropped = binary.NativeEndian.Uint32(b[4:])
	if int(size) > len(b) {
		return
	}
	body := b[size:]
	switch kind {
	case pb.MessageType_MESSAGE_SYSCALL_OPEN:
		var m pb.Open
		if proto.Unmarshal(body, &m) == nil {
			t.open(&m)
		}
	case pb.MessageType_MESSAGE_SYSCALL_SOCKET:
		var m pb.Socket
		if proto.Unmarshal(body, &m) == nil {
			t.of(m.ContextData).socket(int(m.Domain), int(m.Protocol))
		}
	case pb.MessageType_MESSAGE_SYSCALL_CONNECT:
		var m pb.Connect
		if proto.Unmarshal(body, &m) == nil {
			t.connect(&m)
		}
	case pb.MessageType_MESSAGE_SYSCALL_BIND:
		var m pb.Bind
		if proto.Unmarshal(body, &m) == nil {
			t.of(m.ContextData).address("bind", m.Address)
		}
	case pb.MessageType_MESSAGE_SYSCALL_EXECVE:
		var m pb.Execve
		if proto.Unmarshal(body, &m) == nil {
			t.of(m.ContextData).exec(m.Pathname)
		}
	case pb.MessageType_MESSAGE_SYSCALL_CLONE:
		var m pb.Clone
		if proto.Unmarshal(body, &m) == nil {
			name := "clone"
			if m.Sysno == unix.SYS_CLONE3 {
				name = "clone3"
			}
			t.of(m.ContextData).clone(name, m.Flags)
		}
	case pb.MessageType_MESSAGE_SYSCALL_FORK:
		var m pb.Fork
		if proto.Unmarshal(body, &m) == nil {
			t.of(m.ContextData).clone("fork", 0)
		}
	case pb.MessageType_MESSAGE_SYSCALL_RAW:
		var m pb.Syscall
		if proto.Unmarshal(body, &m) == nil {
			t.of(m.ContextData).watched(int(m.Sysno))
		}
	}
}

// SinkName is what our part of gVisor that reports calls is called; see package
// runsc.
const SinkName = "tally"

// ToldCalls are calls of agents that gVisor itself describes by numbers only.
// Our sink reads what they point at and tells them as an open, a connect or a
// clone.
var ToldCalls = []int{unix.SYS_OPENAT2, unix.SYS_SENDTO, unix.SYS_SENDMSG, unix.SYS_SENDMMSG, unix.SYS_CLONE3}

// connect judges a call with an address. The sink sends others than connect in
// the same form, with their number.
func (t *Trace) connect(m *pb.Connect) {
	name := "connect"
	if m.Sysno != unix.SYS_CONNECT {
		name = "sendto"
	}
	t.of(m.ContextData).address(name, m.Address)
}

func (t *Trace) open(m *pb.Open) {
	base := m.GetContextData().GetCwd()
	if m.Fd != unix.AT_FDCWD && m.FdPath != "" {
		base = m.FdPath
	}
	if c, ok := namingOf(int(m.Sysno)); ok { // which the sink has found to be hidden
		t.of(m.ContextData).named(c.name, m.Pathname)
		return
	}
	flags := uint64(m.Flags)
	if m.Sysno == creatCall {
		flags = openCreating
	}
	t.of(m.ContextData).open(base, m.Pathname, flags)
}

// TracedNumbers lists the calls of which gVisor is to tell by their numbers.
func TracedNumbers() []int {
	return slices.Concat(WatchedNumbers(false), WatchedNumbers(true), namingNumbers())
}

// IsTold reports whether a call is one of ToldCalls.
func IsTold(number int) bool { return slices.Contains(ToldCalls, number) }

// IsWatched reports whether a call says by being made at all that an agent, or a
// rubric, tries something.
func IsWatched(number int, agent bool) bool {
	_, ok := watchedBy(number, agent)
	return ok
}
