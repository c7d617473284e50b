package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An agentBuild tells the first process how to build a namespace sandbox
// around itself.
type agentBuild struct {
	Root    string // the folder that becomes /
	Mounts  []buildMount
	TmpSize int64
	Watch   bool
	Rlimits map[int]uint64
}

// A buildMount shows From, a path of the host, at At.
type buildMount struct {
	From, At         string
	Folder, Writable bool
}

// hostDevices are the ones that an agent gets.
var hostDevices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// build makes the file system and the network, and then gives up every right
// to change them. It runs with all capabilities in fresh namespaces and none
// outside.
func (b *agentBuild) build() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := unix.Mount(b.Root, b.Root, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("binding the root: %w", err)
	}
	for _, step := range []func() error{b.mountKernel, b.mountHost, b.enter, raiseLoopback} {
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
	return dropAllPrivileges()
}

// mountKernel makes /tmp, /dev and /proc.
func (b *agentBuild) mountKernel() error {
	size := fmt.Sprintf("size=%d,mode=", b.TmpSize)
	for _, m := range []struct{ at, options string }{{"tmp", size + "1777"}, {"dev", "size=64k,mode=755"}} {
		if err := unix.Mount("tmpfs", filepath.Join(b.Root, m.at), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, m.options); err != nil {
			return fmt.Errorf("making /%s: %w", m.at, err)
		}
	}
	dev := filepath.Join(b.Root, "dev")
	for _, name := range hostDevices {
		if _, err := os.Stat("/dev/" + name); err != nil {
			continue
		}
		to := filepath.Join(dev, name)
		if err := os.WriteFile(to, nil, 0o666); err != nil {
			return fmt.Errorf("making /dev: %w", err)
		}
		if err := unix.Mount("/dev/"+name, to, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("making /dev/%s: %w", name, err)
		}
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(to, filepath.Join(dev, name)); err != nil {
			return fmt.Errorf("making /dev: %w", err)
		}
	}
	// Terminals that it makes for itself; programs can do without.
	pts := filepath.Join(dev, "pts")
	if os.Mkdir(pts, 0o755) == nil &&
		unix.Mount("devpts", pts, "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620") == nil {
		os.Symlink("pts/ptmx", filepath.Join(dev, "ptmx"))
	}
	shm := filepath.Join(dev, "shm")
	err := os.Mkdir(shm, 0o1777)
	if err == nil {
		err = unix.Mount("tmpfs", shm, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, size+"1777")
	}
	if err != nil {
		return fmt.Errorf("making /dev/shm: %w", err)
	}
	// It shows the sandbox's own processes. In a container whose /proc has
	// parts covered the kernel allows no new one; the agent then has none.
	err = unix.Mount("proc", filepath.Join(b.Root, "proc"), "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_RDONLY, "")
	if err != nil && err != unix.EPERM {
		return fmt.Errorf("making /proc: %w", err)
	}
	return nil
}

// mountHost binds what the agent may see of the host.
func (b *agentBuild) mountHost() error {
	for _, m := range b.Mounts {
		to := filepath.Join(b.Root, m.At)
		// Below /tmp, which is new, there is nothing to mount over yet. The
		// others are there and this does nothing.
		if err := makeMountPoint(to, m.Folder); err != nil {
			return fmt.Errorf("making %s: %w", m.At, err)
		}
		// Recursively, because the kernel lets nobody look under a mount by
		// leaving it away.
		if err := unix.Mount(m.From, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("binding %s at %s: %w", m.From, m.At, err)
		}
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
		if !m.Writable {
			attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
		}
		if err := unix.MountSetattr(unix.AT_FDCWD, to, unix.AT_RECURSIVE, &attr); err != nil {
			return fmt.Errorf("sealing %s: %w", m.At, err)
		}
	}
	return nil
}

func makeMountPoint(at string, folder bool) error {
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

// enter makes Root the root, read-only. What was outside is gone afterwards.
func (b *agentBuild) enter() error {
	for _, at := range []string{"dev", "."} {
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
		if at == "dev" {
			attr.Attr_set &^= unix.MOUNT_ATTR_NODEV
		}
		if err := unix.MountSetattr(unix.AT_FDCWD, filepath.Join(b.Root, at), 0, &attr); err != nil {
			return fmt.Errorf("sealing the root: %w", err)
		}
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

// dropAllPrivileges is dropPrivileges for every thread of this process, which
// lives on beside the program.
func dropAllPrivileges() error {
	all := func(doing string, trap, a, b, c uintptr, fine ...error) error {
		_, _, errno := syscall.AllThreadsSyscall(trap, a, b, c)
		if errno == 0 {
			return nil
		}
		for _, f := range fine {
			if errors.Is(errno, f) {
				return nil
			}
		}
		return fmt.Errorf("%s: %w", doing, errno)
	}
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if err := all("dropping a capability", unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0, syscall.EINVAL); err != nil {
			return err
		}
	}
	if err := all("setting securebits", unix.SYS_PRCTL, unix.PR_SET_SECUREBITS, noRootSecurebits, 0); err != nil {
		return err
	}
	header := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	none := &[2]unix.CapUserData{}
	if err := all("dropping capabilities", unix.SYS_CAPSET, uintptr(unsafe.Pointer(header)), uintptr(unsafe.Pointer(none)), 0); err != nil {
		return err
	}
	if err := all("forbidding new privileges", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0); err != nil {
		return err
	}
	// The agent is the same user: it shall not look into this process.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("closing this process to others: %w", err)
	}
	return nil
}

// restrict puts the calling thread, and with it the program that it starts,
// under Landlock and the filter, and hands the filter's listener over.
func (b *agentBuild) restrict() error {
	landlock(workDir, "/tmp", "/dev")
	p, err := agentFilter(b.Watch)
	if err != nil {
		return err
	}
	listener, err := p.install(unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
	if errors.Is(err, unix.EINVAL) { // older than 5.19: a signal interrupts a question, which is then asked again
		listener, err = p.install(0)
	}
	if err != nil {
		return fmt.Errorf("installing the system call filter: %w", err)
	}
	defer unix.Close(listener)
	if err := unix.Sendmsg(initSocket, []byte{agentReady}, unix.UnixRights(listener), nil, 0); err != nil {
		return fmt.Errorf("handing the filter over: %w", err)
	}
	return nil
}
