// Package calls knows system calls: which of them a program in a sandbox may
// make, and which say that it tried to get out.
//
// A [Policy] is turned into a seccomp [Filter] for programs on the host's
// kernel; the kernel asks a [Supervisor] about what the filter does not decide.
// On gVisor's kernel a [Trace] receives every watched call. Both write what
// they judge an attempt into a [Log]. What is read of a call's arguments is for
// the record only: the program can change it before the kernel looks, so
// nothing is ever allowed because of it.
package calls

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"tallystick/internal/run/sandbox/image"
)

// What a Trespass can be about.
const (
	aboutNetwork     = "network"
	aboutFile        = "file"
	aboutEnvironment = "environment"
	aboutProcess     = "process"
	aboutKernel      = "kernel"
)

// An Act is an attempt of an agent that counts as a violation: one of a closed
// list, which docs/sandbox.md states.
type Act string

// The acts.
const (
	HiddenFile Act = "hidden_file" // opening what is hidden from agents
	Address    Act = "address"     // reaching for an address that is not the sandbox's own
	KernelCall Act = "kernel_call" // mounts, namespaces, tracing, modules and the like
	Flood      Act = "flood"       // more calls, or more acts, than could be recorded
)

// A Trespass is something that a program tried and that it has no business
// doing. It was denied, or answered inside the sandbox.
type Trespass struct {
	What   string // network, file, environment, process, kernel
	Detail string // the call and its subject, escaped, at most 200 bytes
	Act    Act    // of an agent: "" if it is worth a note and is not a violation
}

// A Log collects what a program tried. The same thing tried twice is listed
// once, and the list is bounded: a program must not be able to fill our memory
// through it.
type Log struct {
	image *os.Root    // of a rubric: the tree that may be read; nil for Starlark
	agent *agentRules // for an agent, which may do much that a rubric may not

	mu    sync.Mutex
	list  []Trespass
	acts  int // how many of them are acts
	notes int // and how many are not
}

// RubricLog makes a log for a rubric that may read image, which is nil for a
// Starlark rubric.
func RubricLog(image *os.Root) *Log { return &Log{image: image} }

// AgentLog makes a log for an agent. Hidden are folders of the host by name;
// what is below one of the folders shown is the agent's own all the same. Asked are
// names that an interpreter looks at because a file that is shown says so: that is
// noted, and no act.
func AgentLog(hidden, shown []string, asked ...string) *Log {
	r := &agentRules{}
	for _, dir := range hidden {
		r.hidden = append(r.hidden, valid(dir))
	}
	for _, dir := range shown {
		r.shown = append(r.shown, valid(dir))
	}
	for _, name := range asked {
		r.asked = append(r.asked, valid(name))
	}
	return &Log{agent: r}
}

const (
	maxTrespasses  = 100 // of acts, and of others: neither can crowd the other out
	maxDetailBytes = 200
)

func (l *Log) add(what, format string, args ...any) { l.act("", what, format, args...) }

// act adds an attempt of an agent that is an act.
func (l *Log) act(act Act, what, format string, args ...any) {
	detail := fmt.Sprintf(format, args...)
	if len(detail) > maxDetailBytes {
		detail = strings.ToValidUTF8(detail[:maxDetailBytes], "")
	}
	if l.agent == nil {
		act = "" // of a rubric every attempt counts
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := Trespass{What: what, Detail: detail, Act: act}
	if slices.Contains(l.list, at) {
		return
	}
	count := &l.notes
	if act != "" {
		count = &l.acts
	}
	switch *count++; {
	case *count <= maxTrespasses:
		l.list = append(l.list, at)
	case *count == maxTrespasses+1 && act != "":
		l.list = append(l.list, Trespass{aboutKernel, fmt.Sprintf("more than %d different acts", maxTrespasses), Flood})
	}
}

// valid makes a name fit for a record: names are bytes, records are UTF-8.
func valid(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

// Attempts lists what was tried so far.
func (l *Log) Attempts() []Trespass {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list)
}

// ZygotePath is where the program of a kept sandbox that forks rubrics is.
const ZygotePath = "/tmp/zygote.py"

// Where a program is in the sandbox, and its working directory.
const (
	RubricDir = "/rubric"
	WorkDir   = "/work" // an agent's
)

// harmlessFiles are what an interpreter and its C library look for on their
// own, whether it is there or not, and the program that forks rubrics, whose
// lines a traceback may quote. A name with a closing slash means all below.
var harmlessFiles = []string{
	ZygotePath,
	"/dev/null", "/dev/zero", "/dev/full", "/dev/urandom", "/dev/random", "/dev/stdin", "/dev/stdout", "/dev/stderr",
	"/etc/localtime", "/etc/ld.so.cache", "/etc/ld.so.preload",
	"/usr/share/zoneinfo/", "/usr/share/locale/", "/usr/lib/", "/usr/lib64/", "/lib/", "/lib64/", "/usr/local/lib/",
	"/proc/meminfo", "/proc/stat", "/proc/sys/vm/overcommit_memory", "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/devices/system/cpu/online", "/sys/devices/system/cpu/possible",
}

// Open flags, as the kernels of amd64 and arm64 number them.
const (
	openWriting  = 0x3  // O_WRONLY | O_RDWR
	openCreating = 0x40 // O_CREAT
	openTrunc    = 0x200
)

// open judges the opening of a file by a name relative to base.
func (l *Log) open(base, name string, flags uint64) {
	if name == "" {
		return
	}
	full := name
	if !path.IsAbs(full) {
		full = path.Join(base, full)
	}
	full = valid(path.Clean(full))
	if l.agent != nil {
		switch judged := l.agent.judge(full); {
		case judged == hidden, ofOthers(full):
			l.act(HiddenFile, aboutFile, "open %s", quote(full))
		case judged == lookedUp:
			l.add(aboutFile, "open %s", quote(full))
		}
		return
	}
	writing := flags&(openWriting|openCreating|openTrunc) != 0
	switch {
	case strings.HasPrefix(full, "/proc/") && path.Base(full) == "environ":
		l.add(aboutEnvironment, "open %s", quote(full))
	case harmlessFile(full, writing):
	case writing:
		l.add(aboutFile, "open %s for writing", quote(full))
	case full == RubricDir || strings.HasPrefix(full, RubricDir+"/"):
	case l.inImage(full):
	default:
		l.add(aboutFile, "open %s", quote(full))
	}
}

func harmlessFile(full string, writing bool) bool {
	for _, h := range harmlessFiles {
		if full == h {
			return true
		}
		if !writing && strings.HasSuffix(h, "/") && strings.HasPrefix(full, h) {
			return true
		}
	}
	return false
}

// inImage reports whether the image has the file, or a folder where it would
// be: looking for a module that is not there reaches for nothing of ours. The
// folders where kernels show themselves do not count.
func (l *Log) inImage(full string) bool {
	if l.image == nil {
		return full == "/"
	}
	rel := strings.TrimPrefix(full, "/")
	if rel == "" {
		return true
	}
	if top, _, _ := strings.Cut(rel, "/"); slices.Contains(image.MountPoints, top) {
		return rel == top
	}
	if _, err := l.image.Stat(rel); err == nil {
		return true
	}
	if dir := path.Dir(rel); dir != "." {
		info, err := l.image.Stat(dir)
		return err == nil && info.IsDir()
	}
	return false
}

// quote escapes a name that the rubric chose, so that it can go to a terminal
// or a log.
func quote(s string) string { return strconv.QuoteToASCII(s) }

var socketFamilies = map[int]string{1: "AF_UNIX", 2: "AF_INET", 10: "AF_INET6", 16: "AF_NETLINK", 17: "AF_PACKET", 40: "AF_VSOCK"}

// socket judges the making of a socket.
func (l *Log) socket(family, protocol int) {
	if l.agent != nil && isOwnSocket(family, protocol) {
		return
	}
	name := socketFamilies[family]
	if name == "" {
		name = strconv.Itoa(family)
	}
	l.act(Address, aboutNetwork, "socket %s", name)
}

// address judges a call that names an address, as raw sockaddr bytes.
func (l *Log) address(call string, raw []byte) {
	if l.agent != nil && l.agent.isOwn(raw) {
		return
	}
	l.act(Address, aboutNetwork, "%s %s", call, sockaddr(raw))
}

func sockaddr(raw []byte) string {
	if len(raw) < 2 {
		return "an empty address"
	}
	family := int(binary.NativeEndian.Uint16(raw))
	switch {
	case family == 1 && len(raw) > 2 && raw[2] == 0:
		return "unix @" + quote(valid(strings.TrimRight(string(raw[3:]), "\x00")))
	case family == 1:
		name, _, _ := strings.Cut(string(raw[2:]), "\x00")
		return "unix " + quote(valid(name))
	case family == 2 && len(raw) >= 8:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(raw[4:8])), binary.BigEndian.Uint16(raw[2:])).String()
	case family == 10 && len(raw) >= 24:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(raw[8:24])), binary.BigEndian.Uint16(raw[2:])).String()
	}
	return "family " + strconv.Itoa(family)
}

// cloneThread is CLONE_THREAD: a new thread, not a new process.
const cloneThread = 0x10000

// clone judges the making of a process. A thread is denied as well, but is no
// attempt to get out: libraries start them unasked.
func (l *Log) clone(call string, flags uint64) {
	switch {
	case l.agent != nil && MakesNamespace(flags):
		l.act(KernelCall, aboutKernel, "%s of a namespace", call)
	case l.agent == nil && flags&cloneThread == 0:
		l.add(aboutProcess, "%s", call)
	}
}

// newNamespaces are the flags of clone that would make one: of users, mounts,
// processes, networks, IPC, names, control groups. Time is not among them: its
// flag means a signal to clone.
const newNamespaces = 0x10000000 | 0x20000 | 0x20000000 | 0x40000000 | 0x8000000 | 0x4000000 | 0x2000000

// MakesNamespace reports whether flags of clone make a namespace.
func MakesNamespace(flags uint64) bool { return flags&newNamespaces != 0 }

func (l *Log) exec(file string) {
	if l.agent == nil {
		l.add(aboutProcess, "execve %s", quote(file))
	}
}
