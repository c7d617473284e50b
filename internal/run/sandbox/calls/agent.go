package calls

import (
	"encoding/binary"
	"encoding/json"
	"net/netip"
	"path"
	"slices"
	"strings"
)

// What a name is to an agent.
type judgement int

const (
	own      judgement = iota // there, or without an owner
	lookedUp                  // hidden, and where programs look by themselves
	hidden                    // hidden, and no program looks there unasked
)

// agentRules say what of an agent's doings is an attempt to get out.
type agentRules struct {
	hidden []string // folders of the host by name
	shown  []string // folders that are there inside; what is below is the agent's own
	asked  []string // files and folders that what is shown makes an interpreter ask for
}

// homes are where people's files are on every host.
var homes = &agentRules{hidden: []string{"/root", "/home"}}

// nameRules are what names of files are judged by: of a rubric, which has no rules
// of its own for them, by where people's files are.
func (l *Log) nameRules() *agentRules {
	if l.agent != nil {
		return l.agent
	}
	return homes
}

// rules are the name rules in a form that goes through a configuration: see
// [ReadRules].
func (l *Log) rules() [2][]string { r := l.nameRules(); return [2][]string{r.hidden, r.shown} }

// ReadRules makes a log with the name rules of another one. It is there to ask
// Hides.
func ReadRules(text []byte) (*Log, error) {
	var both [2][]string
	if err := json.Unmarshal(text, &both); err != nil {
		return nil, err
	}
	return AgentLog(both[0], both[1]), nil
}

// Hides reports whether naming a file is an attempt, unless there is such a file
// inside, which is then the program's own.
func (l *Log) Hides(full string) bool { return l.nameRules().judge(valid(full)) == hidden }

// named judges a call that names a file and does not open it.
func (l *Log) named(call, full string) {
	if full = valid(full); !l.Hides(full) {
		return
	}
	act := HiddenFile
	if l.nameRules().isAsked(call, full) {
		act = ""
	}
	l.act(act, aboutFile, "%s %s", call, quote(full))
}

// isAsked reports whether a call is how an interpreter asks whether something is
// there that its own files name. To ask for the host's secrets is never that.
func (r *agentRules) isAsked(call, full string) bool {
	return (call == "stat" || call == "statx") && slices.Contains(r.asked, full) && !below(secretFiles, full)
}

// ofOthers reports whether a file is one through which /proc shows what a process
// keeps for itself: the environment of any, and the memory of any but the one that
// asks by that name. A program knows its own environment without.
func ofOthers(full string) bool {
	rest, ok := strings.CutPrefix(full, "/proc/")
	who, _, _ := strings.Cut(rest, "/")
	switch path.Base(full) {
	case "environ":
		return ok
	case "mem":
		return ok && who != "mem" && who != "self" && who != "thread-self"
	}
	return false
}

// judge says whether a file is one that the agent was not given.
func (r *agentRules) judge(full string) judgement {
	switch {
	case below(secretFiles, full):
		return hidden
	case !below(r.hidden, full) || below(r.shown, full):
		return own
	case r.looksUp(full):
		return lookedUp
	}
	return hidden
}

// below reports whether a name is one of the folders or in one.
func below(dirs []string, name string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return within(dir, name) })
}

func within(dir, name string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

// secretFiles are the host's own secrets. They are in no sandbox, and no
// program looks for them without wanting them.
var secretFiles = []string{"/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssh", "/proc/kcore", "/dev/mem", "/dev/kmem", "/dev/port"}

// lookups are what interpreters and tools look for by themselves, upwards from
// where their files are, whether it is there or not.
var lookups = []string{"package.json", "node_modules", "tsconfig.json", "jsconfig.json", "pyvenv.cfg", "pyproject.toml", "setup.cfg", "setup.py", "tox.ini",
	"pytest.ini", "conftest.py", "__init__.py", "go.mod", "go.work", "Cargo.toml", ".git", ".gitignore", ".editorconfig"}

// beforeLandmark finds the folder in which a name is where Python's own library
// would be: lib/python311.zip, or os.py and lib-dynload of lib/python3.11. Python
// begins by asking for them in every folder above its program, up to the root.
func beforeLandmark(full string) (dir string, ok bool) {
	for _, lib := range []string{"/lib/python3", "/lib64/python3"} {
		i := strings.LastIndex(full, lib)
		if i < 0 {
			continue
		}
		for _, end := range []string{".zip", "/os.py", "/os.pyc", "/lib-dynload"} {
			version, ok := strings.CutSuffix(full[i+len(lib):], end)
			if end != ".zip" {
				version = strings.TrimPrefix(version, ".")
			}
			version = strings.TrimSuffix(version, "t") // without the global lock
			if ok && version != "" && strings.Trim(version, "0123456789") == "" {
				return full[:i], true
			}
		}
	}
	return "", false
}

// looksUp reports whether a name is what a program looks for in the folders
// above one that it was given: such a folder itself, or in it a file with one
// of the names of [lookups], or the library of Python.
func (r *agentRules) looksUp(full string) bool {
	above := func(dir string) bool {
		return slices.ContainsFunc(r.shown, func(shown string) bool { return strings.HasPrefix(shown, dir+"/") })
	}
	if above(full) {
		return true
	}
	if dir, ok := beforeLandmark(full); ok {
		return above(dir)
	}
	dir, name := path.Split(full)
	if i := strings.Index(full, "/node_modules/"); i >= 0 {
		dir, name = full[:i+1], "node_modules"
	}
	return above(strings.TrimSuffix(dir, "/")) && slices.Contains(lookups, name)
}

// isOwnSocket reports whether a socket is an ordinary one: AF_UNIX, AF_INET,
// AF_INET6, and AF_NETLINK to ask which interfaces there are.
func isOwnSocket(family, protocol int) bool {
	const netlink, route = 16, 0
	return family == 1 || family == 2 || family == 10 || family == netlink && protocol == route
}

// dnsPort is where names are asked for, also on one's own loopback.
const dnsPort = 53

// isOwn reports whether an address, as raw sockaddr bytes, is one of the
// sandbox itself.
func (r *agentRules) isOwn(raw []byte) bool {
	if len(raw) < 2 {
		return true
	}
	switch family := binary.NativeEndian.Uint16(raw); {
	case family == 0: // dissolves a connection
		return true
	case family == 1:
		return r.isOwnUnix(raw[2:])
	case family == 2 && len(raw) >= 8:
		return isOwnInternet(netip.AddrFrom4([4]byte(raw[4:8])), binary.BigEndian.Uint16(raw[2:]))
	case family == 10 && len(raw) >= 24:
		return isOwnInternet(netip.AddrFrom16([16]byte(raw[8:24])), binary.BigEndian.Uint16(raw[2:]))
	case family == 16:
		return true
	}
	return false
}

func isOwnInternet(a netip.Addr, port uint16) bool {
	a = a.Unmap()
	// The unspecified address means this host too.
	return (a.IsLoopback() || a.IsUnspecified()) && port != dnsPort
}

// ownSocketFolders are where programs in the sandbox put sockets, and where the
// C library looks for its name service, and for the system's log, unasked.
var ownSocketFolders = []string{WorkDir, "/tmp", "/var/run/nscd", "/run/nscd", "/dev/log"}

func (r *agentRules) isOwnUnix(name []byte) bool {
	if len(name) == 0 || name[0] == 0 {
		return len(name) == 0 // the abstract ones have no owner to tell by
	}
	text, _, _ := strings.Cut(string(name), "\x00")
	text = valid(path.Clean(text))
	return slices.ContainsFunc(ownSocketFolders, func(dir string) bool { return within(dir, text) })
}
