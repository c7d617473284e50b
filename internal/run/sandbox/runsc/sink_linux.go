package runsc

import (
	"encoding/binary"
	"encoding/json"
	"strings"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
	"gvisor.dev/gvisor/pkg/context"
	"gvisor.dev/gvisor/pkg/fd"
	"gvisor.dev/gvisor/pkg/fspath"
	"gvisor.dev/gvisor/pkg/hostarch"
	"gvisor.dev/gvisor/pkg/sentry/fsimpl/nsfs"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/seccheck"
	pb "gvisor.dev/gvisor/pkg/sentry/seccheck/points/points_go_proto"
	_ "gvisor.dev/gvisor/pkg/sentry/seccheck/sinks/remote" // the trace of attempts leaves the kernel through it
	"gvisor.dev/gvisor/pkg/sentry/vfs"

	"tallystick/internal/run/sandbox/calls"
)

func init() {
	remote := seccheck.Sinks["remote"]
	seccheck.RegisterSink(seccheck.SinkDesc{
		Name:  calls.SinkName,
		Setup: remote.Setup,
		New: func(config map[string]any, endpoint *fd.FD) (seccheck.Sink, error) {
			to, err := remote.New(config, endpoint)
			if err != nil {
				return nil, err
			}
			agent, _ := config["agent"].(bool)
			rooms, _ := config["rooms"].(bool)
			rules, err := json.Marshal(config["rules"])
			if err != nil {
				return nil, err
			}
			names, err := calls.ReadRules(rules)
			if err != nil {
				return nil, err
			}
			return &sink{Sink: to, agent: agent, rooms: rooms, names: names}, nil
		},
	})
}

// A sink runs inside gVisor's kernel and completes what gVisor says about a
// call before it is sent on: which file a name leads to, which only the kernel
// that has the links can tell, and what lies behind the pointers of calls that
// gVisor describes by their numbers. A name that is not UTF-8 is made so, since
// gVisor would drop the message.
type sink struct {
	seccheck.Sink
	agent bool
	rooms bool // several agents share the sandbox; tell in whose mount namespace a call is made
	names *calls.Log
	links calls.LinkCache
}

// Name is our own.
func (*sink) Name() string { return calls.SinkName }

// Syscall completes a call that gVisor describes.
func (s *sink) Syscall(ctx context.Context, fields seccheck.FieldSet, data *pb.ContextData, kind pb.MessageType, msg proto.Message) error {
	if data != nil {
		data.Cwd = valid(data.Cwd)
		s.room(ctx, data)
	}
	switch m := msg.(type) {
	case *pb.Open:
		s.open(ctx, m)
	case *pb.Connect:
		m.Address = s.address(ctx, m.Address)
	case *pb.Execve:
		m.Pathname = valid(m.Pathname)
	}
	return s.Sink.Syscall(ctx, fields, data, kind, msg)
}

// room names the mount namespace of the caller, where /proc/self/ns/mnt has the
// same name.
func (s *sink) room(ctx context.Context, data *pb.ContextData) {
	if !s.rooms || data == nil {
		return
	}
	if t := kernel.TaskFromContext(ctx); t != nil {
		if ns := t.MountNamespace(); ns != nil {
			if i, ok := ns.Refs.(*nsfs.Inode); ok {
				data.ContainerId = i.Name()
			}
		}
	}
}

// open puts the file that is meant in place of its name.
func (s *sink) open(ctx context.Context, m *pb.Open) {
	if t := kernel.TaskFromContext(ctx); t != nil && s.agent && m.Pathname != "" {
		m.Pathname = s.resolve(t, int32(m.Fd), m.Pathname)
	}
	m.Pathname, m.FdPath = valid(m.Pathname), valid(m.FdPath)
}

// address puts the file that a Unix socket's address means in place of its name.
func (s *sink) address(ctx context.Context, raw []byte) []byte {
	t := kernel.TaskFromContext(ctx)
	if t == nil || !s.agent {
		return raw
	}
	return calls.ResolveUnix(raw, func(name string) string { return s.resolve(t, unix.AT_FDCWD, name) })
}

// RawSyscall tells a call that gVisor knows by numbers as one that it
// describes, if it is such a one.
func (s *sink) RawSyscall(ctx context.Context, fields seccheck.FieldSet, m *pb.Syscall) error {
	s.room(ctx, m.ContextData)
	t := kernel.TaskFromContext(ctx)
	if t == nil {
		return s.Sink.RawSyscall(ctx, fields, m)
	}
	for _, f := range calls.FilesOf(int(m.Sysno)) {
		if err := s.named(t, fields, m, f); err != nil {
			return err
		}
	}
	if !s.agent || !calls.IsTold(int(m.Sysno)) {
		if !calls.IsWatched(int(m.Sysno), s.agent) {
			return nil
		}
		return s.Sink.RawSyscall(ctx, fields, m)
	}
	switch m.Sysno {
	case unix.SYS_OPENAT2:
		return s.openat2(t, fields, m)
	case unix.SYS_SENDTO:
		return s.sends(t, fields, m, m.Arg5, uint32(m.Arg6))
	case unix.SYS_SENDMSG:
		return s.messages(t, fields, m, 1, 0)
	case unix.SYS_SENDMMSG:
		return s.messages(t, fields, m, min(m.Arg3, maxMessages), messageBytes)
	case unix.SYS_CLONE3:
		if flags := read(t, m.Arg1, 8); flags != nil {
			clone := &pb.Clone{ContextData: m.ContextData, Sysno: m.Sysno, Flags: binary.NativeEndian.Uint64(flags)}
			return s.Sink.Syscall(t, fields, m.ContextData, pb.MessageType_MESSAGE_SYSCALL_CLONE, clone)
		}
	}
	return nil
}

// named tells of a file that a call names, if it is hidden and not inside. All others
// are most of what a program does, and are not told.
func (s *sink) named(t *kernel.Task, fields seccheck.FieldSet, m *pb.Syscall, f calls.FileArg) error {
	args := [...]uint64{m.Arg1, m.Arg2, m.Arg3, m.Arg4, m.Arg5, m.Arg6}
	name, err := t.CopyInString(hostarch.Addr(args[f.Name]), unix.PathMax)
	if err != nil || name == "" {
		return nil
	}
	descriptor := int32(unix.AT_FDCWD)
	if f.Descriptor >= 0 {
		descriptor = int32(args[f.Descriptor])
	}
	full := s.resolve(t, descriptor, name)
	if !s.names.Hides(full) || has(t, full) {
		return nil
	}
	open := &pb.Open{ContextData: m.ContextData, Sysno: m.Sysno, Fd: unix.AT_FDCWD, Pathname: valid(full)}
	return s.Sink.Syscall(t, fields, m.ContextData, pb.MessageType_MESSAGE_SYSCALL_OPEN, open)
}

// has reports whether the program's root has a file.
func has(t *kernel.Task, full string) bool {
	root := t.FSContext().RootDirectory()
	defer root.DecRef(t)
	_, err := t.Kernel().VFS().StatAt(t, t.Credentials(), &vfs.PathOperation{Root: root, Start: root, Path: fspath.Parse(full)}, &vfs.StatOptions{})
	return err == nil
}

func (s *sink) openat2(t *kernel.Task, fields seccheck.FieldSet, m *pb.Syscall) error {
	name, err := t.CopyInString(hostarch.Addr(m.Arg2), unix.PathMax)
	if err != nil {
		return nil
	}
	open := &pb.Open{ContextData: m.ContextData, Sysno: m.Sysno, Fd: int64(int32(m.Arg1)), Pathname: name}
	if how := read(t, m.Arg3, 24); how != nil {
		open.Flags = uint32(binary.NativeEndian.Uint64(how))
		if binary.NativeEndian.Uint64(how[16:])&unix.RESOLVE_IN_ROOT != 0 {
			open.Pathname = strings.TrimLeft(name, "/")
		}
	}
	s.open(t, open)
	return s.Sink.Syscall(t, fields, m.ContextData, pb.MessageType_MESSAGE_SYSCALL_OPEN, open)
}

// The beginning of struct msghdr is the address and its length; struct mmsghdr
// is one with a counter behind it.
const (
	messageBytes = 64
	maxMessages  = 1024
)

func (s *sink) messages(t *kernel.Task, fields seccheck.FieldSet, m *pb.Syscall, count, size uint64) error {
	for i := range count {
		h := read(t, m.Arg2+i*size, 12)
		if h == nil {
			return nil
		}
		if err := s.sends(t, fields, m, binary.NativeEndian.Uint64(h), binary.NativeEndian.Uint32(h[8:])); err != nil {
			return err
		}
	}
	return nil
}

// sends tells of a message with an address; one without goes where the socket
// is connected to.
func (s *sink) sends(t *kernel.Task, fields seccheck.FieldSet, m *pb.Syscall, at uint64, size uint32) error {
	raw := read(t, at, int(min(size, 128)))
	if raw == nil {
		return nil
	}
	c := &pb.Connect{ContextData: m.ContextData, Sysno: m.Sysno, Address: s.address(t, raw)}
	return s.Sink.Syscall(t, fields, m.ContextData, pb.MessageType_MESSAGE_SYSCALL_CONNECT, c)
}

// read reads the program's memory, nil if it cannot be read or is nothing.
func read(t *kernel.Task, at uint64, n int) []byte {
	if at == 0 || n == 0 {
		return nil
	}
	buf := make([]byte, n)
	if _, err := t.CopyInBytes(hostarch.Addr(at), buf); err != nil {
		return nil
	}
	return buf
}

// resolve says which file the program means by a name.
func (s *sink) resolve(t *kernel.Task, descriptor int32, name string) string {
	root := t.FSContext().RootDirectory()
	defer root.DecRef(t)
	base := ""
	if !strings.HasPrefix(name, "/") {
		base = folder(t, root, descriptor)
	}
	return calls.Resolve(base, name, s.links.Read(func(link string) string {
		target, err := t.Kernel().VFS().ReadlinkAt(t, t.Credentials(), &vfs.PathOperation{Root: root, Start: root, Path: fspath.Parse(link)})
		if err != nil {
			return ""
		}
		return target
	}))
}

// folder is what names are relative to: the program's own folder, or the one
// that a descriptor stands for.
func folder(t *kernel.Task, root vfs.VirtualDentry, descriptor int32) string {
	at := t.FSContext().WorkingDirectory()
	if descriptor != unix.AT_FDCWD {
		file, _ := t.FDTable().Get(descriptor)
		if file == nil {
			at.DecRef(t)
			return calls.WorkDir
		}
		defer file.DecRef(t)
		at.DecRef(t)
		at = file.VirtualDentry()
		at.IncRef()
	}
	defer at.DecRef(t)
	name, err := t.Kernel().VFS().PathnameWithDeleted(t, root, at)
	if err != nil {
		return calls.WorkDir
	}
	return name
}

func valid(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }
