package calls

import "golang.org/x/sys/unix"

// agentCalls is what ordinary programs use beyond a rubric's allowedCalls:
// files, processes, sockets. The rest of the kernel does not exist for an
// agent, whatever a later version adds.
var agentCalls = []uintptr{
	// files
	unix.SYS_PWRITE64, unix.SYS_PWRITEV, unix.SYS_PWRITEV2, unix.SYS_PREADV2, unix.SYS_SENDFILE, unix.SYS_SPLICE,
	unix.SYS_TEE, unix.SYS_COPY_FILE_RANGE, unix.SYS_FTRUNCATE, unix.SYS_TRUNCATE, unix.SYS_FALLOCATE, unix.SYS_FSYNC, unix.SYS_FDATASYNC,
	unix.SYS_SYNC, unix.SYS_SYNCFS, unix.SYS_SYNC_FILE_RANGE, unix.SYS_FLOCK, unix.SYS_READAHEAD, unix.SYS_CHDIR, unix.SYS_FCHDIR,
	unix.SYS_MKDIRAT, unix.SYS_MKNODAT, unix.SYS_UNLINKAT, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_LINKAT, unix.SYS_SYMLINKAT,
	unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT, unix.SYS_MSYNC,
	unix.SYS_GETXATTR, unix.SYS_LGETXATTR, unix.SYS_FGETXATTR, unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR,
	unix.SYS_LISTXATTR, unix.SYS_LLISTXATTR, unix.SYS_FLISTXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR,
	unix.SYS_INOTIFY_INIT1, unix.SYS_INOTIFY_ADD_WATCH, unix.SYS_INOTIFY_RM_WATCH, unix.SYS_EPOLL_PWAIT2, unix.SYS_SIGNALFD4,
	unix.SYS_TIMERFD_CREATE, unix.SYS_TIMERFD_SETTIME, unix.SYS_TIMERFD_GETTIME, unix.SYS_VMSPLICE,
	// processes and threads
	unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_SETPGID, unix.SYS_SETSID, unix.SYS_SETPRIORITY, unix.SYS_PRLIMIT64, unix.SYS_SETRLIMIT,
	unix.SYS_PRCTL, unix.SYS_SECCOMP, unix.SYS_CAPGET, unix.SYS_CAPSET, unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_SEND_SIGNAL,
	unix.SYS_RT_SIGPENDING, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO, unix.SYS_GET_ROBUST_LIST, unix.SYS_FUTEX_WAITV,
	unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_GETPARAM, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_GETSCHEDULER, unix.SYS_SCHED_SETSCHEDULER,
	unix.SYS_SCHED_GET_PRIORITY_MAX, unix.SYS_SCHED_GET_PRIORITY_MIN, unix.SYS_SCHED_GETATTR, unix.SYS_SCHED_SETATTR,
	unix.SYS_SCHED_RR_GET_INTERVAL, unix.SYS_IOPRIO_GET, unix.SYS_IOPRIO_SET, unix.SYS_LANDLOCK_CREATE_RULESET,
	unix.SYS_LANDLOCK_ADD_RULE, unix.SYS_LANDLOCK_RESTRICT_SELF,
	unix.SYS_SETUID, unix.SYS_SETGID, unix.SYS_SETREUID, unix.SYS_SETREGID, unix.SYS_SETRESUID, unix.SYS_SETRESGID, unix.SYS_SETGROUPS,
	unix.SYS_SETFSUID, unix.SYS_SETFSGID, unix.SYS_TIMER_GETTIME, unix.SYS_TIMER_GETOVERRUN,
	// memory
	unix.SYS_MLOCK, unix.SYS_MLOCK2, unix.SYS_MUNLOCK, unix.SYS_MLOCKALL, unix.SYS_MUNLOCKALL, unix.SYS_PKEY_ALLOC, unix.SYS_PKEY_FREE,
	unix.SYS_PKEY_MPROTECT, unix.SYS_GET_MEMPOLICY, unix.SYS_SET_MEMPOLICY, unix.SYS_MBIND,
	// sockets, on the sandbox's own loopback
	unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4, unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME,
	unix.SYS_GETSOCKOPT, unix.SYS_SETSOCKOPT, unix.SYS_RECVFROM, unix.SYS_RECVMSG, unix.SYS_RECVMMSG,
	unix.SYS_SHUTDOWN, unix.SYS_SOCKETPAIR,
}

// agentFilter writes the filter for agents.
func agentFilter(watch bool) (Filter, error) {
	seen, denied := uint32(retAllow), uint32(retDeny)
	if watch {
		seen, denied = retAsk, retAsk
	}
	p, err := newFilter()
	if err != nil {
		return nil, err
	}
	for _, nr := range []uintptr{unix.SYS_OPENAT, unix.SYS_OPENAT2, openCall, creatCall, unix.SYS_CONNECT, unix.SYS_SENDMSG, unix.SYS_SENDMMSG} {
		p.call(nr, answer(seen))
	}
	for _, list := range [][]uintptr{allowedCalls, legacyAllowedCalls, {statAtCall}, legacyPathCalls, agentCalls, legacyAgentCalls} {
		for _, nr := range list {
			p.call(nr, answer(seenIfNaming(nr, seen)))
		}
	}
	// What is sent on a connection has no address with it.
	p.call(unix.SYS_SENDTO, func(p *Filter) {
		for _, half := range []uint32{0, highHalf} {
			p.load(offArg4 + half)
			p.unless(unix.BPF_JEQ, 0, answer(seen))
		}
		p.ret(retAllow)
	})
	p.call(unix.SYS_SOCKET, func(p *Filter) {
		p.load(offArg0)
		for _, family := range []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6} {
			p.when(unix.BPF_JEQ, family, answer(retAllow))
		}
		// Programs ask over it which interfaces there are. Its other protocols,
		// and other families, lead into the kernel; AF_VSOCK knows no
		// namespaces and leads out.
		p.when(unix.BPF_JEQ, unix.AF_NETLINK, func(p *Filter) {
			p.load(offArg2)
			p.when(unix.BPF_JEQ, unix.NETLINK_ROUTE, answer(retAllow))
		})
		p.ret(denied)
	})
	p.call(unix.SYS_CLONE, func(p *Filter) {
		p.load(offArg0)
		p.when(unix.BPF_JSET, newNamespaces, answer(denied))
		p.ret(retAllow)
	})
	// Its flags are behind a pointer. Told that it does not exist, the C
	// library takes clone.
	noCall := uint32(retNoCall)
	if watch {
		noCall = retAsk // to see the flags; the answer is the same
	}
	p.call(unix.SYS_CLONE3, answer(noCall))
	p.call(unix.SYS_IOCTL, func(p *Filter) {
		p.load(offArg1)
		for _, request := range []uint32{unix.TIOCSTI, unix.TIOCLINUX} { // typing at the user's terminal
			p.when(unix.BPF_JEQ, request, answer(retDeny))
		}
		p.ret(retAllow)
	})
	p.call(unix.SYS_PERSONALITY, func(p *Filter) {
		p.load(offArg0)
		for _, persona := range []uint32{0, 0xffffffff} { // plain, or asking
			p.when(unix.BPF_JEQ, persona, answer(retAllow))
		}
		p.ret(retDeny)
	})
	for _, n := range WatchedNumbers(true) {
		p.call(uintptr(n), answer(denied))
	}
	for _, n := range namingNumbers() { // those that were not allowed above
		p.call(uintptr(n), answer(noCall))
	}
	p.ret(retNoCall)
	return p, nil
}
