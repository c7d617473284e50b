//go:build linux

package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"tallystick/internal/record/refusal"
)

func folder(name string) tar.Header {
	return tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755}
}
func link(name, to string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
}
func hard(name, to string) tar.Header {
	return tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: to}
}

// treeOf lists an image without its empty mount points, a line for each file and link,
// and for each folder without any.
func treeOf(t *testing.T, i *Image) []string {
	t.Helper()
	var got []string
	err := filepath.WalkDir(i.Root(), func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == i.Root() {
			return err
		}
		rel, _ := filepath.Rel(i.Root(), p)
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(p)
			rel += " -> " + to
		case info.IsDir():
			if names, _ := os.ReadDir(p); len(names) > 0 || slices.Contains(MountPoints, rel) {
				return nil
			}
			rel += "/"
		default:
			b, _ := os.ReadFile(p)
			if rel += "=" + string(b); info.Mode() != 0o644 {
				rel += " " + info.Mode().String()
			}
		}
		got = append(got, rel)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestLayers: what layers with tricks in them become, or how they are refused. In no
// case does anything outside the image change.
func TestLayers(t *testing.T) {
	long := strings.Repeat("x", 256)
	for _, c := range []struct {
		name   string
		layers [][]tar.Header
		want   string // the tree
		refuse string // or a part of the error
	}{
		{name: "an absolute name lies in the image", layers: [][]tar.Header{{regular("/etc/a", "1")}}, want: "etc/a=1"},
		{name: "a name with .. at its beginning", layers: [][]tar.Header{{regular("../a", "1")}}, refuse: "leads out"},
		{name: "a name with .. within", layers: [][]tar.Header{{folder("x"), regular("x/../../a", "1")}}, refuse: "leads out"},
		{name: "a folder named ..", layers: [][]tar.Header{{folder("x/..")}}, refuse: "leads out"},
		{name: "a name that a pax header overrides", layers: [][]tar.Header{{{Typeflag: tar.TypeReg, Name: strings.Repeat("d/", 60) + "../../../" + strings.Repeat("e", 120), Format: tar.FormatPAX}}}, refuse: "leads out"},
		{name: "a part that is too long", layers: [][]tar.Header{{regular("a/"+long, "1")}}, refuse: "256 bytes"},
		{name: "a name that is too long", layers: [][]tar.Header{{regular(strings.Repeat("abcdefgh/", 600)+"x", "1")}}, refuse: "expected at most"},
		{name: "the top itself", layers: [][]tar.Header{{folder("./"), folder("/"), regular("a", "1")}}, want: "a=1"},

		{name: "set-user, set-group and sticky bits go", layers: [][]tar.Header{{{Typeflag: tar.TypeReg, Name: "su", Mode: 0o7755}, {Typeflag: tar.TypeDir, Name: "d", Mode: 0o7777}}}, want: "d/ su= -rwxr-xr-x"},
		{name: "a file that no one may read", layers: [][]tar.Header{{{Typeflag: tar.TypeReg, Name: "a", Mode: 0o000}, {Typeflag: tar.TypeDir, Name: "d", Mode: 0o000}, regular("d/b", "2")}}, want: "a= d/b=2"},
		{name: "devices, pipes and sockets are left out", layers: [][]tar.Header{{
			{Typeflag: tar.TypeChar, Name: "d/mem", Devmajor: 1, Devminor: 1}, {Typeflag: tar.TypeBlock, Name: "d/sda", Devmajor: 8}, {Typeflag: tar.TypeFifo, Name: "d/pipe"}, regular("d/a", "1")}}, want: "d/a=1"},
		{name: "a device in the place of a file", layers: [][]tar.Header{{regular("a", "1"), regular("b", "1")}, {{Typeflag: tar.TypeChar, Name: "a"}}}, want: "b=1"},

		{name: "a link out, and a file through it", layers: [][]tar.Header{{link("out", "/outside"), regular("out/a", "1")}}, want: "out -> /outside"},
		{name: "a link out by dots, and a file through it", layers: [][]tar.Header{{link("x/out", "../../../../outside"), regular("x/out/a", "1")}}, want: "x/out -> ../../../../outside"},
		{name: "a link to what is not there, and a file through it", layers: [][]tar.Header{{link("x/out", "/opt/y"), regular("x/out/z/a", "1")}}, want: "opt/y/z/a=1 x/out -> /opt/y"},
		{name: "a folder that becomes a link, and a file through it", layers: [][]tar.Header{{regular("x/a", "1"), folder("y")}, {link("x", "y"), regular("x/b", "2")}}, want: "x -> y y/b=2"},
		{name: "a folder that becomes a link to /etc of the machine", layers: [][]tar.Header{{folder("x")}, {link("x", "/etc"), regular("x/passwd", "2")}}, want: "etc/passwd=2 x -> /etc"},
		{name: "a link over which a folder comes", layers: [][]tar.Header{{folder("y"), link("x", "y")}, {folder("x"), regular("x/b", "2")}}, want: "x/b=2 y/"},
		{name: "a file over a link does not write through it", layers: [][]tar.Header{{regular("a", "1"), link("x", "a")}, {regular("x", "2")}}, want: "a=1 x=2"},
		{name: "links in a circle", layers: [][]tar.Header{{link("a", "b"), link("b", "a"), regular("a/c", "1")}}, refuse: "links lead to"},
		{name: "a link to itself", layers: [][]tar.Header{{link("a", "."), regular("a/a/a/c", "1")}}, want: "a -> . c=1"},
		{name: "a file where a folder is needed", layers: [][]tar.Header{{regular("a", "1")}, {regular("a/b", "2")}}, want: "a/b=2"},
		{name: "a file over a folder", layers: [][]tar.Header{{regular("a/b", "1")}, {regular("a", "2")}}, want: "a=2"},

		{name: "a hard link", layers: [][]tar.Header{{regular("a", "1"), hard("b", "a")}, {regular("a", "2")}}, want: "a=2 b=1"},
		{name: "a hard link to the machine", layers: [][]tar.Header{{hard("b", "/etc/passwd")}}, refuse: "hard link"},
		{name: "a hard link by dots", layers: [][]tar.Header{{hard("b", "../../etc/passwd")}}, refuse: "leads out"},
		{name: "a hard link through a link", layers: [][]tar.Header{{link("e", "/etc"), hard("b", "e/passwd")}}, refuse: "is not a folder of the image"},
		{name: "a hard link through a link in the image", layers: [][]tar.Header{{regular("d/a", "1"), link("e", "d"), hard("b", "e/a")}}, refuse: "is not a folder of the image"},
		{name: "a hard link to a link is a link", layers: [][]tar.Header{{link("a", "/etc/passwd"), hard("b", "a")}}, want: "a -> /etc/passwd b -> /etc/passwd"},
		{name: "a hard link to a link, and a file over it", layers: [][]tar.Header{{link("a", "/etc/passwd"), hard("b", "a"), regular("b", "2")}}, want: "a -> /etc/passwd b=2"},
		{name: "a hard link to a folder", layers: [][]tar.Header{{folder("d"), hard("b", "d")}}, refuse: "not a file of the image"},
		{name: "a hard link to itself", layers: [][]tar.Header{{regular("a", "1"), hard("a", "a")}}, refuse: "hard link"},
		{name: "a hard link to what a whiteout hid", layers: [][]tar.Header{{regular("a", "1")}, {regular(".wh.a", ""), hard("b", "a")}}, refuse: "hard link"},

		{name: "a whiteout", layers: [][]tar.Header{{regular("x/a", "1"), regular("x/b", "1")}, {regular("x/.wh.a", "")}}, want: "x/b=1"},
		{name: "a whiteout of a folder", layers: [][]tar.Header{{regular("x/a", "1"), regular("y", "1")}, {regular(".wh.x", "")}}, want: "y=1"},
		{name: "a whiteout of nothing", layers: [][]tar.Header{{regular("y", "1")}, {regular(".wh.x", ""), regular("z/.wh.x", "")}}, want: "y=1"},
		{name: "a whiteout hides nothing of its own layer", layers: [][]tar.Header{{regular("x/a", "1")}, {regular("x/b", "2"), regular("x/.wh.b", ""), regular("x/.wh.a", ""), regular("x/a", "2")}}, want: "x/a=2 x/b=2"},
		{name: "a whiteout of a folder that its layer makes again", layers: [][]tar.Header{{regular("x/a", "1")}, {regular("x/b", "2"), regular(".wh.x", "")}}, want: "x/b=2"},
		{name: "an opaque whiteout first", layers: [][]tar.Header{{regular("x/a", "1"), regular("x/d/a", "1")}, {regular("x/.wh..wh..opq", ""), regular("x/b", "2")}}, want: "x/b=2"},
		{name: "an opaque whiteout last", layers: [][]tar.Header{{regular("x/a", "1"), regular("x/d/a", "1")}, {regular("x/b", "2"), regular("x/d/b", "2"), regular("x/.wh..wh..opq", "")}}, want: "x/b=2 x/d/b=2"},
		{name: "an opaque whiteout of all", layers: [][]tar.Header{{regular("a", "1")}, {regular(".wh..wh..opq", ""), regular("b", "2")}}, want: "b=2"},
		{name: "a whiteout of its folder", layers: [][]tar.Header{{regular("x/a", "1")}, {regular("x/.wh..", "")}}, refuse: "names no entry"},
		{name: "a whiteout of the folder above", layers: [][]tar.Header{{regular("x/y/a", "1")}, {regular("x/y/.wh...", "")}}, refuse: "names no entry"},
		{name: "a whiteout without a name", layers: [][]tar.Header{{regular("x/.wh.", "")}}, refuse: "names no entry"},
		{name: "a folder that is a whiteout", layers: [][]tar.Header{{regular(".wh.x/a", "1")}}, refuse: "lies in a whiteout"},
		{name: "a whiteout through a link out", layers: [][]tar.Header{{link("out", "/outside")}, {regular("out/.wh.canary", "")}}, want: "out -> /outside"},
		{name: "notes of aufs", layers: [][]tar.Header{{regular(".wh..wh.aufs", ""), regular(".wh..wh.plnk", ""), regular("a", "1")}}, want: "a=1"},
		{name: "another case is another name", layers: [][]tar.Header{{regular("a", "1"), regular("A", "2"), regular(".WH.a", "3"), regular("X/.Wh..wh..opq", "4")}}, want: ".WH.a=3 A=2 X/.Wh..wh..opq=4 a=1"},

		{name: "the same name twice", layers: [][]tar.Header{{regular("a", "1"), regular("./a", "2"), regular("/a", "3")}}, want: "a=3"},
		{name: "a link without a target", layers: [][]tar.Header{{link("a", "")}}, refuse: "a link to a name"},
		{name: "a new line in a name", layers: [][]tar.Header{{regular("a\nf 0755 1 x", "1")}}, want: "a\nf 0755 1 x=1"},
		{name: "the sandbox's own folders are emptied", layers: [][]tar.Header{{regular("proc/1/mem", "1"), link("dev", "/etc"), link("tmp", "usr"), regular("usr/a", "1")}}, want: "usr/a=1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			outside := t.TempDir()
			canary := filepath.Join(outside, "canary")
			if err := os.WriteFile(canary, []byte("whole"), 0o644); err != nil {
				t.Fatal(err)
			}
			w := newOCI(t)
			var layers []OCIDescriptor
			for _, headers := range c.layers {
				for i := range headers {
					headers[i].Linkname = strings.Replace(headers[i].Linkname, "/outside", outside, 1)
				}
				layers = append(layers, w.layer(headers...))
			}
			i, err := ImportOCI(filepath.Join(t.TempDir(), "images"), w.dir, w.manifest(layers...), "")
			if b, _ := os.ReadFile(canary); string(b) != "whole" {
				t.Errorf("the file outside is now %q", b)
			}
			if names, _ := os.ReadDir(outside); len(names) != 1 {
				t.Errorf("made outside: %v", names)
			}
			if c.refuse != "" {
				if err == nil || !strings.Contains(err.Error(), c.refuse) || !refusal.Is(err, refusal.Malformed) {
					t.Errorf("got %v, want it refused: %s", err, c.refuse)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			tree := strings.ReplaceAll(strings.Join(treeOf(t, i), " "), strings.TrimPrefix(outside, "/"), "outside")
			want := strings.Fields(c.want)
			got := strings.Fields(tree)
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
			// What was hashed while it was written is what lies there.
			if _, err := Open(i.Dir); err != nil {
				t.Error(err)
			}
		})
	}
}

// rawLayer is a layer of these bytes.
func (w ociWriter) rawLayer(mediaType string, content []byte) OCIDescriptor {
	d := w.blob(content)
	d.MediaType = mediaType
	return d
}

func gzipped(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	z.Write(b)
	z.Close()
	return out.Bytes()
}

func zstded(t *testing.T, b []byte) []byte {
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return z.EncodeAll(b, nil)
}

func tarOf(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for _, h := range headers {
		content := h.PAXRecords["TEST.content"]
		h.PAXRecords, h.Size = nil, int64(len(content))
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if err := tw.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		tw.Write([]byte(content))
	}
	tw.Close()
	return b.Bytes()
}

// sparse is a tar of one file of size bytes, none of which are in it.
func sparse(t *testing.T, size int64) []byte {
	t.Helper()
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	body := []byte("1\n0\n0\n")
	h := tar.Header{Typeflag: tar.TypeReg, Name: "hole", Mode: 0o644, Format: tar.FormatPAX, Size: 512}
	if err := tw.WriteHeader(&h); err != nil {
		t.Fatal(err)
	}
	tw.Write(append(body, make([]byte, 512-len(body))...))
	tw.Close()
	// archive/tar writes no sparse headers: put a pax header before the file's own.
	records := ""
	for _, kv := range []string{"GNU.sparse.major=1", "GNU.sparse.minor=0", "GNU.sparse.name=hole", fmt.Sprintf("GNU.sparse.realsize=%d", size)} {
		n := len(kv) + 3
		for len(fmt.Sprintf("%d %s\n", n, kv)) != n {
			n++
		}
		records += fmt.Sprintf("%d %s\n", n, kv)
	}
	var pax bytes.Buffer
	pw := tar.NewWriter(&pax)
	pw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "pax", Mode: 0o644, Size: int64(len(records))})
	pw.Write([]byte(records))
	pw.Flush()
	head := pax.Bytes()
	head[156] = 'x'
	sum := 0
	for i, c := range head[:512] {
		if i >= 148 && i < 156 {
			c = ' '
		}
		sum += int(c)
	}
	copy(head[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return append(head, b.Bytes()...)
}

// TestBombs: a layer that is small and unpacks to much is refused before the disk is
// full, however it is packed.
func TestBombs(t *testing.T) {
	zeros := make([]byte, 1<<20)
	var much bytes.Buffer // a tar with 600 MiB in it
	tw := tar.NewWriter(&much)
	for i := range 600 {
		tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprint("f", i), Size: int64(len(zeros)), Mode: 0o644})
		tw.Write(zeros)
	}
	tw.Close()
	small := tarOf(t, regular("a", "1"))
	for name, l := range map[string]func(w ociWriter) OCIDescriptor{
		"gzip": func(w ociWriter) OCIDescriptor { return w.rawLayer(typeLayerGzip, gzipped(much.Bytes())) },
		"zstd": func(w ociWriter) OCIDescriptor { return w.rawLayer(typeLayerZstd, zstded(t, much.Bytes())) },
		"after the tar": func(w ociWriter) OCIDescriptor {
			return w.rawLayer(typeLayerZstd, zstded(t, append(bytes.Clone(small), make([]byte, 400<<20)...)))
		},
		"many gzip members": func(w ociWriter) OCIDescriptor {
			return w.rawLayer(typeLayerGzip, append(gzipped(small), bytes.Repeat(gzipped(zeros), 600)...))
		},
		"a sparse file": func(w ociWriter) OCIDescriptor { return w.rawLayer(typeLayer, sparse(t, 10<<30)) },
		"a sparse file in gzip": func(w ociWriter) OCIDescriptor {
			return w.rawLayer(typeLayerGzip, gzipped(sparse(t, 1<<40)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newOCI(t)
			cache := filepath.Join(t.TempDir(), "images")
			_, err := ImportOCI(cache, w.dir, w.manifest(l(w)), "")
			if !refusal.Is(err, refusal.Malformed) || !strings.Contains(err.Error(), "bomb") && !strings.Contains(err.Error(), "the image is over") {
				t.Errorf("got %v", err)
			}
			if left, _ := os.ReadDir(cache); len(left) != 0 {
				t.Errorf("left in the cache: %v", left)
			}
		})
	}
	t.Run("an honest sparse file", func(t *testing.T) {
		w := newOCI(t)
		i, err := ImportOCI(filepath.Join(t.TempDir(), "images"), w.dir, w.manifest(w.rawLayer(typeLayer, sparse(t, 3<<20))), "")
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(filepath.Join(i.Root(), "hole")); err != nil || info.Size() != 3<<20 {
			t.Errorf("%v %v", info, err)
		}
	})
}

// TestLayersThatAreNotWhatTheManifestSays: wrong digests, sizes, media types, counts.
func TestLayersThatAreNotWhatTheManifestSays(t *testing.T) {
	config := func(w ociWriter, about map[string]any) OCIDescriptor {
		b, err := json.Marshal(about)
		if err != nil {
			t.Fatal(err)
		}
		return w.blob(b)
	}
	diff := func(tar []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(tar)) }
	plainTar := tarOf(t, regular("a", "1"))
	rootfs := func(diffs ...string) map[string]any {
		return map[string]any{"os": "linux", "architecture": ThisPlatform().Architecture, "rootfs": map[string]any{"type": "layers", "diff_ids": diffs}}
	}
	for _, c := range []struct {
		name string
		make func(w ociWriter) (layers []OCIDescriptor, config *OCIDescriptor)
		want refusal.Name
	}{
		{"right", func(w ociWriter) ([]OCIDescriptor, *OCIDescriptor) {
			cfg := config(w, rootfs(diff(plainTar)))
			return []OCIDescriptor{w.rawLayer(typeLayerGzip, gzipped(plainTar))}, &cfg
		}, ""},
		{"the same layer three times", func(w ociWriter) ([]OCIDescriptor, *OCIDescriptor) {
			l, cfg := w.rawLayer(typeLayerGzip, gzipped(plainTar)), config(w, rootfs(diff(plainTar), diff(plainTar), diff(plainTar)))
			return []OCIDescriptor{l, l, l}, &cfg
		}, ""},
		{"a size that is too small", func(w ociWriter) ([]OCIDescriptor, *OCIDescriptor) {
			l := w.rawLayer(typeLayerGzip, gzipped(plainTar))
			l.Size--
			return []OCIDescriptor{l}, nil
		}, refusal.DigestMismatch},
		{"a size that is too large", func(w ociWriter) ([]OCIDescriptor, *OCIDescriptor) {
			l := w.rawLayer(typeLayerGzip, gzipped(plainTar))
			l.Size++
			return []OCIDescriptor{l}, nil
		}, refusal.DigestMismatch},
		{"a size below zero", func(w ociWriter) ([]OCIDescriptor, *OCIDescriptor) {
			l := w.rawLayer(typeLayerGzip, gzipped(plainTar))
			l.Size = -1
			return []OCIDescriptor{l}, nil
		}, refusal.TooLarge},
		{"another tar than the configuration says", func(w ociWriter) ([]OCIDescriptor, *OCIDescriptor) {
			cfg := config(w, rootfs(diff([]byte("another"))))
			return []OCIDescriptor{w.rawLayer(typeLayerGzip, gzipped(plainTar))}, &cfg
		}, refusal.DigestMismatch},
		{"a layer that the configuration does not have", func(w ociWriter) ([]OCIDescriptor, *OCIDescriptor) {
			cfg, l := config(w, rootfs(diff(plainTar))), w.rawLayer(typeLayerGzip, gzipped(plainTar))
			return []OCIDescriptor{l, l}, &cfg
		}, refusal.Malformed},
		{"a configuration of another size", func(w ociWriter) ([]OCIDescriptor, *OCIDescriptor) {
			cfg := config(w, rootfs(diff(plainTar)))
			cfg.Size += 2
			return []OCIDescriptor{w.rawLayer(typeLayerGzip, gzipped(plainTar))}, &cfg
		}, refusal.DigestMismatch},
		{"for another machine", func(w ociWriter) ([]OCIDescriptor, *OCIDescriptor) {
			about := rootfs(diff(plainTar))
			about["architecture"] = "s390x"
			cfg := config(w, about)
			return []OCIDescriptor{w.rawLayer(typeLayerGzip, gzipped(plainTar))}, &cfg
		}, refusal.Usage},
		{"for another system", func(w ociWriter) ([]OCIDescriptor, *OCIDescriptor) {
			about := rootfs(diff(plainTar))
			about["os"] = "windows"
			cfg := config(w, about)
			return []OCIDescriptor{w.rawLayer(typeLayerGzip, gzipped(plainTar))}, &cfg
		}, refusal.Usage},
		{"a media type that is not a layer's", func(w ociWriter) ([]OCIDescriptor, *OCIDescriptor) {
			return []OCIDescriptor{w.rawLayer("application/vnd.in-toto+json", plainTar)}, nil
		}, refusal.Malformed},
		{"gzip that is not", func(w ociWriter) ([]OCIDescriptor, *OCIDescriptor) {
			return []OCIDescriptor{w.rawLayer(typeLayerGzip, plainTar)}, nil
		}, refusal.Malformed},
		{"gzip that is cut", func(w ociWriter) ([]OCIDescriptor, *OCIDescriptor) {
			z := gzipped(plainTar)
			return []OCIDescriptor{w.rawLayer(typeLayerGzip, z[:len(z)-9])}, nil
		}, refusal.Malformed},
		{"a digest that names a path", func(w ociWriter) ([]OCIDescriptor, *OCIDescriptor) {
			l := w.rawLayer(typeLayerGzip, gzipped(plainTar))
			l.Digest = "sha256:../../../../../../etc/passwd"
			return []OCIDescriptor{l}, nil
		}, refusal.Malformed},
		{"a digest in capitals", func(w ociWriter) ([]OCIDescriptor, *OCIDescriptor) {
			l := w.rawLayer(typeLayerGzip, gzipped(plainTar))
			l.Digest = "sha256:" + strings.ToUpper(l.Digest[7:])
			return []OCIDescriptor{l}, nil
		}, refusal.Malformed},
		{"layers without number", func(w ociWriter) ([]OCIDescriptor, *OCIDescriptor) {
			return slices.Repeat([]OCIDescriptor{w.rawLayer(typeLayerGzip, gzipped(plainTar))}, maxLayers+1), nil
		}, refusal.TooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newOCI(t)
			layers, cfg := c.make(w)
			m := map[string]any{"schemaVersion": 2, "layers": layers}
			if cfg != nil {
				m["config"] = cfg
			}
			b, _ := json.Marshal(m)
			cache := filepath.Join(t.TempDir(), "images")
			i, err := ImportOCI(cache, w.dir, w.blob(b).Digest, "")
			if c.want == "" {
				if err != nil || !slices.Equal(treeOf(t, i), []string{"a=1"}) {
					t.Errorf("%v %v", i, err)
				}
				return
			}
			if !refusal.Is(err, c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if left, _ := os.ReadDir(cache); len(left) != 0 {
				t.Errorf("left in the cache: %v", left)
			}
		})
	}
}
