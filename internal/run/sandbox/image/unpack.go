package image

import (
	"archive/tar"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/zeebo/blake3"
)

// Bounds on what layers may unpack to, so that a hostile one can fill neither the disk
// nor the time of who unpacks it.
const (
	maxOCIBytes   = 32 << 30
	maxOCIFiles   = 1_000_000
	maxLayers     = 512
	maxNameBytes  = 4000 // the kernel opens no path of more than 4,096
	maxPartBytes  = 255
	maxLinksInWay = 40 // as the kernel

	// A layer may unpack to maxRatio times the bytes that were read of it, and to
	// freeBytes besides. What people ship compresses to a third; gzip cannot exceed
	// 1,032, zstd and sparse files know no bound.
	maxRatio  = 300
	freeBytes = 256 << 20
)

// whiteout begins the names of a layer that hide something of the layers below.
const (
	whiteout       = ".wh."
	whiteoutSystem = ".wh..wh."
	whiteoutOpaque = ".wh..wh..opq"
)

// A ratio compares what was read with what came of it.
type ratio struct{ in, out int64 }

func (r *ratio) add(out int64) error {
	if out < 0 || r.out > maxOCIBytes-out {
		return fmt.Errorf("the image is over %d bytes", int64(maxOCIBytes))
	}
	if r.out += out; r.out-freeBytes > maxRatio*r.in {
		return fmt.Errorf("%d bytes unpack to more than %d: over %d times as many, as in a compression bomb", r.in, r.out, maxRatio)
	}
	return nil
}

// An unpacker applies layers to a tree, the lowest first.
//
// Names are looked up from the tree's top one part at a time, and links that stand in
// the way of an entry lead where they would lead in the image: an absolute one begins
// at the tree's top, and .. never leads above it. All work is done in folders held open
// by os.Root, so what this gets wrong still stays in the tree.
type unpacker struct {
	root  *os.Root
	bytes ratio // of all layers, sparse files with their holes
	files int

	// lines are those of the files in the tree, as in the image's listing, by path:
	// they were hashed while they were written.
	lines map[string]string

	keepLinks   bool // where a folder comes and a link to one is, the link stays
	noWhiteouts bool // names that begin with .wh. are names

	fresh map[string]bool // paths that the present layer made
	dir   openDir         // where the last entry was made
}

// An openDir is a folder of the tree that is held open.
type openDir struct {
	asked string // by the name of the entry
	path  string // after links
	root  *os.Root
}

func newUnpacker(root *os.Root) *unpacker {
	return &unpacker{root: root, lines: map[string]string{}}
}

func (u *unpacker) close() {
	if u.dir.root != nil {
		u.dir.root.Close()
		u.dir = openDir{}
	}
}

// layer applies one layer, and reads r to its end.
func (u *unpacker) layer(r io.Reader) error {
	u.fresh = map[string]bool{}
	t := tar.NewReader(r)
	for {
		h, err := t.Next()
		if err == io.EOF {
			_, err := io.Copy(io.Discard, r)
			return err
		}
		if err != nil {
			return err
		}
		if u.files++; u.files > maxOCIFiles {
			return fmt.Errorf("more than %d files", maxOCIFiles)
		}
		if err := u.entry(t, h); err != nil {
			return fmt.Errorf("%.200q: %w", h.Name, err)
		}
	}
}

// cleanName is the path of an entry below the tree's top, "" for the top itself.
func cleanName(name string) (string, error) {
	if len(name) > maxNameBytes {
		return "", fmt.Errorf("a name of %d bytes, expected at most %d", len(name), maxNameBytes)
	}
	if strings.ContainsRune(name, 0) {
		return "", errors.New("a zero byte in the name")
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", errors.New("a name with .. in it leads out of its folder")
		}
		if len(part) > maxPartBytes {
			return "", fmt.Errorf("a part of %d bytes in the name, expected at most %d", len(part), maxPartBytes)
		}
	}
	return strings.TrimPrefix(path.Clean("/"+name), "/"), nil
}

func (u *unpacker) entry(t io.Reader, h *tar.Header) error {
	name, err := cleanName(h.Name)
	if err != nil || name == "" {
		return err
	}
	base := path.Base(name)
	if !u.noWhiteouts && slices.ContainsFunc(strings.Split(path.Dir(name), "/"), func(part string) bool { return strings.HasPrefix(part, whiteout) }) {
		return errors.New("it lies in a whiteout, which is not a folder")
	}
	hides := !u.noWhiteouts && strings.HasPrefix(base, whiteout)
	if hides && slices.Contains([]string{"", ".", ".."}, strings.TrimPrefix(base, whiteout)) {
		return errors.New("a whiteout that names no entry of its folder")
	}
	if u.keepLinks && h.Typeflag == tar.TypeDir {
		_, err := u.resolve(name, true)
		return err
	}
	dir, err := u.open(path.Dir(name), !hides)
	if errors.Is(err, fs.ErrNotExist) && hides {
		return nil // there is nothing to hide
	}
	if err != nil {
		return err
	}
	if hides {
		return u.whiteout(dir, base)
	}
	if err := u.place(dir, base, h.Typeflag == tar.TypeDir); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		err = u.folder(dir, base)
	case tar.TypeSymlink:
		err = u.symlink(dir, base, h.Linkname)
	case tar.TypeLink:
		err = u.hardLink(dir, base, h.Linkname)
	case tar.TypeReg, tar.TypeGNUSparse:
		err = u.file(dir, base, t, h)
	default:
		return nil // devices, pipes and the like: what was there is gone, and nothing comes
	}
	u.made(path.Join(dir.path, base))
	return err
}

// made notes what the present layer has: the path, and the folders that it lies in.
func (u *unpacker) made(name string) {
	for ; name != "." && !u.fresh[name]; name = path.Dir(name) {
		u.fresh[name] = true
	}
}

// open opens the folder of an entry, which the unpacker holds until the next call.
func (u *unpacker) open(dir string, create bool) (*openDir, error) {
	if u.dir.root != nil && u.dir.asked == dir {
		return &u.dir, nil
	}
	u.close()
	at, err := u.resolve(dir, create)
	if err != nil {
		return nil, err
	}
	root, err := u.root.OpenRoot(at)
	if err != nil {
		return nil, err
	}
	u.dir = openDir{dir, at, root}
	return &u.dir, nil
}

// resolve finds a folder of the tree, and makes it if it is to be created. What is in
// the way and neither a folder nor a link is replaced.
func (u *unpacker) resolve(dir string, create bool) (string, error) {
	at, links := ".", 0
	for parts := strings.Split(dir, "/"); len(parts) > 0; {
		part := parts[0]
		parts = parts[1:]
		if part == "" || part == "." {
			continue
		}
		if part == ".." { // of a link
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, part)
		info, err := u.root.Lstat(next)
		switch {
		case err == nil && info.IsDir():
			at = next
		case err == nil && info.Mode()&fs.ModeSymlink != 0:
			if links++; links > maxLinksInWay {
				return "", fmt.Errorf("more than %d links lead to %.200q", maxLinksInWay, dir)
			}
			target, err := u.root.Readlink(next)
			if err != nil {
				return "", err
			}
			if path.IsAbs(target) {
				at = "."
			}
			parts = append(strings.Split(target, "/"), parts...)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return "", err
		case !create:
			return "", fs.ErrNotExist
		default:
			if err == nil {
				if err := u.remove(next); err != nil {
					return "", err
				}
			}
			if err := mkdir(u.root, next); err != nil {
				return "", err
			}
			u.made(next)
			at = next
		}
	}
	return at, nil
}

// mkdir makes a folder that is readable whatever the umask is.
func mkdir(root *os.Root, name string) error {
	if err := root.Mkdir(name, 0o755); err != nil {
		return err
	}
	return root.Chmod(name, 0o755)
}

// place makes room for an entry: what has its name goes, but for a folder where a
// folder comes.
func (u *unpacker) place(dir *openDir, base string, folder bool) error {
	info, err := dir.root.Lstat(base)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() && folder {
		return nil
	}
	if err != nil {
		return err
	}
	return u.remove(path.Join(dir.path, base))
}

// remove removes a path that is after links, and what lies below it.
func (u *unpacker) remove(name string) error {
	delete(u.lines, name)
	info, err := u.root.Lstat(name)
	if err != nil {
		return err
	}
	if info.IsDir() {
		for p := range u.lines {
			if strings.HasPrefix(p, name+"/") {
				delete(u.lines, p)
			}
		}
	}
	return u.root.RemoveAll(name)
}

func (u *unpacker) folder(dir *openDir, base string) error {
	err := mkdir(dir.root, base)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

func (u *unpacker) symlink(dir *openDir, base, target string) error {
	if target == "" || len(target) > maxNameBytes || strings.ContainsRune(target, 0) {
		return fmt.Errorf("a link to a name of %d bytes", len(target))
	}
	return dir.root.Symlink(target, base)
}

// hardLink gives a file of the image a second name. Nothing is looked for through
// links, neither the file nor the folders that it lies in.
func (u *unpacker) hardLink(dir *openDir, base, target string) error {
	name, err := cleanName(target)
	if err != nil {
		return fmt.Errorf("a hard link to %.200q: %w", target, err)
	}
	for p := path.Dir(name); p != "."; p = path.Dir(p) {
		info, err := u.root.Lstat(p)
		if err != nil {
			return fmt.Errorf("a hard link to %.200q: %w", target, err)
		}
		if !info.IsDir() {
			return fmt.Errorf("a hard link to %.200q, but %.200q is not a folder of the image", target, p)
		}
	}
	info, err := u.root.Lstat(name)
	if err != nil {
		return fmt.Errorf("a hard link to %.200q: %w", target, err)
	}
	switch here := path.Join(dir.path, base); {
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := u.root.Readlink(name)
		if err != nil {
			return err
		}
		return u.symlink(dir, base, to)
	case !info.Mode().IsRegular():
		return fmt.Errorf("a hard link to %.200q, which is not a file of the image", target)
	default:
		u.lines[here] = u.lines[name]
		return u.root.Link(name, here)
	}
}

func (u *unpacker) file(dir *openDir, base string, t io.Reader, h *tar.Header) error {
	if err := u.bytes.add(h.Size); err != nil {
		return err
	}
	mode, shown := os.FileMode(0o644), "0644"
	if h.Mode&0o111 != 0 {
		mode, shown = 0o755, "0755"
	}
	f, err := dir.root.OpenFile(base, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	sum := blake3.New()
	n, err := io.CopyBuffer(io.MultiWriter(f, sum), struct{ io.Reader }{t}, u.buffer(h.Size))
	if err == nil && n != h.Size {
		err = fmt.Errorf("%d bytes, its header says %d", n, h.Size)
	}
	// The umask may have taken bits away.
	if err := errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return err
	}
	u.lines[path.Join(dir.path, base)] = fmt.Sprintf("f %s %d %s", shown, n, hex.EncodeToString(sum.Sum(nil)))
	return nil
}

// buffer is for copying a file of this size.
func (u *unpacker) buffer(size int64) []byte {
	return make([]byte, min(max(size, 512), 256<<10))
}

// whiteout hides what layers below have; what the present layer made stays, before and
// after its whiteouts.
func (u *unpacker) whiteout(dir *openDir, base string) error {
	if base == whiteoutOpaque {
		return u.hideIn(dir.path)
	}
	if strings.HasPrefix(base, whiteoutSystem) {
		return nil // notes of an old file system to itself
	}
	return u.hide(path.Join(dir.path, strings.TrimPrefix(base, whiteout)))
}

func (u *unpacker) hide(name string) error {
	info, err := u.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !u.fresh[name]:
		return u.remove(name)
	case info.IsDir():
		return u.hideIn(name)
	}
	return nil
}

func (u *unpacker) hideIn(dir string) error {
	d, err := u.root.Open(dir)
	if err != nil {
		return err
	}
	names, err := d.Readdirnames(-1)
	d.Close()
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := u.hide(path.Join(dir, n)); err != nil {
			return err
		}
	}
	return nil
}
