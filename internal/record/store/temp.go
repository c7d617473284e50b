package store

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// TempDir makes a folder that only this user can read, and returns how to
// remove it with all that was put into it.
//
// Its name tells which process owns it: a process that makes such folders holds the lock
// of one file beside them as long as it lives, however it ends. [SweepTemp] removes what
// processes left behind that are gone.
func TempDir(prefix string) (dir string, remove func() error, err error) {
	owner, err := temporary.ownerIn(os.TempDir())
	if err != nil {
		return "", nil, writeError("making a temporary folder in", os.TempDir(), err)
	}
	dir, err = os.MkdirTemp("", strings.TrimSuffix(prefix, "-")+"-"+owner+"-")
	if err != nil {
		return "", nil, writeError("making a temporary folder in", os.TempDir(), err)
	}
	return dir, func() error { return os.RemoveAll(dir) }, nil
}

// Names of temporary folders and of the locks of their owners.
const (
	tempPrefix  = "tally-"
	ownerPrefix = "tally-owner-"
	ownerLength = 16
)

// temporary is what this process owns of folders for temporary files.
var temporary owners

// owners are the locks that this process holds, by the folder for temporary files.
type owners struct {
	mu   sync.Mutex
	held map[string]*owner
}

// An owner is one lock. It is given back by the end of the process alone.
type owner struct {
	name string
	lock *os.File
}

// ownerIn gives the name of this process in a folder for temporary files.
func (o *owners) ownerIn(dir string) (string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if own, ok := o.held[dir]; ok {
		return own.name, nil
	}
	SweepTemp()
	name, f, err := newOwner(dir)
	if err != nil {
		return "", err
	}
	if o.held == nil {
		o.held = map[string]*owner{}
	}
	o.held[dir] = &owner{name, f}
	return name, nil
}

// newOwner makes a lock and takes it. A sweep that came in between took it for a leftover
// and removed it: then there is another.
func newOwner(dir string) (name string, lock *os.File, err error) {
	for range 100 {
		name = strings.ToLower(rand.Text()[:ownerLength])
		path := filepath.Join(dir, ownerPrefix+name)
		if lock, err = os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600); err != nil {
			return "", nil, err
		}
		held, err := osFile{lock}.TryLock()
		if held && isAt(lock, path) {
			return name, lock, nil
		}
		_ = lock.Close()
		if err != nil {
			return "", nil, err
		}
	}
	return "", nil, os.ErrExist
}

// isAt reports whether an open file is the one that a path names. A link is not.
func isAt(f *os.File, path string) bool {
	there, err := os.Lstat(path)
	if err != nil {
		return false
	}
	open, err := f.Stat()
	return err == nil && os.SameFile(there, open)
}

// ReleaseTemp gives the names of this process back: at its end, when it has removed its
// folders. A name whose folder is still there stays, so that a sweep finds it.
func ReleaseTemp() {
	temporary.mu.Lock()
	defer temporary.mu.Unlock()
	for dir, own := range temporary.held {
		if left, err := filepath.Glob(filepath.Join(dir, tempPrefix+"*-"+own.name+"-*")); err != nil || len(left) > 0 {
			continue
		}
		_ = os.Remove(filepath.Join(dir, ownerPrefix+own.name))
		_ = own.lock.Close()
		delete(temporary.held, dir)
	}
}

// SweepTemp removes temporary folders of this user whose owner is gone: a process that
// was killed leaves them. Those of other users and of processes that live are left alone,
// and no link is followed. What cannot be removed now is left for the next time.
func SweepTemp() {
	dir := os.TempDir()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	left := map[string][]string{} // folders, by owner
	for _, e := range entries {
		if name := e.Name(); strings.HasPrefix(name, tempPrefix) {
			if owner, ok := tempOwner(name); ok && isOurs(e) {
				left[owner] = append(left[owner], name)
			}
		}
	}
	for owner, names := range left {
		sweepOwner(dir, owner, names)
	}
}

// tempOwner is the owner that a name tells: that of a folder, or of a lock.
func tempOwner(name string) (string, bool) {
	if owner, ok := strings.CutPrefix(name, ownerPrefix); ok {
		return owner, isOwner(owner)
	}
	parts := strings.Split(name, "-")
	if len(parts) < 4 { // tally, what for, the owner, something random
		return "", false
	}
	owner := parts[len(parts)-2]
	return owner, isOwner(owner)
}

func isOwner(name string) bool {
	return len(name) == ownerLength && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// isOurs reports whether an entry is a folder, or the lock, of this user.
func isOurs(e os.DirEntry) bool {
	info, err := e.Info() // of a link itself
	if err != nil || !ownedByUs(info) {
		return false
	}
	return info.IsDir() || info.Mode().IsRegular() && strings.HasPrefix(e.Name(), ownerPrefix)
}

// sweepOwner removes what an owner left, if its lock is free. Without a lock we
// cannot know whether it lives: an outsider may have removed the lock.
func sweepOwner(dir, owner string, names []string) {
	path := filepath.Join(dir, ownerPrefix+owner)
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || !ownedByUs(info) {
		return
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if held, err := (osFile{f}).TryLock(); err != nil || !held || !isAt(f, path) {
		return
	}
	whole := true
	for _, name := range names {
		if !strings.HasPrefix(name, ownerPrefix) {
			whole = removeSealed(filepath.Join(dir, name)) == nil && whole
		}
	}
	if whole {
		_ = os.Remove(path)
	}
}

// removeSealed removes a folder, opening folders inside it that no user may
// enter, if it must.
func removeSealed(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(p string, d os.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(p, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// Passage makes a folder in which everybody can reach what they know by name,
// and only this user can list it.
func Passage(dir string) error {
	if err := os.Mkdir(dir, 0o711); err != nil {
		return writeError("making", dir, err)
	}
	return nil
}

// Fresh makes an empty folder in another one, with a name that nothing has.
func Fresh(in string) (dir string, remove func() error, err error) {
	dir, err = os.MkdirTemp(in, "")
	if err != nil {
		return "", nil, writeError("making a folder in", in, err)
	}
	return dir, func() error { return os.RemoveAll(dir) }, nil
}

// RemoveTree removes a folder and everything below it.
func RemoveTree(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return writeError("removing", dir, err)
	}
	return nil
}
