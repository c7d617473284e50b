package identity

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"tallystick/internal/run/sandbox/proc"
)

// Of reads the identity of a file, a link's own if it is one.
func Of(name string) (ID, error) { return at(unix.AT_FDCWD, name) }

func at(dir int, name string) (ID, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return ID{}, &os.PathError{Op: "stat", Path: name, Err: err}
	}
	return ID{Device: uint64(st.Dev), Inode: st.Ino, Size: st.Size, Mode: st.Mode, Modified: st.Mtim.Nano(), Changed: st.Ctim.Nano()}, nil
}

// firstChanged looks at all entries. They are asked for from their folder, which
// is opened once: long paths would take most of the time, and this happens in
// every case.
func firstChanged(entries []entry) string {
	dir := -1
	defer func() { unix.Close(dir) }()
	for n, e := range entries {
		if n == 0 || e.dir != entries[n-1].dir {
			unix.Close(dir)
			var err error
			if dir, err = unix.Open(e.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
				return gone(e.dir, err)
			}
		}
		now, err := at(dir, e.name)
		if err != nil {
			return gone(filepath.Join(e.dir, e.name), err)
		}
		if now != e.id {
			return difference(filepath.Join(e.dir, e.name), e.id, now)
		}
	}
	return ""
}

// OpenForWriting reports whether a program has the file open for writing, or
// mapped so that it can write to it. It says false where the kernel does not tell:
// of another user's file, and on file systems without leases.
func OpenForWriting(f *os.File) bool {
	c, err := f.SyscallConn() // Fd would make the file blocking, with two more calls
	if err != nil {
		return false
	}
	written := false
	_ = c.Control(func(fd uintptr) {
		_, err := unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_RDLCK)
		if written = err == unix.EAGAIN; err == nil {
			unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_UNLCK)
		}
	})
	return written
}

// mountLines is the mount table as this process sees it.
func mountLines() ([]mountLine, error) {
	table, err := proc.Mounts()
	lines := make([]mountLine, len(table))
	for i, m := range table {
		lines[i] = mountLine{m.At, fmt.Sprintf("%s %q at %q", m.Type, m.Root, m.At)}
	}
	return lines, err
}
