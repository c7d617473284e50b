//go:build unix

package store

import (
	"io/fs"
	"os"
	"syscall"
)

// A fileID tells one file from another, whatever its names are.
type fileID struct{ device, inode uint64 }

// fileIDOf identifies a file, and reports whether it has several names.
func fileIDOf(info fs.FileInfo) (fileID, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}, false
	}
	return fileID{uint64(st.Dev), uint64(st.Ino)}, st.Nlink > 1
}

func inodeOf(info fs.FileInfo) uint64 {
	id, _ := fileIDOf(info)
	return id.inode
}

func permissions(info fs.FileInfo) fs.FileMode { return info.Mode().Perm() }

// ownerOf is whom what is put into a folder must belong to: root works for the
// user whose folder it is.
func ownerOf(root *os.Root) (uid, gid int, matters bool) {
	info, err := root.Stat(".")
	if err != nil || os.Getuid() != 0 {
		return 0, 0, false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(st.Uid), int(st.Gid), st.Uid != 0
}
