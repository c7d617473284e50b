package sandbox

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
	pb "gvisor.dev/gvisor/pkg/sentry/seccheck/points/points_go_proto"
	"gvisor.dev/gvisor/pkg/sentry/seccheck/sinks/remote/wire"
)

// A trace receives gVisor's stream of system calls of one sandbox over a
// socket and tells the attempts among them. gVisor calls this a seccheck
// remote sink.
type trace struct {
	attempts *attempts
	listener int
	done     chan struct{} // closed when the sandbox's end is closed
	dropped  uint32
}

// tracePoints are the calls to watch. gVisor reports a call when it is
// entered, whether it then succeeds or not.
func tracePoints() []map[string]any {
	cwd := []string{"cwd"}
	points := []map[string]any{
		{"name": "syscall/openat/enter", "context_fields": cwd, "optional_fields": []string{"fd_path"}},
	}
	for _, n := range legacyOpens {
		points = append(points, map[string]any{"name": "syscall/" + n + "/enter", "context_fields": cwd})
	}
	for _, n := range tracedCalls {
		points = append(points, map[string]any{"name": "syscall/" + n + "/enter"})
	}
	var numbers []int
	for n, call := range watchedCalls {
		if call.what != "" {
			numbers = append(numbers, n)
		}
	}
	for n := range legacyWatchedCalls {
		numbers = append(numbers, n)
	}
	for _, n := range numbers {
		points = append(points, map[string]any{"name": fmt.Sprintf("syscall/sysno/%d/enter", n)})
	}
	return points
}

// listenTrace opens the socket and writes gVisor's configuration for it.
func listenTrace(r *runFolder, a *attempts) (t *trace, config string, err error) {
	socket := r.path("t")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, "", err
	}
	t = &trace{attempts: a, listener: fd, done: make(chan struct{})}
	uid, gid := hostID()
	if err = unix.Bind(fd, &unix.SockaddrUnix{Name: socket}); err == nil {
		err = os.Chown(socket, uid, gid)
	}
	if err == nil {
		err = unix.Listen(fd, 1)
	}
	if err != nil {
		unix.Close(fd)
		return nil, "", fmt.Errorf("listening for attempts: %w", err)
	}
	b, err := json.Marshal(map[string]any{"trace_session": map[string]any{
		"name":   "Default",
		"points": tracePoints(),
		// Rather slow down a rubric that floods the socket than miss a call.
		"sinks": []map[string]any{{"name": "remote", "config": map[string]any{
			"endpoint": socket, "retries": 1000, "backoff": "50us", "backoff_max": "5ms"}}},
	}})
	if err == nil {
		config, err = r.write("trace.json", b)
	}
	if err != nil {
		unix.Close(fd)
		return nil, "", err
	}
	go t.serve()
	return t, config, nil
}

// finish ends the listening. It is called after the sandbox's end, when
// everything that was sent has been received or is waiting in the socket.
func (t *trace) finish() {
	unix.Shutdown(t.listener, unix.SHUT_RDWR) // wakes an accept that nobody answered
	<-t.done
	unix.Close(t.listener)
	if t.dropped > 0 {
		t.attempts.add(aboutKernel, "%d further calls came too fast to be recorded", t.dropped)
	}
}

func (t *trace) serve() {
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
	for {
		n, err := unix.Read(conn, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return
		}
		t.message(buf[:n])
	}
}

// message judges one call. The layout of the header is in gVisor's package
// wire: its own size, the message's type, the number of messages lost.
func (t *trace) message(b []byte) {
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
			t.attempts.socket(int(m.Domain))
		}
	case pb.MessageType_MESSAGE_SYSCALL_CONNECT:
		var m pb.Connect
		if proto.Unmarshal(body, &m) == nil {
			t.attempts.address("connect", m.Address)
		}
	case pb.MessageType_MESSAGE_SYSCALL_BIND:
		var m pb.Bind
		if proto.Unmarshal(body, &m) == nil {
			t.attempts.address("bind", m.Address)
		}
	case pb.MessageType_MESSAGE_SYSCALL_EXECVE:
		var m pb.Execve
		if proto.Unmarshal(body, &m) == nil {
			t.attempts.exec(m.Pathname)
		}
	case pb.MessageType_MESSAGE_SYSCALL_CLONE:
		var m pb.Clone
		if proto.Unmarshal(body, &m) == nil {
			t.attempts.clone("clone", m.Flags)
		}
	case pb.MessageType_MESSAGE_SYSCALL_FORK:
		t.attempts.clone("fork", 0)
	case pb.MessageType_MESSAGE_SYSCALL_RAW:
		var m pb.Syscall
		if proto.Unmarshal(body, &m) == nil {
			t.raw(&m)
		}
	}
}

func (t *trace) open(m *pb.Open) {
	base := m.GetContextData().GetCwd()
	if m.Fd != unix.AT_FDCWD && m.FdPath != "" {
		base = m.FdPath
	}
	flags := uint64(m.Flags)
	if m.Sysno == creatCall {
		flags = openCreating
	}
	t.attempts.open(base, m.Pathname, flags)
}

func (t *trace) raw(m *pb.Syscall) {
	if call, ok := watchedCalls[int(m.Sysno)]; ok && call.what != "" {
		t.attempts.add(call.what, "%s", call.name)
	} else if call, ok := legacyWatchedCalls[int(m.Sysno)]; ok {
		t.attempts.add(call.what, "%s", call.name)
	}
}
