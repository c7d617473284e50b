package image

import (
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// identityOf reads a file's identity; ok is false where there is none.
func identityOf(info fs.FileInfo) (id fileIdentity, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return id, false
	}
	return fileIdentity{
		device: uint64(st.Dev), inode: st.Ino, size: st.Size, mode: st.Mode,
		modified: st.Mtim.Nano(), changed: st.Ctim.Nano(),
	}, true
}

// identityAt reads the identity of a name in an open folder, a link's own if
// it is one.
func identityAt(dir int, name string) (id fileIdentity, ok bool) {
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return id, false
	}
	return fileIdentity{
		device: uint64(st.Dev), inode: st.Ino, size: st.Size, mode: st.Mode,
		modified: st.Mtim.Nano(), changed: st.Ctim.Nano(),
	}, true
}

// sameEntries reports whether all entries are what they were. They are asked
// for from their folder, which is opened once: long paths would take most of
// the time. An image is checked like this before every run.
func sameEntries(entries []restingEntry) bool {
	dir := -1
	defer func() { unix.Close(dir) }()
	for n, e := range entries {
		if n == 0 || e.dir != entries[n-1].dir {
			unix.Close(dir)
			var err error
			if dir, err = unix.Open(e.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
				return false
			}
		}
		if id, ok := identityAt(dir, e.name); !ok || id != e.identity {
			return false
		}
	}
	return true
}
