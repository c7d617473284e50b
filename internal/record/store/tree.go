package store

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"tallystick/internal/record/refusal"
)

// A Tree is a folder that is written beside its place and gets its name when all of
// it is there.
type Tree struct {
	dir, tmp string
}

// NewTree begins a folder. The caller ends it with [Tree.Commit] or [Tree.Discard].
func NewTree(dir string) (*Tree, error) {
	dir = filepath.Clean(dir)
	t := &Tree{dir: dir, tmp: dir + "." + rand.Text() + ".tmp"}
	return t, MakeDir(OS{}, t.tmp, 0o755)
}

// Draft is where the folder is until it has its name, for who writes into it otherwise.
func (t *Tree) Draft() string { return t.tmp }

// Write adds a file, by its path with slashes below the folder.
func (t *Tree) Write(name string, data []byte) error {
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return refusal.Newf(refusal.WriteFailed, "writing %q: it is outside of %s", name, t.dir)
	}
	file := filepath.Join(t.tmp, filepath.FromSlash(name))
	if err := MakeDir(OS{}, filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return CreateFile(OS{}, file, data, FileMode)
}

// Commit gives the folder its name. What has that name goes if replace is set, and
// must otherwise be an empty folder or nothing. A crash in between leaves the old
// folder, whole, under its name or under that with ".old".
func (t *Tree) Commit(replace bool) error {
	old := ""
	err := os.Remove(t.dir) // an empty folder
	if replace && err != nil && !errors.Is(err, fs.ErrNotExist) {
		old = t.tmp[:len(t.tmp)-len(".tmp")] + ".old"
		if err := os.Rename(t.dir, old); err != nil {
			return writeError("replacing", t.dir, err)
		}
	}
	if err := os.Rename(t.tmp, t.dir); err != nil {
		if old != "" {
			err = errors.Join(err, os.Rename(old, t.dir))
		}
		return writeError("writing", t.dir, err)
	}
	if err := (OS{}).SyncDir(filepath.Dir(t.dir)); err != nil {
		return writeError("writing", t.dir, err)
	}
	if old != "" {
		return RemoveTree(old)
	}
	return nil
}

// Discard removes what was written, unless it has its name already.
func (t *Tree) Discard() error { return RemoveTree(t.tmp) }
