package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

// A Scratch is the working folder of a case, in which an agent's tools read and
// write by name. Names are relative, with slashes. No name leads out of the
// folder, not through a link either, and not through one that a process lays
// while a call is under way: the operating system resolves each name below an
// open folder.
//
// Nothing is synced: what lies in such a folder does not outlive the case that
// works in it.
type Scratch struct {
	root *os.Root
}

// A MisuseError is something that the user of a [Scratch] asked for and cannot
// have: a name that is not there, or leads out, or is not a file. Its text
// names nothing outside the folder.
type MisuseError struct {
	text string
	is   error
}

func (e *MisuseError) Error() string { return e.text }

// Unwrap gives the reason, such as fs.ErrNotExist, or nil.
func (e *MisuseError) Unwrap() error { return e.is }

func misuse(is error, format string, args ...any) error {
	return &MisuseError{fmt.Sprintf(format, args...), is}
}

// OpenScratch opens a working folder.
func OpenScratch(dir string) (*Scratch, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, readError(dir, err)
	}
	return &Scratch{root}, nil
}

// Close lets go of the folder.
func (s *Scratch) Close() error { return s.root.Close() }

// Read returns the bytes of a regular file of at most limit bytes.
func (s *Scratch) Read(name string, limit int64) ([]byte, error) {
	if err := checkScratchName(name); err != nil {
		return nil, err
	}
	// Opening a pipe would wait for its other end.
	f, err := s.root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, s.explain("reading", name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, s.explain("reading", name, err)
	}
	if !info.Mode().IsRegular() {
		return nil, misuse(nil, "%q is a %s, not a file", name, kindOf(info))
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, s.explain("reading", name, err)
	}
	if int64(len(data)) > limit {
		return nil, misuse(nil, "%q is larger than %d bytes", name, limit)
	}
	return data, nil
}

// Write replaces or makes a file, and the folders above it. An existing file
// keeps its mode; links and anything else that is not a file are left alone.
// A name that a digest of the folder could not hold is refused, and so is one
// that differs from an existing one only in case.
func (s *Scratch) Write(name string, data []byte) error {
	if err := checkScratchName(name); err != nil {
		return err
	}
	if err := digest.CheckPath(name); err != nil {
		return misuse(nil, "%s", refusal.Of(err).Err)
	}
	local, mode := filepath.FromSlash(name), fs.FileMode(0o644)
	switch info, err := s.root.Lstat(local); {
	case err == nil && !info.Mode().IsRegular():
		return misuse(nil, "%q is a %s, not a file", name, kindOf(info))
	case err == nil:
		mode = info.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return s.explain("writing", name, err)
	default:
		if err := s.checkCase(name); err != nil {
			return err
		}
		if parent := filepath.Dir(local); parent != "." {
			if err := s.root.MkdirAll(parent, 0o755); err != nil {
				return s.explain("writing", name, err)
			}
		}
	}
	// Were it a pipe by now, opening it would wait for a reader.
	f, err := s.root.OpenFile(local, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NONBLOCK, mode)
	if err != nil {
		return s.explain("writing", name, err)
	}
	_, err = f.Write(data)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return s.explain("writing", name, err)
	}
	return nil
}

// checkCase refuses a new name that some systems take for an existing one.
func (s *Scratch) checkCase(name string) error {
	at := "."
	for part := range strings.SplitSeq(name, "/") {
		entries, err := s.entries(at)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // from here on everything is new
		}
		if err != nil {
			return s.explain("listing", at, err)
		}
		for _, e := range entries {
			if e.Name() != part && strings.EqualFold(e.Name(), part) {
				return misuse(fs.ErrExist, "%q differs only in case from %q", name, path.Join(at, e.Name()))
			}
		}
		at = path.Join(at, part)
	}
	return nil
}

// Remove removes a file, a link or an empty folder.
func (s *Scratch) Remove(name string) error {
	if err := checkScratchName(name); err != nil {
		return err
	}
	if err := s.root.Remove(filepath.FromSlash(name)); err != nil {
		return s.explain("removing", name, err)
	}
	return nil
}

// A ScratchEntry is one thing in a working folder.
type ScratchEntry struct {
	Name string // relative to the folder that was listed, with slashes
	Kind string // file, folder, link or other
	Size int64  // of a file
}

// List lists a folder, "." for the top, and with recursive what is below it,
// sorted by name. It stops at limit entries and says so. Links are listed and
// not followed.
func (s *Scratch) List(name string, recursive bool, limit int) (list []ScratchEntry, more bool, err error) {
	if name != "." {
		if err := checkScratchName(name); err != nil {
			return nil, false, err
		}
		switch info, err := s.root.Lstat(filepath.FromSlash(name)); {
		case err != nil:
			return nil, false, s.explain("listing", name, err)
		case !info.IsDir():
			return nil, false, misuse(nil, "%q is not a folder", name)
		}
	}
	// Folders wait their turn here; a stack of calls would be as deep as the
	// agent makes the tree.
	waiting := []string{""}
	for len(waiting) > 0 {
		below := waiting[0]
		waiting = waiting[1:]
		entries, err := s.entries(path.Join(name, below))
		if err != nil {
			return nil, false, s.explain("listing", path.Join(name, below), err)
		}
		for _, e := range entries {
			if len(list) == limit {
				return sortEntries(list), true, nil
			}
			entry := ScratchEntry{Name: path.Join(below, e.Name()), Kind: "other"}
			// The entry's own Info would go by the path, which may lead
			// elsewhere by now.
			switch info, err := s.root.Lstat(filepath.FromSlash(path.Join(name, entry.Name))); {
			case err != nil && errors.Is(err, fs.ErrNotExist):
				continue // it went away meanwhile
			case err != nil:
				return nil, false, s.explain("listing", name, err)
			case info.Mode().IsRegular():
				entry.Kind, entry.Size = "file", info.Size()
			case info.IsDir():
				entry.Kind = "folder"
				if recursive {
					waiting = append(waiting, entry.Name)
				}
			case info.Mode()&fs.ModeSymlink != 0:
				entry.Kind = "link"
			}
			list = append(list, entry)
		}
	}
	return sortEntries(list), false, nil
}

func sortEntries(list []ScratchEntry) []ScratchEntry {
	slices.SortFunc(list, func(a, b ScratchEntry) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// maxScratchEntries bounds what one folder may hold before it is not listed.
const maxScratchEntries = 20_000

// entries reads a folder, sorted by name.
func (s *Scratch) entries(name string) ([]fs.DirEntry, error) {
	f, err := s.root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(maxScratchEntries + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(entries) > maxScratchEntries {
		return nil, misuse(nil, "the folder %q has more than %d entries", name, maxScratchEntries)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

func checkScratchName(name string) error {
	if !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\\\x00") {
		return misuse(fs.ErrInvalid, "%.200q is not a relative path with slashes and without . and ..", name)
	}
	return nil
}

// explain tells what the user did wrong from what went wrong here.
func (s *Scratch) explain(doing, name string, err error) error {
	var already *MisuseError
	if errors.As(err, &already) {
		return err
	}
	for _, e := range []struct {
		is   error
		text string
	}{
		{fs.ErrNotExist, "there is no %q"},
		{syscall.ENOTEMPTY, "the folder %q is not empty"}, // which also is ErrExist
		{fs.ErrExist, "%q exists already"},
		{fs.ErrPermission, "%q may not be touched"},
		{syscall.ENOTDIR, "a part of %q is not a folder"},
		{syscall.EISDIR, "%q is a folder"},
		{syscall.ELOOP, "%q leads through too many links"},
		{syscall.ENAMETOOLONG, "%q is too long a name"},
		{syscall.ENXIO, "%q is not a file"},
		{syscall.EINVAL, "%q cannot be used"},
	} {
		if errors.Is(err, e.is) {
			return misuse(e.is, e.text, name)
		}
	}
	// os.Root has no error of its own for a name that leads out.
	if strings.HasSuffix(err.Error(), "path escapes from parent") {
		return misuse(fs.ErrInvalid, "%q leads out of the working folder", name)
	}
	if doing == "reading" || doing == "listing" {
		return readError(name, err)
	}
	return writeError(doing, name, err)
}
