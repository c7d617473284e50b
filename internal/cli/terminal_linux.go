package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// isTerminalFile asks the kernel. That f is a character device is not enough:
// so is /dev/null.
func isTerminalFile(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
