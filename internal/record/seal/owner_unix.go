//go:build unix

package seal

import (
	"io/fs"
	"os"
	"syscall"
)

// modesMatter says that file modes keep others out on this system.
const modesMatter = true

// ownedByUs reports whether a file belongs to the user running the program or
// to root.
func ownedByUs(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && (stat.Uid == 0 || int(stat.Uid) == os.Geteuid())
}
