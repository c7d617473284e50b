package sandbox

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tallystick/internal/refusal"
	"tallystick/internal/sandbox/cgroup"
)

// sandboxID is the host user that a sandbox runs as when we are root: one
// that owns nothing. An ordinary user's sandboxes run as that user.
const sandboxID = 65533

// hostID is the host user and group behind the sandbox's user 0.
func hostID() (uid, gid int) {
	if os.Getuid() == 0 && idIsMapped("/proc/self/uid_map", sandboxID) && idIsMapped("/proc/self/gid_map", sandboxID) {
		return sandboxID, sandboxID
	}
	return os.Getuid(), os.Getgid()
}

// idIsMapped reports whether id exists in our own user namespace: root of a
// container may own only a few ids.
func idIsMapped(mapFile string, id int) bool {
	f, err := os.Open(mapFile)
	if err != nil {
		return false
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var inside, outside, size int
		if _, err := fmt.Sscan(s.Text(), &inside, &outside, &size); err == nil && id >= inside && id-inside < size {
			return true
		}
	}
	return false
}

// A runBase is the folder that holds the run folders of one user.
type runBase struct{ dir string }

// maxBaseBytes leaves room below the folder for gVisor's sockets, see stateDir.
const maxBaseBytes = 80

// openRunBase makes the folder if needed. It must belong to us alone: below a
// shared temporary folder anybody could have made it first.
func openRunBase(tempDir string) (*runBase, error) {
	dir := tempDir
	if dir == "" {
		name := "tallystick-" + strconv.Itoa(os.Getuid())
		if dir = filepath.Join(os.TempDir(), name); len(dir) > maxBaseBytes {
			dir = filepath.Join("/tmp", name)
		}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, refusal.Newf(refusal.WriteFailed, "making the folder for runs: %w", err)
	}
	if len(dir) > maxBaseBytes {
		return nil, refusal.Newf(refusal.SandboxFailed, "%s: too long for a folder of sockets, at most %d bytes", dir, maxBaseBytes).
			WithHint("name a shorter temporary folder")
	}
	// 0711: the sandbox's user, who is not us when we are root, must pass
	// through to its own run folder.
	if err := os.Mkdir(dir, 0o711); err != nil && !os.IsExist(err) {
		return nil, refusal.Newf(refusal.WriteFailed, "making the folder for runs: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "looking at the folder for runs: %w", err)
	}
	if st := info.Sys().(*syscall.Stat_t); !info.IsDir() || int(st.Uid) != os.Getuid() || info.Mode().Perm()&0o022 != 0 {
		return nil, refusal.Newf(refusal.SandboxFailed, "%s is not a folder of ours alone (owner %d, mode %v)", dir, st.Uid, info.Mode()).
			WithHint("remove it, or point TMPDIR at a folder of your own")
	}
	return &runBase{dir: dir}, nil
}

// A runFolder holds everything that one sandbox puts on disk. Its lock is
// held as long as its owner lives, so a folder whose lock is free is a
// leftover.
type runFolder struct {
	dir  string
	lock *os.File
}

const (
	runPrefix  = "r"
	newPrefix  = "n" // while it is being made
	runIDBytes = 5
	lockName   = "lock"
)

// make creates a run folder that its owner's sandbox user may enter.
func (b *runBase) make() (*runFolder, error) {
	var id [runIDBytes]byte
	rand.Read(id[:])
	name := hex.EncodeToString(id[:])
	r := &runFolder{dir: filepath.Join(b.dir, newPrefix+name)}
	if err := os.Mkdir(r.dir, 0o700); err != nil {
		return nil, refusal.Newf(refusal.WriteFailed, "making a run folder: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(r.dir, lockName), os.O_CREATE|os.O_RDWR|os.O_EXCL, 0o600)
	if err == nil {
		r.lock = lock
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err == nil {
		uid, gid := hostID()
		err = os.Chown(r.dir, uid, gid)
	}
	// Under its own name it is locked from the first moment: a sweep that
	// looked in between would take it for a leftover.
	if err == nil {
		dir := filepath.Join(b.dir, runPrefix+name)
		if err = os.Rename(r.dir, dir); err == nil {
			r.dir = dir
		}
	}
	if err != nil {
		r.remove()
		return nil, refusal.Newf(refusal.WriteFailed, "making a run folder: %w", err)
	}
	return r, nil
}

// path names a file of the run folder.
func (r *runFolder) path(name string) string { return filepath.Join(r.dir, name) }

// mkdir makes a folder below the run folder, owned by the sandbox's user.
func (r *runFolder) mkdir(name string, mode os.FileMode) (string, error) {
	uid, gid := hostID()
	dir := r.path(name)
	err := os.Mkdir(dir, mode)
	if err == nil {
		err = errors.Join(os.Chmod(dir, mode), os.Chown(dir, uid, gid))
	}
	return dir, err
}

// write puts a file that everybody may read below the run folder.
func (r *runFolder) write(name string, content []byte) (string, error) {
	p := r.path(name)
	for dir := filepath.Dir(name); ; dir = filepath.Dir(dir) {
		if err := os.MkdirAll(r.path(dir), 0o755); err != nil {
			return "", err
		}
		if dir == "." {
			break
		}
		if err := os.Chmod(r.path(dir), 0o755); err != nil { // whatever the umask is
			return "", err
		}
	}
	if err := os.WriteFile(p, content, 0o644); err != nil {
		return "", err
	}
	return p, os.Chmod(p, 0o444)
}

// writeRubric puts the rubric's files below "rubric".
func (r *runFolder) writeRubric(rubric Rubric) (string, error) {
	for _, name := range rubric.names() {
		if _, err := r.write(filepath.Join("rubric", filepath.FromSlash(name)), rubric.Files[name]); err != nil {
			return "", err
		}
	}
	return r.path("rubric"), nil
}

// remove deletes the folder. Sealed folders inside it are opened first. If a
// cgroup cannot be removed now, the note of it stays, for a sweep to try again.
func (r *runFolder) remove() error {
	if r.lock != nil {
		defer r.lock.Close()
	}
	if err := cgroup.Sweep(r.dir); err != nil {
		return err
	}
	return removeTree(r.dir)
}

// sweep removes the run folders whose owner is gone, with their processes'
// cgroups. Errors are not reported: what cannot be removed now does not stop
// a new run, and the next sweep tries again.
func (b *runBase) sweep() {
	entries, _ := os.ReadDir(b.dir)
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		switch {
		case isRunName(e.Name(), runPrefix):
			sweepFolder(filepath.Join(b.dir, e.Name()))
		case isRunName(e.Name(), newPrefix):
			// Killed while it was being made, or being made right now: only one
			// that stays so for a while is dead.
			if info, err := e.Info(); err == nil && olderThanAMinute(info) {
				removeTree(filepath.Join(b.dir, e.Name()))
			}
		}
	}
}

// isRunName recognises the names that make gives; a folder for runs may hold
// other things.
func isRunName(name, prefix string) bool {
	id, ok := strings.CutPrefix(name, prefix)
	raw, err := hex.DecodeString(id)
	return ok && err == nil && len(raw) == runIDBytes
}

// sweepFolder removes a run folder that nobody owns.
func sweepFolder(dir string) {
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR, 0)
	if err != nil {
		if os.IsNotExist(err) {
			removeTree(dir) // its lock went first when it was removed
		}
		return
	}
	defer lock.Close()
	if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil && cgroup.Sweep(dir) == nil {
		removeTree(dir)
	}
}

// removeTree deletes a folder, opening sealed ones inside it if it must.
func removeTree(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			os.Chmod(p, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

func olderThanAMinute(info os.FileInfo) bool { return time.Since(info.ModTime()) > time.Minute }
