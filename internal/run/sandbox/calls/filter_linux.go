package calls

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What the filter answers. The low half of an error carries its number.
const (
	retAllow  = unix.SECCOMP_RET_ALLOW
	retDeny   = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	retNoCall = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	retAsk    = unix.SECCOMP_RET_USER_NOTIF
	retKill   = unix.SECCOMP_RET_KILL_PROCESS
)

// allowedCalls are what an interpreter needs to compute and to use its three
// standard streams. Nothing in it makes a process, a socket or a file.
var allowedCalls = []uintptr{
	// memory
	unix.SYS_BRK, unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_MREMAP, unix.SYS_MPROTECT, unix.SYS_MADVISE, unix.SYS_MINCORE,
	// files, on a read-only root
	unix.SYS_READ, unix.SYS_READV, unix.SYS_PREAD64, unix.SYS_PREADV, unix.SYS_WRITE, unix.SYS_WRITEV, unix.SYS_CLOSE,
	unix.SYS_LSEEK, unix.SYS_FSTAT, unix.SYS_STATX, unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2, unix.SYS_READLINKAT,
	unix.SYS_GETDENTS64, unix.SYS_GETCWD, unix.SYS_DUP, unix.SYS_DUP3, unix.SYS_FCNTL, unix.SYS_STATFS, unix.SYS_FSTATFS,
	unix.SYS_CLOSE_RANGE, unix.SYS_PPOLL, unix.SYS_PSELECT6, unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT,
	unix.SYS_EVENTFD2, unix.SYS_PIPE2, unix.SYS_FADVISE64,
	// signals and ends of this process
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_RT_SIGTIMEDWAIT, unix.SYS_RT_SIGSUSPEND,
	unix.SYS_SIGALTSTACK, unix.SYS_KILL, unix.SYS_TGKILL, unix.SYS_TKILL, unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
	unix.SYS_RESTART_SYSCALL, unix.SYS_WAIT4, unix.SYS_WAITID,
	// threads
	unix.SYS_FUTEX, unix.SYS_SET_ROBUST_LIST, unix.SYS_SET_TID_ADDRESS, unix.SYS_RSEQ, unix.SYS_SCHED_YIELD,
	unix.SYS_SCHED_GETAFFINITY, unix.SYS_GETCPU, unix.SYS_MEMBARRIER,
	// time and chance
	unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_GETRES, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_NANOSLEEP, unix.SYS_GETTIMEOFDAY,
	unix.SYS_GETRANDOM, unix.SYS_SETITIMER, unix.SYS_GETITIMER, unix.SYS_TIMER_CREATE, unix.SYS_TIMER_SETTIME, unix.SYS_TIMER_DELETE,
	// who am I
	unix.SYS_GETPID, unix.SYS_GETPPID, unix.SYS_GETTID, unix.SYS_GETUID, unix.SYS_GETEUID, unix.SYS_GETGID, unix.SYS_GETEGID,
	unix.SYS_GETRESUID, unix.SYS_GETRESGID, unix.SYS_GETGROUPS, unix.SYS_GETPGID, unix.SYS_GETSID, unix.SYS_UMASK,
	unix.SYS_UNAME, unix.SYS_SYSINFO, unix.SYS_GETRUSAGE, unix.SYS_GETRLIMIT, unix.SYS_TIMES, unix.SYS_GETPRIORITY,
}

// A Policy is what a filter is made from.
type Policy struct {
	Agent   bool // allow what ordinary programs use, not only what a rubric needs
	Threads bool // of a rubric: Go's runtime cannot live without
	Watch   bool // ask us about every denied call, and about every open
}

// Filter writes the program for a policy.
func (pol Policy) Filter() (Filter, error) {
	if pol.Agent {
		return agentFilter(pol.Watch)
	}
	return rubricFilter(pol.Threads, pol.Watch)
}

// Offsets in struct seccomp_data. Arguments are 64 bits wide; the numbers
// compared here fit the lower half.
const (
	offNumber = 0
	offArch   = 4
	offArg0   = 16
	offArg1   = 24
	offArg2   = 32
	offArg4   = 48
	highHalf  = 4
)

// A Filter is a seccomp program, or one being written: a list of blocks, each of which ends
// in an answer or falls through to the next.
type Filter []unix.SockFilter

func (p *Filter) stmt(code uint16, k uint32) {
	*p = append(*p, unix.SockFilter{Code: code, K: k})
}

func (p *Filter) load(off uint32) { p.stmt(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, off) }
func (p *Filter) ret(answer uint32) {
	p.stmt(unix.BPF_RET|unix.BPF_K, answer)
}

// when adds a test and the block that runs if it holds.
func (p *Filter) when(test uint16, k uint32, block func(*Filter)) {
	at := len(*p)
	*p = append(*p, unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, K: k})
	block(p)
	(*p)[at].Jf = uint8(len(*p) - at - 1)
}

// unless is when with the test turned round.
func (p *Filter) unless(test uint16, k uint32, block func(*Filter)) {
	at := len(*p)
	*p = append(*p, unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, K: k})
	block(p)
	(*p)[at].Jt = uint8(len(*p) - at - 1)
}

func (p *Filter) call(number uintptr, block func(*Filter)) {
	p.when(unix.BPF_JEQ, uint32(number), block)
}

// newFilter begins a filter: a call in another numbering than this machine's
// own would slip past every test that follows.
func newFilter() (Filter, error) {
	arch, ok := map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]
	if !ok {
		return nil, fmt.Errorf("no system call filter for %s", runtime.GOARCH)
	}
	var p Filter
	p.load(offArch)
	p.unless(unix.BPF_JEQ, arch, answer(retKill))
	p.load(offNumber)
	p.when(unix.BPF_JGE, 0x40000000, answer(retKill)) // x32
	return p, nil
}

// answer is the block that ends in an answer.
func answer(a uint32) func(*Filter) { return func(p *Filter) { p.ret(a) } }

// rubricFilter writes the filter for rubrics.
func rubricFilter(threads, watch bool) (Filter, error) {
	denied := uint32(retDeny)
	if watch {
		denied = retAsk
	}
	p, err := newFilter()
	if err != nil {
		return nil, err
	}
	seen := uint32(retAllow)
	if watch {
		seen = retAsk
	}
	for _, list := range [][]uintptr{allowedCalls, legacyAllowedCalls, {unix.SYS_OPENAT, statAtCall}, legacyPathCalls} {
		for _, nr := range list {
			p.call(nr, answer(seenIfNaming(nr, seen)))
		}
	}
	// The one exec that turns the set-up into the rubric comes after the
	// filter: we are asked, and say yes once.
	p.call(unix.SYS_EXECVE, answer(retAsk))
	p.call(unix.SYS_CLONE, func(p *Filter) {
		p.load(offArg0)
		p.when(unix.BPF_JSET, cloneThread, answer(threadAnswer(threads)))
		p.ret(denied)
	})
	// Its flags are behind a pointer. Told that it does not exist, the C
	// library takes clone.
	p.call(unix.SYS_CLONE3, answer(retNoCall))
	p.call(unix.SYS_PRCTL, func(p *Filter) {
		p.load(offArg0)
		p.when(unix.BPF_JEQ, unix.PR_SET_NAME, answer(retAllow))
		p.when(unix.BPF_JEQ, unix.PR_SET_VMA, answer(retAllow))
		p.ret(retDeny)
	})
	p.call(unix.SYS_PRLIMIT64, func(p *Filter) { // reading, not setting
		p.load(offArg2)
		p.unless(unix.BPF_JEQ, 0, answer(retDeny))
		p.load(offArg2 + highHalf)
		p.unless(unix.BPF_JEQ, 0, answer(retDeny))
		p.ret(retAllow)
	})
	p.call(unix.SYS_IOCTL, func(p *Filter) {
		p.load(offArg1)
		for _, request := range []uint32{unix.TCGETS, unix.TIOCGWINSZ, fionread, fionbio, fioclex, fionclex} {
			p.when(unix.BPF_JEQ, request, answer(retAllow))
		}
		p.ret(retDeny)
	})
	p.ret(denied)
	return p, nil
}

// Requests of ioctl that package unix does not name.
const (
	fionread = 0x541b
	fionbio  = 0x5421
	fionclex = 0x5450
	fioclex  = 0x5451
)

// seenIfNaming is the answer to a call that is allowed: one that names a file is let
// through either way, and the question only lets us see it.
func seenIfNaming(nr uintptr, seen uint32) uint32 {
	if isOpen(nr) || FilesOf(int(nr)) != nil {
		return seen
	}
	return retAllow
}

// threadAnswer is what starting a thread gets.
func threadAnswer(allowed bool) uint32 {
	if allowed {
		return retAllow
	}
	return unix.SECCOMP_RET_ERRNO | uint32(unix.EAGAIN) // what a full system says
}

func isOpen(nr uintptr) bool {
	return nr == unix.SYS_OPENAT || nr == openCall || nr == creatCall
}

// Install puts the filter on the calling thread alone and returns the
// descriptor on which the kernel asks about calls.
func (p Filter) Install(flags uintptr) (listener int, err error) {
	prog := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	r, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|flags, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return -1, errno
	}
	return int(r), nil
}
