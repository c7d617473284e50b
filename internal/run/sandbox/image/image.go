// Package image keeps the file systems that rubrics run on: a folder tree with
// a Python in it, named by the digest of all its files.
//
// [BuildCPython] compiles the pinned one from source, [ImportOCI] unpacks one
// that somebody else built, and [SnapshotHost] copies this machine's Python,
// which is not pinned. [Find] and [List] read the cache. Whoever runs
// something in an image calls [Image.Verify] first: what is on disk now is
// compared with the digest.
package image

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/zeebo/blake3"

	"tallystick/internal/record/refusal"
)

// An Image is a folder tree with a Python in it, named by its digest.
//
// On disk it is <cache>/<hex of the digest>/, with image.json beside the tree
// "root". The digest covers both, see [Image.Verify].
type Image struct {
	Digest string // blake3:<64 hex>
	Dir    string // the folder that holds image.json and root
	About  About

	mu      sync.Mutex
	seen    map[string]seenFile // by path, see Verify
	resting []restingEntry      // the whole tree as last hashed; nil if part of it was too young
}

// A seenFile is the line of a file that was hashed before, good as long as
// the file is the same and was not changed since.
type seenFile struct {
	identity fileIdentity
	hashed   time.Time
	line     string
}

// A fileIdentity changes whenever a file's content may have: even one who can
// set a file's times back cannot set its change time.
type fileIdentity struct {
	device, inode uint64
	size          int64
	modified      int64 // nanoseconds
	changed       int64
	mode          uint32
}

// A restingEntry is a file, folder or link of a tree that was hashed when it
// had been left alone for a while. A folder's identity changes when a name in
// it comes, goes or changes.
type restingEntry struct {
	dir, name string
	identity  fileIdentity
}

// Settled is how long a file must have been left alone before it was hashed
// for its identity to be trusted: within one tick of the file system's clock
// a change would not show.
const Settled = 2 * time.Second

// About is image.json: what an image is and how its Python is started.
type About struct {
	Kind    string   `json:"kind"`    // built, oci or host
	Source  string   `json:"source"`  // what it was made from, with that thing's own digest
	Pinned  bool     `json:"pinned"`  // false: made of whatever this machine has; never promotable
	Command []string `json:"command"` // the interpreter and its flags; the rubric's path follows
	Env     []string `json:"env"`     // the whole environment of the rubric
}

// MountPoints are folders that every image has, empty: the sandbox puts the
// rubric and its kernel's own file systems there.
var MountPoints = []string{"dev", "proc", "sys", "tmp", "rubric"}

// Open loads an image and verifies it.
func Open(dir string) (*Image, error) {
	b, err := os.ReadFile(filepath.Join(dir, "image.json"))
	if err != nil {
		return nil, refusal.Newf(refusal.NotFound, "reading image: %w", err).
			WithHint(`"tally sandbox image show" lists the images there are`)
	}
	i := &Image{Dir: dir, Digest: "blake3:" + filepath.Base(dir)}
	if err := json.Unmarshal(b, &i.About); err != nil {
		return nil, refusal.Newf(refusal.Malformed, "%s: image.json: %w", dir, err).WithHint("the image was changed; remove its folder and make it again")
	}
	if len(i.About.Command) == 0 {
		return nil, refusal.Newf(refusal.Malformed, "%s: image.json names no command", dir)
	}
	return i, i.Verify()
}

// Root is the folder that becomes / in the sandbox.
func (i *Image) Root() string { return filepath.Join(i.Dir, "root") }

// Verify hashes the image again and compares. The digest is BLAKE3 of a
// listing: one line for image.json and one for each entry of the tree, sorted
// by path bytes,
//
//	f <0755 or 0644> <size> <blake3 of the content, hex> <path>
//	l <target> <path>
//	d <path>
//
// each ended by a newline. Target and path have backslash and newline escaped
// as \\ and \n, space as \s. A file that was hashed before by this Image and
// whose identity, change time included, is the same is not hashed again; and
// when that is so for everything in the tree, neither is the listing.
func (i *Image) Verify() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.rests() {
		return nil
	}
	if i.seen == nil {
		i.seen = map[string]seenFile{}
	}
	i.resting = restingEntries(i.Dir, time.Now())
	got, err := treeDigest(i.Dir, i.seen)
	if err != nil {
		i.resting = nil
		return refusal.Newf(refusal.Unreadable, "image %s: %w", i.Digest, err)
	}
	if got != i.Digest {
		i.resting = nil
		return refusal.Newf(refusal.DigestMismatch, "image %s: its files now have the digest %s", i.Digest, got).
			WithHint("the image was changed; remove %s and make it again", i.Dir)
	}
	return nil
}

// rests reports whether everything in the tree is what it was when the tree
// was last hashed and found right.
func (i *Image) rests() bool {
	return len(i.resting) > 0 && sameEntries(i.resting)
}

// restingEntries lists a tree before it is hashed, or returns nil if part of it
// was changed just now: a change right after might not show.
func restingEntries(dir string, now time.Time) []restingEntry {
	var all []restingEntry
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(p)
		if err != nil {
			return err
		}
		id, ok := identityOf(info)
		if !ok || now.Sub(time.Unix(0, id.changed)) <= Settled {
			return errYoung
		}
		all = append(all, restingEntry{dir: filepath.Dir(p), name: filepath.Base(p), identity: id})
		return nil
	})
	if err != nil {
		return nil
	}
	// Folder by folder, see sameEntries.
	slices.SortStableFunc(all, func(a, b restingEntry) int { return strings.Compare(a.dir, b.dir) })
	return all
}

var errYoung = errors.New("changed a moment ago")

// treeDigest hashes a tree. seen may be nil.
func treeDigest(dir string, seen map[string]seenFile) (string, error) {
	var lines []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		line, err := treeLine(p, d, seen)
		if err != nil {
			return err
		}
		lines = append(lines, line+" "+escapePath(filepath.ToSlash(rel))+"\n")
		return nil
	})
	if err != nil {
		return "", err
	}
	// WalkDir's order is by name within a folder, not by whole path.
	sort.Slice(lines, func(a, b int) bool { return pathOf(lines[a]) < pathOf(lines[b]) })
	h := blake3.New()
	for _, l := range lines {
		io.WriteString(h, l)
	}
	return "blake3:" + hex.EncodeToString(h.Sum(nil)), nil
}

func treeLine(p string, d fs.DirEntry, seen map[string]seenFile) (string, error) {
	switch {
	case d.IsDir():
		return "d", nil
	case d.Type() == fs.ModeSymlink:
		target, err := os.Readlink(p)
		return "l " + escapePath(target), err
	case !d.Type().IsRegular():
		return "", fmt.Errorf("%s: neither file, folder nor link", p)
	}
	info, err := d.Info()
	if err != nil {
		return "", err
	}
	now := time.Now()
	id, known := identityOf(info)
	if before, ok := seen[p]; known && ok && before.identity == id && before.hashed.Sub(time.Unix(0, id.changed)) > Settled {
		return before.line, nil
	}
	line, err := fileLine(p)
	if err == nil && known && seen != nil {
		seen[p] = seenFile{identity: id, hashed: now, line: line}
	}
	return line, err
}

func fileLine(p string) (string, error) {
	f, err := os.Open(p)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	h := blake3.New()
	n, err := io.Copy(h, f)
	mode := "0644"
	if info.Mode()&0o111 != 0 {
		mode = "0755"
	}
	return fmt.Sprintf("f %s %d %x", mode, n, h.Sum(nil)), err
}

var pathEscaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`, " ", `\s`)

func escapePath(p string) string { return pathEscaper.Replace(p) }

func pathOf(line string) string { return line[strings.LastIndexByte(line, ' ')+1:] }

// Cache is where images are kept unless told otherwise: below the user's
// cache folder.
func Cache() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", refusal.Newf(refusal.Failed, "finding the cache folder: %w", err).WithHint("set XDG_CACHE_HOME or HOME")
	}
	return filepath.Join(dir, "tallystick", "images"), nil
}

// List lists the images in a cache, unverified, by digest.
func List(cache string) ([]*Image, error) {
	entries, err := os.ReadDir(cache)
	if err != nil && !os.IsNotExist(err) {
		return nil, refusal.Newf(refusal.Unreadable, "listing images: %w", err)
	}
	var images []*Image
	for _, e := range entries {
		if raw, err := hex.DecodeString(e.Name()); err != nil || len(raw) != 32 {
			continue
		}
		dir := filepath.Join(cache, e.Name())
		b, err := os.ReadFile(filepath.Join(dir, "image.json"))
		if err != nil {
			return nil, refusal.Newf(refusal.Unreadable, "reading image: %w", err)
		}
		i := &Image{Dir: dir, Digest: "blake3:" + e.Name()}
		if err := json.Unmarshal(b, &i.About); err != nil {
			return nil, refusal.Newf(refusal.Malformed, "%s: image.json: %w", dir, err).WithHint("the image was changed; remove its folder and make it again")
		}
		images = append(images, i)
	}
	return images, nil
}

// Find opens the image with this digest from a cache.
func Find(cache, digest string) (*Image, error) {
	name, ok := strings.CutPrefix(digest, "blake3:")
	if raw, err := hex.DecodeString(name); !ok || err != nil || len(raw) != 32 {
		return nil, refusal.Newf(refusal.Usage, "image digest %q: want blake3: and 64 hex digits", digest)
	}
	return Open(filepath.Join(cache, name))
}

// A draft is an image being made. Until finish it is a folder that
// nothing looks at; a crash leaves only that, under a name that starts with a
// dot.
type draft struct{ cache, dir string }

func newDraft(cache string) (*draft, error) {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, refusal.Newf(refusal.WriteFailed, "making the image cache: %w", err)
	}
	dir, err := os.MkdirTemp(cache, ".draft-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "root"), 0o755)
	}
	if err != nil {
		return nil, refusal.Newf(refusal.WriteFailed, "making an image: %w", err)
	}
	return &draft{cache: cache, dir: dir}, nil
}

func (d *draft) root() string { return filepath.Join(d.dir, "root") }

func (d *draft) discard() { os.RemoveAll(d.dir) }

// finish adds the mount points and image.json, and moves the draft to its
// digest's name. An image that is there already is kept.
func (d *draft) finish(about About) (*Image, error) {
	for _, m := range MountPoints {
		p := filepath.Join(d.root(), m)
		if err := os.RemoveAll(p); err != nil {
			return nil, refusal.Newf(refusal.WriteFailed, "making image: %w", err)
		}
		if err := os.Mkdir(p, 0o755); err != nil {
			return nil, refusal.Newf(refusal.WriteFailed, "making image: %w", err)
		}
	}
	if err := settleModes(d.dir); err != nil {
		return nil, refusal.Newf(refusal.WriteFailed, "making image: %w", err)
	}
	b, err := json.MarshalIndent(about, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(d.dir, "image.json"), append(b, '\n'), 0o644)
	}
	if err != nil {
		return nil, refusal.Newf(refusal.WriteFailed, "making image: %w", err)
	}
	digest, err := treeDigest(d.dir, nil)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "making image: %w", err)
	}
	final := filepath.Join(d.cache, strings.TrimPrefix(digest, "blake3:"))
	if _, err := os.Stat(final); err == nil {
		d.discard()
		return Open(final)
	}
	if err := os.Rename(d.dir, final); err != nil {
		return nil, refusal.Newf(refusal.WriteFailed, "making image: %w", err)
	}
	return &Image{Digest: digest, Dir: final, About: about}, nil
}

// settleModes makes everything readable for all, whatever the umask was: as
// root the sandbox reads the image as another user.
func settleModes(dir string) error {
	return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.Type() == fs.ModeSymlink {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if d.IsDir() || info.Mode()&0o111 != 0 {
			return os.Chmod(p, 0o755)
		}
		return os.Chmod(p, 0o644)
	})
}
