package calls

import "golang.org/x/sys/unix"

// watchedCalls are system calls that a scoring program has no use for and
// that say, by being called at all, that something is being tried. Calls with
// a subject (a path, an address) are watched apart.
var watchedCalls = map[int]struct{ what, name string }{
	unix.SYS_PTRACE:            {aboutProcess, "ptrace"},
	unix.SYS_PROCESS_VM_READV:  {aboutProcess, "process_vm_readv"},
	unix.SYS_PROCESS_VM_WRITEV: {aboutProcess, "process_vm_writev"},
	unix.SYS_PIDFD_OPEN:        {aboutProcess, "pidfd_open"},
	unix.SYS_PIDFD_GETFD:       {aboutProcess, "pidfd_getfd"},
	unix.SYS_EXECVEAT:          {aboutProcess, "execveat"},

	unix.SYS_MOUNT:             {aboutKernel, "mount"},
	unix.SYS_UMOUNT2:           {aboutKernel, "umount2"},
	unix.SYS_PIVOT_ROOT:        {aboutKernel, "pivot_root"},
	unix.SYS_CHROOT:            {aboutKernel, "chroot"},
	unix.SYS_UNSHARE:           {aboutKernel, "unshare"},
	unix.SYS_SETNS:             {aboutKernel, "setns"},
	unix.SYS_BPF:               {aboutKernel, "bpf"},
	unix.SYS_KEYCTL:            {aboutKernel, "keyctl"},
	unix.SYS_ADD_KEY:           {aboutKernel, "add_key"},
	unix.SYS_REQUEST_KEY:       {aboutKernel, "request_key"},
	unix.SYS_INIT_MODULE:       {aboutKernel, "init_module"},
	unix.SYS_FINIT_MODULE:      {aboutKernel, "finit_module"},
	unix.SYS_DELETE_MODULE:     {aboutKernel, "delete_module"},
	unix.SYS_KEXEC_LOAD:        {aboutKernel, "kexec_load"},
	unix.SYS_PERF_EVENT_OPEN:   {aboutKernel, "perf_event_open"},
	unix.SYS_USERFAULTFD:       {aboutKernel, "userfaultfd"},
	unix.SYS_IO_URING_SETUP:    {aboutKernel, "io_uring_setup"},
	unix.SYS_REBOOT:            {aboutKernel, "reboot"},
	unix.SYS_SETHOSTNAME:       {aboutKernel, "sethostname"},
	unix.SYS_SETTIMEOFDAY:      {aboutKernel, "settimeofday"},
	unix.SYS_CLOCK_SETTIME:     {aboutKernel, "clock_settime"},
	unix.SYS_SWAPON:            {aboutKernel, "swapon"},
	unix.SYS_QUOTACTL:          {aboutKernel, "quotactl"},
	unix.SYS_OPEN_BY_HANDLE_AT: {aboutFile, "open_by_handle_at"},
	unix.SYS_OPENAT2:           {aboutFile, "openat2"},
	unix.SYS_UNLINKAT:          {aboutFile, "unlinkat"},
	unix.SYS_RENAMEAT2:         {aboutFile, "renameat2"},
	unix.SYS_LINKAT:            {aboutFile, "linkat"},
	unix.SYS_SYMLINKAT:         {aboutFile, "symlinkat"},
	unix.SYS_MKDIRAT:           {aboutFile, "mkdirat"},
	unix.SYS_MKNODAT:           {aboutFile, "mknodat"},
	unix.SYS_FCHMODAT:          {aboutFile, "fchmodat"},
	unix.SYS_FCHOWNAT:          {aboutFile, "fchownat"},
	unix.SYS_TRUNCATE:          {aboutFile, "truncate"},

	unix.SYS_SOCKETPAIR: {"", "socketpair"}, // denied in namespace, harmless
}

// watched judges a call that says by being made at all what it is about.
func (l *Log) watched(number int) {
	what, name := watchedCalls[number].what, watchedCalls[number].name
	if what == "" {
		what, name = legacyWatchedCalls[number].what, legacyWatchedCalls[number].name
	}
	act := KernelCall
	if l.agent != nil {
		if what, name = agentWatched(number); what == aboutFile {
			act = HiddenFile // a file by its handle, past every name
		}
	}
	if what != "" {
		l.act(act, what, "%s", name)
	}
}

// StoringCalls let a program keep bytes outside its own address space, where
// the limit on that would not count them.
var StoringCalls = []string{
	"memfd_create", "memfd_secret",
	"shmget", "shmat", "shmctl",
	"msgget", "msgsnd", "semget",
	"mq_open", "io_uring_setup", "io_setup",
}
