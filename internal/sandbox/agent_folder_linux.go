package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
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
		return nil, errors.Join(err, o.takeBack())
	}
	return o, nil
}

// maxWorkPath bounds the paths below a working folder that are kept: what is
// deeper can be neither opened nor removed by its name.
const maxWorkPath = 2048

// takeBack makes the folder its owner's again, readable and writable whatever
// the agent did to it. Only files, folders and links stay: a pipe would hold
// whoever opens it, and a program with the owner's rights as its own is not
// for an agent to leave behind.
func (o *folderOwner) takeBack() error {
	return filepath.WalkDir(o.dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if len(p)-len(o.dir) > maxWorkPath {
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
			return os.Chmod(p, mode.Perm()|0o600)
		default:
			return os.Remove(p)
		}
	})
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

// A diskWatch ends an agent whose working folder grows too much. Asking the
// file system how full it is costs nothing; only when that has grown by the
// limit, by whomever, the folder is measured.
type diskWatch struct {
	dir          string
	limit        int64
	used, before int64        // on the file system and in the folder, at the beginning
	over         chan Verdict // gets a DiskLimit; see end

	quit chan struct{}
	wg   sync.WaitGroup
}

const diskEvery = 500 * time.Millisecond

// newDiskWatch watches dir, or nothing if that is empty.
func newDiskWatch(dir string, limit int64, over chan Verdict) *diskWatch {
	if dir == "" {
		return &diskWatch{quit: make(chan struct{})}
	}
	return &diskWatch{dir: dir, limit: limit, used: usedOn(dir), before: folderSize(dir), over: over, quit: make(chan struct{})}
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
			if usedOn(w.dir)-w.used < w.limit {
				continue
			}
			began := time.Now()
			if folderSize(w.dir)+removedSize(r.pid, w.dir)-w.before > w.limit {
				end(w.over, DiskLimit)
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

// usedOn is how many bytes are used on the folder's file system.
func usedOn(dir string) int64 {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return 0
	}
	return int64(st.Blocks-st.Bfree) * st.Bsize
}

// folderSize is what a folder occupies, as far as it can be read now.
func folderSize(dir string) int64 {
	var total int64
	filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := d.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				total += st.Blocks * 512
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
