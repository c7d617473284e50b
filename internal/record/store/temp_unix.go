//go:build unix

package store

import (
	"io/fs"
	"os"
	"syscall"
)

// ownedByUs reports whether a file is this user's.
func ownedByUs(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}
