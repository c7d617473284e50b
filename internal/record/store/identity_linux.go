package store

import (
	"io/fs"
	"syscall"
)

// IdentityOf is what the file system says of which file a description is, and when
// bytes, name or times of it were touched last, in nanoseconds since 1970. All are 0
// where the system does not tell.
func IdentityOf(info fs.FileInfo) (device, inode uint64, changed int64) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, 0
	}
	return uint64(st.Dev), st.Ino, st.Ctim.Nano()
}
