package calls

import (
	"path"
	"slices"
	"strings"
	"sync"
)

// maxLinks is how many links a name may lead through, as in the kernel.
const maxLinks = 40

// Resolve says which file a program means by a name, however it is spelled:
// relative to base, through "..", links, and the folders in which /proc shows a
// process's root. Readlink gives the target of a link, "" for what is not a
// link, of a path without links in its folders. What is not there is named as
// it would be if it were.
//
// It follows the file system as it is now. A program that changes a link while
// it opens it can still be misread; nothing is ever allowed because of it.
func Resolve(base, name string, readlink func(string) string) string {
	if plainName(name) {
		return path.Clean(name)
	}
	full, rest := path.Clean("/"+base), name
	if path.IsAbs(name) {
		full = "/"
	}
	for links := 0; rest != ""; {
		part, after, _ := strings.Cut(rest, "/")
		rest = after
		if part == "" || part == "." {
			continue
		}
		next := path.Join(full, part) // of "..", the folder above
		if part != ".." && isProcRoot(next) {
			full = "/"
			continue
		}
		target := ""
		if part != ".." && links < maxLinks && !isProcSelf(next) {
			target = readlink(next)
		}
		if target == "" {
			full = next
			continue
		}
		links++
		rest = target + "/" + rest
		if path.IsAbs(target) {
			full = "/"
		}
	}
	return full
}

// plainFolders are the system's: the host's own files, read-only, in which no
// link leads to what is hidden. Most of what a program opens is there.
var plainFolders = []string{"/usr/", "/lib/", "/lib64/", "/bin/", "/sbin/", "/etc/"}

func plainName(name string) bool {
	return !strings.Contains(name+"/", "/../") && slices.ContainsFunc(plainFolders, func(dir string) bool { return strings.HasPrefix(name, dir) })
}

// isProcRoot reports whether a path is where /proc shows the root of a process
// or thread, which is the sandbox's own root.
func isProcRoot(full string) bool {
	parts := strings.Split(full, "/") // "", proc, self, root
	if len(parts) == 6 && parts[3] == "task" {
		parts = append(parts[:3:3], parts[5])
	}
	return len(parts) == 4 && parts[1] == "proc" && parts[3] == "root"
}

// isProcSelf reports whether a path is where /proc shows a program itself. It is
// left as it is spelled: the number behind it is another one in every sandbox.
func isProcSelf(full string) bool { return full == "/proc/self" || full == "/proc/thread-self" }

// changing are the folders in which a program can make and change links. All other
// files of a sandbox are read-only.
var changing = []string{WorkDir, "/tmp", "/dev", "/proc", "/sys"}

// A LinkCache remembers which files are links, where no program can change that:
// most names that a program uses lead through the same few folders. It is safe for
// concurrent use, and holds a bounded number of them.
type LinkCache struct {
	mu    sync.Mutex
	links map[string]string
}

const maxCachedLinks = 50_000

// Read is a readlink for [Resolve] that asks another one only where it must.
func (c *LinkCache) Read(readlink func(string) string) func(string) string {
	return func(link string) string {
		if slices.ContainsFunc(changing, func(dir string) bool { return within(dir, link) }) {
			return readlink(link)
		}
		c.mu.Lock()
		target, known := c.links[link]
		c.mu.Unlock()
		if known {
			return target
		}
		target = readlink(link)
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.links == nil {
			c.links = map[string]string{}
		}
		if len(c.links) < maxCachedLinks {
			c.links[link] = target
		}
		return target
	}
}

// ResolveUnix puts the file that a Unix socket's address means in place of its
// name. Other addresses it leaves alone.
func ResolveUnix(raw []byte, resolve func(name string) string) []byte {
	if len(raw) < 3 || raw[0] != 1 && raw[1] != 1 || raw[2] == 0 {
		return raw
	}
	name, _, _ := strings.Cut(string(raw[2:]), "\x00")
	return append(slices.Clone(raw[:2]), resolve(name)...)
}
