package image

import (
	"io/fs"
	"syscall"
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
