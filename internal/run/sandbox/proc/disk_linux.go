package proc

import (
	"io/fs"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Usage is what is used of a file system.
type Usage struct{ Bytes, Files int64 }

// Since is what was added.
func (u Usage) Since(before Usage) Usage {
	return Usage{u.Bytes - before.Bytes, u.Files - before.Files}
}

// UsedOn is what is used of the folder's file system. One that does not count
// files has used none.
func UsedOn(dir string) Usage {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return Usage{}
	}
	return Usage{int64(st.Blocks-st.Bfree) * st.Bsize, int64(st.Files - st.Ffree)}
}

// FolderSize is what a folder occupies, as far as it can be read now.
func FolderSize(dir string) Usage {
	var total Usage
	filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		total.Files++
		if info, err := d.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				total.Bytes += st.Blocks * 512
			}
		}
		return nil
	})
	return total
}

// RemovedSize is what the sandbox's processes hold on the folder's file system
// in files that have no name any more.
func RemovedSize(pid int, dir string) int64 {
	var here unix.Stat_t
	if unix.Stat(dir, &here) != nil {
		return 0
	}
	held := map[uint64]int64{}
	for _, pid := range append(Descendants(pid), pid) {
		fds, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
		for _, fd := range fds {
			var st unix.Stat_t
			if unix.Stat(fd, &st) == nil && st.Dev == here.Dev && st.Nlink == 0 && st.Mode&unix.S_IFMT == unix.S_IFREG {
				held[st.Ino] = st.Blocks * 512
			}
		}
	}
	var total int64
	for _, n := range held {
		total += n
	}
	return total
}
