package digest

import (
	"archive/tar"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"tallystick/internal/record/refusal"
)

// folderOf writes files to a fresh folder and opens it.
func folderOf(t *testing.T, files map[string]string) (*os.Root, string) {
	t.Helper()
	dir := t.TempDir()
	for path, data := range files {
		full := filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root, dir
}

func digestOf(t *testing.T, tree *Tree) Content {
	t.Helper()
	c, err := tree.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func readAll(t *testing.T, root *os.Root, dir string) *Tree {
	t.Helper()
	tree, err := ReadTree(root, dir, TreeLimits{Exclude: []string{"case.yaml"}})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// fenced returns the one code block of the document whose fence has the given
// info.
func fenced(t *testing.T, info string) string {
	t.Helper()
	doc, err := os.ReadFile(fromModuleRoot(t, "docs", "formats", "digests.md"))
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(doc), "```"+info+"\n")
	if len(parts) != 2 {
		t.Fatalf("found %d blocks marked %q, want 1", len(parts)-1, info)
	}
	text, _, ok := strings.Cut(parts[1], "\n```")
	if !ok {
		t.Fatalf("the block marked %q does not end", info)
	}
	return text
}

// sampleFiles has every edge that the stream has: empty, one byte, exactly a
// block, names of every length around the limits of the header, names beyond
// ASCII, and an order that differs from folder by folder.
func sampleFiles() map[string]string {
	files := map[string]string{
		"case.yaml": "left out", "sub/case.yaml": "kept",
		"a.txt": "1", "a/b": "2", "a/b.c/d": "", "a-b": "3", "Z": "4", "é/ü.txt": "5", "日本": "6", "with space/x y": "7",
		"@file": "8", "#x": "9", "~": "10", "[a]*?": "11", "!": "12", "a'\"b": "13", "$HOME": "14", "%n": "15",
		"block": strings.Repeat("x", 512), "block+1": strings.Repeat("x", 513), "big": strings.Repeat("0123456789", 10_000),
	}
	if runtime.GOOS == "windows" {
		maps.DeleteFunc(files, func(path, _ string) bool { return strings.ContainsAny(path, `*?"`) })
	}
	for _, n := range []int{98, 99, 100} {
		files[strings.Repeat("n", n)] = fmt.Sprint(n)
	}
	// Folder of f bytes, '/', name of n bytes.
	for _, fn := range [][2]int{{1, 98}, {1, 99}, {1, 100}, {2, 98}, {50, 49}, {50, 50}, {50, 100}, {99, 1}, {100, 1}, {155, 1}, {155, 99}, {155, 100}} {
		files[longPath(fn[0])+"/"+strings.Repeat("m", fn[1])] = fmt.Sprint(fn)
	}
	return files
}

// longPath returns a folder path of n bytes with a slash every 40.
func longPath(n int) string {
	b := bytes.Repeat([]byte("f"), n)
	for i := 40; i < n-1; i += 41 {
		b[i] = '/'
	}
	return string(b)
}

func TestTarAloneReproducesTheDigest(t *testing.T) {
	if out, err := exec.Command("tar", "--version").Output(); err != nil || !bytes.Contains(out, []byte("GNU tar")) {
		t.Skipf("no GNU tar here: %v", err)
	}
	command := fenced(t, "sh")
	stream, hash, ok := strings.Cut(command, "|\nb3sum")
	if !ok {
		t.Fatalf("the documented command does not end in b3sum:\n%s", command)
	}
	for name, files := range map[string]map[string]string{
		"every edge":        sampleFiles(),
		"one file":          {"x": "y"},
		"nothing":           {},
		"only what is left": {"case.yaml": "x"},
	} {
		t.Run(name, func(t *testing.T) {
			root, dir := folderOf(t, files)
			if len(files) > 1 {
				if err := os.Link(filepath.Join(dir, "big"), filepath.Join(dir, "big-again")); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(filepath.Join(dir, "Z"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			tree := readAll(t, root, ".")
			var ours bytes.Buffer
			if n, err := tree.WriteTo(&ours); err != nil || n != int64(ours.Len()) {
				t.Fatalf("wrote %d, counted %d, %v", ours.Len(), n, err)
			}
			theirs := runIn(t, dir, stream)
			if !bytes.Equal(ours.Bytes(), theirs) {
				t.Fatalf("our stream of %d bytes and tar's of %d differ first at byte %d", ours.Len(), len(theirs), firstDifference(ours.Bytes(), theirs))
			}
			want := digestOf(t, tree)
			if got := ContentOf(theirs); got != want {
				t.Errorf("tar's stream is %s, the tree %s", got, want)
			}
			if _, err := exec.LookPath("b3sum"); err != nil {
				t.Log("no b3sum here: the last step was done by this package")
				return
			}
			if got := "blake3:" + strings.TrimSpace(string(runIn(t, dir, stream+"|\nb3sum"+hash))); got != want.String() {
				t.Errorf("the documented command prints %s, the tree is %s", got, want)
			}
		})
	}
}

func runIn(t *testing.T, dir, command string) []byte {
	t.Helper()
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%s: %v: %s", command, err, stderr.Bytes())
	}
	return out
}

func firstDifference(a, b []byte) int {
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	return i
}

// A file of 8 GiB would take too long; its header alone shows the limit.
func TestFileSizesFitTheHeader(t *testing.T) {
	if _, err := ustarHeader("x", maxFileSize); err != nil {
		t.Error(err)
	}
	if _, err := ustarHeader("x", maxFileSize+1); !refusal.Is(err, refusal.TooLarge) {
		t.Errorf("got %v, want a TooLarge refusal", err)
	}
}

// Any reader of archives finds the same files in the stream.
func TestStreamIsAnArchive(t *testing.T) {
	files := sampleFiles()
	root, _ := folderOf(t, files)
	tree := readAll(t, root, ".")
	var stream bytes.Buffer
	if _, err := tree.WriteTo(&stream); err != nil {
		t.Fatal(err)
	}
	archive := tar.NewReader(&stream)
	previous := ""
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(archive)
		if err != nil || string(data) != files[h.Name] || h.Typeflag != tar.TypeReg || h.Mode != 0o644 || h.Uid != 0 || h.Gid != 0 ||
			h.Uname != "" || h.Gname != "" || h.ModTime.Unix() != 0 || h.Name <= previous {
			t.Errorf("archive has %+v with %d bytes after %q, %v", h, len(data), previous, err)
		}
		previous = h.Name
		delete(files, h.Name)
	}
	if len(files) != 1 || files["case.yaml"] == "" {
		t.Errorf("not in the archive: %d files", len(files))
	}
}

func TestDocumentedTree(t *testing.T) {
	wantDigests := fmt.Sprintf("%s\n%s\n%s", ContentOf(nil), ContentOf([]byte("abc")), IDOf([]byte("abc")))
	if got := fenced(t, "digests"); got != wantDigests {
		t.Errorf("the document says\n%s\nwant\n%s", got, wantDigests)
	}
	files := map[string]string{"case.yaml": "id: example\n"}
	for line := range strings.SplitSeq(fenced(t, "tree"), "\n") {
		path, quoted, _ := strings.Cut(line, " ")
		data, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatal(err)
		}
		files[path] = data
	}
	root, _ := folderOf(t, files)
	tree := readAll(t, root, ".")
	if got, want := fenced(t, "digest"), digestOf(t, tree).String(); got != want {
		t.Errorf("the document says %s, the tree is %s", got, want)
	}
	var stream bytes.Buffer
	if _, err := tree.WriteTo(&stream); err != nil || stream.Len() != 3584 {
		t.Fatalf("the stream has %d bytes, %v; the document says 3,584", stream.Len(), err)
	}
	if got, want := fenced(t, "header"), strings.TrimSpace(dumpNonZero(stream.Bytes()[:blockSize])); got != want {
		t.Errorf("the document says\n%s\nwant\n%s", got, want)
	}
}

// dumpNonZero prints the lines of a hexadecimal dump that are not all zero.
func dumpNonZero(b []byte) string {
	var out strings.Builder
	for line := range strings.Lines(hex.Dump(b)) {
		if !strings.Contains(line, "|................|") {
			out.WriteString(line)
		}
	}
	return out.String()
}

func TestOnlyPathsAndBytesMatter(t *testing.T) {
	files := map[string]string{"a": "1", "b/c": "2"}
	root, dir := folderOf(t, files)
	want := digestOf(t, readAll(t, root, "."))

	if err := os.Chmod(filepath.Join(dir, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "empty", "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "case.yaml"), []byte("signatures"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := digestOf(t, readAll(t, root, ".")); got != want {
		t.Errorf("mode, empty folder or excluded file changed the digest")
	}
	if got := digestOf(t, &Tree{Files: []File{{Path: "b/c", Data: []byte("2")}, {Path: "a", Data: []byte("1")}}}); got != want {
		t.Errorf("the order of files in memory changed the digest")
	}
	below, _ := folderOf(t, map[string]string{"x/y/a": "1", "x/y/b/c": "2", "x/other": "3"})
	if got := digestOf(t, readAll(t, below, "x/y")); got != want {
		t.Errorf("the place of the folder changed the digest")
	}

	for name, other := range map[string]map[string]string{
		"a byte changed":       {"a": "0", "b/c": "2"},
		"a byte added":         {"a": "1\x00", "b/c": "2"},
		"bytes moved over":     {"a": "12", "b/c": ""},
		"file renamed":         {"A": "1", "b/c": "2"},
		"file moved":           {"a": "1", "c": "2"},
		"file added":           {"a": "1", "b/c": "2", "d": ""},
		"file dropped":         {"a": "1"},
		"contents exchanged":   {"a": "2", "b/c": "1"},
		"excluded name deeper": {"a": "1", "b/c": "2", "b/case.yaml": ""},
	} {
		root, _ := folderOf(t, other)
		if got := digestOf(t, readAll(t, root, ".")); got == want {
			t.Errorf("%s: the digest did not change", name)
		}
	}
}

func TestReadTreeOwnsItsBytes(t *testing.T) {
	root, dir := folderOf(t, map[string]string{"a": "before"})
	tree := readAll(t, root, ".")
	want := digestOf(t, tree)
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("after!"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := digestOf(t, tree); got != want || string(tree.Files[0].Data) != "before" {
		t.Errorf("the tree changed with the disk")
	}
}

// oddPaths are refused wherever they come from.
var oddPaths = []struct{ name, path, says string }{
	{"empty", "", "is empty"},
	{"absolute", "/a", "empty part"},
	{"ends in a slash", "a/", "empty part"},
	{"two slashes", "a//b", "empty part"},
	{"dot", ".", "has the part ."},
	{"dot first", "./a", "has the part ."},
	{"dot inside", "a/./b", "has the part ."},
	{"dot dot", "..", "has the part .."},
	{"dot dot first", "../a", "has the part .."},
	{"dot dot inside", "a/../b", "has the part .."},
	{"dot dot last", "a/..", "has the part .."},
	{"leading dash", "-rf", "begins with '-'"},
	{"leading dash of a folder", "-x/a", "begins with '-'"},
	{"leading dash below", "a/--help", "begins with '-'"},
	{"trailing dot", "a.", "ends in a dot"},
	{"three dots", "...", "ends in a dot"},
	{"trailing space", "a ", "ends in a dot or a space"},
	{"trailing space of a folder", "a /b", "ends in a dot or a space"},
	{"backslash", `a\b`, "backslash"},
	{"windows dot dot", `..\a`, "backslash"},
	{"newline", "a\nb", "control character"},
	{"tab", "a\tb", "control character"},
	{"zero byte", "a\x00b", "control character"},
	{"escape", "\x1b[31m", "control character"},
	{"delete", "a\x7f", "control character"},
	{"C1 control", "a\u0085b", "control character"},
	{"not UTF-8", "a\xff", "not valid UTF-8"},
	{"overlong slash", "a\xc0\xafb", "not valid UTF-8"},
	{"encoded surrogate", "a\xed\xa0\x80", "not valid UTF-8"},
	{"right-to-left override", "a\u202egpj.exe", "invisible"},
	{"isolate", "a\u2066b", "invisible"},
	{"zero-width space", "a\u200bb", "invisible"},
	{"zero-width joiner", "a\u200db", "invisible"},
	{"byte order mark", "\ufeffa", "invisible"},
	{"soft hyphen", "a\u00adb", "invisible"},
	{"line separator", "a\u2028b", "invisible"},
	{"variation selector", "a\ufe0f", "invisible"},
	{"tag character", "a\U000e0041", "invisible"},
	{"name of 101 bytes", strings.Repeat("a", 101), "cannot be divided"},
	{"name of 101 bytes below", "f/" + strings.Repeat("a", 101), "cannot be divided"},
	{"folder of 156 bytes", strings.Repeat("f", 156) + "/a", "cannot be divided"},
	{"too long altogether", longPath(155) + "/" + strings.Repeat("a", 101), "cannot be divided"},
}

func TestTreeRefusesOddPaths(t *testing.T) {
	for _, tt := range oddPaths {
		t.Run(tt.name, func(t *testing.T) {
			tree := &Tree{Files: []File{{Path: "fine"}, {Path: tt.path}}}
			var out bytes.Buffer
			n, err := tree.WriteTo(&out)
			checkRefusal(t, err, tt.says, tt.path)
			if n != 0 || out.Len() != 0 {
				t.Errorf("%d bytes were written before the refusal", out.Len())
			}
			if c, err := tree.Digest(); err == nil || !c.IsZero() {
				t.Errorf("Digest = %v, %v", c, err)
			}
		})
	}
}

func checkRefusal(t *testing.T, err error, says, path string) {
	t.Helper()
	switch {
	case !refusal.Is(err, refusal.Malformed) && !refusal.Is(err, refusal.TooLarge):
		t.Errorf("got %v, want a Malformed or TooLarge refusal", err)
	case !strings.Contains(err.Error(), says):
		t.Errorf("got %v, want something with %q", err, says)
	case !strings.Contains(err.Error(), strings.Trim(strconv.Quote(path), `"`)):
		t.Errorf("got %v, without the path %q", err, path)
	case refusal.Of(err).Hint == "":
		t.Errorf("%v has no hint", err)
	}
}

func TestTreeRefusesCollisions(t *testing.T) {
	for _, tt := range []struct {
		name  string
		paths []string
		says  string
	}{
		{"same path", []string{"a", "a"}, "occurs twice"},
		{"case", []string{"a", "A"}, `differs only in case from "a"`},
		{"case of a folder", []string{"a/x", "A/y"}, "differs only in case"},
		{"case of a folder and a file", []string{"a/x", "A"}, "differs only in case"},
		{"case below", []string{"f/readme", "f/README"}, "differs only in case"},
		{"case beyond ASCII", []string{"É", "é"}, "differs only in case"},
		{"Kelvin sign", []string{"k", "\u212a"}, "differs only in case"},
		{"long s", []string{"s", "\u017f"}, "differs only in case"},
		{"sigma and final sigma", []string{"σ", "ς"}, "differs only in case"},
		{"file where a folder is", []string{"a/b", "a"}, "occurs twice"},
		{"folder where a file is", []string{"a", "a/b"}, "occurs twice"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var tree Tree
			for _, p := range tt.paths {
				tree.Files = append(tree.Files, File{Path: p})
			}
			_, err := tree.Digest()
			checkRefusal(t, err, tt.says, "")
		})
	}
	// A folder of several files is not a collision, nor are names that only
	// begin alike.
	tree := Tree{Files: []File{{Path: "a/b"}, {Path: "a/c"}, {Path: "ab"}, {Path: "a.b"}}}
	if _, err := tree.Digest(); err != nil {
		t.Error(err)
	}
}

func TestReadTreeLimits(t *testing.T) {
	root, _ := folderOf(t, map[string]string{"a": "12345", "b/c": "67890", "case.yaml": "x"})
	exclude := []string{"case.yaml"}
	// a, b, b/c and case.yaml; ten bytes.
	if _, err := ReadTree(root, ".", TreeLimits{Exclude: exclude, MaxFiles: 4, MaxBytes: 10}); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	for name, limits := range map[string]TreeLimits{
		"files":                       {Exclude: exclude, MaxFiles: 3},
		"bytes":                       {Exclude: exclude, MaxBytes: 9},
		"bytes without the exclusion": {MaxBytes: 10},
	} {
		if tree, err := ReadTree(root, ".", limits); !refusal.Is(err, refusal.TooLarge) || tree != nil {
			t.Errorf("%s: got %v, want a TooLarge refusal", name, err)
		}
	}
}

func TestReadTreeRefusesBadFolders(t *testing.T) {
	root, _ := folderOf(t, map[string]string{"file": "x", "folder/file": "y"})
	for dir, want := range map[string]refusal.Name{
		"missing":     refusal.Unreadable,
		"folder/gone": refusal.Unreadable,
		"file":        refusal.Malformed,
		"file/x":      refusal.Malformed,
		"..":          refusal.Malformed,
		"folder/..":   refusal.Malformed,
		"/":           refusal.Malformed,
		"":            refusal.Malformed,
		"folder/":     refusal.Malformed,
		"./folder":    refusal.Malformed,
	} {
		if _, err := ReadTree(root, dir, TreeLimits{}); !refusal.Is(err, want) {
			t.Errorf("folder %q: got %v, want %s", dir, err, want)
		}
	}
}

type brokenWriter struct{ left int }

var errBroken = errors.New("broken")

func (w *brokenWriter) Write(p []byte) (int, error) {
	if len(p) > w.left {
		n := w.left
		w.left = 0
		return n, errBroken
	}
	w.left -= len(p)
	return len(p), nil
}

func TestWriteToReportsEveryFailure(t *testing.T) {
	tree := &Tree{Files: []File{{Path: "a", Data: []byte("x")}, {Path: "b", Data: nil}}}
	for n := range 512 * 5 {
		if written, err := tree.WriteTo(&brokenWriter{n}); !errors.Is(err, errBroken) || written != int64(n) {
			t.Fatalf("a writer that takes %d bytes: wrote %d, %v", n, written, err)
		}
	}
	if n, err := tree.WriteTo(&brokenWriter{512 * 5}); err != nil || n != 512*5 {
		t.Errorf("wrote %d, %v", n, err)
	}
}

// FuzzTreePath: a path that is accepted comes back from an independent archive
// reader, is clean and local, and its case variants collide with it.
func FuzzTreePath(f *testing.F) {
	for _, tt := range oddPaths {
		f.Add(tt.path)
	}
	for path := range sampleFiles() {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		tree := &Tree{Files: []File{{Path: path, Data: []byte("data")}}}
		var stream bytes.Buffer
		if _, err := tree.WriteTo(&stream); err != nil {
			checkRefusal(t, err, "", path)
			return
		}
		if !filepath.IsLocal(path) || filepath.ToSlash(filepath.Clean(path)) != path {
			t.Fatalf("accepted %q, which is not clean and local", path)
		}
		archive := tar.NewReader(&stream)
		h, err := archive.Next()
		if err != nil || h.Name != path || h.Size != 4 {
			t.Fatalf("%q is read back as %+v, %v", path, h, err)
		}
		if _, err := archive.Next(); !errors.Is(err, io.EOF) {
			t.Fatalf("%q: the archive goes on: %v", path, err)
		}
		for _, variant := range []string{strings.ToUpper(path), strings.ToLower(path)} {
			if variant == path || checkPath(variant) != nil || fold(variant) != fold(path) {
				continue
			}
			two := &Tree{Files: []File{{Path: path, Data: nil}, {Path: variant}}}
			if _, err := two.Digest(); err == nil {
				t.Fatalf("accepted %q beside %q", path, variant)
			}
		}
	})
}
