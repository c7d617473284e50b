// Package identity knows whether a file or a folder of this machine is still
// what it was when it was hashed, without reading it again.
//
// A caller that shows files to a program takes a [Tree] of them, hashes them,
// shows them, and asks [Tree.Changed] afterwards: what was hashed was shown if
// nothing has changed. An edit that was taken back shows all the same, however
// it was made: in place, through another hard link, by renaming, with the old
// times put back. The kernel sets the change time of a file itself, and no call
// sets it back.
//
// It does not show: what is written to the device below the file system, and
// a clock of the machine that was set to the very nanosecond. A file that a
// program maps and has written to before keeps its change time for later writes;
// [OpenForWriting] tells of such a program when the file is hashed.
package identity

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// An ID changes whenever the content of a file may have, or the names in a
// folder, or where a link leads.
type ID struct {
	Device, Inode uint64
	Size          int64
	Modified      int64 // nanoseconds
	Changed       int64
	Mode          uint32
}

// SamePlace reports whether two are of the same file, whatever is in it.
func (a ID) SamePlace(b ID) bool { return a.Device == b.Device && a.Inode == b.Inode }

// Expect refuses if at a path is another file or folder than the wanted one. Nil wants
// nothing.
func Expect(path string, want *ID) error {
	if want == nil {
		return nil
	}
	now, err := Of(path)
	if err == nil && !now.SamePlace(*want) {
		err = errors.New("something else is there than what was digested")
	}
	return err
}

// tick is above the resolution of the clock that the kernel takes change times
// from, 10 ms at most: a second change within one tick would not show.
const tick = 100 * time.Millisecond

// A Tree is a file or a folder with the identity of everything in it.
type Tree struct {
	name    string // as it was asked for
	top     string // after links
	root    ID
	entries []entry // folder by folder
}

type entry struct {
	dir, name string
	id        ID
}

// ErrTooMany says that a tree has more entries than the caller wants.
var ErrTooMany = errors.New("it has too many files")

// Take looks at a tree. It returns when the last change of it is so long ago that
// a further one shows. A tree with another file system mounted in it is refused:
// a sandbox may show what is below that.
func Take(name string, most int) (*Tree, error) {
	top, err := filepath.EvalSymlinks(name)
	if err != nil {
		return nil, err
	}
	if top, err = filepath.Abs(top); err != nil {
		return nil, err
	}
	t := &Tree{name: name, top: top}
	if err := t.apart(); err != nil {
		return nil, err
	}
	youngest := int64(0)
	err = filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if len(t.entries) == most {
			return ErrTooMany
		}
		id, err := Of(p)
		if err != nil {
			return err
		}
		youngest = max(youngest, id.Changed)
		t.entries = append(t.entries, entry{filepath.Dir(p), filepath.Base(p), id})
		return nil
	})
	if err != nil {
		return nil, err
	}
	t.root = t.entries[0].id
	slices.SortStableFunc(t.entries, func(a, b entry) int { return strings.Compare(a.dir, b.dir) })
	if age := time.Since(time.Unix(0, youngest)); age >= 0 && age < tick {
		time.Sleep(tick - age)
	}
	return t, nil
}

// Top is the tree's path after links.
func (t *Tree) Top() string { return t.top }

// Root is the identity of the tree's own file or folder.
func (t *Tree) Root() ID { return t.root }

// In lists what lies in a folder of the tree, with its identity, by path.
func (t *Tree) In(dir string) map[string]ID {
	out := map[string]ID{}
	for _, e := range t.entries {
		if e.dir == dir {
			out[filepath.Join(dir, e.name)] = e.id
		}
	}
	return out
}

// Changed says what of the tree is not as it was when it was taken, or was not in
// between; "" if everything is.
func (t *Tree) Changed() string {
	if top, err := filepath.EvalSymlinks(t.name); err != nil {
		return fmt.Sprintf("%s cannot be followed any more: %v", t.name, err)
	} else if abs, err := filepath.Abs(top); err != nil || abs != t.top {
		return fmt.Sprintf("%s leads to %s now, and led to %s", t.name, abs, t.top)
	}
	if err := t.apart(); err != nil {
		return err.Error()
	}
	return firstChanged(t.entries)
}

// apart refuses a tree in which something else is mounted.
func (t *Tree) apart() error {
	table, err := mountLines()
	if err != nil {
		return fmt.Errorf("reading the mount table: %w", err)
	}
	for _, m := range table {
		if m.at != t.top && below(t.top, m.at) {
			return fmt.Errorf("another file system is mounted in it, at %s", m.at)
		}
	}
	return nil
}

// A mountLine is where something is mounted, and what.
type mountLine struct{ at, line string }

// difference says how a file differs from what it was.
func difference(path string, was, now ID) string {
	switch {
	case !was.SamePlace(now):
		return fmt.Sprintf("another file is at %s", path)
	case was.Mode != now.Mode:
		return fmt.Sprintf("%s has mode %#o, and had %#o", path, now.Mode&0o7777, was.Mode&0o7777)
	case was.Size != now.Size:
		return fmt.Sprintf("%s has %d bytes, and had %d", path, now.Size, was.Size)
	}
	return fmt.Sprintf("%s was changed, or linked, at %s", path, time.Unix(0, now.Changed).UTC().Format(time.RFC3339Nano))
}

// gone says that a file cannot be looked at any more.
func gone(path string, err error) string {
	if errors.Is(err, os.ErrNotExist) {
		return path + " is gone"
	}
	return fmt.Sprintf("%s cannot be looked at: %v", path, err)
}
