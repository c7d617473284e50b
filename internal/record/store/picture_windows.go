package store

import (
	"io/fs"
	"os"
)

// A fileID would tell one file from another.
type fileID struct{}

func fileIDOf(fs.FileInfo) (fileID, bool) { return fileID{}, false }

func inodeOf(fs.FileInfo) uint64 { return 0 }

// permissions are those of a new entry: Windows has none of the kind.
func permissions(info fs.FileInfo) fs.FileMode {
	if info.IsDir() {
		return FolderMode
	}
	return FileMode
}

func ownerOf(*os.Root) (uid, gid int, matters bool) { return 0, 0, false }
