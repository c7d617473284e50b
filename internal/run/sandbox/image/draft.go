package image

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/sandbox/image/deb"
)

// A Draft is an image that is made step by step: see package recipe.
type Draft struct {
	d    *draft
	tree *os.Root
	u    *unpacker
}

// NewDraft begins an image with the files of another one, or with none.
func NewDraft(cache string, base *Image) (*Draft, error) {
	d, err := newDraft(cache)
	if err != nil {
		return nil, err
	}
	if base != nil {
		if err := copyTree(base.Root(), d.root()); err != nil {
			d.discard()
			return nil, refusal.Newf(refusal.WriteFailed, "copying image %s: %w", base.Digest, err)
		}
	}
	tree, err := os.OpenRoot(d.root())
	if err != nil {
		d.discard()
		return nil, refusal.Newf(refusal.WriteFailed, "making an image: %w", err)
	}
	return &Draft{d: d, tree: tree, u: newUnpacker(tree)}, nil
}

// Root is the folder that becomes the image's root.
func (d *Draft) Root() string { return d.d.root() }

// Discard removes the draft, unless it was finished.
func (d *Draft) Discard() {
	d.u.close()
	d.tree.Close()
	d.d.discard()
}

// Layer applies a layer of the store.
func (d *Draft) Layer(s *Store, l OCIDescriptor) error {
	defer d.u.close()
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return refusal.Newf(refusal.Unreadable, "opening the store of layers: %w", err)
	}
	defer root.Close()
	return ociLayout{root}.unpack(layer{OCIDescriptor: l}, d.u)
}

// Package installs the files of a Debian package that the store has. Where the package
// has a folder and the image a link to one, the link stays, as with dpkg.
func (d *Draft) Package(s *Store, digest string) error {
	defer d.u.close()
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return refusal.Newf(refusal.Unreadable, "opening the store of layers: %w", err)
	}
	defer root.Close()
	r, check, err := ociLayout{root}.open(digest, -1)
	if err != nil {
		return err
	}
	d.u.keepLinks, d.u.noWhiteouts = true, true
	defer func() { d.u.keepLinks, d.u.noWhiteouts = false, false }()
	data, err := deb.Data(r, func(n int) { d.u.bytes.in += int64(n) })
	if err == nil {
		sent := ratio{}
		err = d.u.layer(io.TeeReader(data, writerFunc(func(p []byte) (int, error) {
			sent.in = d.u.bytes.in
			return len(p), sent.add(int64(len(p)))
		})))
	}
	if err := check(); err != nil {
		return err
	}
	if err != nil {
		return refusal.Newf(refusal.Malformed, "package %s: %w", digest, err)
	}
	return nil
}

// A File is one that a recipe puts into an image: bytes, or a link, or a folder.
type File struct {
	Path       string
	Data       []byte
	Executable bool
	Link       string
	Folder     bool
}

// Put adds a file, in the place of what is there.
func (d *Draft) Put(f File) error {
	defer d.u.close()
	name, err := cleanName(f.Path)
	if err == nil && name == "" {
		err = errors.New("the root itself")
	}
	if err != nil {
		return refusal.Newf(refusal.Malformed, "file %.200q: %w", f.Path, err)
	}
	d.u.fresh = map[string]bool{}
	dir, err := d.u.open(path.Dir(name), true)
	if err != nil {
		return refusal.Newf(refusal.WriteFailed, "file %.200q: %w", f.Path, err)
	}
	base := path.Base(name)
	if err := d.u.place(dir, base, f.Folder); err != nil {
		return refusal.Newf(refusal.WriteFailed, "file %.200q: %w", f.Path, err)
	}
	switch {
	case f.Folder:
		err = d.u.folder(dir, base)
	case f.Link != "":
		err = d.u.symlink(dir, base, f.Link)
	default:
		mode := os.FileMode(0o644)
		if f.Executable {
			mode = 0o755
		}
		err = dir.root.WriteFile(base, f.Data, mode)
		if err == nil {
			err = dir.root.Chmod(base, mode)
		}
	}
	if err != nil {
		return refusal.Newf(refusal.WriteFailed, "file %.200q: %w", f.Path, err)
	}
	return nil
}

// List gives a line for each entry of the draft by its path, as the image's digest has
// them. What the sandbox fills itself is left out.
func (d *Draft) List() (map[string]string, error) {
	lines := map[string]string{}
	err := filepath.WalkDir(d.Root(), func(p string, e fs.DirEntry, err error) error {
		if err != nil || p == d.Root() {
			return err
		}
		rel, err := filepath.Rel(d.Root(), p)
		if err != nil {
			return err
		}
		for _, m := range MountPoints {
			if rel == m && e.IsDir() {
				return filepath.SkipDir
			}
		}
		line, err := treeLine(p, e)
		lines[filepath.ToSlash(rel)] = line
		return err
	})
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "looking at an image: %w", err)
	}
	return lines, nil
}

// AboutMade is what an image says that was made of a recipe with this digest.
func AboutMade(kind Kind, recipe string, d *Draft) About {
	about := About{Kind: kind, Source: "recipe " + recipe, Pinned: kind.pinned(), Command: []string{}, Env: []string{"PYTHONHASHSEED=0"}}
	if python := findPython(d.tree); python != "" {
		about.Command = []string{python, "-s", "-B"}
	}
	return about
}

// Finish makes the image.
func (d *Draft) Finish(about About) (*Image, error) {
	d.u.close()
	return d.d.finish(about)
}

// copyTree copies files, folders and links; hard links become files of their own.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(p string, e fs.DirEntry, err error) error {
		if err != nil || p == from {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		at := filepath.Join(to, rel)
		switch {
		case e.IsDir():
			return os.Mkdir(at, 0o755)
		case e.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			return os.Symlink(target, at)
		case !e.Type().IsRegular():
			return fmt.Errorf("%s: neither file, folder nor link", p)
		}
		return copyFile(p, at)
	})
}
