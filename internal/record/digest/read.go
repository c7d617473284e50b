package digest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"tallystick/internal/record/refusal"
)

// Limits that apply where [TreeLimits] has zero. Cases are small; these only
// keep a mistake or an attack from filling memory.
const (
	DefaultMaxFiles = 10_000
	DefaultMaxBytes = 256 << 20
)

// maxPathBytes is the longest path that a USTAR header can hold.
const maxPathBytes = prefixSize + 1 + nameSize

// TreeLimits says what [ReadTree] leaves out and how much it takes.
type TreeLimits struct {
	// Exclude lists paths, relative to the folder read, of files that are not
	// part of the tree. They must be regular files with proper names all the
	// same.
	Exclude []string

	MaxFiles int   // files and folders together, excluded ones too; 0 means DefaultMaxFiles
	MaxBytes int64 // of all files together; 0 means DefaultMaxBytes
}

// ReadTree reads every file under dir, which is relative to root; "." is root
// itself. Anything but regular files and folders is refused, as is every path
// that could be misread; the refusal names the path.
//
// No symbolic link is followed, not even one that appears while reading, and
// nothing outside root is touched. The bytes that were checked are the bytes
// returned.
func ReadTree(root *os.Root, dir string, opt TreeLimits) (*Tree, error) {
	if opt.MaxFiles == 0 {
		opt.MaxFiles = DefaultMaxFiles
	}
	if opt.MaxBytes == 0 {
		opt.MaxBytes = DefaultMaxBytes
	}
	top, err := openTop(root, dir)
	if err != nil {
		return nil, err
	}
	defer top.Close()
	r := reader{limits: opt, names: newNames()}
	if err := r.folder(top, ""); err != nil {
		return nil, err
	}
	slices.SortFunc(r.files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return &Tree{Files: r.files}, nil
}

// openTop opens dir one part at a time, so that no part may be a link.
func openTop(root *os.Root, dir string) (*os.Root, error) {
	if !fs.ValidPath(dir) {
		return nil, refusal.Newf(refusal.Malformed, "tree: folder %q is not a clean relative path with slashes", dir)
	}
	top, err := root.OpenRoot(".")
	if err != nil {
		return nil, unreadable(dir, err)
	}
	if dir == "." {
		return top, nil
	}
	for part := range strings.SplitSeq(dir, "/") {
		next, err := openPart(top, part, dir)
		top.Close()
		if err != nil {
			return nil, err
		}
		top = next
	}
	return top, nil
}

func openPart(parent *os.Root, name, dir string) (*os.Root, error) {
	info, err := parent.Lstat(name)
	if err != nil {
		return nil, unreadable(dir, err)
	}
	if !info.IsDir() {
		return nil, refuseType(dir, info.Mode())
	}
	return openFolder(parent, name, dir, info)
}

// openFolder opens the folder called name in parent that was seen as info; at
// is its path in the tree. OpenRoot follows links that stay inside parent, so
// what was opened is compared with what was seen.
func openFolder(parent *os.Root, name, at string, info fs.FileInfo) (*os.Root, error) {
	folder, err := parent.OpenRoot(name)
	if err != nil {
		return nil, unreadable(at, err)
	}
	opened, err := folder.Stat(".")
	if err != nil {
		folder.Close()
		return nil, unreadable(at, err)
	}
	if !os.SameFile(info, opened) {
		folder.Close()
		return nil, changed(at)
	}
	return folder, nil
}

// A reader collects the files of one tree.
type reader struct {
	limits  TreeLimits
	names   *names
	entries int
	bytes   int64
	files   []File
}

// folder reads everything below the open folder; at is its path in the tree,
// "" for the top.
func (r *reader) folder(folder *os.Root, at string) error {
	listing, err := folder.Open(".")
	if err != nil {
		return unreadable(at, err)
	}
	defer listing.Close()
	for {
		// A listing is read in pieces, so that a folder of a million names
		// meets the limit before it fills memory.
		entries, err := listing.ReadDir(256)
		for _, e := range entries {
			if err := r.entry(folder, e.Name(), path.Join(at, e.Name())); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return unreadable(at, err)
		}
	}
}

// entry reads the file or folder called name in folder; at is its path in the
// tree.
func (r *reader) entry(folder *os.Root, name, at string) error {
	if r.entries++; r.entries > r.limits.MaxFiles {
		return refusal.Newf(refusal.TooLarge, "tree: found more than %d files and folders, expected at most that", r.limits.MaxFiles).
			WithHint("remove what does not belong to the folder")
	}
	if err := checkPath(at); err != nil {
		return err
	}
	// Folders nest no deeper than a path can be long.
	if len(at) > maxPathBytes {
		_, _, err := splitPath(at)
		return err
	}
	info, err := folder.Lstat(name)
	if err != nil {
		return unreadable(at, err)
	}
	if err := r.names.add(entry{at, info.IsDir()}); err != nil {
		return err
	}
	switch {
	case info.IsDir():
		below, err := openFolder(folder, name, at, info)
		if err != nil {
			return err
		}
		defer below.Close()
		return r.folder(below, at)
	case !info.Mode().IsRegular():
		return refuseType(at, info.Mode())
	case slices.Contains(r.limits.Exclude, at):
		return nil
	}
	if _, _, err := splitPath(at); err != nil {
		return err
	}
	data, err := r.file(folder, name, at, info)
	if err != nil {
		return err
	}
	r.files = append(r.files, File{Path: at, Data: data})
	return nil
}

// file returns the bytes of a regular file that was seen as info.
func (r *reader) file(folder *os.Root, name, at string, info fs.FileInfo) ([]byte, error) {
	// The file may be exchanged for a named pipe this very moment, and opening
	// that would wait for ever.
	f, err := folder.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, unreadable(at, err)
	}
	defer f.Close()
	opened, err := f.Stat()
	if err != nil {
		return nil, unreadable(at, err)
	}
	if !opened.Mode().IsRegular() || !os.SameFile(info, opened) {
		return nil, changed(at)
	}
	if r.bytes += opened.Size(); r.bytes > r.limits.MaxBytes {
		return nil, refusal.Newf(refusal.TooLarge, "tree: with %s the files have more than %d bytes together", at, r.limits.MaxBytes).
			WithHint("keep large files outside the folder and name them by digest")
	}
	// A file that grows is read no further than one byte beyond its size.
	data := make([]byte, opened.Size()+1)
	n, err := io.ReadFull(f, data)
	switch {
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF):
		return nil, unreadable(at, err)
	case int64(n) != opened.Size():
		return nil, changed(at)
	}
	return data[:n:n], nil
}

func refuseType(at string, mode fs.FileMode) error {
	return refusal.Newf(refusal.Malformed, "tree: %s is %s, expected a regular file or a folder", at, describeType(mode)).
		WithHint("replace it by a copy of the file it stands for, or remove it")
}

func describeType(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "a regular file"
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return fmt.Sprintf("of type %v", mode.Type())
}

func unreadable(at string, err error) error {
	return refusal.Newf(refusal.Unreadable, "tree: reading %q: %w", at, err)
}

func changed(at string) error {
	return refusal.Newf(refusal.Unreadable, "tree: %s changed while it was read", at).
		WithHint("let whatever writes to the folder finish, then try again")
}
