//go:build linux

package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tallystick/internal/record/refusal"
)

// savedArchive is what docker save wrote before it wrote OCI layouts: the second layer
// is the first image's, by a link.
func savedArchive(t *testing.T) (archive []byte, id string) {
	t.Helper()
	one, two := tarOf(t, regular("a", "1"), regular("b", "1")), tarOf(t, regular("a", "2"), regular(".wh.b", ""))
	diff := func(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }
	config, err := json.Marshal(map[string]any{"os": "linux", "architecture": ThisPlatform().Architecture, "rootfs": map[string]any{"type": "layers", "diff_ids": []string{diff(one), diff(two), diff(one)}}})
	if err != nil {
		t.Fatal(err)
	}
	id = diff(config)
	manifest, err := json.Marshal([]map[string]any{{"Config": id[7:] + ".json", "RepoTags": []string{"ours:1"}, "Layers": []string{"x/layer.tar", "y/layer.tar", "z/layer.tar"}}})
	if err != nil {
		t.Fatal(err)
	}
	return tarOf(t, folder("x/"), regular("x/layer.tar", string(one)), regular("y/layer.tar", string(two)), link("z/layer.tar", "../x/layer.tar"),
		regular(id[7:]+".json", string(config)), regular("manifest.json", string(manifest))), id
}

func writeTemp(t *testing.T, content []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(file, content, 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestImportOfDockerSave(t *testing.T) {
	archive, id := savedArchive(t)
	var digest string
	for name, content := range map[string][]byte{"tar": archive, "gzip": gzipped(archive), "zstd": zstded(t, archive)} {
		i, err := Import(filepath.Join(t.TempDir(), "images"), writeTemp(t, content), OCIRequest{Digest: id, Platform: ThisPlatform()})
		if err != nil {
			t.Fatal(name, ": ", err)
		}
		if got := treeOf(t, i); !slices.Equal(got, []string{"a=1", "b=1"}) || i.About.Source != id || digest != "" && i.Digest != digest {
			t.Errorf("%s: %q of %s, %s", name, got, i.About.Source, i.Digest)
		}
		digest = i.Digest
	}
	_, err := Import(filepath.Join(t.TempDir(), "images"), writeTemp(t, archive), OCIRequest{Platform: ThisPlatform()})
	if !refusal.Is(err, refusal.Usage) || !strings.Contains(refusal.Of(err).Hint, id+" ours:1") {
		t.Errorf("without a digest: %v, hint %s", err, refusal.Of(err).Hint)
	}
	if _, err := Import(filepath.Join(t.TempDir(), "images"), writeTemp(t, archive), OCIRequest{Digest: "sha256:" + strings.Repeat("0", 64), Platform: ThisPlatform()}); !refusal.Is(err, refusal.NotFound) {
		t.Errorf("another digest: %v", err)
	}
}

// TestImportOfAnArchiveThatWasChanged: no bit of a layer or of the configuration can
// change unnoticed, whatever the names in the archive say.
func TestImportOfAnArchiveThatWasChanged(t *testing.T) {
	archive, id := savedArchive(t)
	for at := 0; at < len(archive); at += 97 {
		bad := bytes.Clone(archive)
		bad[at] ^= 1
		i, err := Import(filepath.Join(t.TempDir(), "images"), writeTemp(t, bad), OCIRequest{Digest: id, Platform: ThisPlatform()})
		if err == nil && !slices.Equal(treeOf(t, i), []string{"a=1", "b=1"}) {
			t.Errorf("byte %d: %q", at, treeOf(t, i))
		}
	}
}

func TestImportOfAnOCIArchive(t *testing.T) {
	w := newOCI(t)
	l := w.layer(regular("a", "1"))
	digest := w.manifest(l)
	index := fmt.Sprintf(`{"schemaVersion":2,"manifests":[{"digest":%q,"annotations":{"org.opencontainers.image.ref.name":"v1"}}]}`, digest)
	pack := func(edit func(name string, b []byte) []byte) []byte {
		headers := []tar.Header{regular("oci-layout", `{"imageLayoutVersion":"1.0.0"}`), regular("index.json", index)}
		for _, d := range []string{l.Digest, digest} {
			b, err := os.ReadFile(filepath.Join(w.dir, "blobs/sha256", d[7:]))
			if err != nil {
				t.Fatal(err)
			}
			headers = append(headers, regular("blobs/sha256/"+d[7:], string(edit(d, b))))
		}
		return tarOf(t, headers...)
	}
	same := func(_ string, b []byte) []byte { return b }
	folderImage, err := ImportOCI(filepath.Join(t.TempDir(), "images"), w.dir, digest, "")
	if err != nil {
		t.Fatal(err)
	}
	i, err := Import(filepath.Join(t.TempDir(), "images"), writeTemp(t, pack(same)), OCIRequest{Digest: digest, Platform: ThisPlatform()})
	if err != nil || i.Digest != folderImage.Digest {
		t.Errorf("%v %v, from the folder %s", i, err, folderImage.Digest)
	}
	for _, victim := range []string{l.Digest, digest} {
		for name, edit := range map[string]func([]byte) []byte{
			"a bit":  func(b []byte) []byte { b = bytes.Clone(b); b[len(b)/2] ^= 1; return b },
			"longer": func(b []byte) []byte { return append(bytes.Clone(b), 0) },
			"cut":    func(b []byte) []byte { return b[:len(b)-1] },
		} {
			bad := pack(func(d string, b []byte) []byte {
				if d == victim {
					return edit(b)
				}
				return b
			})
			if _, err := Import(filepath.Join(t.TempDir(), "images"), writeTemp(t, bad), OCIRequest{Digest: digest, Platform: ThisPlatform()}); !refusal.Is(err, refusal.DigestMismatch) {
				t.Errorf("%s of %s: %v", name, victim, err)
			}
		}
	}
	for name, headers := range map[string][]tar.Header{
		"a blob by a path":      {regular("blobs/sha256/../../../../evil", "x")},
		"a blob that is a link": {link("blobs/sha256/"+digest[7:], "/etc/passwd"), regular("index.json", index)},
		"nothing":               {regular("readme", "x")},
	} {
		cache := filepath.Join(t.TempDir(), "images")
		if _, err := Import(cache, writeTemp(t, tarOf(t, headers...)), OCIRequest{Digest: digest, Platform: ThisPlatform()}); err == nil {
			t.Errorf("%s: imported", name)
		}
	}
}
