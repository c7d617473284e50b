// Package image keeps the file systems that rubrics and agents run on: a folder tree,
// for rubrics with a Python in it, named by the digest of all its files.
//
// [BuildCPython] compiles the pinned one from source, [ImportOCI] unpacks one
// that was built elsewhere, and [SnapshotHost] copies this machine's Python,
// which is not pinned. [Find] and [List] read the cache. A caller that runs
// something in an image calls [Image.Verify] first: what is on disk now is
// compared with the digest.
package image

import (
	"bytes"
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

	"github.com/zeebo/blake3"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/sandbox/identity"
)

// An Image is a folder tree with a Python in it, named by its digest.
//
// On disk it is <cache>/<hex of the digest>/, with image.json beside the tree
// "root". The digest covers both, see [Image.Verify].
type Image struct {
	Digest string // blake3:<64 hex>
	Dir    string // the folder that holds image.json and root
	About  About

	mu   sync.Mutex
	tree *identity.Tree // as it was when it was last hashed and found right
}

// About is image.json: what an image is and how its Python is started.
type About struct {
	Kind    Kind     `json:"kind"`
	Source  string   `json:"source"`  // what it was made from, with that thing's own digest
	Pinned  bool     `json:"pinned"`  // false: made of whatever this machine has; never promotable
	Command []string `json:"command"` // the interpreter and its flags; the rubric's path follows. None: for agents only
	Env     []string `json:"env"`     // the whole environment of the rubric
}

// A Kind says how an image was made.
type Kind string

// The kinds. The first one can be proved: the program knows the digests that its
// recipe gives. The others are what the image says of itself.
const (
	Built    Kind = "built"    // of the pinned recipe, with one of the digests that it gives
	Compiled Kind = "compiled" // of the same recipe, with a compiler that gives another digest
	OCI      Kind = "oci"      // taken from an OCI layout by digest
	Made     Kind = "made"     // by a recipe of a person's, twice with the same result
	Loose    Kind = "loose"    // by a recipe that was run once, or on an image that is not pinned
	Host     Kind = "host"     // a snapshot of a machine's own Python
)

var kinds = []Kind{Built, Compiled, OCI, Host, Made, Loose}

// pinned reports whether an image of the kind is one that others can get too.
func (k Kind) pinned() bool { return k == Built || k == OCI || k == Made }

// MountPoints are folders that every image has, empty: the sandbox puts the
// rubric and its kernel's own file systems there.
var MountPoints = []string{"dev", "proc", "sys", "tmp", "rubric"}

// Open loads an image and verifies it.
func Open(dir string) (*Image, error) {
	i, err := load(dir)
	if err != nil {
		return nil, err
	}
	return i, i.Verify()
}

// load reads what an image says of itself.
func load(dir string) (*Image, error) {
	// A link could be turned to another folder after it was verified.
	if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
		return nil, refusal.Newf(refusal.Malformed, "image %s is a %s, expected a folder", dir, kindOfFile(info.Mode())).WithHint("put the image itself there, or make it again")
	}
	b, err := os.ReadFile(filepath.Join(dir, "image.json"))
	if err != nil {
		return nil, refusal.Newf(refusal.NotFound, "reading image: %w", err).
			WithHint(`"tally sandbox image show" lists the images there are`)
	}
	i := &Image{Dir: dir, Digest: "blake3:" + filepath.Base(dir)}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&i.About); err != nil {
		return nil, refusal.Newf(refusal.Malformed, "%s: image.json: %w", dir, err).WithHint("the image was changed; remove its folder and make it again")
	}
	return i, nil
}

func kindOfFile(m fs.FileMode) string {
	if m&fs.ModeSymlink != 0 {
		return "link"
	}
	return "file"
}

// checkAbout refuses an image that says of itself what is not so. That an image is
// built is not believed: its digest is compared with those that the recipe gives.
func (i *Image) checkAbout() error {
	a := &i.About
	switch {
	case len(a.Command) == 0 && !slices.Contains([]Kind{OCI, Made, Loose}, a.Kind):
		return refusal.Newf(refusal.Malformed, "%s: image.json names no command", i.Dir)
	case !slices.Contains(kinds, a.Kind):
		return refusal.Newf(refusal.Malformed, "%s: image.json says that the image is %.40q, expected one of %s", i.Dir, a.Kind, kinds)
	case a.Pinned != a.Kind.pinned():
		return refusal.Newf(refusal.Malformed, "%s: image.json says pinned: %t of an image of the kind %s", i.Dir, a.Pinned, a.Kind).
			WithHint("the image was changed; remove its folder and make it again")
	case a.Kind == Built && !IsBuilt(i.Digest):
		return refusal.Newf(refusal.PinMismatch, "image %s says that it is built, but the recipe of CPython %s in this program gives %s", i.Digest, cpythonVersion, builtList()).
			WithHint(`the label was changed, or another version of this program made the image; remove %s and run "tally sandbox image build"`, i.Dir)
	}
	return nil
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
// as \\ and \n, space as \s. When everything in the tree is, by its identity,
// what it was when this Image was last hashed, it is not hashed again.
func (i *Image) Verify() error {
	_, err := i.Hold()
	return err
}

// Hold is Verify that returns what it looked at: who runs something in the image
// asks afterwards whether that has [identity.Tree.Changed].
func (i *Image) Hold() (*identity.Tree, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.tree != nil && i.tree.Changed() == "" {
		return i.tree, nil
	}
	i.tree = nil
	tree, err := identity.Take(i.Dir, maxOCIFiles+len(MountPoints)+3)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "image %s: %w", i.Digest, err)
	}
	got, err := treeDigest(i.Dir, nil)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "image %s: %w", i.Digest, err)
	}
	if got != i.Digest {
		return nil, refusal.Newf(refusal.DigestMismatch, "image %s: its files now have the digest %s", i.Digest, got).
			WithHint("the image was changed; remove %s and make it again", i.Dir)
	}
	if err := i.checkAbout(); err != nil {
		return nil, err
	}
	if changed := tree.Changed(); changed != "" {
		return nil, refusal.Newf(refusal.ShownChanged, "image %s: %s, while it was read", i.Digest, changed).WithHint("leave the image alone, and run this again")
	}
	i.tree = tree
	return tree, nil
}

// treeDigest hashes a tree. known are lines of files below its root folder that need
// not be read again.
func treeDigest(dir string, known map[string]string) (string, error) {
	var lines []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		line := known[strings.TrimPrefix(rel, "root/")]
		if line == "" || !d.Type().IsRegular() || !strings.HasPrefix(rel, "root/") {
			if line, err = treeLine(p, d); err != nil {
				return err
			}
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

func treeLine(p string, d fs.DirEntry) (string, error) {
	switch {
	case d.IsDir():
		return "d", nil
	case d.Type() == fs.ModeSymlink:
		target, err := os.Readlink(p)
		return "l " + escapePath(target), err
	case !d.Type().IsRegular():
		return "", fmt.Errorf("%s: neither file, folder nor link", p)
	}
	return fileLine(p)
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
	if identity.OpenForWriting(f) {
		return "", fmt.Errorf("%s: a program has it open for writing", p)
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

// List lists the images in a cache by digest. They are not verified: what they say
// of themselves may be wrong.
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
		i, err := load(dir)
		if err != nil {
			return nil, err
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
type draft struct {
	cache, dir string
	// lines are those of the tree's files that were hashed while they were written;
	// nil if none was, and then their modes may have to be settled too.
	lines map[string]string
}

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
		if err := errors.Join(os.Mkdir(p, 0o755), os.Chmod(p, 0o755)); err != nil {
			return nil, refusal.Newf(refusal.WriteFailed, "making image: %w", err)
		}
	}
	if err := d.settleModes(); err != nil {
		return nil, refusal.Newf(refusal.WriteFailed, "making image: %w", err)
	}
	digest, err := d.digest(about)
	if err == nil && about.Kind == Built && !IsBuilt(digest) {
		// Another compiler, or another C library. Other machines cannot compare
		// it.
		about.Kind, about.Pinned = Compiled, false
		digest, err = d.digest(about)
	}
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

// digest writes image.json and names the whole.
func (d *draft) digest(about About) (string, error) {
	b, err := json.MarshalIndent(about, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(d.dir, "image.json"), append(b, '\n'), 0o644)
	}
	if err != nil {
		return "", err
	}
	return treeDigest(d.dir, d.lines)
}

// settleModes makes everything readable for all, whatever the umask was: as
// root the sandbox reads the image as another user.
func (d *draft) settleModes() error {
	if d.lines != nil { // they were while it was written
		return os.Chmod(d.root(), 0o755)
	}
	return filepath.WalkDir(d.dir, func(p string, d fs.DirEntry, err error) error {
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
