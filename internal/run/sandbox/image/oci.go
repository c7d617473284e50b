package image

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/klauspost/compress/zstd"

	"tallystick/internal/record/refusal"
)

// Bounds on an OCI image, so that a hostile layer cannot fill the disk.
const (
	maxOCIDocument = 4 << 20
	maxOCIBytes    = 4 << 30
	maxOCIFiles    = 200000
)

type ociDescriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
	Platform  *struct {
		OS           string `json:"os"`
		Architecture string `json:"architecture"`
	} `json:"platform"`
}

// ImportOCI makes an image from the manifest with the given digest
// (sha256:<hex>) in an OCI layout folder, such as skopeo or crane write. Every
// blob is checked against its digest while it is read. Devices, ownership and
// set-user bits are dropped. python is the interpreter's path in the image;
// empty means the first that is found, and none is for agents only.
func ImportOCI(cache, layout, digest, python string) (*Image, error) {
	root, err := os.OpenRoot(layout)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "opening the OCI layout: %w", err)
	}
	defer root.Close()
	in := ociLayout{root}
	layers, err := in.layers(digest)
	if err != nil {
		return nil, err
	}
	d, err := newDraft(cache)
	if err != nil {
		return nil, err
	}
	defer d.discard()
	tree, err := os.OpenRoot(d.root())
	if err != nil {
		return nil, refusal.Newf(refusal.WriteFailed, "making image: %w", err)
	}
	defer tree.Close()
	u := unpacker{root: tree}
	for _, l := range layers {
		if err := in.unpack(l, &u); err != nil {
			return nil, err
		}
	}
	// An agent needs no Python in its image; a rubric does, and says so.
	command := []string{}
	if python = cmp.Or(python, findPython(tree)); python != "" {
		command = []string{python, "-s", "-B"}
	}
	return d.finish(About{
		Kind:    OCI,
		Source:  digest,
		Pinned:  true,
		Command: command,
		Env:     []string{"PYTHONHASHSEED=0"},
	})
}

func findPython(tree *os.Root) string {
	for _, p := range []string{"usr/local/bin/python3", "usr/bin/python3", "bin/python3", "opt/python/bin/python3"} {
		if _, err := tree.Lstat(p); err == nil {
			return "/" + p
		}
	}
	return ""
}

// An ociLayout reads blobs by digest.
type ociLayout struct{ root *os.Root }

// open opens a blob for reading. What is read is only good when the returned
// check passes at the end.
func (o ociLayout) open(digest string) (r io.Reader, check func() error, err error) {
	name, ok := strings.CutPrefix(digest, "sha256:")
	if raw, err := hex.DecodeString(name); !ok || err != nil || len(raw) != sha256.Size {
		return nil, nil, refusal.Newf(refusal.Malformed, "OCI digest %q: want sha256: and 64 hex digits", digest)
	}
	f, err := o.root.Open(path.Join("blobs/sha256", name))
	if err != nil {
		return nil, nil, refusal.Newf(refusal.NotFound, "OCI blob %s: %w", digest, err)
	}
	h := sha256.New()
	r = io.TeeReader(f, h)
	check = func() error {
		defer f.Close()
		if _, err := io.Copy(io.Discard, r); err != nil {
			return refusal.Newf(refusal.Unreadable, "OCI blob %s: %w", digest, err)
		}
		if got := "sha256:" + hex.EncodeToString(h.Sum(nil)); got != digest {
			return refusal.Newf(refusal.DigestMismatch, "OCI blob %s has the digest %s", digest, got).
				WithHint("the layout is damaged or was changed; fetch it again by digest")
		}
		return nil
	}
	return r, check, nil
}

func (o ociLayout) document(digest string, into any) error {
	r, check, err := o.open(digest)
	if err != nil {
		return err
	}
	b, err := io.ReadAll(io.LimitReader(r, maxOCIDocument))
	if err := errors.Join(check(), err); err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return refusal.Newf(refusal.Malformed, "OCI blob %s: %w", digest, err)
	}
	return nil
}

// layers follows a manifest, or an index to the manifest of this machine.
func (o ociLayout) layers(digest string) ([]ociDescriptor, error) {
	for range 3 {
		var doc struct {
			Manifests []ociDescriptor `json:"manifests"`
			Layers    []ociDescriptor `json:"layers"`
		}
		if err := o.document(digest, &doc); err != nil {
			return nil, err
		}
		if len(doc.Layers) > 0 {
			return doc.Layers, nil
		}
		next := ""
		for _, m := range doc.Manifests {
			if m.Platform == nil || m.Platform.OS == "linux" && m.Platform.Architecture == runtime.GOARCH {
				next = m.Digest
				break
			}
		}
		if next == "" {
			return nil, refusal.Newf(refusal.NotFound, "%s has no manifest for linux/%s", digest, runtime.GOARCH)
		}
		digest = next
	}
	return nil, refusal.Newf(refusal.Malformed, "%s: index within index within index", digest)
}

func (o ociLayout) unpack(l ociDescriptor, u *unpacker) error {
	r, check, err := o.open(l.Digest)
	if err != nil {
		return err
	}
	plain, err := decompress(l.MediaType, r)
	if err == nil {
		err = u.layer(plain)
	}
	// A layer that does not have its digest is wrong whatever was in it; say
	// that first.
	if err := check(); err != nil {
		return err
	}
	if err != nil {
		return refusal.Newf(refusal.Malformed, "OCI layer %s: %w", l.Digest, err)
	}
	return nil
}

func decompress(mediaType string, r io.Reader) (io.Reader, error) {
	switch {
	case strings.HasSuffix(mediaType, "gzip"):
		return gzip.NewReader(r)
	case strings.HasSuffix(mediaType, "zstd"):
		z, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	case strings.HasSuffix(mediaType, "tar"):
		return r, nil
	}
	return nil, fmt.Errorf("media type %q is not a tar, gzip or zstd layer", mediaType)
}

// An unpacker applies layers to a tree through os.Root, so that no name and
// no link in a layer can reach outside it.
type unpacker struct {
	root  *os.Root
	bytes int64
	files int
}

func (u *unpacker) layer(r io.Reader) error {
	t := tar.NewReader(r)
	for {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if u.files++; u.files > maxOCIFiles {
			return fmt.Errorf("more than %d files", maxOCIFiles)
		}
		name := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
		if name == "" {
			continue
		}
		if err := u.entry(t, h, name); err != nil {
			return fmt.Errorf("%q: %w", h.Name, err)
		}
	}
}

func (u *unpacker) entry(t io.Reader, h *tar.Header, name string) error {
	// A whiteout deletes what an earlier layer had.
	if base := path.Base(name); base == ".wh..wh..opq" {
		return u.empty(path.Dir(name))
	} else if hidden, ok := strings.CutPrefix(base, ".wh."); ok {
		return u.root.RemoveAll(path.Join(path.Dir(name), hidden))
	}
	if dir := path.Dir(name); dir != "." {
		if err := u.root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if info, err := u.root.Lstat(name); err == nil && !(info.IsDir() && h.Typeflag == tar.TypeDir) {
		if err := u.root.RemoveAll(name); err != nil {
			return err
		}
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return u.root.MkdirAll(name, 0o755)
	case tar.TypeSymlink:
		return u.root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		return u.root.Link(strings.TrimPrefix(path.Clean("/"+h.Linkname), "/"), name)
	case tar.TypeReg:
		return u.file(t, h, name)
	}
	return nil // devices and the like have no place in a rubric's image
}

func (u *unpacker) file(t io.Reader, h *tar.Header, name string) error {
	if u.bytes += h.Size; u.bytes > maxOCIBytes {
		return fmt.Errorf("the image is over %d bytes", int64(maxOCIBytes))
	}
	mode := os.FileMode(0o644)
	if h.Mode&0o111 != 0 {
		mode = 0o755
	}
	f, err := u.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, t)
	return errors.Join(err, f.Close())
}

func (u *unpacker) empty(dir string) error {
	d, err := u.root.Open(dir)
	if err != nil {
		return nil // opaque over nothing
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := u.root.RemoveAll(path.Join(dir, n)); err != nil {
			return err
		}
	}
	return nil
}

// LayoutManifests lists the digests that an OCI layout's index names, for a
// person who did not give one.
func LayoutManifests(layout string) ([]string, error) {
	b, err := os.ReadFile(filepath.Join(layout, "index.json"))
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "reading the OCI layout: %w", err)
	}
	var index struct {
		Manifests []ociDescriptor `json:"manifests"`
	}
	if err := json.NewDecoder(bytes.NewReader(b)).Decode(&index); err != nil {
		return nil, refusal.Newf(refusal.Malformed, "%s/index.json: %w", layout, err)
	}
	var digests []string
	for _, m := range index.Manifests {
		digests = append(digests, m.Digest)
	}
	return digests, nil
}
