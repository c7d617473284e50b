package image

import (
	"bufio"
	"cmp"
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

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
)

// maxOCIDocument bounds a manifest, an index and a configuration.
const maxOCIDocument = 4 << 20

// An OCIDescriptor names a blob.
type OCIDescriptor struct {
	MediaType string       `json:"mediaType"`
	Digest    string       `json:"digest"`
	Size      int64        `json:"size"`
	Platform  *OCIPlatform `json:"platform,omitempty"`
}

// An OCIPlatform is what an image is for.
type OCIPlatform struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
	Variant      string `json:"variant,omitempty"`
}

func (p OCIPlatform) String() string {
	s := p.OS + "/" + p.Architecture
	if p.Variant != "" {
		s += "/" + p.Variant
	}
	return s
}

// runs reports whether programs for p run where others for wanted do.
func (p OCIPlatform) runs(wanted OCIPlatform) bool {
	return p.OS == wanted.OS && p.Architecture == wanted.Architecture && (wanted.Variant == "" || p.Variant == wanted.Variant)
}

// ThisPlatform is the one of images that run on this machine.
func ThisPlatform() OCIPlatform { return OCIPlatform{OS: "linux", Architecture: runtime.GOARCH} }

// ParsePlatform reads a platform, such as linux/arm64; "" is this machine's.
func ParsePlatform(text string) (OCIPlatform, error) {
	if text == "" {
		return ThisPlatform(), nil
	}
	parts := strings.Split(text, "/")
	if len(parts) < 2 || len(parts) > 3 || parts[0] != "linux" || parts[1] == "" {
		return OCIPlatform{}, refusal.Newf(refusal.Usage, "platform %.80q: expected linux/ARCHITECTURE, such as linux/amd64", text)
	}
	p := OCIPlatform{OS: parts[0], Architecture: parts[1]}
	if len(parts) == 3 {
		p.Variant = parts[2]
	}
	return p, nil
}

// An OCIManifest is what names the layers of one image; an index names manifests.
type OCIManifest struct {
	MediaType string          `json:"mediaType"`
	Config    *OCIDescriptor  `json:"config"`
	Layers    []OCIDescriptor `json:"layers"`
	Manifests []OCIDescriptor `json:"manifests"`
}

// An OCIConfig is what an image says of itself.
type OCIConfig struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
	Variant      string `json:"variant,omitempty"`
	RootFS       struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
	Config struct {
		Env        []string `json:"Env,omitempty"`
		Entrypoint []string `json:"Entrypoint,omitempty"`
		Cmd        []string `json:"Cmd,omitempty"`
		WorkingDir string   `json:"WorkingDir,omitempty"`
		User       string   `json:"User,omitempty"`
	} `json:"config"`
}

// Pick gives the one manifest of an index that is for the platform. An entry that names
// none is for any.
func (m *OCIManifest) Pick(digest string, wanted OCIPlatform) (OCIDescriptor, error) {
	var has []string
	for _, d := range m.Manifests {
		if d.Platform == nil || d.Platform.runs(wanted) {
			return d, nil
		}
		has = append(has, d.Platform.String())
	}
	return OCIDescriptor{}, refusal.Newf(refusal.NotFound, "%s has no manifest for %s", digest, wanted).
		WithHint("it has %s; --platform names one", plain.Line(strings.Join(has, ", ")))
}

// ParseManifest reads a manifest or an index whose digest was compared.
func ParseManifest(digest string, b []byte) (*OCIManifest, error) {
	var m OCIManifest
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, refusal.Newf(refusal.Malformed, "OCI manifest %s: %w", digest, err)
	}
	switch {
	case len(m.Layers) > 0 && len(m.Manifests) > 0:
		return nil, refusal.Newf(refusal.Malformed, "OCI manifest %s has layers and manifests, expected one of them", digest)
	case len(m.Layers) > maxLayers:
		return nil, refusal.Newf(refusal.TooLarge, "OCI manifest %s has %d layers, expected at most %d", digest, len(m.Layers), maxLayers)
	}
	for _, l := range m.Layers {
		if _, err := hexOf(l.Digest); err != nil {
			return nil, err
		}
		if l.Size < 0 || l.Size > MaxBlob {
			return nil, refusal.Newf(refusal.TooLarge, "OCI layer %s: %d bytes, expected at most %d", l.Digest, l.Size, int64(MaxBlob))
		}
	}
	return &m, nil
}

// An OCIRequest says which image to take, and how.
type OCIRequest struct {
	Digest   string // of a manifest, or of an index that has one
	Python   string // the interpreter's path; "" for the first that is found
	Platform OCIPlatform
	Source   string // what the image says it was made from; "" for the digest
}

// ImportOCI makes an image from the manifest with the given digest
// (sha256:<hex>) in an OCI layout folder, such as skopeo or crane write. Every
// blob is checked against its digest while it is read. Devices, ownership and
// set-user bits are dropped. python is the interpreter's path in the image;
// empty means the first that is found, and none is for agents only.
func ImportOCI(cache, layout, digest, python string) (*Image, error) {
	return importLayout(cache, layout, OCIRequest{Digest: digest, Python: python, Platform: ThisPlatform()})
}

// Import makes an image of a layout folder, or of a tar archive: an OCI layout in one,
// or what docker save writes.
func Import(cache, from string, r OCIRequest) (*Image, error) {
	info, err := os.Stat(from)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "opening the image: %w", err)
	}
	if info.IsDir() {
		if r.Digest == "" {
			has, err := layoutImages(from)
			if err == nil {
				_, _, err = has.find("")
			}
			return nil, err
		}
		return importLayout(cache, from, r)
	}
	s, err := OpenStore(cache)
	if err != nil {
		return nil, err
	}
	has, err := s.takeArchive(from)
	if err != nil {
		return nil, err
	}
	if r.Digest, r.Source, err = has.find(r.Digest); err != nil {
		return nil, err
	}
	return s.Unpack(cache, r)
}

// Unpack makes an image of blobs that the store has.
func (s *Store) Unpack(cache string, r OCIRequest) (*Image, error) {
	return importLayout(cache, s.dir, r)
}

func importLayout(cache, layout string, r OCIRequest) (*Image, error) {
	root, err := os.OpenRoot(layout)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "opening the OCI layout: %w", err)
	}
	defer root.Close()
	in := ociLayout{root}
	layers, err := in.layers(r.Digest, r.Platform)
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
	u := newUnpacker(tree)
	defer u.close()
	for _, l := range layers {
		if err := in.unpack(l, u); err != nil {
			return nil, err
		}
	}
	d.lines = u.lines
	// An agent needs no Python in its image; a rubric does, and says so.
	command := []string{}
	if python := cmp.Or(r.Python, findPython(tree)); python != "" {
		command = []string{python, "-s", "-B"}
	}
	return d.finish(About{
		Kind:    OCI,
		Source:  cmp.Or(r.Source, r.Digest),
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
// check passes at the end. A size below zero is not known.
func (o ociLayout) open(digest string, size int64) (r io.Reader, check func() error, err error) {
	name, err := hexOf(digest)
	if err != nil {
		return nil, nil, err
	}
	f, err := o.root.Open(path.Join("blobs/sha256", name))
	if err != nil {
		return nil, nil, refusal.Newf(refusal.NotFound, "OCI blob %s: %w", digest, err)
	}
	h, n := sha256.New(), int64(0)
	r = io.TeeReader(f, writerFunc(func(p []byte) (int, error) {
		n += int64(len(p))
		return h.Write(p)
	}))
	check = func() error {
		defer f.Close()
		if _, err := io.Copy(io.Discard, r); err != nil {
			return refusal.Newf(refusal.Unreadable, "OCI blob %s: %w", digest, err)
		}
		if got := "sha256:" + hex.EncodeToString(h.Sum(nil)); got != digest {
			return refusal.Newf(refusal.DigestMismatch, "OCI blob %s has the digest %s", digest, got).
				WithHint("the layout is damaged or was changed; fetch it again by digest")
		}
		if size >= 0 && n != size {
			return refusal.Newf(refusal.DigestMismatch, "OCI blob %s has %d bytes, its manifest says %d", digest, n, size)
		}
		return nil
	}
	return r, check, nil
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func (o ociLayout) document(digest string, size int64) ([]byte, error) {
	r, check, err := o.open(digest, size)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(r, maxOCIDocument))
	return b, errors.Join(check(), err)
}

// A layer is one to unpack.
type layer struct {
	OCIDescriptor
	diffID string // the digest of the tar in it; "" where the image has no configuration
}

// layers follows a manifest, or an index to the manifest for the platform.
func (o ociLayout) layers(digest string, wanted OCIPlatform) ([]layer, error) {
	size := int64(-1)
	for range 3 {
		b, err := o.document(digest, size)
		if err != nil {
			return nil, err
		}
		m, err := ParseManifest(digest, b)
		if err != nil {
			return nil, err
		}
		if len(m.Layers) > 0 {
			return o.withDiffs(digest, m, wanted)
		}
		next, err := m.Pick(digest, wanted)
		if err != nil {
			return nil, err
		}
		digest, size = next.Digest, next.Size
	}
	return nil, refusal.Newf(refusal.Malformed, "%s: index within index within index", digest)
}

// withDiffs adds what the image's configuration says of its layers, and refuses an image
// for another platform.
func (o ociLayout) withDiffs(digest string, m *OCIManifest, wanted OCIPlatform) ([]layer, error) {
	var out []layer
	for _, l := range m.Layers {
		out = append(out, layer{OCIDescriptor: l})
	}
	if m.Config == nil {
		return out, nil
	}
	b, err := o.document(m.Config.Digest, m.Config.Size)
	if err != nil {
		return nil, err
	}
	var c OCIConfig
	if err := json.Unmarshal(b, &c); err != nil {
		return nil, refusal.Newf(refusal.Malformed, "OCI configuration %s: %w", m.Config.Digest, err)
	}
	if is := (OCIPlatform{c.OS, c.Architecture, c.Variant}); is.OS+is.Architecture != "" && !is.runs(wanted) {
		return nil, refusal.Newf(refusal.Usage, "image %s is for %s, expected %s", digest, plain.Line(is.String()), wanted).
			WithHint("--platform names another one; its programs do not run on this machine")
	}
	if len(c.RootFS.DiffIDs) != len(out) {
		return nil, refusal.Newf(refusal.Malformed, "OCI configuration %s names %d layers, the manifest %d", m.Config.Digest, len(c.RootFS.DiffIDs), len(out))
	}
	for i, d := range c.RootFS.DiffIDs {
		if _, err := hexOf(d); err != nil {
			return nil, err
		}
		out[i].diffID = d
	}
	return out, nil
}

func (o ociLayout) unpack(l layer, u *unpacker) error {
	r, check, err := o.open(l.Digest, l.Size)
	if err != nil {
		return err
	}
	diff, err := unpackLayer(l.MediaType, r, u)
	// A layer that does not have its digest is wrong whatever was in it; say
	// that first.
	if err := check(); err != nil {
		return err
	}
	if err != nil {
		return refusal.Newf(refusal.Malformed, "OCI layer %s: %w", l.Digest, err)
	}
	if l.diffID != "" && diff != l.diffID {
		return refusal.Newf(refusal.DigestMismatch, "OCI layer %s unpacks to %s, the image's configuration says %s", l.Digest, diff, l.diffID)
	}
	return nil
}

// unpackLayer applies a layer, and gives the digest of the tar in it.
func unpackLayer(mediaType string, r io.Reader, u *unpacker) (diff string, err error) {
	counted := io.TeeReader(r, writerFunc(func(p []byte) (int, error) {
		u.bytes.in += int64(len(p))
		return len(p), nil
	}))
	tarred, err := decompress(mediaType, counted)
	if err != nil {
		return "", err
	}
	defer tarred.Close()
	h, sent := sha256.New(), ratio{}
	bounded := io.TeeReader(tarred, writerFunc(func(p []byte) (int, error) {
		h.Write(p)
		sent.in = u.bytes.in
		return len(p), sent.add(int64(len(p)))
	}))
	// archive/tar asks for a header at a time.
	if err := u.layer(bufio.NewReaderSize(bounded, 256<<10)); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

func decompress(mediaType string, r io.Reader) (io.ReadCloser, error) {
	switch {
	case strings.HasSuffix(mediaType, "gzip"):
		return gzip.NewReader(bufio.NewReaderSize(r, 256<<10))
	case strings.HasSuffix(mediaType, "zstd"):
		// In this goroutine alone: r counts and hashes, which the caller looks at meanwhile.
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20), zstd.WithDecoderMaxMemory(maxOCIBytes))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	case strings.HasSuffix(mediaType, "tar"):
		return io.NopCloser(r), nil
	}
	return nil, fmt.Errorf("media type %.120q is not a tar, gzip or zstd layer", mediaType)
}

// layoutImages lists what an OCI layout's index names.
func layoutImages(layout string) (archivedImages, error) {
	b, err := os.ReadFile(filepath.Join(layout, "index.json"))
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "reading the OCI layout: %w", err)
	}
	images, err := readIndex(b)
	if err != nil {
		return nil, refusal.Newf(refusal.Malformed, "%s/%w", layout, err)
	}
	return images, nil
}
