package store

import (
	"fmt"
	"io/fs"
	"os"
)

// ReadOwn reads a file that says what its owner allows: a regular file and not a
// link, of this user, which no other user can write. Of another file it says what it
// is instead; one that is not there is [fs.ErrNotExist].
func ReadOwn(name string, limit int64) ([]byte, error) {
	before, err := os.Lstat(name)
	if err != nil {
		return nil, readError(name, err)
	}
	if !before.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is a %s, expected a regular file", name, kindOf(before))
	}
	f, err := Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, readError(name, err)
	case !os.SameFile(before, info):
		return nil, fmt.Errorf("%s became another file while it was opened", name)
	}
	if err := own(name, info); err != nil {
		return nil, err
	}
	return readUpTo(f, name, info.Size(), limit)
}

// IsOwnFolder refuses a folder that is a link, or in which another user can put files.
func IsOwnFolder(name string) error {
	info, err := os.Lstat(name)
	switch {
	case err != nil:
		return readError(name, err)
	case !info.IsDir():
		return fmt.Errorf("%s is a %s, expected a folder", name, kindOf(info))
	}
	return own(name, info)
}

func own(name string, info fs.FileInfo) error {
	switch {
	case !ownedByUs(info):
		return fmt.Errorf("%s belongs to another user", name)
	case permissions(info)&0o022 != 0:
		return fmt.Errorf("%s has mode %04o, expected that no other user can write it", name, info.Mode().Perm())
	}
	return nil
}

// FolderID is the number of a folder in its file system, by which one that was put in
// its place is told from it; 0 where there is none.
func FolderID(name string) (uint64, error) {
	info, err := os.Stat(name)
	if err != nil {
		return 0, readError(name, err)
	}
	return inodeOf(info), nil
}
