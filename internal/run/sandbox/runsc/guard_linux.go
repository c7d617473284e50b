package runsc

import (
	"encoding/binary"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/sentry/arch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/kernel/auth"
	"gvisor.dev/gvisor/pkg/sentry/seccheck"
	slinux "gvisor.dev/gvisor/pkg/sentry/syscalls/linux"

	"tallystick/internal/run/sandbox/calls"
)

// guard changes gVisor's table of system calls, before its kernel starts, in three
// ways.
//
// Namespaces and mounts are for our own first process. gVisor gives them to every
// program that makes a user namespace for itself, in which it could mount a /proc to
// write to: what it writes there is the kernel's, and in a warm sandbox every later
// case would find it. Other programs get what an ordinary kernel with user
// namespaces switched off says. A seccomp filter could do that as well, but gVisor
// does not tell of a call that a filter denies.
//
// A rubric has no use for an address. gVisor has no network for it, but over a loopback
// and abstract names the rubrics that share a sandbox would hear of each other.
//
// A watched call that gVisor does not know gets a place in the table: it tells only
// of calls that have one.
func guard() {
	seccheck.Initialize()
	table := slinux.AMD64
	if runtime.GOARCH == "arm64" {
		table = slinux.ARM64
	}
	for _, number := range guarded {
		if call, ok := table.Table[uintptr(number)]; ok {
			call.Fn = forKeeper(call.Fn)
			table.Table[uintptr(number)] = call
		}
	}
	for _, number := range meetings {
		if call, ok := table.Table[uintptr(number)]; ok {
			call.Fn = notForRubrics(call.Fn)
			table.Table[uintptr(number)] = call
		}
	}
	for _, number := range calls.TracedNumbers() {
		if _, ok := table.Table[uintptr(number)]; !ok {
			table.Table[uintptr(number)] = kernel.Syscall{Name: "watched", Fn: unknown}
		}
		at := pointName(number)
		if _, ok := seccheck.Points[at]; !ok {
			point := seccheck.Points[pointName(0)]
			point.Name, point.ID = at, seccheck.GetPointForSyscall(seccheck.SyscallRawEnter, uintptr(number))
			seccheck.Points[at] = point
		}
	}
	table.Init()
}

// pointName is what gVisor calls the place where it tells of a call.
func pointName(number int) string { return fmt.Sprintf("syscall/sysno/%d/enter", number) }

// guarded are the calls by which namespaces and mounts are made, joined and left.
var guarded = []int{unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_CLONE, unix.SYS_CLONE3, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_MOUNT_SETATTR}

// meetings are the calls by which two programs find each other over a socket.
var meetings = []int{unix.SYS_BIND, unix.SYS_CONNECT, unix.SYS_LISTEN, unix.SYS_SENDTO, unix.SYS_SENDMSG, unix.SYS_SENDMMSG}

// forKeeper denies a call to all who have no rights over the whole sandbox.
func forKeeper(call kernel.SyscallFn) kernel.SyscallFn {
	return func(t *kernel.Task, number uintptr, args arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
		if !t.Credentials().HasCapabilityIn(linux.CAP_SYS_ADMIN, t.Kernel().RootUserNamespace()) && makesNamespaces(t, number, args) {
			return 0, nil, linuxerr.EPERM
		}
		return call(t, number, args)
	}
}

// makesNamespaces reports whether a call is about namespaces, which of all of them
// only clone may be about something else.
func makesNamespaces(t *kernel.Task, number uintptr, args arch.SyscallArguments) bool {
	switch number {
	case unix.SYS_CLONE:
		return calls.MakesNamespace(args[0].Uint64())
	case unix.SYS_CLONE3:
		flags := read(t, args[0].Uint64(), 8)
		return flags == nil || calls.MakesNamespace(binary.NativeEndian.Uint64(flags))
	}
	return true
}

// notForRubrics denies a call to all but users 0 and calls.ServiceUser: every agent is
// one of them, and no rubric is or can become one.
func notForRubrics(call kernel.SyscallFn) kernel.SyscallFn {
	return func(t *kernel.Task, number uintptr, args arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
		if user := t.Credentials().RealKUID; user != auth.RootKUID && user != calls.ServiceUser {
			return 0, nil, linuxerr.EPERM
		}
		return call(t, number, args)
	}
}

func unknown(*kernel.Task, uintptr, arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
	return 0, nil, linuxerr.ENOSYS
}
