package sandbox

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
	"unicode/utf8"

	"tallystick/internal/sandbox/image"
)

// What an Attempt can be about.
const (
	aboutNetwork     = "network"
	aboutFile        = "file"
	aboutEnvironment = "environment"
	aboutProcess     = "process"
	aboutKernel      = "kernel"
)

// attempts collects what a rubric tried. The same thing tried twice is listed
// once, and the list is bounded: a rubric must not be able to fill our memory
// through it.
type attempts struct {
	image *os.Root    // nil for Starlark: the tree that may be read
	agent *agentRules // for an agent, which may do much that a rubric may not

	mu   sync.Mutex
	list []Attempt
}

const (
	maxAttempts    = 100
	maxDetailBytes = 200
)

func (a *attempts) add(what, format string, args ...any) {
	detail := fmt.Sprintf(format, args...)
	if len(detail) > maxDetailBytes {
		detail = headString([]byte(detail[:maxDetailBytes]))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if at := (Attempt{What: what, Detail: detail}); len(a.list) < maxAttempts && !slices.Contains(a.list, at) {
		a.list = append(a.list, at)
	}
}

func (a *attempts) snapshot() []Attempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.list)
}

// zygotePath is where the program of a kept sandbox that forks rubrics is.
const zygotePath = "/tmp/zygote.py"

// rubricDir is where the rubric is in the sandbox, and its working directory.
const rubricDir = "/rubric"

// harmlessFiles are what an interpreter and its C library look for on their
// own, whether it is there or not, and the program that forks rubrics, whose
// lines a traceback may quote. A name with a closing slash means all below.
var harmlessFiles = []string{
	zygotePath,
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
func (a *attempts) open(base, name string, flags uint64) {
	if name == "" {
		return
	}
	full := name
	if !path.IsAbs(full) {
		full = path.Join(base, full)
	}
	full = path.Clean(full)
	if a.agent != nil {
		if a.agent.hides(full) {
			a.add(aboutFile, "open %s", quote(full))
		}
		return
	}
	writing := flags&(openWriting|openCreating|openTrunc) != 0
	switch {
	case strings.HasPrefix(full, "/proc/") && path.Base(full) == "environ":
		a.add(aboutEnvironment, "open %s", quote(full))
	case harmlessFile(full, writing):
	case writing:
		a.add(aboutFile, "open %s for writing", quote(full))
	case full == rubricDir || strings.HasPrefix(full, rubricDir+"/"):
	case a.inImage(full):
	default:
		a.add(aboutFile, "open %s", quote(full))
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
func (a *attempts) inImage(full string) bool {
	if a.image == nil {
		return full == "/"
	}
	rel := strings.TrimPrefix(full, "/")
	if rel == "" {
		return true
	}
	if top, _, _ := strings.Cut(rel, "/"); slices.Contains(image.MountPoints, top) {
		return rel == top
	}
	if _, err := a.image.Stat(rel); err == nil {
		return true
	}
	if dir := path.Dir(rel); dir != "." {
		info, err := a.image.Stat(dir)
		return err == nil && info.IsDir()
	}
	return false
}

// quote escapes a name that the rubric chose, so that it can go to a terminal
// or a log.
func quote(s string) string { return strconv.QuoteToASCII(s) }

var socketFamilies = map[int]string{1: "AF_UNIX", 2: "AF_INET", 10: "AF_INET6", 16: "AF_NETLINK", 17: "AF_PACKET", 40: "AF_VSOCK"}

func (a *attempts) socket(family int) {
	if a.agent != nil && slices.Contains(agentFamilies, family) {
		return
	}
	name := socketFamilies[family]
	if name == "" {
		name = strconv.Itoa(family)
	}
	a.add(aboutNetwork, "socket %s", name)
}

// address judges a call that names an address, as raw sockaddr bytes.
func (a *attempts) address(call string, raw []byte) {
	if a.agent != nil && a.agent.isOwn(raw) {
		return
	}
	a.add(aboutNetwork, "%s %s", call, sockaddr(raw))
}

func sockaddr(raw []byte) string {
	if len(raw) < 2 {
		return "an empty address"
	}
	family := int(binary.NativeEndian.Uint16(raw))
	switch {
	case family == 1 && len(raw) > 2 && raw[2] == 0:
		return "unix @" + quote(strings.TrimRight(string(raw[3:]), "\x00"))
	case family == 1:
		name, _, _ := strings.Cut(string(raw[2:]), "\x00")
		return "unix " + quote(name)
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
func (a *attempts) clone(call string, flags uint64) {
	if flags&cloneThread == 0 && a.agent == nil {
		a.add(aboutProcess, "%s", call)
	}
}

func (a *attempts) exec(file string) {
	if a.agent == nil {
		a.add(aboutProcess, "execve %s", quote(file))
	}
}

// headString cuts b on a rune and replaces what is not UTF-8.
func headString(b []byte) string {
	for i := 0; i < utf8.UTFMax && len(b) > 0 && !utf8.Valid(b); i++ {
		if r, size := utf8.DecodeLastRune(b); r != utf8.RuneError || size != 1 {
			break
		}
		b = b[:len(b)-1]
	}
	return string([]rune(string(b)))
}
