package calls

import "golang.org/x/sys/unix"

// The calls that gVisor describes on this architecture, beside openat.
var (
	legacyOpens []string
	tracedCalls = []string{"socket", "connect", "bind", "clone", "execve"}
)

// The older calls do not exist here; no call has these numbers.
const (
	openCall = 1<<20 + iota
	creatCall
	forkCall
	vforkCall
)

const statAtCall = unix.SYS_FSTATAT

var (
	legacyAllowedCalls []uintptr
	legacyPathCalls    []uintptr
	legacyAgentCalls   []uintptr
	legacyWatchedCalls map[int]watchedCall
	legacyNamingCalls  map[int]namingCall
)
