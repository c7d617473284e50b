package store

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"tallystick/internal/record/digest"
)

// Restore makes a folder hold what the picture shows and nothing else. The
// folder itself stays, and so does everything in it that is as it should be: a
// program that works in it keeps its place. Every file of the picture must be
// kept. Nothing is synced.
func (p *Picture) Restore(dir string, limits PictureLimits) error {
	if err := os.MkdirAll(dir, FolderMode); err != nil {
		return writeError("making", dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return writeError("opening", dir, err)
	}
	defer root.Close()
	r := restoring{root: root, from: limits.From}
	r.uid, r.gid, r.chown = ownerOf(root)
	limits.KeepBytes, limits.Base = 0, nil
	now, err := TakePicture(dir, limits)
	if err != nil {
		// What is there cannot be told, so nothing of it stays.
		now, err = &Picture{}, r.clear()
	}
	if err == nil {
		err = r.remove(now, p)
	}
	if err == nil {
		err = r.put(now, p)
	}
	if err != nil {
		return writeError("restoring", dir, err)
	}
	return nil
}

type restoring struct {
	root     *os.Root
	from     string
	uid, gid int
	chown    bool
}

// clear empties the folder.
func (r *restoring) clear() error {
	top, err := r.root.Open(".")
	if err != nil {
		return err
	}
	defer top.Close()
	for {
		entries, err := top.ReadDir(256)
		for _, e := range entries {
			if err := r.removeAll(e.Name()); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// removeAll removes a name with what is below it, and opens closed folders if
// that is what is in the way.
func (r *restoring) removeAll(name string) error {
	if r.root.RemoveAll(name) == nil {
		return nil
	}
	_ = fs.WalkDir(r.root.FS(), filepath.ToSlash(name), func(at string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = r.root.Chmod(at, 0o700)
		}
		return nil
	})
	return r.root.RemoveAll(name)
}

// remove takes away what does not belong there, the contents of a folder before
// the folder. A file that differs goes too: writing into it would change its
// other names.
func (r *restoring) remove(now, wanted *Picture) error {
	for _, e := range now.Entries {
		if e.Kind == FolderEntry && e.Mode&0o700 != 0o700 {
			if err := r.root.Chmod(filepath.FromSlash(e.Path), e.Mode|0o700); err != nil {
				return err
			}
		}
	}
	for _, e := range slices.Backward(now.Entries) {
		if w := wanted.Find(e.Path); w != nil && w.sameContent(&e) {
			continue
		}
		if err := r.root.Remove(filepath.FromSlash(e.Path)); err != nil {
			return err
		}
	}
	return nil
}

// sameContent reports whether two entries differ in nothing but their mode.
func (e *Entry) sameContent(other *Entry) bool {
	return e.Kind == other.Kind && e.Link == other.Link && e.Same == other.Same && (e.Kind != FileEntry || e.Digest == other.Digest)
}

// put makes what is missing, and sets modes that are not right; those of folders
// last, since one may forbid to write to it.
func (r *restoring) put(now, wanted *Picture) error {
	for i := range wanted.Entries {
		e := &wanted.Entries[i]
		if had := now.Find(e.Path); had == nil || !had.sameContent(e) {
			if err := r.make(e); err != nil {
				return err
			}
		} else if e.Kind == FileEntry && had.Mode != e.Mode {
			if err := r.root.Chmod(filepath.FromSlash(e.Path), e.Mode); err != nil {
				return err
			}
		}
	}
	for _, e := range slices.Backward(wanted.Entries) {
		if e.Kind == FolderEntry {
			if err := r.root.Chmod(filepath.FromSlash(e.Path), e.Mode); err != nil {
				return err
			}
		}
	}
	return nil
}

// copy makes a file that was not kept from the one in another folder, if that
// still is the same.
func (r *restoring) copy(e *Entry) error {
	if r.from == "" {
		return errors.New(e.Name() + " is too large to have been kept")
	}
	from, err := os.OpenRoot(r.from)
	if err != nil {
		return err
	}
	defer from.Close()
	in, err := from.OpenFile(filepath.FromSlash(e.Path), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := r.root.OpenFile(filepath.FromSlash(e.Path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	d, _, err := digest.ContentOfReader(io.TeeReader(io.LimitReader(in, e.Size), out))
	if err == nil && d != e.Digest {
		err = errors.New(e.Name() + " has changed")
	}
	if err == nil {
		err = out.Chmod(e.Mode)
	}
	return err
}

// make makes one entry that is not there.
func (r *restoring) make(e *Entry) error {
	name := filepath.FromSlash(e.Path)
	var err error
	switch {
	case e.Kind == FolderEntry:
		err = r.root.Mkdir(name, 0o700)
	case e.Kind == LinkEntry:
		err = r.root.Symlink(e.Link, name)
	case e.Same != "":
		return r.root.Link(filepath.FromSlash(e.Same), name)
	case !e.Kept():
		err = r.copy(e)
	default:
		// The mode is set apart: the process may hold back some of it.
		if err = r.root.WriteFile(name, e.Data, 0o600); err == nil {
			err = r.root.Chmod(name, e.Mode)
		}
	}
	if err == nil && r.chown {
		err = r.root.Lchown(name, r.uid, r.gid)
	}
	return err
}
