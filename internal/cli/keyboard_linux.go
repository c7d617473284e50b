package cli

import "golang.org/x/sys/unix"

// The requests with which the settings of a terminal are read and written.
const (
	getTerminal = unix.TCGETS
	setTerminal = unix.TCSETS
)
