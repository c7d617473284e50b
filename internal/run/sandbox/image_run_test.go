//go:build linux

package sandbox

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
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

// A meddler is a class of sandbox whose rubrics do something to the machine.
type meddler func() error

func (m meddler) run(context.Context, []byte, Limits) (Result, error) {
	return Result{Verdict: OK, Stdout: []byte("{}")}, m()
}

func (meddler) close() error { return nil }

// What a rubric says does not count if its image was another one while it ran, though
// everything is put back when it has ended.
func TestRunRefusesAnImageChangedWhileARubricRan(t *testing.T) {
	var layer bytes.Buffer
	tw := tar.NewWriter(&layer)
	for name, text := range map[string]string{"bin/python3": "a program", "lib/a.py": "a = 1"} {
		if err := tw.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(tw, text)
	}
	tw.Close()
	for name, tt := range map[string]struct {
		meddle func(root string) error
		want   refusal.Name
	}{
		"nothing": {func(string) error { return nil }, ""},
		"a file is written and written back": {func(root string) error {
			file := filepath.Join(root, "lib/a.py")
			return errors.Join(os.WriteFile(file, []byte("a = 9"), 0o755), os.WriteFile(file, []byte("a = 1"), 0o755))
		}, refusal.ShownChanged},
		"a file comes and goes": {func(root string) error {
			file := filepath.Join(root, "lib/sitecustomize.py")
			return errors.Join(os.WriteFile(file, nil, 0o644), os.Remove(file))
		}, refusal.ShownChanged},
		"the root is exchanged and put back": {func(root string) error {
			return errors.Join(os.Rename(root, root+".kept"), os.Mkdir(root, 0o755), os.Remove(root), os.Rename(root+".kept", root))
		}, refusal.ShownChanged},
		"a file is gone": {func(root string) error { return os.Remove(filepath.Join(root, "lib/a.py")) }, refusal.ShownChanged},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			img, err := image.ImportOCI(filepath.Join(dir, "images"), filepath.Join(dir, "oci"), writeLayout(t, filepath.Join(dir, "oci"), layer.Bytes()), "/bin/python3")
			if err != nil {
				t.Fatal(err)
			}
			s := &Sandbox{options: Options{Image: img}, class: Namespace, backend: meddler(func() error { return tt.meddle(img.Root()) })}
			r, err := s.Run(t.Context(), Job{})
			switch {
			case tt.want == "" && (err != nil || r.ImageDigest != img.Digest):
				t.Errorf("%v %+v", err, r)
			case tt.want != "" && (!refusal.Is(err, tt.want) || r.Verdict != ""):
				t.Errorf("got %v and the verdict %q, want %s", err, r.Verdict, tt.want)
			}
		})
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
