package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// input is a release of this very test, which says what it was built of like any
// program.
func input(t *testing.T) Input {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	programs := map[string][]byte{"tally": program}
	return Input{Version: "v1.2.3", Time: time.Unix(1_700_000_000, 5), Shared: map[string][]byte{"LICENSE": []byte("law\n"), "completions/tally.bash": []byte("# bash\n")},
		Builds: []Build{{Platform{"linux", "amd64"}, programs}}}
}

func TestReleaseIsTheSameTwiceAndWhole(t *testing.T) {
	in := input(t)
	one, err := Files(in)
	if err != nil {
		t.Fatal(err)
	}
	two, err := Files(in)
	if err != nil {
		t.Fatal(err)
	}
	if !maps.EqualFunc(one, two, bytes.Equal) {
		t.Error("two runs give other bytes")
	}
	want := "SHA256SUMS tally_v1.2.3.cdx.json tally_v1.2.3_linux_amd64.tar.gz tally_v1.2.3_oci.tar tallystick_1.2.3_amd64.deb"
	if got := strings.Join(slices.Sorted(maps.Keys(one)), " "); got != want {
		t.Errorf("files: %s", got)
	}
	for line := range strings.Lines(string(one["SHA256SUMS"])) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if got := fmt.Sprintf("%x", sha256.Sum256(one[name])); got != sum {
			t.Errorf("%s is %s, the list says %s", name, got, sum)
		}
	}
	t.Run("archive", func(t *testing.T) { checkArchive(t, one["tally_v1.2.3_linux_amd64.tar.gz"]) })
	t.Run("image", func(t *testing.T) { checkImage(t, one["tally_v1.2.3_oci.tar"]) })
	t.Run("bill", func(t *testing.T) { checkBill(t, one["tally_v1.2.3.cdx.json"]) })
	t.Run("deb", func(t *testing.T) { checkDeb(t, one["tallystick_1.2.3_amd64.deb"]) })
}

// entries reads a tar, by name; folders end with a slash.
func entries(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	r := tar.NewReader(bytes.NewReader(data))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Uname != "" || h.ModTime.Unix() != 1_700_000_000 {
			t.Errorf("%s says who or when: %+v", h.Name, h)
		}
		if out[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func unpack(t *testing.T, data []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func checkArchive(t *testing.T, data []byte) {
	want := "tally_v1.2.3_linux_amd64/ tally_v1.2.3_linux_amd64/LICENSE tally_v1.2.3_linux_amd64/completions/ tally_v1.2.3_linux_amd64/completions/tally.bash tally_v1.2.3_linux_amd64/tally"
	if got := strings.Join(slices.Sorted(maps.Keys(entries(t, unpack(t, data)))), " "); got != want {
		t.Errorf("%s", got)
	}
}

// checkImage follows every descriptor of the layout to bytes of that digest and
// size, down to the layer's own.
func checkImage(t *testing.T, data []byte) {
	files := entries(t, data)
	blob := func(d descriptor) []byte {
		b := files["./blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:")]
		if fmt.Sprintf("sha256:%x", sha256.Sum256(b)) != d.Digest || len(b) != d.Size {
			t.Errorf("%s is not there, or is something else", d.Digest)
		}
		return b
	}
	var index struct{ Manifests []descriptor }
	if err := json.Unmarshal(files["./index.json"], &index); err != nil || len(index.Manifests) != 1 {
		t.Fatalf("%v: %s", err, files["./index.json"])
	}
	if err := json.Unmarshal(blob(index.Manifests[0]), &index); err != nil || len(index.Manifests) != 1 || index.Manifests[0].Platform["architecture"] != "amd64" {
		t.Fatalf("%v: %+v", err, index)
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	if err := json.Unmarshal(blob(index.Manifests[0]), &manifest); err != nil || len(manifest.Layers) != 1 {
		t.Fatalf("%v: %+v", err, manifest)
	}
	var config struct {
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	layer := unpack(t, blob(manifest.Layers[0]))
	if err := json.Unmarshal(blob(manifest.Config), &config); err != nil || fmt.Sprintf("sha256:%x", sha256.Sum256(layer)) != config.RootFS.DiffIDs[0] {
		t.Errorf("%v: the layer is not what the config says: %+v", err, config)
	}
	if _, ok := entries(t, layer)["./usr/bin/tally"]; !ok {
		t.Error("the image has no tally")
	}
	if string(files["./oci-layout"]) != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("%s", files["./oci-layout"])
	}
}

func checkBill(t *testing.T, data []byte) {
	var doc struct {
		BOMFormat  string
		Components []component
	}
	if err := json.Unmarshal(data, &doc); err != nil || doc.BOMFormat != "CycloneDX" || len(doc.Components) < 2 {
		t.Fatalf("%v: %s", err, data)
	}
	refs := map[string]bool{}
	for _, c := range doc.Components {
		if c.Ref == "" || refs[c.Ref] || c.Name == "" {
			t.Errorf("%+v", c)
		}
		refs[c.Ref] = true
	}
}

// checkDeb asks dpkg itself, where it is.
func checkDeb(t *testing.T, data []byte) {
	if !bytes.HasPrefix(data, []byte("!<arch>\ndebian-binary   1700000000  0     0     100644  4         `\n2.0\n")) {
		t.Errorf("begins %q", data[:80])
	}
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("dpkg-deb is not there")
	}
	name := filepath.Join(t.TempDir(), "x.deb")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ option, want string }{{"--field", "Version: 1.2.3"}, {"--contents", "./usr/bin/tally"}, {"--contents", "./usr/share/bash-completion/completions/tally"}} {
		out, err := exec.Command("dpkg-deb", tt.option, name).CombinedOutput()
		if err != nil || !strings.Contains(string(out), tt.want) {
			t.Errorf("dpkg-deb %s: %v\n%s", tt.option, err, out)
		}
	}
}

func TestReleaseRefusesWhatItCannotName(t *testing.T) {
	in := input(t)
	for _, version := range []string{"", "v1/2", "v1 2", "v_1"} {
		in.Version = version
		if _, err := Files(in); err == nil {
			t.Errorf("version %q is taken", version)
		}
	}
	in = input(t)
	in.Builds[0].Programs = map[string][]byte{"tally": []byte("not a program")}
	if _, err := Files(in); err == nil {
		t.Error("a program that does not say what it is built of is taken")
	}
	for version, want := range map[string]string{"v1.2.3": "1.2.3", "v1.2.3-rc1": "1.2.3~rc1", "a5f28cb": "0~a5f28cb"} {
		if got := debVersion(version); got != want {
			t.Errorf("debVersion(%q) = %q, want %q", version, got, want)
		}
	}
}
