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

// Passage makes a folder in which everybody can reach what they know by name,
// and only this user can list it.
func Passage(dir string) error {
	if err := os.Mkdir(dir, 0o711); err != nil {
		return writeError("making", dir, err)
	}
	return nil
}

// Fresh makes an empty folder in another one, with a name that nothing has.
func Fresh(in string) (dir string, remove func() error, err error) {
	dir, err = os.MkdirTemp(in, "")
	if err != nil {
		return "", nil, writeError("making a folder in", in, err)
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
