package calls

import "golang.org/x/sys/unix"

// The calls that gVisor describes on this architecture, beside openat.
var (
	legacyOpens = []string{"open", "creat"}
	tracedCalls = []string{"socket", "connect", "bind", "clone", "fork", "vfork", "execve"}
)

const (
	openCall  = unix.SYS_OPEN
	creatCall = unix.SYS_CREAT
	forkCall  = unix.SYS_FORK
	vforkCall = unix.SYS_VFORK
)

const statAtCall = unix.SYS_NEWFSTATAT

// legacyAllowedCalls and legacyPathCalls belong to allowedCalls.
var (
	legacyAllowedCalls = []uintptr{
		unix.SYS_ARCH_PRCTL, unix.SYS_ACCESS, unix.SYS_READLINK, unix.SYS_GETDENTS, unix.SYS_DUP2, unix.SYS_PIPE, unix.SYS_POLL,
		unix.SYS_SELECT, unix.SYS_EPOLL_WAIT, unix.SYS_EPOLL_CREATE, unix.SYS_GETPGRP, unix.SYS_TIME, unix.SYS_ALARM, unix.SYS_PAUSE,
	}
	legacyPathCalls = []uintptr{unix.SYS_OPEN, unix.SYS_CREAT, unix.SYS_STAT, unix.SYS_LSTAT}
)

// legacyWatchedCalls exist only on older architectures.
var legacyWatchedCalls = map[int]watchedCall{
	unix.SYS_UNLINK:     {aboutFile, "unlink", ""},
	unix.SYS_RMDIR:      {aboutFile, "rmdir", ""},
	unix.SYS_RENAME:     {aboutFile, "rename", ""},
	unix.SYS_RENAMEAT:   {aboutFile, "renameat", ""},
	unix.SYS_LINK:       {aboutFile, "link", ""},
	unix.SYS_SYMLINK:    {aboutFile, "symlink", ""},
	unix.SYS_MKDIR:      {aboutFile, "mkdir", ""},
	unix.SYS_MKNOD:      {aboutFile, "mknod", ""},
	unix.SYS_CHMOD:      {aboutFile, "chmod", ""},
	unix.SYS_CHOWN:      {aboutFile, "chown", ""},
	unix.SYS_LCHOWN:     {aboutFile, "lchown", ""},
	unix.SYS_UTIME:      {aboutFile, "utime", ""},
	unix.SYS_IOPL:       {aboutKernel, "iopl", KernelCall},
	unix.SYS_IOPERM:     {aboutKernel, "ioperm", KernelCall},
	unix.SYS_MODIFY_LDT: {aboutKernel, "modify_ldt", KernelCall},
}

// legacyNamingCalls belongs to namingCalls.
var legacyNamingCalls = map[int]namingCall{
	unix.SYS_STAT: named("stat"), unix.SYS_LSTAT: named("stat"), unix.SYS_ACCESS: named("access"), unix.SYS_READLINK: named("readlink"),
	unix.SYS_UNLINK: named("unlink"), unix.SYS_RMDIR: named("unlink"), unix.SYS_MKDIR: named("mkdir"), unix.SYS_MKNOD: named("mknod"),
	unix.SYS_CHMOD: named("chmod"), unix.SYS_CHOWN: named("chown"), unix.SYS_LCHOWN: named("chown"), unix.SYS_UTIME: named("utime"), unix.SYS_UTIMES: named("utime"),
	unix.SYS_FUTIMESAT: namedAt("utime"), unix.SYS_USELIB: named("uselib"),
	unix.SYS_RENAME:  {"rename", []FileArg{{-1, 0}, {-1, 1}}},
	unix.SYS_LINK:    {"link", []FileArg{{-1, 0}, {-1, 1}}},
	unix.SYS_SYMLINK: {"symlink", []FileArg{{-1, 1}}},
}

// legacyAgentCalls belongs to agentCalls.
var legacyAgentCalls = []uintptr{
	unix.SYS_FORK, unix.SYS_VFORK, unix.SYS_MKDIR, unix.SYS_RMDIR, unix.SYS_MKNOD, unix.SYS_UNLINK, unix.SYS_RENAME, unix.SYS_LINK,
	unix.SYS_SYMLINK, unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT,
	unix.SYS_EVENTFD, unix.SYS_SIGNALFD, unix.SYS_INOTIFY_INIT,
}
