//go:build linux

package sandbox

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/sandbox/image"
)

// An image that is changed between two runs is refused by the second.
func TestRunRefusesAnImageChangedSinceItWasOpened(t *testing.T) {
	from := hostImage(t)
	cache := filepath.Join(scratch, "changed")
	dir := filepath.Join(cache, filepath.Base(from.Dir))
	if err := os.CopyFS(dir, os.DirFS(from.Dir)); err != nil {
		t.Fatal(err)
	}
	changed, err := image.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, Namespace, python(echoPython), func(o *Options) { o.Image = changed })
	job := Job{Stdin: []byte(`{"harness_output":1,"expected":1}`)}
	if r, err := s.Run(context.Background(), job); err != nil || r.Verdict != OK {
		t.Fatalf("%v %+v", err, r)
	}
	victim := ""
	filepath.WalkDir(changed.Root(), func(p string, d fs.DirEntry, err error) error {
		if d.Name() == "decoder.py" {
			victim = p
		}
		return err
	})
	if err := os.WriteFile(victim, []byte("# softened\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(context.Background(), job); !refusal.Is(err, refusal.DigestMismatch) {
		t.Errorf("got %v, want a DigestMismatch", err)
	}
}

// An image that came through an OCI layout runs like any other.
func TestImportedImageRuns(t *testing.T) {
	from := hostImage(t)
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	if err := tw.AddFS(os.DirFS(from.Root())); err != nil {
		t.Fatal(err)
	}
	tw.Close()
	imported, err := image.ImportOCI(filepath.Join(scratch, "oci-images"), filepath.Join(scratch, "oci"),
		writeLayout(t, filepath.Join(scratch, "oci"), b.Bytes()), from.About.Command[0])
	if err != nil {
		t.Fatal(err)
	}
	eachClass(t, func(t *testing.T, class Class) {
		r := run(t, class, python(echoPython), `{"harness_output":1,"expected":1}`, Limits{}, func(o *Options) { o.Image = imported })
		if r.Verdict != OK || r.ImageDigest != imported.Digest || len(r.Attempted) != 0 {
			t.Errorf("%s, image %s, attempted %v, stderr %s", r.Verdict, r.ImageDigest, r.Attempted, r.StderrHead)
		}
	})
}

// writeLayout makes an OCI layout of one layer and returns its manifest's
// digest.
func writeLayout(t *testing.T, dir string, layer []byte) string {
	t.Helper()
	blobs := filepath.Join(dir, "blobs/sha256")
	if err := os.MkdirAll(blobs, 0o755); err != nil {
		t.Fatal(err)
	}
	blob := func(content []byte) map[string]any {
		name := fmt.Sprintf("%x", sha256.Sum256(content))
		if err := os.WriteFile(filepath.Join(blobs, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
		return map[string]any{"digest": "sha256:" + name, "size": len(content), "mediaType": "application/vnd.oci.image.layer.v1.tar"}
	}
	manifest, err := json.Marshal(map[string]any{"schemaVersion": 2, "layers": []any{blob(layer)}})
	if err != nil {
		t.Fatal(err)
	}
	return blob(manifest)["digest"].(string)
}

// builtImageVariable names a cache that "tally sandbox image build" filled.
const builtImageVariable = "TALLYSTICK_TEST_BUILT_IMAGES"

// The built image is checked where there is one: it takes minutes to make.
func TestBuiltImageScoresAlikeEverywhere(t *testing.T) {
	cache := os.Getenv(builtImageVariable)
	if cache == "" {
		t.Skipf("name a cache with a built image in %s to run it", builtImageVariable)
	}
	images, err := image.List(cache)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range images {
		if i.About.Kind != "built" {
			continue
		}
		built, err := image.Open(i.Dir)
		if err != nil {
			t.Fatal(err)
		}
		answers := map[string]bool{}
		score := func(t *testing.T, class Class, change ...func(*Options)) {
			change = append(change, func(o *Options) { o.Image = built; o.Rubric.Files["helper.py"] = []byte("x = 1") })
			r := run(t, class, python(`
import json, sys, statistics, helper
missing = []
for m in ["socket", "ctypes", "subprocess", "_posixsubprocess", "multiprocessing", "mmap", "fcntl"]:
    try: __import__(m)
    except ImportError: missing.append(m)
words = {"a", "b", "c", "d", "e", "some", "more", "words"}
print(json.dumps([list(words), statistics.fmean([0.1] * 3), sum([0.1] * 10), missing, helper.x]))`), "{}", Limits{}, change...)
			if r.Verdict != OK || len(r.Attempted) != 0 {
				t.Fatalf("%s, attempted %v, stderr %s", r.Verdict, r.Attempted, r.StderrHead)
			}
			t.Logf("%v, %s", r.Wall, r.Stdout)
			if !strings.Contains(string(r.Stdout), `["socket", "ctypes", "subprocess", "_posixsubprocess", "multiprocessing", "mmap", "fcntl"]`) {
				t.Errorf("the image has a module that it must not have: %s", r.Stdout)
			}
			answers[string(r.Stdout)] = true
		}
		eachClass(t, func(t *testing.T, class Class) {
			score(t, class)
			if class == GVisor {
				score(t, class, attemptScope)
			}
		})
		if len(answers) > 1 {
			t.Errorf("different answers: %v", answers)
		}
	}
}
