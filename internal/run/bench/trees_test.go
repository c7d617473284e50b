package bench

import (
	"archive/tar"
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

// packedTree is a tree of two files, and the trees file that has it.
func packedTree(t *testing.T) (name digest.Content, list, packed []byte) {
	t.Helper()
	a, b := []byte("package a\n"), []byte("#!/bin/sh\n")
	tree := Tree{Version: 1, Files: []TreeFile{{Path: "run.sh", Digest: digest.ContentOf(b), Executable: true}, {Path: "a/a.go", Digest: digest.ContentOf(a)}}}
	list, err := tree.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if packed, err = PackTrees([][]byte{list, a, b, a}); err != nil {
		t.Fatal(err)
	}
	return digest.ContentOf(list), list, packed
}

func TestATreeComesBackAsItWas(t *testing.T) {
	name, _, packed := packedTree(t)
	files, err := storeOf(packed).tree(name)
	if err != nil {
		t.Fatal(err)
	}
	want := []digest.File{{Path: "a/a.go", Data: []byte("package a\n")}, {Path: "run.sh", Data: []byte("#!/bin/sh\n"), Executable: true}}
	if !slices.EqualFunc(files, want, func(a, b digest.File) bool {
		return a.Path == b.Path && bytes.Equal(a.Data, b.Data) && a.Executable == b.Executable
	}) {
		t.Errorf("got %+v", files)
	}
}

// rawTrees packs entries under the names that are given.
func rawTrees(t *testing.T, entries map[string]string, kind byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	for name, text := range entries {
		if err := w.WriteHeader(&tar.Header{Typeflag: kind, Name: name, Linkname: "x", Size: int64(len(text)), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestTreesHaveNothingThatNoCaseUses(t *testing.T) {
	name, list, packed := packedTree(t)
	if err := storeOf(packed).unused([]digest.Content{name}); err != nil {
		t.Error(err)
	}
	if err := storeOf(nil).unused(nil); err != nil {
		t.Errorf("a class without trees: %v", err)
	}
	hex := func(data string) string { return hexOf(digest.ContentOf([]byte(data))) }
	more := rawTrees(t, map[string]string{hex(string(list)): string(list), hex("package a\n"): "package a\n", hex("#!/bin/sh\n"): "#!/bin/sh\n", hex("more"): "more"}, tar.TypeReg)
	if err := storeOf(more).unused([]digest.Content{name}); !refusal.Is(err, refusal.BenchTreeInvalid) || !strings.Contains(err.Error(), hex("more")) {
		t.Errorf("a file that no tree has: %v", err)
	}
	if err := storeOf(packed).unused(nil); !refusal.Is(err, refusal.BenchTreeInvalid) {
		t.Errorf("a tree that no case names: %v", err)
	}
}

func TestTreesAreWhatTheirDigestsSay(t *testing.T) {
	name, list, packed := packedTree(t)
	outside := Tree{Version: 1, Files: []TreeFile{{Path: "../a", Digest: digest.ContentOf([]byte("a"))}}}
	leading, err := outside.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	newer := []byte(strings.Replace(string(list), `"version":1`, `"version":2`, 1))
	hex := hexOf(name)
	for what, test := range map[string]struct {
		file []byte
		name digest.Content
		want refusal.Name
	}{
		"no trees file":            {nil, name, refusal.BenchIncomplete},
		"a tree that is not here":  {packed, digest.ContentOf([]byte("other")), refusal.BenchIncomplete},
		"a file that is missing":   {rawTrees(t, map[string]string{hex: string(list)}, tar.TypeReg), name, refusal.BenchIncomplete},
		"other bytes under a name": {rawTrees(t, map[string]string{hex: string(list) + " "}, tar.TypeReg), name, refusal.BenchTreeInvalid},
		"a link":                   {rawTrees(t, map[string]string{hex: ""}, tar.TypeSymlink), name, refusal.BenchTreeInvalid},
		"a cut file":               {packed[:len(packed)-9], name, refusal.BenchTreeInvalid},
		"not zstd":                 {[]byte("trees"), name, refusal.BenchTreeInvalid},
		"a path that leads out":    {rawTrees(t, map[string]string{hexOf(digest.ContentOf(leading)): string(leading), hexOf(digest.ContentOf([]byte("a"))): "a"}, tar.TypeReg), digest.ContentOf(leading), refusal.Malformed},
		"a newer version":          {rawTrees(t, map[string]string{hexOf(digest.ContentOf(newer)): string(newer)}, tar.TypeReg), digest.ContentOf(newer), refusal.Malformed},
	} {
		if _, err := storeOf(test.file).tree(test.name); !refusal.Is(err, test.want) {
			t.Errorf("%s: %v, expected %s", what, err, test.want)
		}
	}
}
