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

// An EntryKind is what a name in a working folder stands for.
type EntryKind string

// The kinds that a picture can show. Whatever else there is in a folder, a
// socket for one, makes it one of which no picture can be taken.
const (
	FileEntry   EntryKind = "file"
	LinkEntry   EntryKind = "link" // symbolic; never followed
	FolderEntry EntryKind = "folder"
)

// What a new file and a new folder have. An entry with another mode says so.
const (
	FileMode   fs.FileMode = 0o644
	FolderMode fs.FileMode = 0o755
)

// An Entry is one name in a working folder.
type Entry struct {
	Path   string // with slashes, below the folder; any bytes, see [EscapePath]
	Kind   EntryKind
	Mode   fs.FileMode // its permissions; 0 for a link
	Size   int64       // of a file or a link
	Digest digest.Content
	Link   string // where a link points
	Same   string // an earlier path of the picture that is the same file
	Data   []byte // of a file, if it was kept
	kept   bool
}

// Kept reports whether the picture has the bytes of the entry.
func (e *Entry) Kept() bool { return e.Kind != FileEntry || e.kept }

// Name is the path as records have it.
func (e *Entry) Name() string { return EscapePath(e.Path) }

// Read gives the bytes of a file that was too large to be kept, if what is in
// the folder still is the one that the picture shows.
func (e *Entry) Read(dir string, limit int64) ([]byte, error) {
	if e.Size > limit {
		return nil, fmt.Errorf("it has %d bytes, more than %d", e.Size, limit)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, bareError(err)
	}
	defer root.Close()
	c := camera{limits: PictureLimits{MaxEntries: 1, MaxBytes: limit, KeepBytes: limit}}
	c.known, c.ids = map[digest.Content][]byte{}, map[fileID][]string{}
	c.entry(root, filepath.FromSlash(e.Path), e.Path, maxPictureDepth)
	if now := c.picture.Find(e.Path); now != nil && now.kept && now.Digest == e.Digest {
		return now.Data, nil
	}
	return nil, errors.New("it changed after the agent's end")
}

// A Picture is everything that a working folder held at one moment: files,
// links, folders and their permissions, by path. Times, owners and extended
// attributes are not part of it.
type Picture struct {
	Entries []Entry // sorted by path
}

// PictureLimits bound what a picture may show.
type PictureLimits struct {
	MaxEntries int
	MaxBytes   int64 // of all files together; they are read
	// KeepBytes bounds the bytes that stay in memory. What Base has too does
	// not count.
	KeepBytes int64
	Base      *Picture
	// From is a folder that has those files of a picture to be restored which
	// were not kept.
	From string
}

// Bounds on single names, so that every one of them fits into an event.
const (
	maxPicturePath  = 1024
	maxPictureDepth = 200
)

// PictureOf is the picture of a folder that holds these files and nothing else.
func PictureOf(files []digest.File) *Picture {
	p := &Picture{}
	folders := map[string]bool{}
	for _, f := range files {
		mode := FileMode
		if f.Executable {
			mode |= 0o111
		}
		p.Entries = append(p.Entries, fileEntry(f.Path, mode, f.Data))
		for dir := path.Dir(f.Path); dir != "." && !folders[dir]; dir = path.Dir(dir) {
			folders[dir] = true
			p.Entries = append(p.Entries, Entry{Path: dir, Kind: FolderEntry, Mode: FolderMode})
		}
	}
	p.sort()
	return p
}

func fileEntry(name string, mode fs.FileMode, data []byte) Entry {
	return Entry{Path: name, Kind: FileEntry, Mode: mode, Size: int64(len(data)), Digest: digest.ContentOf(data), Data: data, kept: true}
}

// NewEntry is an entry for a picture that is put together from evidence, or
// false if there can be no such entry: its path must be local, and its mode one
// of permissions.
func NewEntry(name, link string, isFolder bool, mode fs.FileMode, data []byte) (Entry, bool) {
	if !fs.ValidPath(strings.ToValidUTF8(name, "?")) || name == "." || strings.ContainsRune(name, 0) || mode&^fs.ModePerm != 0 {
		return Entry{}, false
	}
	switch {
	case link != "":
		return linkEntry(name, link), true
	case isFolder:
		return Entry{Path: name, Kind: FolderEntry, Mode: mode}, true
	}
	return fileEntry(name, mode, data), true
}

func linkEntry(name, target string) Entry {
	return Entry{Path: name, Kind: LinkEntry, Size: int64(len(target)), Digest: digest.ContentOf([]byte(target)), Link: target}
}

func (p *Picture) sort() {
	slices.SortFunc(p.Entries, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
}

// Find returns the entry of a path, nil if there is none.
func (p *Picture) Find(name string) *Entry {
	i, ok := slices.BinarySearchFunc(p.Entries, name, func(e Entry, name string) int { return strings.Compare(e.Path, name) })
	if !ok {
		return nil
	}
	return &p.Entries[i]
}

// Digest names the picture: the BLAKE3 of a line for each entry, sorted by path:
// kind, mode in octal, digest or "-", escaped path, and for a further name of a
// file "=" and the first one.
func (p *Picture) Digest() digest.Content {
	h := digest.NewContent()
	for i := range p.Entries {
		e := &p.Entries[i]
		content := "-"
		if e.Kind != FolderEntry {
			content = e.Digest.String()
		}
		fmt.Fprintf(h, "%s %04o %s %s", e.Kind, e.Mode, content, e.Name())
		if e.Same != "" {
			fmt.Fprintf(h, " = %s", EscapePath(e.Same))
		}
		fmt.Fprintln(h)
	}
	return h.Sum()
}

// TakePicture looks at a working folder. Nothing is followed and nothing waited
// for. A folder that cannot be shown whole is refused as FolderUnreadable, with
// the first of the reasons by path.
func TakePicture(dir string, limits PictureLimits) (*Picture, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, refusal.Newf(refusal.FolderUnreadable, "opening the working folder: %w", bareError(err))
	}
	defer root.Close()
	c := &camera{limits: limits, known: map[digest.Content][]byte{}, ids: map[fileID][]string{}}
	if limits.Base != nil {
		for _, e := range limits.Base.Entries {
			if e.kept {
				c.known[e.Digest] = e.Data
			}
		}
	}
	c.folder(root, "", 1)
	if err := c.refuse(); err != nil {
		return nil, err
	}
	c.picture.sort()
	c.findSame()
	return &c.picture, nil
}

// A camera takes one picture.
type camera struct {
	limits   PictureLimits
	known    map[digest.Content][]byte
	picture  Picture
	bytes    int64
	keeps    int64
	ids      map[fileID][]string // paths of files that have several names
	problems []problem
	full     string // why it stopped looking
}

// A problem is something that a picture cannot show.
type problem struct{ path, what string }

func (c *camera) cannot(at, what string, args ...any) {
	c.problems = append(c.problems, problem{at, fmt.Sprintf(what, args...)})
	if len(c.problems) > 1000 {
		c.full = "it holds more than 1000 things that cannot be compared"
	}
}

func (c *camera) refuse() error {
	if c.full != "" {
		return refusal.Newf(refusal.FolderUnreadable, "the working folder cannot be compared: %s", c.full)
	}
	if len(c.problems) == 0 {
		return nil
	}
	first := slices.MinFunc(c.problems, func(a, b problem) int { return strings.Compare(a.path, b.path) })
	more := ""
	if n := len(c.problems) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more)", n)
	}
	return refusal.Newf(refusal.FolderUnreadable, "the working folder cannot be compared: %s %s%s", EscapePath(first.path), first.what, more)
}

// folder looks at everything below an open folder; at is its path, "" for the
// top.
func (c *camera) folder(folder *os.Root, at string, depth int) {
	listing, err := folder.Open(".")
	if err != nil {
		c.cannot(at, "cannot be listed: %v", bareError(err))
		return
	}
	defer listing.Close()
	for c.full == "" {
		entries, err := listing.ReadDir(256)
		for _, e := range entries {
			c.entry(folder, e.Name(), path.Join(at, e.Name()), depth)
			if c.full != "" {
				return
			}
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			c.cannot(at, "cannot be listed: %v", bareError(err))
			return
		}
	}
}

func (c *camera) entry(folder *os.Root, name, at string, depth int) {
	if len(c.picture.Entries) >= c.limits.MaxEntries {
		c.full = fmt.Sprintf("it holds more than %d files and folders", c.limits.MaxEntries)
		return
	}
	info, err := folder.Lstat(name)
	switch {
	case err != nil:
		c.cannot(at, "cannot be looked at: %v", bareError(err))
	case len(at) > maxPicturePath:
		c.cannot(at[:64], "... is a path of more than %d bytes", maxPicturePath)
	case info.IsDir():
		c.picture.Entries = append(c.picture.Entries, Entry{Path: at, Kind: FolderEntry, Mode: permissions(info)})
		c.below(folder, name, at, info, depth)
	case info.Mode()&fs.ModeSymlink != 0:
		c.link(folder, name, at)
	case info.Mode().IsRegular():
		c.file(folder, name, at, info)
	default:
		c.cannot(at, "is a %s", specialKind(info.Mode()))
	}
}

func (c *camera) below(folder *os.Root, name, at string, info fs.FileInfo, depth int) {
	if depth >= maxPictureDepth {
		c.cannot(at, "is more than %d folders deep", maxPictureDepth)
		return
	}
	below, err := folder.OpenRoot(name)
	if err != nil {
		c.cannot(at, "cannot be opened: %v", bareError(err))
		return
	}
	defer below.Close()
	// OpenRoot follows links that stay inside; what was opened must be what was
	// seen.
	if opened, err := below.Stat("."); err != nil || !os.SameFile(info, opened) {
		c.cannot(at, "changed while it was looked at")
		return
	}
	c.folder(below, at, depth+1)
}

func (c *camera) link(folder *os.Root, name, at string) {
	target, err := folder.Readlink(name)
	switch {
	case err != nil:
		c.cannot(at, "is a link that cannot be read: %v", bareError(err))
	case len(target) > maxPicturePath:
		c.cannot(at, "is a link to a path of more than %d bytes", maxPicturePath)
	default:
		c.picture.Entries = append(c.picture.Entries, linkEntry(at, target))
	}
}

// file reads a regular file that was seen as info.
func (c *camera) file(folder *os.Root, name, at string, info fs.FileInfo) {
	// It may be exchanged for a named pipe this very moment, and opening that
	// would wait for ever.
	f, err := folder.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		c.cannot(at, "cannot be opened: %v", bareError(err))
		return
	}
	defer f.Close()
	opened, err := f.Stat()
	if err != nil || !opened.Mode().IsRegular() || !os.SameFile(info, opened) {
		c.cannot(at, "changed while it was looked at")
		return
	}
	if c.bytes += opened.Size(); c.bytes > c.limits.MaxBytes {
		c.full = fmt.Sprintf("its files have more than %d bytes together", c.limits.MaxBytes)
		return
	}
	e := Entry{Path: at, Kind: FileEntry, Mode: permissions(opened), Size: opened.Size()}
	if err := c.read(f, &e); err != nil {
		c.cannot(at, "%v", err)
		return
	}
	if id, several := fileIDOf(opened); several {
		c.ids[id] = append(c.ids[id], at)
	}
	c.picture.Entries = append(c.picture.Entries, e)
}

// read hashes a file, and keeps its bytes as long as there is room for them.
func (c *camera) read(f *os.File, e *Entry) error {
	limited := io.LimitReader(f, e.Size+1)
	if e.Size > c.limits.KeepBytes-c.keeps {
		d, n, err := digest.ContentOfReader(limited)
		if err != nil {
			return fmt.Errorf("cannot be read: %w", bareError(err))
		}
		if n != e.Size {
			return errors.New("changed while it was read")
		}
		e.Digest = d
		e.Data, e.kept = c.known[d]
		return nil
	}
	data := make([]byte, e.Size+1)
	n, err := io.ReadFull(limited, data)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return fmt.Errorf("cannot be read: %w", bareError(err))
	}
	if int64(n) != e.Size {
		return errors.New("changed while it was read")
	}
	data = data[:n:n]
	e.Digest, e.kept = digest.ContentOf(data), true
	if known, ok := c.known[e.Digest]; ok {
		e.Data = known
		return nil
	}
	e.Data, c.known[e.Digest] = data, data
	c.keeps += e.Size
	return nil
}

// findSame notes which paths are one file.
func (c *camera) findSame() {
	for _, names := range c.ids {
		slices.Sort(names)
		for _, name := range names[1:] {
			c.picture.Find(name).Same = names[0]
		}
	}
}

func bareError(err error) error {
	var e *fs.PathError
	if errors.As(err, &e) {
		return e.Err // without a path of this machine
	}
	return err
}

func specialKind(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "named pipe"
	case mode&fs.ModeSocket != 0:
		return "socket"
	case mode&fs.ModeDevice != 0:
		return "device"
	}
	return "special file"
}
