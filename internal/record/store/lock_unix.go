//go:build unix

package store

import (
	"errors"

	"golang.org/x/sys/unix"
)

// TryLock uses flock and not fcntl: a record lock is dropped when any
// descriptor of the file is closed anywhere in the process.
func (f osFile) TryLock() (bool, error) {
	err := unix.Flock(int(f.File.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		return false, nil
	}
	return err == nil, err
}
