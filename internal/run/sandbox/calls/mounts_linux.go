package calls

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The host's kernel tells every program where on the host its mounts come from. In
// place of those files an agent gets what they say without that: see
// docs/sandbox.md for what this does not stop.

// isMountTable tells the files in which /proc lists mounts.
func isMountTable(full string) bool {
	return strings.HasPrefix(full, "/proc/") && slices.Contains([]string{"mountinfo", "mounts", "mountstats"}, path.Base(full))
}

// plainOptions are what is told of how something is mounted; others may name files.
var plainOptions = []string{"rw", "ro", "nosuid", "nodev", "noexec", "relatime", "noatime", "nodiratime"}

// withoutSources takes what is the host's out of a list of mounts.
func withoutSources(kind string, list []byte) []byte {
	var b bytes.Buffer
	for line := range strings.Lines(string(list)) {
		f := strings.Fields(line)
		switch at := slices.Index(f, "-"); {
		case kind == "mountinfo" && at > 5 && len(f) >= at+3:
			f[3], f[5], f[at+2] = "/", plain(f[5]), "none"
			f = append(f[:at+3], plain(strings.Join(f[at+3:], ",")))
		case kind == "mounts" && len(f) == 6:
			f[0], f[3] = "none", plain(f[3])
		case kind == "mountstats" && len(f) > 4 && f[0] == "device":
			f[1] = "none"
		default:
			continue
		}
		b.WriteString(strings.Join(f, " ") + "\n")
	}
	return b.Bytes()
}

func plain(options string) string {
	kept := slices.DeleteFunc(strings.Split(options, ","), func(o string) bool { return !slices.Contains(plainOptions, o) })
	if len(kept) == 0 {
		return "rw"
	}
	return strings.Join(kept, ",")
}

// addFd is struct seccomp_notif_addfd.
type addFd struct {
	id         uint64
	flags      uint32
	srcFd      uint32
	newFd      uint32
	newFdFlags uint32
}

const (
	addFdSend    = 1 << 1     // SECCOMP_ADDFD_FLAG_SEND: it is the answer as well
	ioctlAddFd   = 0x40182103 // SECCOMP_IOCTL_NOTIF_ADDFD
	mountTableOf = "mounts of a sandbox"
)

// giveMountTable answers the opening of a list of mounts. Kernels before 5.14 cannot;
// the agent is then denied it.
func giveMountTable(listener int, n *notification, kind string, flags uint64) error {
	list, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", n.pid, kind))
	if err != nil {
		return err
	}
	fd, err := unix.MemfdCreate(mountTableOf, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return err
	}
	memory := os.NewFile(uintptr(fd), mountTableOf)
	defer memory.Close()
	if _, err := memory.Write(withoutSources(kind, list)); err != nil {
		return err
	}
	if _, err := memory.Seek(0, 0); err != nil {
		return err
	}
	if _, err := unix.FcntlInt(memory.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE); err != nil {
		return err
	}
	add := addFd{id: n.id, flags: addFdSend, srcFd: uint32(memory.Fd()), newFdFlags: uint32(flags & unix.O_CLOEXEC)}
	return ioctl(listener, ioctlAddFd, uintptr(unsafe.Pointer(&add)))
}
