package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"tallystick/internal/run/sandbox/proc"
	"tallystick/internal/run/sandbox/runfolder"
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
	uid, gid := runfolder.HostID()
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
// to it. Only files, folders and links stay: a pipe would hold the process that
// opens it, and a program with the owner's rights as its own is not for an
// agent to leave behind. What does not stay is noted.
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
	if err := runfolder.RemoveTree(p); err != nil {
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
	limit        proc.Usage
	used, before proc.Usage   // on the file system and in the folder, at the beginning
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
	return &diskWatch{dir: dir, limit: proc.Usage{Bytes: limits.DiskBytes, Files: limits.Files}, used: proc.UsedOn(dir), before: proc.FolderSize(dir), over: over, quit: make(chan struct{})}
}

// exceeded says which limit is reached, "" if none is.
func exceeded(u, limit proc.Usage) Verdict {
	switch {
	case limit.Bytes > 0 && u.Bytes > limit.Bytes:
		return DiskLimit
	case limit.Files > 0 && u.Files > limit.Files:
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
			now := proc.UsedOn(w.dir)
			if w.used.Files > 0 && exceeded(now.Since(w.used), w.limit) == "" {
				continue
			}
			began := time.Now()
			size := proc.FolderSize(w.dir)
			size.Bytes += proc.RemovedSize(r.pid, w.dir)
			if verdict := exceeded(size.Since(w.before), w.limit); verdict != "" {
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
