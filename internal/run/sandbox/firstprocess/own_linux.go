package firstprocess

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// What is here makes the file systems of the kernel that a program may write to, or
// whose files' modes and times it may change. Each sandbox has its own, and in a
// warm one each room: what a case writes there is in no other. Everything else is
// read-only. TestNothingOfAWarmCaseRemains walks from the root and tries.

// tmpInodes bounds how many files a file system in memory may hold: names take
// memory too, and the size does not count them. gVisor knows no such option.
const tmpInodes = 100_000

// makeTmp makes a file system in memory that everybody may write to.
func makeTmp(at string, size int64) error {
	return makeMemory(at, size, tmpInodes, "1777")
}

func makeMemory(at string, size int64, inodes int, mode string) error {
	options := fmt.Sprintf("size=%d,mode=%s", size, mode)
	err := unix.Mount("tmpfs", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("%s,nr_inodes=%d", options, inodes))
	if errors.Is(err, unix.EINVAL) {
		err = unix.Mount("tmpfs", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options)
	}
	if err != nil {
		return fmt.Errorf("making %s: %w", at, err)
	}
	return nil
}

// makeEmpty covers a folder with an empty one that no process can write to.
func makeEmpty(at string) error {
	if err := unix.Mount("tmpfs", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_RDONLY, "size=4096,mode=555"); err != nil {
		return fmt.Errorf("covering %s: %w", at, err)
	}
	return nil
}

// makeProc makes a /proc of the processes that this one sees.
func makeProc(at string) error {
	if err := unix.Mount("proc", at, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("making %s: %w", at, err)
	}
	return nil
}

// hostDevices are the ones that an agent gets. "tty" is not among them: the kernel
// itself writes to its times, even on a mount that is read-only, and where the
// host's is shown, those are the same in all rooms.
var hostDevices = []string{"null", "zero", "full", "random", "urandom"}

// devSize is enough for the names of devices.
const devSize = 64 << 10

// makeDev makes a /dev with the devices that are in this one's /dev, and with
// terminals and shared memory of its own. It is still to be sealed.
func makeDev(at string, size int64) error {
	devices, err := openDevices()
	if err != nil {
		return err
	}
	defer func() {
		for _, d := range devices {
			unix.Close(d.fd)
		}
	}()
	if err := makeMemory(at, devSize, 1000, "755"); err != nil {
		return err
	}
	for _, d := range devices {
		if err := d.make(filepath.Join(at, d.name)); err != nil {
			return fmt.Errorf("making /dev/%s: %w", d.name, err)
		}
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(to, filepath.Join(at, name)); err != nil {
			return fmt.Errorf("making /dev: %w", err)
		}
	}
	makeTerminals(at)
	shm := filepath.Join(at, "shm")
	if err := os.Mkdir(shm, 0o1777); err != nil {
		return fmt.Errorf("making /dev/shm: %w", err)
	}
	return makeTmp(shm, size)
}

// makeTerminals lets a program make terminals for itself; it can do without.
func makeTerminals(dev string) {
	pts := filepath.Join(dev, "pts")
	if os.Mkdir(pts, 0o755) != nil {
		return
	}
	// Always a new instance: those of another room would be seen. Its mode is left
	// alone, since that is the folder's in gVisor and the terminals' in Linux.
	err := unix.Mount("devpts", pts, "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666")
	if err == nil {
		os.Symlink("pts/ptmx", filepath.Join(dev, "ptmx"))
	}
}

// A device is one of this process's /dev, from before that is covered.
type device struct {
	name   string
	fd     int
	number uint64
}

func openDevices() (list []device, err error) {
	for _, name := range hostDevices {
		fd, err := unix.Open("/dev/"+name, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			continue // what is not there, the agent does not get
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return list, fmt.Errorf("looking at /dev/%s: %w", name, err)
		}
		list = append(list, device{name, fd, st.Rdev})
	}
	return list, nil
}

// make makes the device anew, whose times are then its own. A user namespace
// may not; there the host's is shown, on a mount on which no process can change
// them.
func (d device) make(at string) error {
	err := unix.Mknod(at, unix.S_IFCHR|0o666, int(d.number))
	if err == nil {
		return os.Chmod(at, 0o666) // whatever the umask is
	}
	if !errors.Is(err, unix.EPERM) {
		return err
	}
	if err := os.WriteFile(at, nil, 0o666); err != nil {
		return err
	}
	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", d.fd), at, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return unix.MountSetattr(unix.AT_FDCWD, at, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC})
}
