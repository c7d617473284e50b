package calls

import (
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// A view is the file system as one process of a sandbox sees it, looked at from
// outside.
type view struct {
	pid   int
	links *LinkCache // of its sandbox
}

// proc names what /proc shows of the process.
func (v view) proc(name string) string { return fmt.Sprintf("/proc/%d/%s", v.pid, name) }

// base is the folder that names are relative to: the process's own, or the one
// that a descriptor stands for.
func (v view) base(descriptor int32) string {
	at := "cwd"
	if descriptor != unix.AT_FDCWD {
		at = fmt.Sprintf("fd/%d", descriptor)
	}
	dir, err := os.Readlink(v.proc(at))
	if err != nil || !path.IsAbs(dir) {
		return WorkDir
	}
	return dir
}

// resolve says which file the process means by a name.
func (v view) resolve(descriptor int32, name string) string {
	base := ""
	if !path.IsAbs(name) {
		base = v.base(descriptor)
	}
	root := v.root()
	defer unix.Close(root)
	return Resolve(base, name, v.links.Read(func(link string) string { return v.readlink(root, link) }))
}

// root opens the process's root; -1 if it is gone.
func (v view) root() int {
	root, err := unix.Open(v.proc("root"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	return root
}

// has reports whether the process's root has a file, whose name leads through no
// links.
func (v view) has(full string) bool {
	root := v.root()
	defer unix.Close(root)
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(root, strings.TrimPrefix(full, "/"), &how)
	unix.Close(fd)
	return err == nil
}

// readlink reads a link below root, and nowhere else: the process may put
// another link in the way at any time.
func (v view) readlink(root int, link string) string {
	for _, own := range []string{"/proc/self/", "/proc/thread-self/"} {
		// Seen from outside, these are another process.
		if rest, ok := strings.CutPrefix(link, own); ok {
			target, _ := os.Readlink(v.proc(path.Clean(rest)))
			return target
		}
	}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(root, strings.TrimPrefix(link, "/"), &how)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", buf)
	if err != nil {
		return ""
	}
	return string(buf[:n])
}
