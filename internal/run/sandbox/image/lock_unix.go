//go:build unix

package image

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// lockFile keeps other programs from a file until it is closed.
func lockFile(f *os.File) error {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("%s is in use: %w", f.Name(), err)
	}
	return nil
}
