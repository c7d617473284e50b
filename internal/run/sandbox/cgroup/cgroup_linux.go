// Package cgroup caps the memory and the number of tasks of one sandbox by a
// control group of the kernel's, version 1 or 2.
//
// A caller may rely on that a group is noted in its run folder before it is made,
// so that [Sweep] finds it after any crash; that a process started between
// [Group.Enter] and [Group.Leave], or into [Group.FD], is never outside its group;
// and that only groups with names that this package gives are removed. Where no
// group can be made there is none, and no error: other limits hold the line.
package cgroup

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"tallystick/internal/run/sandbox/proc"
)

// A Group caps the memory and the number of tasks of one sandbox. Where we
// may not make one, the sandbox's other limits hold the line alone.
type Group struct {
	dirs    []string // one for v2; memory and pids for v1
	v2      bool
	memory  string   // the one of dirs that counts memory
	fd      *os.File // v2: the folder, for CLONE_INTO_CGROUP
	oldHome []string // v1: the folders that our own thread returns to
}

// noteName is the file of a run folder that lists its groups, one path a line,
// so that a sweep can remove them.
const noteName = "cgroups"

// New makes a cgroup below our own, or returns nil when this user or this
// machine does not allow it. The run folder notes it first, so that a crash
// right after leaves nothing unknown.
func New(folder string, memoryBytes int64, tasks int) *Group {
	name := Prefix(filepath.Dir(folder)) + filepath.Base(folder)
	own, err := Own()
	if err != nil {
		return nil
	}
	if c := newV1(folder, own, name, memoryBytes, tasks); c != nil {
		return c
	}
	return newV2(folder, own, name, memoryBytes, tasks)
}

// Prefix is in front of the names of all cgroups whose run folders are
// in one folder, so that it can be told whose a leftover is.
func Prefix(base string) string {
	h := fnv.New32a()
	h.Write([]byte(base))
	return fmt.Sprintf("tallystick-%08x-", h.Sum32())
}

func newV1(folder string, own map[string]string, name string, memoryBytes int64, tasks int) *Group {
	if own["memory"] == "" {
		return nil
	}
	c := &Group{}
	for _, controller := range []string{"memory", "pids"} {
		home := own[controller]
		if home == "" {
			continue
		}
		dir := filepath.Join(home, name)
		if note(folder, dir) != nil || os.Mkdir(dir, 0o755) != nil {
			c.Remove()
			return nil
		}
		c.dirs = append(c.dirs, dir)
		c.oldHome = append(c.oldHome, home)
	}
	c.memory = c.dirs[0]
	limit := strconv.FormatInt(memoryBytes, 10)
	if c.set(c.memory, "memory.limit_in_bytes", limit) != nil {
		c.Remove()
		return nil
	}
	c.set(c.memory, "memory.memsw.limit_in_bytes", limit) // absent without swap accounting
	if len(c.dirs) > 1 {
		c.set(c.dirs[1], "pids.max", strconv.Itoa(tasks))
	}
	return c
}

// newV2 tries our own cgroup first and then its parents: a cgroup that
// holds processes may not hand controllers down, its parent may.
func newV2(folder string, own map[string]string, name string, memoryBytes int64, tasks int) *Group {
	home, root := own["v2"], own["v2 root"]
	for ; home != "" && strings.HasPrefix(home, root); home = filepath.Dir(home) {
		os.WriteFile(filepath.Join(home, "cgroup.subtree_control"), []byte("+memory +pids"), 0)
		dir := filepath.Join(home, name)
		if note(folder, dir) != nil || os.Mkdir(dir, 0o755) != nil {
			continue
		}
		c := &Group{dirs: []string{dir}, memory: dir, v2: true}
		if c.set(dir, "memory.max", strconv.FormatInt(memoryBytes, 10)) == nil {
			c.set(dir, "memory.swap.max", "0")
			c.set(dir, "memory.oom.group", "1")
			c.set(dir, "pids.max", strconv.Itoa(tasks))
			if fd, err := os.Open(dir); err == nil {
				c.fd = fd
				return c
			}
		}
		c.Remove()
	}
	return nil
}

// Own maps each v1 controller, and "v2", to the folder of our own
// cgroup; "v2 root" is where that hierarchy is mounted.
func Own() (map[string]string, error) {
	mounts := map[string]string{}
	err := proc.EachLine("/proc/self/mountinfo", func(line string) {
		before, after, ok := strings.Cut(line, " - ")
		fields, tail := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(tail) < 3 {
			return
		}
		switch tail[0] {
		case "cgroup":
			for _, o := range strings.Split(tail[2], ",") {
				mounts[o] = fields[4]
			}
		case "cgroup2":
			mounts["v2"] = fields[4]
		}
	})
	if err != nil {
		return nil, err
	}
	own := map[string]string{}
	err = proc.EachLine("/proc/self/cgroup", func(line string) {
		parts := strings.SplitN(line, ":", 3)
		if len(parts) != 3 {
			return
		}
		controllers := strings.Split(parts[1], ",")
		if parts[1] == "" {
			controllers = []string{"v2"}
		}
		for _, c := range controllers {
			if m := mounts[c]; m != "" {
				own[c] = filepath.Join(m, parts[2])
			}
		}
	})
	own["v2 root"] = mounts["v2"]
	return own, err
}

func (c *Group) set(dir, file, value string) error {
	return os.WriteFile(filepath.Join(dir, file), []byte(value), 0)
}

// FD is the folder that the kernel can fork a process right into, if it is one
// of version 2.
func (c *Group) FD() (fd int, ok bool) {
	if !c.v2 {
		return -1, false
	}
	return int(c.fd.Fd()), true
}

// Enter moves the calling thread into the cgroup, so that a process forked
// now is born in it and there is no moment in which it runs uncapped. The
// thread must be locked and must leave again. v2 needs no such thing: there
// the kernel forks right into the folder of FD.
func (c *Group) Enter() error {
	if c.v2 {
		return nil
	}
	for _, dir := range c.dirs {
		if err := c.set(dir, "tasks", "0"); err != nil {
			return errors.Join(err, c.Leave())
		}
	}
	return nil
}

// Leave returns the thread to where it was.
func (c *Group) Leave() error {
	if c.v2 {
		return nil
	}
	var errs []error
	for _, dir := range c.oldHome {
		errs = append(errs, c.set(dir, "tasks", "0"))
	}
	return errors.Join(errs...)
}

// OOMKills counts the processes that the kernel killed here for memory.
func (c *Group) OOMKills() int64 {
	file := "memory.oom_control"
	if c.v2 {
		file = "memory.events"
	}
	var n int64
	proc.EachLine(filepath.Join(c.memory, file), func(line string) {
		if v, ok := strings.CutPrefix(line, "oom_kill "); ok {
			n, _ = strconv.ParseInt(v, 10, 64)
		}
	})
	return n
}

// Peak is the most memory that was ever in use, 0 when unknown.
func (c *Group) Peak() int64 {
	file := "memory.max_usage_in_bytes"
	if c.v2 {
		file = "memory.peak"
	}
	b, err := os.ReadFile(filepath.Join(c.memory, file))
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n
}

// Remove kills what is left in the cgroup and deletes it.
func (c *Group) Remove() error {
	if c.fd != nil {
		c.fd.Close()
	}
	var errs []error
	for _, dir := range c.dirs {
		errs = append(errs, removeGroup(dir))
	}
	return errors.Join(errs...)
}

// removeGroup waits for up to ten seconds: a killed process stays in its
// cgroup until the kernel has taken it apart.
func removeGroup(dir string) error {
	var err error
	for range 1000 {
		os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0) // v2 only
		proc.EachLine(filepath.Join(dir, "cgroup.procs"), func(line string) {
			if pid, err := strconv.Atoi(line); err == nil && pid > 1 && pid != os.Getpid() {
				unix.Kill(pid, unix.SIGKILL)
			}
		})
		if err = os.Remove(dir); err == nil || os.IsNotExist(err) {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

func note(folder, dir string) error {
	f, err := os.OpenFile(filepath.Join(folder, noteName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(dir + "\n")
	return errors.Join(err, f.Close())
}

// Sweep removes the cgroups that a run folder notes. Only names that we give are
// touched: the note is a file, and a file can be edited.
func Sweep(folder string) error {
	var errs []error
	proc.EachLine(filepath.Join(folder, noteName), func(dir string) {
		if strings.HasPrefix(filepath.Base(dir), "tallystick-") && strings.Contains(dir, "/cgroup") {
			errs = append(errs, removeGroup(dir))
		}
	})
	return errors.Join(errs...)
}
