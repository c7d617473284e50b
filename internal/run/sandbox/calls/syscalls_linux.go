package calls

import (
	"maps"
	"slices"

	"golang.org/x/sys/unix"
)

// A watchedCall is a system call that says, by being made at all, that something is
// being tried.
type watchedCall struct {
	what, name string
	// act is what it is of an agent, which may do much that a rubric may not: ""
	// if ordinary programs make it.
	act Act
}

// watchedCalls is the one table of such calls, for both classes: in namespaces the
// filter asks about them and denies them, and gVisor's kernel tells of them before
// it looks whether it has them (see package runsc, which denies there what gVisor
// would allow). Calls with a subject are watched apart: addresses, the flags of
// clone, and files, which are in [namingCalls].
var watchedCalls = map[int]watchedCall{
	unix.SYS_PTRACE:            {aboutProcess, "ptrace", KernelCall},
	unix.SYS_PROCESS_VM_READV:  {aboutProcess, "process_vm_readv", KernelCall},
	unix.SYS_PROCESS_VM_WRITEV: {aboutProcess, "process_vm_writev", KernelCall},
	unix.SYS_PIDFD_OPEN:        {aboutProcess, "pidfd_open", ""},
	unix.SYS_PIDFD_GETFD:       {aboutProcess, "pidfd_getfd", KernelCall},
	unix.SYS_EXECVEAT:          {aboutProcess, "execveat", ""},
	unix.SYS_PROCESS_MADVISE:   {aboutProcess, "process_madvise", KernelCall},
	unix.SYS_KCMP:              {aboutProcess, "kcmp", KernelCall},

	unix.SYS_MOUNT:             {aboutKernel, "mount", KernelCall},
	unix.SYS_UMOUNT2:           {aboutKernel, "umount2", KernelCall},
	unix.SYS_PIVOT_ROOT:        {aboutKernel, "pivot_root", KernelCall},
	unix.SYS_CHROOT:            {aboutKernel, "chroot", KernelCall},
	unix.SYS_UNSHARE:           {aboutKernel, "unshare", KernelCall},
	unix.SYS_SETNS:             {aboutKernel, "setns", KernelCall},
	unix.SYS_BPF:               {aboutKernel, "bpf", KernelCall},
	unix.SYS_KEYCTL:            {aboutKernel, "keyctl", KernelCall},
	unix.SYS_ADD_KEY:           {aboutKernel, "add_key", KernelCall},
	unix.SYS_REQUEST_KEY:       {aboutKernel, "request_key", KernelCall},
	unix.SYS_INIT_MODULE:       {aboutKernel, "init_module", KernelCall},
	unix.SYS_FINIT_MODULE:      {aboutKernel, "finit_module", KernelCall},
	unix.SYS_DELETE_MODULE:     {aboutKernel, "delete_module", KernelCall},
	unix.SYS_KEXEC_LOAD:        {aboutKernel, "kexec_load", KernelCall},
	unix.SYS_PERF_EVENT_OPEN:   {aboutKernel, "perf_event_open", KernelCall},
	unix.SYS_USERFAULTFD:       {aboutKernel, "userfaultfd", KernelCall},
	unix.SYS_IO_URING_SETUP:    {aboutKernel, "io_uring_setup", KernelCall},
	unix.SYS_REBOOT:            {aboutKernel, "reboot", KernelCall},
	unix.SYS_SETHOSTNAME:       {aboutKernel, "sethostname", KernelCall},
	unix.SYS_SETTIMEOFDAY:      {aboutKernel, "settimeofday", KernelCall},
	unix.SYS_CLOCK_SETTIME:     {aboutKernel, "clock_settime", KernelCall},
	unix.SYS_SWAPON:            {aboutKernel, "swapon", KernelCall},
	unix.SYS_QUOTACTL:          {aboutKernel, "quotactl", KernelCall},
	unix.SYS_FSOPEN:            {aboutKernel, "fsopen", KernelCall},
	unix.SYS_FSCONFIG:          {aboutKernel, "fsconfig", KernelCall},
	unix.SYS_FSMOUNT:           {aboutKernel, "fsmount", KernelCall},
	unix.SYS_FSPICK:            {aboutKernel, "fspick", KernelCall},
	unix.SYS_MOVE_MOUNT:        {aboutKernel, "move_mount", KernelCall},
	unix.SYS_OPEN_TREE:         {aboutKernel, "open_tree", KernelCall},
	unix.SYS_OPEN_TREE_ATTR:    {aboutKernel, "open_tree_attr", KernelCall},
	unix.SYS_MOUNT_SETATTR:     {aboutKernel, "mount_setattr", KernelCall},
	unix.SYS_STATMOUNT:         {aboutKernel, "statmount", KernelCall},
	unix.SYS_LISTMOUNT:         {aboutKernel, "listmount", KernelCall},
	unix.SYS_IO_URING_ENTER:    {aboutKernel, "io_uring_enter", KernelCall},
	unix.SYS_IO_URING_REGISTER: {aboutKernel, "io_uring_register", KernelCall},
	unix.SYS_KEXEC_FILE_LOAD:   {aboutKernel, "kexec_file_load", KernelCall},
	unix.SYS_SWAPOFF:           {aboutKernel, "swapoff", KernelCall},
	unix.SYS_QUOTACTL_FD:       {aboutKernel, "quotactl_fd", KernelCall},
	unix.SYS_SETDOMAINNAME:     {aboutKernel, "setdomainname", KernelCall},
	unix.SYS_ACCT:              {aboutKernel, "acct", KernelCall},
	unix.SYS_SYSLOG:            {aboutKernel, "syslog", KernelCall},
	unix.SYS_FANOTIFY_INIT:     {aboutKernel, "fanotify_init", KernelCall},

	unix.SYS_OPEN_BY_HANDLE_AT: {aboutFile, "open_by_handle_at", HiddenFile},
	unix.SYS_OPENAT2:           {aboutFile, "openat2", ""},
	unix.SYS_UNLINKAT:          {aboutFile, "unlinkat", ""},
	unix.SYS_RENAMEAT2:         {aboutFile, "renameat2", ""},
	unix.SYS_LINKAT:            {aboutFile, "linkat", ""},
	unix.SYS_SYMLINKAT:         {aboutFile, "symlinkat", ""},
	unix.SYS_MKDIRAT:           {aboutFile, "mkdirat", ""},
	unix.SYS_MKNODAT:           {aboutFile, "mknodat", ""},
	unix.SYS_FCHMODAT:          {aboutFile, "fchmodat", ""},
	unix.SYS_FCHOWNAT:          {aboutFile, "fchownat", ""},
	unix.SYS_TRUNCATE:          {aboutFile, "truncate", ""},
}

// watchedBy finds a call in the table, for an agent or for a rubric.
func watchedBy(number int, agent bool) (w watchedCall, ok bool) {
	if w, ok = watchedCalls[number]; !ok {
		w, ok = legacyWatchedCalls[number]
	}
	return w, ok && (!agent || w.act != "")
}

// WatchedNumbers lists the calls that an agent, or a rubric, does not make unless it
// tries something.
func WatchedNumbers(agent bool) (numbers []int) {
	for _, table := range []map[int]watchedCall{watchedCalls, legacyWatchedCalls} {
		for n := range table {
			if _, ok := watchedBy(n, agent); ok {
				numbers = append(numbers, n)
			}
		}
	}
	slices.Sort(numbers)
	return numbers
}

// watched judges a call of the table.
func (l *Log) watched(number int) {
	if w, ok := watchedBy(number, l.agent != nil); ok {
		l.act(w.act, w.what, "%s", w.name)
	}
}

// A FileArg is where a call has the name of a file: the number of the argument, and
// that of the descriptor it is relative to; -1 for the working folder.
type FileArg struct{ Descriptor, Name int }

// A namingCall is a call that names files, and how it is called in a record.
type namingCall struct {
	name string
	args []FileArg
}

// named is a call with one name, in the first argument.
func named(name string) namingCall { return namingCall{name, []FileArg{{-1, 0}}} }

// namedAt is a call with one name, relative to a descriptor.
func namedAt(name string) namingCall { return namingCall{name, []FileArg{{0, 1}}} }

// namingCalls are all calls that name a file besides the opens: a program that
// asks whether a key is there, or what is beside it, has reached for it as
// well.
var namingCalls = map[int]namingCall{
	statAtCall: namedAt("stat"), unix.SYS_STATX: namedAt("statx"), unix.SYS_FACCESSAT: namedAt("access"), unix.SYS_FACCESSAT2: namedAt("access"),
	unix.SYS_READLINKAT: namedAt("readlink"), unix.SYS_UNLINKAT: namedAt("unlink"), unix.SYS_MKDIRAT: namedAt("mkdir"), unix.SYS_MKNODAT: namedAt("mknod"),
	unix.SYS_FCHMODAT: namedAt("chmod"), unix.SYS_FCHMODAT2: namedAt("chmod"), unix.SYS_FCHOWNAT: namedAt("chown"), unix.SYS_UTIMENSAT: namedAt("utime"),
	unix.SYS_NAME_TO_HANDLE_AT: namedAt("name_to_handle_at"), unix.SYS_EXECVEAT: namedAt("execve"), unix.SYS_EXECVE: named("execve"),
	unix.SYS_CHDIR: named("chdir"), unix.SYS_STATFS: named("statfs"), unix.SYS_TRUNCATE: named("truncate"),
	unix.SYS_GETXATTR: named("getxattr"), unix.SYS_LGETXATTR: named("getxattr"), unix.SYS_SETXATTR: named("setxattr"), unix.SYS_LSETXATTR: named("setxattr"),
	unix.SYS_LISTXATTR: named("listxattr"), unix.SYS_LLISTXATTR: named("listxattr"), unix.SYS_REMOVEXATTR: named("removexattr"), unix.SYS_LREMOVEXATTR: named("removexattr"),
	unix.SYS_GETXATTRAT: namedAt("getxattr"), unix.SYS_SETXATTRAT: namedAt("setxattr"), unix.SYS_LISTXATTRAT: namedAt("listxattr"), unix.SYS_REMOVEXATTRAT: namedAt("removexattr"),
	unix.SYS_FILE_GETATTR: namedAt("file_getattr"), unix.SYS_FILE_SETATTR: namedAt("file_setattr"),
	unix.SYS_INOTIFY_ADD_WATCH: {"inotify_add_watch", []FileArg{{-1, 1}}},
	unix.SYS_RENAMEAT:          {"rename", []FileArg{{0, 1}, {2, 3}}},
	unix.SYS_RENAMEAT2:         {"rename", []FileArg{{0, 1}, {2, 3}}},
	unix.SYS_LINKAT:            {"link", []FileArg{{0, 1}, {2, 3}}},
	unix.SYS_SYMLINKAT:         {"symlink", []FileArg{{1, 2}}}, // what it leads to is only text
}

func namingOf(number int) (c namingCall, ok bool) {
	if c, ok = namingCalls[number]; !ok {
		c, ok = legacyNamingCalls[number]
	}
	return c, ok
}

// FilesOf says where a call names files, besides the opens.
func FilesOf(number int) []FileArg {
	c, _ := namingOf(number)
	return c.args
}

// namingNumbers lists the calls that name files.
func namingNumbers() (numbers []int) {
	for _, table := range []map[int]namingCall{namingCalls, legacyNamingCalls} {
		numbers = slices.AppendSeq(numbers, maps.Keys(table))
	}
	slices.Sort(numbers)
	return numbers
}

// StoringCalls let a rubric keep something outside its own address space: bytes,
// which the limit on that would not count, or what another rubric in the same
// sandbox could see, now or later. Those that are attempts are not in it: gVisor
// does not tell of what a filter denies.
var StoringCalls = []string{
	"memfd_create", "memfd_secret",
	"shmget", "shmat", "shmctl",
	"msgget", "msgsnd", "semget",
	"mq_open", "io_setup",
	"utimensat", "utime", "utimes", "futimesat", // of devices, which everybody may write to
	"setpriority", "ioprio_set", "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler",
	"flock",
}
