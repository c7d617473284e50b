package store

import (
	"os"
	"path/filepath"
)

// AppendLine adds one line to a file and returns when it is on disk. It is for
// what must be written even when the ledger cannot be: alarms.
func AppendLine(fsys FS, name string, line []byte) error {
	if err := MakeDir(fsys, filepath.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := fsys.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return writeError("appending to", name, err)
	}
	defer f.Close()
	if _, err := f.Write(append(append([]byte{}, line...), '\n')); err != nil {
		return writeError("appending to", name, err)
	}
	if err := f.Sync(); err != nil {
		return writeError("appending to", name, err)
	}
	return nil
}
