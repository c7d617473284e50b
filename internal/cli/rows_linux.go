package cli

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// terminalSize asks the kernel for rows and columns, and takes what the first
// terminals had when it does not know.
func terminalSize(w io.Writer) (rows, columns int) {
	if f, ok := w.(*os.File); ok {
		if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && size.Row > 0 && size.Col > 0 {
			return int(size.Row), int(size.Col)
		}
	}
	return 24, 80
}
