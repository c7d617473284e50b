package store

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"tallystick/internal/record/refusal"
)

// A Listed is one name of a folder that is sent to another machine: a list of these,
// and then the bytes of all its files in the order of the list. Owners are not part of
// it, and of the mode only whether a file may be started.
type Listed struct {
	Path       string    `json:"path"` // escaped, see [EscapePath]; "." is the folder itself, or the only file
	Kind       EntryKind `json:"kind"`
	Executable bool      `json:"executable,omitempty"`
	Size       int64     `json:"size,omitempty"`     // of a file
	To         string    `json:"link,omitempty"`     // of a link, escaped
	Modified   int64     `json:"modified,omitempty"` // of a file, in seconds: Python compares it with its caches
}

// CheckList refuses a list that no folder can have. Every name must lie in a folder that
// the list has before it, so nothing can be written through a link.
func CheckList(list []Listed, maxEntries int, maxBytes int64) error {
	if len(list) == 0 || len(list) > maxEntries || list[0].Path != "." {
		return refusal.Newf(refusal.Malformed, "the list of a folder has %d names, expected the folder itself first and at most %d", len(list), maxEntries)
	}
	kinds := map[string]EntryKind{}
	for i, e := range list {
		if maxBytes -= e.Size; e.Size < 0 || maxBytes < 0 {
			return refusal.Newf(refusal.TooLarge, "the files of a folder have more bytes together than are accepted")
		}
		name, ok := UnescapePath(e.Path)
		link, linkOK := UnescapePath(e.To)
		entry, valid := NewEntry(name, link, e.Kind == FolderEntry, FileMode, nil)
		switch {
		case i == 0:
			ok = e.Kind == FolderEntry || e.Kind == FileEntry && len(list) == 1
		case !ok || !linkOK || !valid || entry.Kind != e.Kind || e.Kind != FileEntry && e.Size != 0:
			ok = false
		default:
			_, twice := kinds[name]
			ok = !twice && kinds[path.Dir(name)] == FolderEntry
		}
		if !ok {
			return refusal.Newf(refusal.Malformed, "the list of a folder has %.200q, a %.20q: it is there twice, leads elsewhere, or is not in a folder of the list", e.Path, e.Kind)
		}
		kinds[name] = e.Kind
	}
	return nil
}

// Unpack makes a folder, or a single file, of a list and the bytes of its files. What is
// at that place must not exist. Nothing outside is written, whatever the list says.
func Unpack(at string, list []Listed, files io.Reader) error {
	if err := CheckList(list, len(list), 1<<62); err != nil {
		return err
	}
	dir, top := filepath.Dir(at), filepath.Base(at)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return writeError("making", dir, err)
	}
	parent, err := os.OpenRoot(dir)
	if err != nil {
		return writeError("opening", dir, err)
	}
	defer parent.Close()
	if list[0].Kind == FileEntry {
		return unpackOne(parent, top, list[0], files)
	}
	if err := parent.Mkdir(top, FolderMode); err != nil {
		return writeError("making", at, err)
	}
	root, err := parent.OpenRoot(top)
	if err != nil {
		return writeError("opening", at, err)
	}
	defer root.Close()
	for _, e := range list[1:] {
		name, _ := UnescapePath(e.Path)
		if err := unpackOne(root, filepath.FromSlash(name), e, files); err != nil {
			return err
		}
	}
	return nil
}

func unpackOne(root *os.Root, name string, e Listed, files io.Reader) error {
	var err error
	switch e.Kind {
	case FolderEntry:
		err = root.Mkdir(name, FolderMode)
	case LinkEntry:
		link, _ := UnescapePath(e.To)
		err = root.Symlink(link, name)
	default:
		err = unpackFile(root, name, e, files)
	}
	var failed *fs.PathError
	if errors.As(err, &failed) {
		return writeError("unpacking", e.Path, err)
	}
	return err
}

func unpackFile(root *os.Root, name string, e Listed, files io.Reader) error {
	mode := FileMode
	if e.Executable {
		mode |= 0o111
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.CopyN(f, files, e.Size); err != nil {
		return fmt.Errorf("%s: %w", e.Path, err)
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	at := time.Unix(e.Modified, 0)
	return root.Chtimes(name, at, at)
}

// Touch says that a folder of a cache was used.
func Touch(dir string, at time.Time) error {
	if err := os.Chtimes(dir, at, at); err != nil {
		return writeError("touching", dir, err)
	}
	return nil
}

// KeepNewest leaves so many folders of a cache: those that were made or used last.
func KeepNewest(cache string, n int) error {
	entries, err := os.ReadDir(cache)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return writeError("listing", cache, err)
	}
	used := func(e os.DirEntry) int64 {
		info, err := e.Info()
		if err != nil {
			return 0
		}
		return info.ModTime().UnixNano()
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return cmp.Compare(used(b), used(a)) })
	for _, e := range entries[min(n, len(entries)):] {
		if err := RemoveTree(filepath.Join(cache, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
