package release

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// The media types of the OCI image specification 1.1.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    map[string]string `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// A layout is an OCI image layout while it is made.
type layout struct{ blobs map[string][]byte }

func (l *layout) put(kind string, data []byte) descriptor {
	hex := fmt.Sprintf("%x", sha256.Sum256(data))
	l.blobs[hex] = data
	return descriptor{MediaType: kind, Digest: "sha256:" + hex, Size: len(data)}
}

func (l *layout) putJSON(kind string, v any) (descriptor, error) {
	data, err := json.Marshal(v)
	return l.put(kind, data), err
}

// image makes a layout with one image for each Linux platform: the programs and
// nothing else, run as nobody.
func image(in Input) ([]byte, error) {
	l := &layout{blobs: map[string][]byte{}}
	var manifests []descriptor
	for _, b := range in.Builds {
		if b.Platform.OS != "linux" {
			continue
		}
		d, err := l.platform(in, b)
		if err != nil {
			return nil, err
		}
		manifests = append(manifests, d)
	}
	// One name stands for the images of all platforms, so it is that of an index.
	all, err := l.putJSON(typeIndex, indexOf(manifests...))
	if err != nil {
		return nil, err
	}
	all.Annotations = map[string]string{"org.opencontainers.image.ref.name": in.Version}
	index, err := json.Marshal(indexOf(all))
	if err != nil {
		return nil, err
	}
	files := []file{{"oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`)}, {"index.json", 0o644, index}}
	for _, hex := range slices.Sorted(maps.Keys(l.blobs)) {
		files = append(files, file{"blobs/sha256/" + hex, 0o644, l.blobs[hex]})
	}
	return tarOf(in.Time, "", files)
}

func indexOf(manifests ...descriptor) map[string]any {
	return map[string]any{"schemaVersion": 2, "mediaType": typeIndex, "manifests": manifests}
}

func (l *layout) platform(in Input, b Build) (descriptor, error) {
	var files []file
	for _, name := range slices.Sorted(maps.Keys(b.Programs)) {
		files = append(files, file{"usr/bin/" + name, 0o755, b.Programs[name]})
	}
	layer, err := tarOf(in.Time, "", files)
	if err != nil {
		return descriptor{}, err
	}
	packed, err := compress(layer)
	if err != nil {
		return descriptor{}, err
	}
	created := in.Time.UTC().Format(time.RFC3339)
	config, err := l.putJSON(typeConfig, map[string]any{
		"created": created, "architecture": b.Platform.Arch, "os": b.Platform.OS,
		"config": map[string]any{"Entrypoint": []string{"/usr/bin/tally"}, "User": "65534:65534", "WorkingDir": "/", "Env": []string{"PATH=/usr/bin"},
			"Labels": map[string]string{"org.opencontainers.image.version": in.Version, "org.opencontainers.image.licenses": "Apache-2.0"}},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
		"history": []any{map[string]string{"created": created, "created_by": "tallystick release"}},
	})
	if err != nil {
		return descriptor{}, err
	}
	d, err := l.putJSON(typeManifest, map[string]any{"schemaVersion": 2, "mediaType": typeManifest, "config": config, "layers": []descriptor{l.put(typeLayer, packed)}})
	d.Platform = map[string]string{"os": b.Platform.OS, "architecture": b.Platform.Arch}
	return d, err
}
