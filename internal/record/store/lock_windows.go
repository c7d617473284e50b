package store

import (
	"errors"

	"golang.org/x/sys/windows"
)

// TryLock locks one byte far beyond any data, because on Windows a locked byte
// cannot be read through another handle.
func (f osFile) TryLock() (bool, error) {
	at := &windows.Overlapped{OffsetHigh: 1 << 30}
	err := windows.LockFileEx(windows.Handle(f.File.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}
