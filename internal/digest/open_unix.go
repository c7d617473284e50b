//go:build unix

package digest

import "syscall"

// openFlags keeps the opening from waiting for ever when a regular file is
// exchanged for a named pipe in the moment before.
const openFlags = syscall.O_NONBLOCK
