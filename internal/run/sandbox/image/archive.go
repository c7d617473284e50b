package image

import (
	"archive/tar"
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
)

// maxArchiveEntries bounds an archive of images: a blob each, and some documents.
const maxArchiveEntries = 20_000

// Media types of the blobs that an archive of docker save is told to have.
const (
	typeManifest  = "application/vnd.oci.image.manifest.v1+json"
	typeConfig    = "application/vnd.oci.image.config.v1+json"
	typeLayer     = "application/vnd.oci.image.layer.v1.tar"
	typeLayerGzip = typeLayer + "+gzip"
	typeLayerZstd = typeLayer + "+zstd"
)

// An archived image is one that a tar archive has.
type archived struct {
	manifest string // digest
	id       string // by which a person may ask for it, and what the image says it is made from
	names    []string
}

type archivedImages []archived

// find gives the manifest and the source of the image that was asked for.
func (a archivedImages) find(digest string) (manifest, source string, err error) {
	var has []string
	for _, i := range a {
		if digest != "" && (i.manifest == digest || i.id == digest) {
			return i.manifest, i.id, nil
		}
		has = append(has, strings.Join(append([]string{i.id}, i.names...), " "))
	}
	list := plain.Line(strings.Join(has, ", "))
	if digest == "" {
		return "", "", refusal.Newf(refusal.Usage, "which image? an import is by digest").WithHint("--digest, one of %s", list)
	}
	return "", "", refusal.Newf(refusal.NotFound, "the archive has no image %s", plain.Line(digest)).WithHint("it has %s", list)
}

// takeArchive puts the blobs of an archive into the store, each compared with its
// digest, and says which images it has.
func (s *Store) takeArchive(file string) (archivedImages, error) {
	a := archive{store: s, documents: map[string][]byte{}, links: map[string]string{}}
	if err := a.each(file, a.first); err != nil {
		return nil, archiveError(file, err)
	}
	if a.documents["index.json"] != nil {
		images, err := readIndex(a.documents["index.json"])
		return images, archiveError(file, err)
	}
	images, err := a.saved(file)
	return images, archiveError(file, err)
}

func archiveError(file string, err error) error {
	var named *refusal.Error
	if err == nil || errors.As(err, &named) {
		return err
	}
	return refusal.Newf(refusal.Malformed, "%s: %w", file, err).WithHint(`expected a tar archive as "docker save" or "skopeo copy ... oci-archive:" writes it`)
}

// An archive is one that is read twice: for its documents and blobs, and for the layers
// of docker save, whose names a document at the end tells.
type archive struct {
	store     *Store
	documents map[string][]byte
	links     map[string]string // names that are those of other entries
	layers    map[string]OCIDescriptor
}

func (a *archive) each(file string, visit func(h *tar.Header, r io.Reader) error) error {
	f, err := os.Open(file)
	if err != nil {
		return refusal.Newf(refusal.Unreadable, "opening the archive: %w", err)
	}
	defer f.Close()
	b := bufio.NewReaderSize(f, 256<<10)
	r, err := decompress(mediaTypeOf(b), b)
	if err != nil {
		return err
	}
	defer r.Close()
	t := tar.NewReader(r)
	for n := 0; ; n++ {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if n == maxArchiveEntries {
			return fmt.Errorf("more than %d entries", maxArchiveEntries)
		}
		if h.Name, err = cleanName(h.Name); err == nil {
			err = visit(h, t)
		}
		if err != nil {
			return fmt.Errorf("%.200q: %w", h.Name, err)
		}
	}
}

// mediaTypeOf looks at the beginning of a layer.
func mediaTypeOf(b *bufio.Reader) string {
	head, _ := b.Peek(4) // what is shorter is no archive, and says so when it is read
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return typeLayerGzip
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return typeLayerZstd
	}
	return typeLayer
}

func (a *archive) first(h *tar.Header, r io.Reader) error {
	switch h.Typeflag {
	case tar.TypeSymlink:
		a.links[h.Name] = path.Join(path.Dir(h.Name), h.Linkname)
		return nil
	case tar.TypeLink:
		a.links[h.Name] = path.Clean(h.Linkname)
		return nil
	case tar.TypeReg:
	default:
		return nil
	}
	if name, ok := strings.CutPrefix(h.Name, "blobs/sha256/"); ok {
		return a.blob("sha256:"+name, h.Size, r)
	}
	if !strings.Contains(h.Name, "/") && strings.HasSuffix(h.Name, ".json") {
		if h.Size > maxOCIDocument {
			return fmt.Errorf("%d bytes, expected at most %d", h.Size, maxOCIDocument)
		}
		b, err := io.ReadAll(r)
		a.documents[h.Name] = b
		return err
	}
	return nil
}

func (a *archive) blob(digest string, size int64, r io.Reader) error {
	p, err := a.store.Begin(digest, size)
	if err != nil {
		return err
	}
	defer p.Close()
	if err := p.Restart(); err != nil {
		return err
	}
	if err := p.Take(r); err != nil {
		return err
	}
	return p.Finish()
}

// readIndex reads the index of an OCI layout.
func readIndex(text []byte) (archivedImages, error) {
	var index struct {
		Manifests []struct {
			Digest      string            `json:"digest"`
			Annotations map[string]string `json:"annotations"`
		} `json:"manifests"`
	}
	if err := json.Unmarshal(text, &index); err != nil {
		return nil, fmt.Errorf("index.json: %w", err)
	}
	var images archivedImages
	for _, m := range index.Manifests {
		i := archived{manifest: m.Digest, id: m.Digest}
		for _, key := range []string{"io.containerd.image.name", "org.opencontainers.image.ref.name"} {
			if name := m.Annotations[key]; name != "" {
				i.names = append(i.names, name)
			}
		}
		images = append(images, i)
	}
	return images, nil
}

// saved reads what docker save wrote before it wrote OCI layouts, and podman does: a
// configuration whose digest is the image's, and layers that it names by theirs.
func (a *archive) saved(file string) (archivedImages, error) {
	var listed []struct {
		Config   string   `json:"Config"`
		RepoTags []string `json:"RepoTags"`
		Layers   []string `json:"Layers"`
	}
	text := a.documents["manifest.json"]
	if text == nil {
		return nil, fmt.Errorf("neither index.json nor manifest.json in it")
	}
	if err := json.Unmarshal(text, &listed); err != nil {
		return nil, fmt.Errorf("manifest.json: %w", err)
	}
	a.layers = map[string]OCIDescriptor{}
	for _, l := range listed {
		for _, name := range l.Layers {
			a.layers[a.follow(name)] = OCIDescriptor{}
		}
	}
	if err := a.each(file, a.second); err != nil {
		return nil, err
	}
	var images archivedImages
	for _, l := range listed {
		config := a.documents[a.follow(l.Config)]
		if config == nil {
			return nil, fmt.Errorf("manifest.json names the configuration %.200q, which is not in the archive", l.Config)
		}
		id, err := a.store.Put(config)
		if err != nil {
			return nil, err
		}
		m := map[string]any{"schemaVersion": 2, "mediaType": typeManifest,
			"config": OCIDescriptor{MediaType: typeConfig, Digest: id, Size: int64(len(config))}}
		var layers []OCIDescriptor
		for _, name := range l.Layers {
			d := a.layers[a.follow(name)]
			if d.Digest == "" {
				return nil, fmt.Errorf("manifest.json names the layer %.200q, which is not in the archive", name)
			}
			layers = append(layers, d)
		}
		m["layers"] = layers
		b, err := json.Marshal(m)
		if err != nil {
			return nil, err
		}
		manifest, err := a.store.Put(b)
		if err != nil {
			return nil, err
		}
		images = append(images, archived{manifest: manifest, id: id, names: l.RepoTags})
	}
	return images, nil
}

// follow gives the entry that a name stands for; docker save writes a layer that two
// images share once.
func (a *archive) follow(name string) string {
	name = path.Clean(name)
	for range maxLinksInWay {
		next, ok := a.links[name]
		if !ok {
			break
		}
		name = next
	}
	return name
}

func (a *archive) second(h *tar.Header, r io.Reader) error {
	if d, wanted := a.layers[h.Name]; !wanted || d.Digest != "" || h.Typeflag != tar.TypeReg {
		return nil
	}
	b := bufio.NewReaderSize(r, 256<<10)
	mediaType := mediaTypeOf(b)
	digest, size, err := a.store.PutStream(b, MaxBlob)
	if err != nil {
		return err
	}
	a.layers[h.Name] = OCIDescriptor{MediaType: mediaType, Digest: digest, Size: size}
	return nil
}
