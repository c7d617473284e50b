//go:build !linux

package cli

import "io"

// terminalSize takes what the first terminals had.
func terminalSize(io.Writer) (rows, columns int) { return 24, 80 }
