package firstprocess

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"tallystick/internal/run/sandbox/calls"
	"tallystick/internal/run/sandbox/identity"
)

// A Build tells the first process how to build a namespace sandbox around
// itself.
type Build struct {
	Root    string  // a folder that becomes /
	Mounts  []Mount // the first one is mounted at Root
	TmpSize int64   // of an agent's /tmp
	Keep    bool    // for the keeper of a warm sandbox
	Rlimits map[int]uint64
	Policy  calls.Policy
}

// A Mount shows From, a path of the host, at At.
type Mount struct {
	From, At         string
	Folder, Writable bool
	Is               *identity.ID // what must be there; nil for whatever is
}

// build makes the file system and the network, and then gives up every right
// to change them. It runs with all capabilities in fresh namespaces and none
// outside. A rubric gets no /proc, no /dev and no loopback.
func (b *Build) build() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	steps := []func() error{b.mountRoot, b.mountHost, b.enter}
	if b.Policy.Agent {
		steps = []func() error{b.mountRoot, b.mountKernel, b.mountHost, b.enter, raiseLoopback}
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	if err := unix.Sethostname([]byte("sandbox")); err != nil {
		return fmt.Errorf("naming the host: %w", err)
	}
	for resource, n := range b.Rlimits {
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			return fmt.Errorf("limiting resource %d: %w", resource, err)
		}
	}
	switch {
	case b.Keep: // what the keeper starts gives up what it does not need
		return nil
	case b.Policy.Agent:
		return dropForGood()
	}
	return dropToBecome()
}

func (b *Build) mountRoot() error {
	// Recursively, because the kernel lets no process look under a mount by
	// leaving it out.
	if err := unix.Mount(b.Mounts[0].From, b.Root, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("binding the root: %w", err)
	}
	return nil
}

// mountKernel makes /tmp, /dev and /proc.
func (b *Build) mountKernel() error {
	if err := makeTmp(filepath.Join(b.Root, "tmp"), b.TmpSize); err != nil {
		return err
	}
	if err := makeDev(filepath.Join(b.Root, "dev"), b.TmpSize); err != nil {
		return err
	}
	// It shows the sandbox's own processes. In a container whose /proc has
	// parts covered the kernel allows no new one; the agent then has none.
	if err := makeProc(filepath.Join(b.Root, "proc")); err != nil && !errors.Is(err, unix.EPERM) {
		return err
	}
	return nil
}

// mountHost binds what the program may see of the host.
func (b *Build) mountHost() error {
	for _, m := range b.Mounts[1:] {
		to := filepath.Join(b.Root, m.At)
		// Below an agent's /tmp, which is new, there is nothing to mount over
		// yet. The others are there.
		if b.Policy.Agent {
			if err := MakeMountPoint(to, m.Folder); err != nil {
				return fmt.Errorf("making %s: %w", m.At, err)
			}
		}
		if err := unix.Mount(m.From, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("binding %s at %s: %w", m.From, m.At, err)
		}
		if err := identity.Expect(to, m.Is); err != nil {
			return fmt.Errorf("looking at what is mounted at %s: %w", m.At, err)
		}
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
		if !m.Writable {
			attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
		}
		if err := b.seal(to, unix.AT_RECURSIVE, attr); err != nil {
			return fmt.Errorf("sealing %s: %w", m.At, err)
		}
	}
	return nil
}

// MakeMountPoint makes the empty file or folder that something is mounted over.
func MakeMountPoint(at string, folder bool) error {
	if folder {
		return os.MkdirAll(at, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(at, os.O_CREATE|os.O_RDONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// seal takes rights away from a mount. Kernels before 5.12 can do that for one
// mount only: enough for a rubric, whose folders are ours, and not for an
// agent.
func (b *Build) seal(at string, flags uint, attr unix.MountAttr) error {
	err := unix.MountSetattr(unix.AT_FDCWD, at, flags, &attr)
	if !errors.Is(err, unix.ENOSYS) || b.Policy.Agent {
		return err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(at, &st); err != nil {
		return err
	}
	remount := uintptr(unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV)
	// Flags that the mount has already are kept: a user namespace may not take
	// them off.
	for has, keep := range map[int64]uintptr{
		unix.ST_NOEXEC: unix.MS_NOEXEC, unix.ST_NOATIME: unix.MS_NOATIME,
		unix.ST_NODIRATIME: unix.MS_NODIRATIME, unix.ST_RELATIME: unix.MS_RELATIME,
	} {
		if int64(st.Flags)&has != 0 {
			remount |= keep
		}
	}
	return unix.Mount("", at, "", remount, "")
}

// enter makes Root the root, read-only. What was outside is gone afterwards.
func (b *Build) enter() error {
	readOnly := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID}
	if b.Policy.Agent {
		if err := b.seal(filepath.Join(b.Root, "dev"), 0, readOnly); err != nil {
			return fmt.Errorf("sealing /dev: %w", err)
		}
	}
	readOnly.Attr_set |= unix.MOUNT_ATTR_NODEV
	if err := b.seal(b.Root, 0, readOnly); err != nil {
		return fmt.Errorf("sealing the root: %w", err)
	}
	if err := unix.Chdir(b.Root); err != nil {
		return fmt.Errorf("entering the root: %w", err)
	}
	// Both names the same puts the old root on top of the new one, from where
	// it can be detached; see pivot_root(2).
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("changing the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leaving the old root: %w", err)
	}
	return unix.Chdir("/")
}

// raiseLoopback switches on the only interface of the new network namespace.
func raiseLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("raising the loopback interface: %w", err)
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err == nil {
		request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
		err = unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
	}
	if err != nil {
		return fmt.Errorf("raising the loopback interface: %w", err)
	}
	return nil
}

// noRootSecurebits are NOROOT and NO_SETUID_FIXUP, each with its lock: see
// capabilities(7).
const noRootSecurebits = 1<<0 | 1<<1 | 1<<2 | 1<<3

// dropToBecome takes every capability from the calling thread, for good, and
// lets it die with the harness.
func dropToBecome() error {
	err := dropPrivileges(func(trap, a, b, c uintptr) syscall.Errno {
		_, _, errno := unix.RawSyscall(trap, a, b, c)
		return errno
	})
	if err != nil {
		return err
	}
	// Ours was set on another thread.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("tying this process to the harness: %w", err)
	}
	return nil
}

// dropForGood takes every capability from every thread of this process, which
// lives on beside the agent.
func dropForGood() error {
	err := dropPrivileges(func(trap, a, b, c uintptr) syscall.Errno {
		_, _, errno := syscall.AllThreadsSyscall(trap, a, b, c)
		return errno
	})
	if err != nil {
		return err
	}
	// The agent is the same user: it shall not look into this process.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("closing this process to others: %w", err)
	}
	return nil
}

// What capset(2) is given. They are not on a stack, which could move while
// their addresses travel as numbers.
var (
	capsetHeader = unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	noCaps       [2]unix.CapUserData
)

// dropPrivileges gives up every capability by way of call.
func dropPrivileges(call func(trap, a, b, c uintptr) syscall.Errno) error {
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if errno := call(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0); errno != 0 && errno != unix.EINVAL {
			return fmt.Errorf("dropping capability %d: %w", c, errno)
		}
	}
	for _, step := range []struct {
		doing         string
		trap, a, b, c uintptr
	}{
		// User 0 of the namespace is a user like any other from here on.
		{"setting securebits", unix.SYS_PRCTL, unix.PR_SET_SECUREBITS, noRootSecurebits, 0},
		{"dropping capabilities", unix.SYS_CAPSET, uintptr(unsafe.Pointer(&capsetHeader)), uintptr(unsafe.Pointer(&noCaps)), 0},
		{"forbidding new privileges", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0},
	} {
		if errno := call(step.trap, step.a, step.b, step.c); errno != 0 {
			return fmt.Errorf("%s: %w", step.doing, errno)
		}
	}
	return nil
}

// restrict puts the calling thread, and with it the program that it starts or
// becomes, under Landlock and the filter, and hands the filter's listener over.
func (b *Build) restrict() error {
	if b.Policy.Agent {
		writable := []string{calls.WorkDir, "/tmp", "/dev"}
		for _, m := range b.Mounts {
			if m.Writable && m.At != calls.WorkDir {
				writable = append(writable, m.At) // of a root that is being made
			}
		}
		landlock(writable...)
	} else {
		landlock() // best effort: what it denies is denied by other means as well
	}
	return installFilter(b.Policy)
}

// installFilter puts the calling thread under the filter and hands its listener
// over.
func installFilter(policy calls.Policy) error {
	filter, err := policy.Filter()
	if err != nil {
		return err
	}
	// This thread may not send any more once a rubric's filter is on. Another
	// one, which has no filter, does it.
	handOver, sent := make(chan int), make(chan error)
	go func() {
		sent <- unix.Sendmsg(Socket, []byte{SaysReady}, unix.UnixRights(<-handOver), nil, 0)
	}()
	listener, err := filter.Install(unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
	if errors.Is(err, unix.EINVAL) { // older than 5.19: a signal interrupts a question, which is then asked again
		listener, err = filter.Install(0)
	}
	if err != nil {
		return fmt.Errorf("installing the system call filter: %w", err)
	}
	handOver <- listener
	if err := <-sent; err != nil {
		os.Exit(1) // no process can be told
	}
	unix.Close(listener)
	return nil
}

// landlock denies the calling thread all but reading and executing files, and
// reaching abstract sockets and processes outside, as far as the kernel knows
// how. Below the writable folders everything goes; without such folders, TCP
// is denied as well.
func landlock(writable ...string) {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 || version < 1 {
		return
	}
	if version < 2 && len(writable) > 0 {
		return // the first version has no renaming from one folder to another
	}
	const (
		readOnly = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
		// All of the first version are the bits below REFER.
		firstVersion = unix.LANDLOCK_ACCESS_FS_REFER - 1
	)
	attr := unix.LandlockRulesetAttr{Handled_access_fs: firstVersion}
	if version >= 2 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= 3 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= 4 && len(writable) == 0 {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if version >= 5 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if version >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	// Older kernels take the longer structure when what they do not know is
	// zero.
	ruleset, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return
	}
	defer unix.Close(int(ruleset))
	if !landlockBelow(ruleset, "/", readOnly) {
		return
	}
	for _, dir := range writable {
		if !landlockBelow(ruleset, dir, attr.Handled_access_fs) {
			return
		}
	}
	unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0, 0)
}

// landlockBelow allows access to a folder and all below it.
func landlockBelow(ruleset uintptr, dir string, access uint64) bool {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, ruleset, unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	return errno == 0
}
