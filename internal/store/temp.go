package store

import "os"

// TempDir makes a folder that only this user can read, and returns how to
// remove it with all that was put into it.
func TempDir(prefix string) (dir string, remove func() error, err error) {
	dir, err = os.MkdirTemp("", prefix)
	if err != nil {
		return "", nil, writeError("making a temporary folder in", os.TempDir(), err)
	}
	return dir, func() error { return os.RemoveAll(dir) }, nil
}

// RemoveTree removes a folder and everything below it.
func RemoveTree(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return writeError("removing", dir, err)
	}
	return nil
}
