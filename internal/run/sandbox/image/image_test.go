//go:build linux

package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeebo/blake3"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/sandbox/identity"
)

// smallImage makes an image of a few files that are never run.
func smallImage(t *testing.T) *Image { return smallImageOf(t, About{Kind: Host}) }

func smallImageOf(t *testing.T, about About) *Image {
	t.Helper()
	d, err := newDraft(filepath.Join(t.TempDir(), "images"))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"bin/python3": "binary", "lib/a.py": "a = 1", "lib/b.py": "b = 2"} {
		p := filepath.Join(d.root(), name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if name == "bin/python3" {
			mode = 0o755
		}
		if err := os.WriteFile(p, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("a.py", filepath.Join(d.root(), "lib/link.py")); err != nil {
		t.Fatal(err)
	}
	i, err := d.finish(About{Kind: about.Kind, Pinned: about.Pinned, Source: "nothing", Command: []string{"/bin/python3"}, Env: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// The digest is a promise to records that hold it. This value was computed
// from the listing in the documentation of Image.Verify by another program,
// with another implementation of BLAKE3.
func TestImageDigestNeverChanges(t *testing.T) {
	const want = "blake3:5a74be7c92b50c2bd55ca6ce63f75333a49de56f447dcf3a36d2dc49b76153f5"
	if i := smallImageOf(t, About{Kind: "test"}); i.Digest != want {
		t.Errorf("digest %s, want %s", i.Digest, want)
	}
}

// A file that was not touched is not hashed again; one that was is, even when
// its size and times are made to look the same.
func TestImageVerifySeesAChangeBehindOldTimes(t *testing.T) {
	i := smallImage(t)
	file := filepath.Join(i.Root(), "lib/a.py")
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := i.Verify(); err != nil {
		t.Fatal(err)
	}
	if err := i.Verify(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("a = 2"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(file, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if err := i.Verify(); !refusal.Is(err, refusal.DigestMismatch) {
		t.Errorf("got %v, want a DigestMismatch", err)
	}
}

func TestImageVerifyRefusesEveryChange(t *testing.T) {
	root := func(i *Image, name string) string { return filepath.Join(i.Root(), name) }
	for _, c := range []struct {
		name   string
		change func(t *testing.T, i *Image) error
	}{
		{"one byte of a file", func(t *testing.T, i *Image) error { return os.WriteFile(root(i, "lib/a.py"), []byte("a = 2"), 0o644) }},
		{"a byte more", func(t *testing.T, i *Image) error { return os.WriteFile(root(i, "lib/a.py"), []byte("a = 1\n"), 0o644) }},
		{"a file more", func(t *testing.T, i *Image) error { return os.WriteFile(root(i, "lib/c.py"), nil, 0o644) }},
		{"a hidden file more", func(t *testing.T, i *Image) error { return os.WriteFile(root(i, "lib/.c"), nil, 0o644) }},
		{"a folder more", func(t *testing.T, i *Image) error { return os.Mkdir(root(i, "etc"), 0o755) }},
		{"a file less", func(t *testing.T, i *Image) error { return os.Remove(root(i, "lib/b.py")) }},
		{"a file renamed", func(t *testing.T, i *Image) error { return os.Rename(root(i, "lib/b.py"), root(i, "lib/d.py")) }},
		{"two contents swapped", func(t *testing.T, i *Image) error {
			os.WriteFile(root(i, "lib/a.py"), []byte("b = 2"), 0o644)
			return os.WriteFile(root(i, "lib/b.py"), []byte("a = 1"), 0o644)
		}},
		{"made executable", func(t *testing.T, i *Image) error { return os.Chmod(root(i, "lib/a.py"), 0o755) }},
		{"a link to elsewhere", func(t *testing.T, i *Image) error {
			os.Remove(root(i, "lib/link.py"))
			return os.Symlink("b.py", root(i, "lib/link.py"))
		}},
		{"a file for a link", func(t *testing.T, i *Image) error {
			os.Remove(root(i, "lib/link.py"))
			return os.WriteFile(root(i, "lib/link.py"), []byte("a = 1"), 0o644)
		}},
		{"another command", func(t *testing.T, i *Image) error {
			p := filepath.Join(i.Dir, "image.json")
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			return os.WriteFile(p, bytes.Replace(b, []byte("/bin/python3"), []byte("/lib/a.py"), 1), 0o644)
		}},
		{"unpinned made pinned", func(t *testing.T, i *Image) error {
			p := filepath.Join(i.Dir, "image.json")
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			return os.WriteFile(p, bytes.Replace(b, []byte("false"), []byte("true"), 1), 0o644)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := smallImage(t)
			if err := i.Verify(); err != nil {
				t.Fatal(err)
			}
			// From now on only identities are compared, and a change must show there.
			if changed := i.tree.Changed(); changed != "" {
				t.Fatal("an untouched image is not taken to be the same: ", changed)
			}
			if err := c.change(t, i); err != nil {
				t.Fatal(err)
			}
			if err := i.Verify(); !refusal.Is(err, refusal.DigestMismatch) {
				t.Errorf("got %v, want a DigestMismatch", err)
			}
			if _, err := Open(i.Dir); !refusal.Is(err, refusal.DigestMismatch) {
				t.Errorf("opened: %v", err)
			}
		})
	}
}

// An ociBlob is content in a test layout.
type ociWriter struct {
	t   *testing.T
	dir string
}

func newOCI(t *testing.T) ociWriter {
	t.Helper()
	w := ociWriter{t, t.TempDir()}
	if err := os.MkdirAll(filepath.Join(w.dir, "blobs/sha256"), 0o755); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w ociWriter) blob(content []byte) OCIDescriptor {
	w.t.Helper()
	sum := fmt.Sprintf("%x", sha256.Sum256(content))
	if err := os.WriteFile(filepath.Join(w.dir, "blobs/sha256", sum), content, 0o644); err != nil {
		w.t.Fatal(err)
	}
	return OCIDescriptor{Digest: "sha256:" + sum, Size: int64(len(content))}
}

func (w ociWriter) layer(headers ...tar.Header) OCIDescriptor {
	w.t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	tw := tar.NewWriter(z)
	for _, h := range headers {
		content := h.PAXRecords["TEST.content"]
		h.PAXRecords, h.Size = nil, int64(len(content))
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if err := tw.WriteHeader(&h); err != nil {
			w.t.Fatal(err)
		}
		if _, err := tw.Write([]byte(content)); err != nil {
			w.t.Fatal(err)
		}
	}
	tw.Close()
	z.Close()
	d := w.blob(b.Bytes())
	d.MediaType = "application/vnd.oci.image.layer.v1.tar+gzip"
	return d
}

func (w ociWriter) manifest(layers ...OCIDescriptor) string {
	w.t.Helper()
	b, err := json.Marshal(map[string]any{"schemaVersion": 2, "layers": layers})
	if err != nil {
		w.t.Fatal(err)
	}
	return w.blob(b).Digest
}

func regular(name, content string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, PAXRecords: map[string]string{"TEST.content": content}}
}

func TestImportOCIAppliesLayersAndWhiteouts(t *testing.T) {
	w := newOCI(t)
	python := regular("usr/bin/python3", "binary")
	python.Mode = 0o4755 // the set-user bit is dropped
	digest := w.manifest(
		w.layer(python, regular("lib/a", "1"), regular("lib/b", "1"), regular("opt/x/y", "1"),
			tar.Header{Typeflag: tar.TypeChar, Name: "dev/mem", Devmajor: 1, Devminor: 1}),
		w.layer(regular("lib/a", "2"), regular("lib/.wh.b", ""), regular("opt/x/.wh..wh..opq", ""), regular("opt/x/z", "2")))
	i, err := ImportOCI(filepath.Join(t.TempDir(), "images"), w.dir, digest, "")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	filepath.WalkDir(i.Root(), func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			info, _ := d.Info()
			rel, _ := filepath.Rel(i.Root(), p)
			got = append(got, fmt.Sprintf("%s %v", rel, info.Mode()))
		}
		return err
	})
	if want := "lib/a -rw-r--r--, opt/x/z -rw-r--r--, usr/bin/python3 -rwxr-xr-x"; strings.Join(got, ", ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, ", "), want)
	}
	if i.About.Source != digest || !i.About.Pinned || i.About.Command[0] != "/usr/bin/python3" {
		t.Errorf("about %+v", i.About)
	}
	if err := i.Verify(); err != nil {
		t.Error(err)
	}
}

func TestImportOCIRefusesAChangedBlob(t *testing.T) {
	w := newOCI(t)
	l := w.layer(regular("usr/bin/python3", "binary"))
	digest := w.manifest(l)
	for _, victim := range []string{l.Digest, digest} {
		p := filepath.Join(w.dir, "blobs/sha256", strings.TrimPrefix(victim, "sha256:"))
		good, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		for i := range good {
			bad := bytes.Clone(good)
			bad[i] ^= 1
			if err := os.WriteFile(p, bad, 0o644); err != nil {
				t.Fatal(err)
			}
			cache := filepath.Join(t.TempDir(), "images")
			if _, err := ImportOCI(cache, w.dir, digest, ""); !refusal.Is(err, refusal.DigestMismatch) {
				t.Fatalf("byte %d of %s: got %v, want a DigestMismatch", i, victim, err)
			}
			if left, _ := os.ReadDir(cache); len(left) != 0 {
				t.Fatalf("left in the cache: %v", left)
			}
		}
		os.WriteFile(p, good, 0o644)
	}
}

func TestImportOCICannotWriteOutside(t *testing.T) {
	outside := t.TempDir()
	for name, headers := range map[string][]tar.Header{
		"dots":               {regular("../../../../../../../.."+outside+"/pwned", "x")},
		"absolute":           {regular(outside+"/pwned", "x")},
		"through a link":     {{Typeflag: tar.TypeSymlink, Name: "out", Linkname: outside}, regular("out/pwned", "x")},
		"through dots":       {{Typeflag: tar.TypeSymlink, Name: "a/out", Linkname: "../../../../../../../../../.." + outside}, regular("a/out/pwned", "x")},
		"whiteout of a link": {{Typeflag: tar.TypeSymlink, Name: "out", Linkname: outside}, regular("out/.wh.canary", "")},
		"hard link":          {{Typeflag: tar.TypeSymlink, Name: "out", Linkname: outside}, {Typeflag: tar.TypeLink, Name: "stolen", Linkname: "out/canary"}},
	} {
		t.Run(name, func(t *testing.T) {
			canary := filepath.Join(outside, "canary")
			if err := os.WriteFile(canary, []byte("x"), 0o644); err != nil {
				t.Fatal(err)
			}
			w := newOCI(t)
			i, err := ImportOCI(filepath.Join(t.TempDir(), "images"), w.dir, w.manifest(w.layer(append(headers, regular("usr/bin/python3", ""))...)), "")
			if _, err := os.Lstat(filepath.Join(outside, "pwned")); err == nil {
				t.Error("a file was written outside")
			}
			if _, err := os.Lstat(canary); err != nil {
				t.Error("a file outside was removed")
			}
			if i != nil {
				if b, _ := os.ReadFile(filepath.Join(i.Root(), "stolen")); string(b) == "x" {
					t.Error("a file outside was linked in")
				}
			} else if err == nil {
				t.Error("neither an image nor an error")
			}
		})
	}
}

func TestBuildRefusesAnotherSource(t *testing.T) {
	file := filepath.Join(t.TempDir(), "Python-3.13.5.tar.xz")
	if err := os.WriteFile(file, []byte("not the source"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := checkSource(file); !refusal.Is(err, refusal.DigestMismatch) {
		t.Errorf("got %v, want a DigestMismatch", err)
	}
	if err := checkSource(file + "x"); !refusal.Is(err, refusal.Unreadable) {
		t.Errorf("got %v, want Unreadable", err)
	}
}

func TestDocumentedImageDigest(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "formats", "rubric.md"))
	if os.IsNotExist(err) {
		t.Skip("the documentation is not here")
	}
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```text\n")
	listing, _, _ := strings.Cut(blocks[len(blocks)-1], "```")
	sum := blake3.Sum256([]byte(listing))
	if got := "blake3:" + hex.EncodeToString(sum[:]); got != smallImageOf(t, About{Kind: "test"}).Digest {
		t.Errorf("the page's listing has the digest %s, the image %s", got, smallImageOf(t, About{Kind: "test"}).Digest)
	}
}

// relabel edits image.json and gives the folder the name that its files now have,
// as a forger does who wants the image to verify.
func relabel(t *testing.T, i *Image, edit func(map[string]any)) string {
	t.Helper()
	p := filepath.Join(i.Dir, "image.json")
	b, err := os.ReadFile(p)
	if err != nil {
		t.Fatal(err)
	}
	about := map[string]any{}
	if err := json.Unmarshal(b, &about); err != nil {
		t.Fatal(err)
	}
	edit(about)
	if b, err = json.MarshalIndent(about, "", "  "); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, append(b, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	d, err := treeDigest(i.Dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(filepath.Dir(i.Dir), strings.TrimPrefix(d, "blake3:"))
	if err := os.Rename(i.Dir, dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestARelabelledImageIsRefused: an image is built if the recipe gives its digest,
// whatever it says of itself.
func TestARelabelledImageIsRefused(t *testing.T) {
	source := "CPython " + cpythonVersion + ", sha256:" + cpythonSHA256 + ", gcc 12.2.0 with musl, amd64"
	for name, c := range map[string]struct {
		edit func(map[string]any)
		want refusal.Name
	}{
		"host as built":           {func(a map[string]any) { a["kind"], a["pinned"] = "built", true }, refusal.PinMismatch},
		"and with its source":     {func(a map[string]any) { a["kind"], a["pinned"], a["source"] = "built", true, source }, refusal.PinMismatch},
		"pinned, still host":      {func(a map[string]any) { a["pinned"] = true }, refusal.Malformed},
		"built, still unpinned":   {func(a map[string]any) { a["kind"] = "built" }, refusal.Malformed},
		"a kind that is not one":  {func(a map[string]any) { a["kind"], a["pinned"] = "Built", true }, refusal.Malformed},
		"a member more":           {func(a map[string]any) { a["recipe"] = "pinned" }, refusal.Malformed},
		"no command":              {func(a map[string]any) { a["command"] = []string{} }, refusal.Malformed},
		"compiled, called pinned": {func(a map[string]any) { a["kind"], a["pinned"] = "compiled", true }, refusal.Malformed},
	} {
		t.Run(name, func(t *testing.T) {
			i := smallImage(t)
			dir := relabel(t, i, c.edit)
			if _, err := Open(dir); !refusal.Is(err, c.want) {
				t.Errorf("opened: %v, want %s", err, c.want)
			}
			if _, err := Find(filepath.Dir(dir), "blake3:"+filepath.Base(dir)); !refusal.Is(err, c.want) {
				t.Errorf("found: %v, want %s", err, c.want)
			}
		})
	}
}

// TestABuildThatIsNotKnownIsNotBuilt: another compiler gives another image, which is
// honest about it.
func TestABuildThatIsNotKnownIsNotBuilt(t *testing.T) {
	i := smallImageOf(t, About{Kind: Built, Pinned: true})
	opened, err := Open(i.Dir)
	if err != nil || opened.About.Kind != Compiled || opened.About.Pinned || opened.Digest != i.Digest {
		t.Errorf("%v %+v", err, opened)
	}
}

// TestALinkIsNotAnImage: it could lead elsewhere after it was verified.
func TestALinkIsNotAnImage(t *testing.T) {
	i := smallImage(t)
	cache := t.TempDir()
	if err := os.Symlink(i.Dir, filepath.Join(cache, filepath.Base(i.Dir))); err != nil {
		t.Fatal(err)
	}
	if _, err := Find(cache, i.Digest); !refusal.Is(err, refusal.Malformed) {
		t.Errorf("got %v", err)
	}
}

// TestAnImageThatIsWrittenToIsNotTaken: a program that has one of its files open for
// writing may change it through a map, which leaves no trace.
func TestAnImageThatIsWrittenToIsNotTaken(t *testing.T) {
	for _, name := range []string{"bin/python3", "lib/b.py"} {
		for _, flag := range []int{os.O_RDWR, os.O_WRONLY, os.O_WRONLY | os.O_APPEND} {
			i := smallImage(t)
			w, err := os.OpenFile(filepath.Join(i.Root(), name), flag, 0)
			if err != nil {
				t.Fatal(err)
			}
			r, err := os.Open(w.Name())
			if err != nil {
				t.Fatal(err)
			}
			told := identity.OpenForWriting(r)
			r.Close()
			if !told {
				w.Close()
				t.Skip("this file system does not tell who writes")
			}
			again, err := Open(i.Dir)
			if err == nil {
				_, err = again.Hold()
			}
			if err == nil || !strings.Contains(err.Error(), "open for writing") {
				t.Errorf("%s is written to: %v", name, err)
			}
			w.Close()
			if again, err = Open(i.Dir); err != nil {
				t.Fatal(err)
			}
			if _, err := again.Hold(); err != nil {
				t.Errorf("%s is not written to any more: %v", name, err)
			}
		}
	}
}

// TestAnImageThatWasSwappedAndPutBackShows: after a run, though its files are right.
func TestAnImageThatWasSwappedAndPutBackShows(t *testing.T) {
	for name, swap := range map[string]func(i *Image) error{
		"a file": func(i *Image) error {
			p := filepath.Join(i.Root(), "lib/a.py")
			return errors.Join(os.WriteFile(p, []byte("a = 9"), 0o644), os.WriteFile(p, []byte("a = 1"), 0o644))
		},
		"the folder": func(i *Image) error {
			return errors.Join(os.Rename(i.Root(), i.Root()+".kept"), os.Mkdir(i.Root(), 0o755), os.Remove(i.Root()), os.Rename(i.Root()+".kept", i.Root()))
		},
		"by a hard link": func(i *Image) error {
			p := filepath.Join(i.Root(), "lib/a.py")
			other := filepath.Join(i.Dir, "..", "other")
			return errors.Join(os.Link(p, other), os.WriteFile(other, []byte("a = 9"), 0o644), os.WriteFile(other, []byte("a = 1"), 0o644), os.Remove(other))
		},
	} {
		i := smallImage(t)
		held, err := i.Hold()
		if err != nil {
			t.Fatal(err)
		}
		if err := swap(i); err != nil {
			t.Fatal(err)
		}
		if err := i.Verify(); err != nil {
			t.Errorf("%s: its files are right: %v", name, err)
		}
		if held.Changed() == "" {
			t.Errorf("%s: the swap does not show", name)
		}
	}
}

// TestTheRecipeIsTheOneThatTheDigestsAreOf: a developer who changes the recipe
// builds the image with each compiler, and writes down what it gives.
func TestTheRecipeIsTheOneThatTheDigestsAreOf(t *testing.T) {
	const want = "fbb49d1a410f8a72f81570fcd5e21e0896f7b0115ab2ff308b74c7937c692e26"
	if got := recipeDigest(); got != want {
		t.Errorf("the recipe is %s, builtDigests are of %s: build the image again, and write its digest and the recipe's", got, want)
	}
}
