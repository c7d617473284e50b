package sandbox

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An initPlan is what the harness tells the process that builds a namespace
// sandbox and then becomes the rubric.
type initPlan struct {
	Root    string            // the folder that becomes /
	Binds   map[string]string // what is bound below Root, by path there
	Command []string
	Env     []string
	Policy  policy
	Rlimits map[int]uint64
}

// initSocket is the descriptor on which plan, listener and complaint travel.
const initSocket = 3

// The first byte of what the process says.
const (
	initReady  = 'R' // with it comes the listener
	initFailed = 'E' // the message follows
)

// namespaceInit runs as the first process of fresh namespaces, with all
// capabilities in them and none outside. Everything it gives up, it gives up
// on one thread; that thread becomes the rubric, and exec ends all others.
func namespaceInit() {
	runtime.LockOSThread()
	debug.SetGCPercent(-1)
	unix.CloseOnExec(initSocket)
	err := becomeRubric()
	unix.Sendto(initSocket, append([]byte{initFailed}, err.Error()...), 0, nil)
	os.Exit(1)
}

func becomeRubric() error {
	buf := make([]byte, 256<<10)
	n, err := unix.Read(initSocket, buf)
	if err != nil {
		return fmt.Errorf("reading the plan: %w", err)
	}
	var plan initPlan
	if err := json.Unmarshal(buf[:n], &plan); err != nil {
		return fmt.Errorf("reading the plan: %w", err)
	}
	if err := enterRoot(plan.Root, plan.Binds); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte("sandbox")); err != nil {
		return fmt.Errorf("naming the host: %w", err)
	}
	for resource, n := range plan.Rlimits {
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			return fmt.Errorf("limiting resource %d: %w", resource, err)
		}
	}
	argv, err := syscall.SlicePtrFromStrings(plan.Command)
	if err != nil {
		return err
	}
	envv, err := syscall.SlicePtrFromStrings(plan.Env)
	if err != nil {
		return err
	}
	if err := unix.CloseRange(initSocket+1, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil && err != unix.ENOSYS {
		return fmt.Errorf("closing files: %w", err)
	}
	if err := dropPrivileges(); err != nil {
		return err
	}
	landlock() // best effort: what it denies is denied by other means as well

	// This thread may not send any more once the filter is on. Another one,
	// which has no filter, does it.
	handOver := make(chan int)
	sent := make(chan error)
	go func() {
		listener := <-handOver
		sent <- unix.Sendmsg(initSocket, []byte{initReady}, unix.UnixRights(listener), nil, 0)
	}()
	listener, err := plan.Policy.install()
	if err != nil {
		return fmt.Errorf("installing the system call filter: %w", err)
	}
	handOver <- listener
	if err := <-sent; err != nil {
		os.Exit(1)
	}
	// Not RawSyscall: on a machine with one processor the other thread needs
	// this one's turn. The harness is asked about this call and sets the last
	// limit, the address space, before it says yes.
	_, _, errno := syscall.Syscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(argv[0])),
		uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&envv[0])))
	fmt.Fprintf(os.Stderr, "%s: %v\n", plan.Command[0], errno)
	os.Exit(126)
	return nil
}

// enterRoot makes root the root of the file system and everything in it
// read-only. What was outside is gone afterwards, /proc included.
func enterRoot(root string, binds map[string]string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := bindSealed(binds["/"], root); err != nil {
		return err
	}
	for at, from := range binds {
		if at == "/" {
			continue
		}
		if err := bindSealed(from, filepath.Join(root, at)); err != nil {
			return err
		}
	}
	if err := unix.Chdir(root); err != nil {
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
	if err := unix.Chdir(rubricDir); err != nil {
		return fmt.Errorf("entering the rubric's folder: %w", err)
	}
	return nil
}

// bindSealed binds from at to, read-only. Flags that the mount has already
// are kept: a user namespace may not take them off.
func bindSealed(from, to string) error {
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("binding %s at %s: %w", from, to, err)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(to, &st); err != nil {
		return fmt.Errorf("looking at %s: %w", to, err)
	}
	flags := uintptr(unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV)
	for has, keep := range map[int64]uintptr{
		unix.ST_NOEXEC: unix.MS_NOEXEC, unix.ST_NOATIME: unix.MS_NOATIME,
		unix.ST_NODIRATIME: unix.MS_NODIRATIME, unix.ST_RELATIME: unix.MS_RELATIME,
	} {
		if int64(st.Flags)&has != 0 {
			flags |= keep
		}
	}
	if err := unix.Mount("", to, "", flags, ""); err != nil {
		return fmt.Errorf("sealing %s: %w", to, err)
	}
	return nil
}

// noRootSecurebits are NOROOT and NO_SETUID_FIXUP, each with its lock: see
// capabilities(7).
const noRootSecurebits = 1<<0 | 1<<1 | 1<<2 | 1<<3

// dropPrivileges takes every capability from the calling thread, for good,
// and lets it die with the harness.
func dropPrivileges() error {
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && err != unix.EINVAL {
			return fmt.Errorf("dropping capability %d: %w", c, err)
		}
	}
	// User 0 of the namespace is a user like any other from here on.
	if err := unix.Prctl(unix.PR_SET_SECUREBITS, noRootSecurebits, 0, 0, 0); err != nil {
		return fmt.Errorf("setting securebits: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("dropping capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("forbidding new privileges: %w", err)
	}
	// Ours was set on another thread.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("tying this process to the harness: %w", err)
	}
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
