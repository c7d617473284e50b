// Package runfolder keeps the folders in which sandboxes put what they need on
// disk, and removes what a crash left of them.
//
// A caller may rely on that the folder for runs belongs to this user alone; that
// no [Base.Sweep], of this process or another, touches a folder whose owner lives;
// that a folder goes together with the control groups noted in it; and that the
// user of [HostID] can read what is put there with [Folder.Write] and
// [Folder.Mkdir], under the name that [Folder.Seen] tells.
package runfolder

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

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/sandbox/cgroup"
)

// sandboxID is the host user that a sandbox runs as when we are root: one
// that owns nothing. An ordinary user's sandboxes run as that user.
const sandboxID = 65533

// HostID is the host user and group behind the sandbox's user 0.
func HostID() (uid, gid int) {
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

// NeedsPrivateMounts reports whether the sandbox runs as another user than
// we: that user may not pass through our home folder to the image, so what it
// needs is bound into its run folder.
func NeedsPrivateMounts() bool {
	uid, _ := HostID()
	return uid != os.Getuid()
}

// PrivatePlace is where the sandbox's user finds its run folder when that is
// another user than we. Everybody may enter it, unlike the folder that we keep
// temporary files in. What the host has there is covered for the sandbox alone.
const PrivatePlace = "/tmp"

// Seen is how the sandbox's user names a path in the run folder.
func (r *Folder) Seen(name string) string {
	if !NeedsPrivateMounts() {
		return name
	}
	return PrivatePlace + strings.TrimPrefix(name, r.Dir)
}

// A Base is the folder that holds the run folders of one user.
type Base struct {
	Dir string
}

// maxBaseBytes leaves room below the folder for gVisor's sockets, see
// stateDir in internal/run/sandbox.
const maxBaseBytes = 80

// Open makes the folder if needed. It must belong to us alone: below a shared
// temporary folder another user could have made it first.
func Open(tempDir string) (*Base, error) {
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
	return &Base{Dir: dir}, nil
}

// A Folder holds everything that one sandbox puts on disk. Its lock is
// held as long as its owner lives, so a folder whose lock is free is a
// leftover.
type Folder struct {
	Dir  string
	lock *os.File
}

const (
	runPrefix  = "r"
	newPrefix  = "n" // while it is being made
	runIDBytes = 5
	lockName   = "lock"
)

// Make creates a run folder that its owner's sandbox user may enter.
func (b *Base) Make() (*Folder, error) {
	var id [runIDBytes]byte
	rand.Read(id[:])
	name := hex.EncodeToString(id[:])
	r := &Folder{Dir: filepath.Join(b.Dir, newPrefix+name)}
	if err := os.Mkdir(r.Dir, 0o700); err != nil {
		return nil, refusal.Newf(refusal.WriteFailed, "making a run folder: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(r.Dir, lockName), os.O_CREATE|os.O_RDWR|os.O_EXCL, 0o600)
	if err == nil {
		r.lock = lock
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err == nil {
		uid, gid := HostID()
		err = os.Chown(r.Dir, uid, gid)
	}
	// Under its own name it is locked from the first moment: a sweep that
	// looked in between would take it for a leftover.
	if err == nil {
		dir := filepath.Join(b.Dir, runPrefix+name)
		if err = os.Rename(r.Dir, dir); err == nil {
			r.Dir = dir
		}
	}
	if err != nil {
		r.Remove()
		return nil, refusal.Newf(refusal.WriteFailed, "making a run folder: %w", err)
	}
	return r, nil
}

// Path names a file of the run folder.
func (r *Folder) Path(name string) string { return filepath.Join(r.Dir, name) }

// Mkdir makes a folder below the run folder, owned by the sandbox's user.
func (r *Folder) Mkdir(name string, mode os.FileMode) (string, error) {
	uid, gid := HostID()
	dir := r.Path(name)
	err := os.Mkdir(dir, mode)
	if err == nil {
		err = errors.Join(os.Chmod(dir, mode), os.Chown(dir, uid, gid))
	}
	return dir, err
}

// Write puts a file that everybody may read below the run folder.
func (r *Folder) Write(name string, content []byte) (string, error) {
	p := r.Path(name)
	for dir := filepath.Dir(name); ; dir = filepath.Dir(dir) {
		if err := os.MkdirAll(r.Path(dir), 0o755); err != nil {
			return "", err
		}
		if dir == "." {
			break
		}
		if err := os.Chmod(r.Path(dir), 0o755); err != nil { // whatever the umask is
			return "", err
		}
	}
	if err := os.WriteFile(p, content, 0o644); err != nil {
		return "", err
	}
	return p, os.Chmod(p, 0o444)
}

// Remove deletes the folder. Sealed folders inside it are opened first. If a
// cgroup cannot be removed now, the note of it stays, for a sweep to try again.
func (r *Folder) Remove() error {
	if r.lock != nil {
		defer r.lock.Close()
	}
	if err := cgroup.Sweep(r.Dir); err != nil {
		return err
	}
	return RemoveTree(r.Dir)
}

// Sweep removes the run folders whose owner is gone, with their processes'
// cgroups. Errors are not reported: what cannot be removed now does not stop
// a new run, and the next sweep tries again.
func (b *Base) Sweep() {
	entries, _ := os.ReadDir(b.Dir)
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		switch {
		case isRunName(e.Name(), runPrefix):
			sweepFolder(filepath.Join(b.Dir, e.Name()))
		case isRunName(e.Name(), newPrefix):
			// Killed while it was being made, or being made right now: only one
			// that stays so for a while is dead.
			if info, err := e.Info(); err == nil && olderThanAMinute(info) {
				RemoveTree(filepath.Join(b.Dir, e.Name()))
			}
		}
	}
}

// isRunName recognises the names that Make gives; a folder for runs may hold
// other things.
func isRunName(name, prefix string) bool {
	id, ok := strings.CutPrefix(name, prefix)
	raw, err := hex.DecodeString(id)
	return ok && err == nil && len(raw) == runIDBytes
}

// sweepFolder removes a run folder without an owner.
func sweepFolder(dir string) {
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR, 0)
	if err != nil {
		if os.IsNotExist(err) {
			RemoveTree(dir) // its lock went first when it was removed
		}
		return
	}
	defer lock.Close()
	if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil && cgroup.Sweep(dir) == nil {
		RemoveTree(dir)
	}
}

// RemoveTree deletes a folder, opening sealed ones inside it if it must.
func RemoveTree(dir string) error {
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
