package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A folderOwner is who a working folder belongs to while an agent has it.
type folderOwner struct {
	dir      string
	uid, gid int
}

// lendFolder makes the sandbox's user the owner of a folder and all in it,
// when that is not us.
func lendFolder(dir string) (*folderOwner, error) {
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	st := info.Sys().(*syscall.Stat_t)
	o := &folderOwner{dir: dir, uid: int(st.Uid), gid: int(st.Gid)}
	uid, gid := hostID()
	if uid == os.Getuid() {
		return o, nil
	}
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, uid, gid)
	})
	if err != nil {
		return nil, errors.Join(err, o.takeBack(&discards{}))
	}
	return o, nil
}

// maxWorkPath bounds the paths below a working folder that are kept: what is
// deeper can be neither opened nor removed by its name.
const maxWorkPath = 2048

// discards are what was taken out of a folder.
type discards struct {
	first []string
	count int
}

func (d *discards) add(dir, p, what string) {
	if d.count++; len(d.first) < 10 {
		d.first = append(d.first, strings.TrimPrefix(p, dir+"/")+", "+what)
	}
}

// takeBack makes the folder its owner's again, readable whatever the agent did
// to it. Only files, folders and links stay: a pipe would hold whoever opens
// it, and a program with the owner's rights as its own is not for an agent to
// leave behind. What does not stay is noted.
func (o *folderOwner) takeBack(gone *discards) error {
	return filepath.WalkDir(o.dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if len(p)-len(o.dir) > maxWorkPath {
			gone.add(o.dir, p[:len(o.dir)+64], "which begins a path that is too long")
			return cutOff(p, d)
		}
		if os.Getuid() == 0 {
			if err := os.Lchown(p, o.uid, o.gid); err != nil {
				return err
			}
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch mode := info.Mode(); {
		case mode&fs.ModeSymlink != 0:
			return nil
		case mode.IsDir():
			return os.Chmod(p, mode.Perm()|0o700)
		case mode.IsRegular():
			return os.Chmod(p, mode.Perm()|0o400)
		default:
			gone.add(o.dir, p, specialKind(mode))
			return os.Remove(p)
		}
	})
}

func specialKind(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a special file"
}

func cutOff(p string, d fs.DirEntry) error {
	if err := removeTree(p); err != nil {
		return err
	}
	if d.IsDir() {
		return filepath.SkipDir
	}
	return nil
}

// A diskWatch ends an agent whose working folder grows too much, in bytes or in
// files. Asking the file system how full it is costs nothing; only when that has
// grown by the limit, by whomever, the folder is measured.
type diskWatch struct {
	dir          string
	limit        usage
	used, before usage        // on the file system and in the folder, at the beginning
	over         chan Verdict // gets a DiskLimit or a FileLimit; see end

	quit chan struct{}
	wg   sync.WaitGroup
}

const diskEvery = 500 * time.Millisecond

// newDiskWatch watches dir, or nothing if that is empty.
func newDiskWatch(dir string, limits AgentLimits, over chan Verdict) *diskWatch {
	if dir == "" {
		return &diskWatch{quit: make(chan struct{})}
	}
	return &diskWatch{dir: dir, limit: usage{limits.DiskBytes, limits.Files}, used: usedOn(dir), before: folderSize(dir), over: over, quit: make(chan struct{})}
}

// A usage is what is used of a file system.
type usage struct{ bytes, files int64 }

func (u usage) since(before usage) usage {
	return usage{u.bytes - before.bytes, u.files - before.files}
}

// exceeds says which limit is reached, "" if none is.
func (u usage) exceeds(limit usage) Verdict {
	switch {
	case limit.bytes > 0 && u.bytes > limit.bytes:
		return DiskLimit
	case limit.files > 0 && u.files > limit.files:
		return FileLimit
	}
	return ""
}

func (w *diskWatch) start(r *running) {
	if w.dir == "" {
		return
	}
	w.wg.Go(func() {
		for pause := diskEvery; ; {
			select {
			case <-r.exited:
				return
			case <-w.quit:
				return
			case <-time.After(pause):
			}
			pause = diskEvery
			now := usedOn(w.dir)
			if w.used.files > 0 && now.since(w.used).exceeds(w.limit) == "" {
				continue
			}
			began := time.Now()
			size := folderSize(w.dir)
			size.bytes += removedSize(r.pid, w.dir)
			if verdict := size.since(w.before).exceeds(w.limit); verdict != "" {
				end(w.over, verdict)
				return
			}
			// Measuring a large folder shall not become our main occupation.
			pause = max(pause, 20*time.Since(began))
		}
	})
}

func (w *diskWatch) stop() {
	close(w.quit)
	w.wg.Wait()
}

// usedOn is what is used of the folder's file system. One that does not count
// files has used none.
func usedOn(dir string) usage {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return usage{}
	}
	return usage{int64(st.Blocks-st.Bfree) * st.Bsize, int64(st.Files - st.Ffree)}
}

// folderSize is what a folder occupies, as far as it can be read now.
func folderSize(dir string) usage {
	var total usage
	filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		total.files++
		if info, err := d.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				total.bytes += st.Blocks * 512
			}
		}
		return nil
	})
	return total
}

// removedSize is what the sandbox's processes hold on the folder's file system
// in files that have no name any more.
func removedSize(pid int, dir string) int64 {
	var here unix.Stat_t
	if unix.Stat(dir, &here) != nil {
		return 0
	}
	held := map[uint64]int64{}
	for _, pid := range append(descendants(pid), pid) {
		fds, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
		for _, fd := range fds {
			var st unix.Stat_t
			if unix.Stat(fd, &st) == nil && st.Dev == here.Dev && st.Nlink == 0 && st.Mode&unix.S_IFMT == unix.S_IFREG {
				held[st.Ino] = st.Blocks * 512
			}
		}
	}
	var total int64
	for _, n := range held {
		total += n
	}
	return total
}
