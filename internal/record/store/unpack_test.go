package store

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

var listedFolder = []Listed{
	{Path: ".", Kind: FolderEntry}, {Path: "bin", Kind: FolderEntry},
	{Path: "bin/run", Kind: FileEntry, Executable: true, Size: 3, Modified: 1_700_000_000}, {Path: "out", Kind: LinkEntry, To: "/etc"}, {Path: "text", Kind: FileEntry, Size: 4},
}

func TestUnpackMakesWhatIsListed(t *testing.T) {
	at := filepath.Join(t.TempDir(), "new", "f")
	if err := Unpack(at, listedFolder, strings.NewReader("#!xabcd")); err != nil {
		t.Fatal(err)
	}
	run, err := os.Stat(filepath.Join(at, "bin/run"))
	if err != nil || run.Mode() != 0o755 && runtime.GOOS != "windows" || run.ModTime().Unix() != 1_700_000_000 {
		t.Errorf("bin/run: %v, %v", run, err)
	}
	if text, err := os.ReadFile(filepath.Join(at, "text")); err != nil || string(text) != "abcd" {
		t.Errorf("text: %q, %v", text, err)
	}
	if to, err := os.Readlink(filepath.Join(at, "out")); err != nil || to != "/etc" {
		t.Errorf("out: %q, %v", to, err)
	}
	if err := Unpack(at, listedFolder, strings.NewReader("#!xabcd")); err == nil {
		t.Error("it was written over what was there")
	}
	if err := Unpack(filepath.Join(t.TempDir(), "f"), listedFolder, strings.NewReader("#!x")); err == nil {
		t.Error("too few bytes made a folder")
	}
	file := filepath.Join(t.TempDir(), "f")
	if err := Unpack(file, []Listed{{Path: ".", Kind: FileEntry, Size: 2}}, strings.NewReader("ab")); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "ab" {
		t.Errorf("a single file: %q, %v", text, err)
	}
}

// TestHostileListsAreRefused: nothing is written outside of the folder, nothing twice,
// and nothing that is not a file, a folder or a link.
func TestHostileListsAreRefused(t *testing.T) {
	outside := t.TempDir()
	top := Listed{Path: ".", Kind: FolderEntry}
	for name, list := range map[string][]Listed{
		"nothing":                   {},
		"no folder":                 {{Path: "a", Kind: FileEntry}},
		"a link as the folder":      {{Path: ".", Kind: LinkEntry, To: outside}},
		"a file that has others":    {{Path: ".", Kind: FileEntry}, {Path: "a", Kind: FileEntry}},
		"a path that climbs":        {top, {Path: "../a", Kind: FileEntry}},
		"an absolute path":          {top, {Path: outside + "/a", Kind: FileEntry}},
		"a file below a link":       {top, {Path: "l", Kind: LinkEntry, To: outside}, {Path: "l/a", Kind: FileEntry}},
		"a folder below a link":     {top, {Path: "l", Kind: LinkEntry, To: outside}, {Path: "l/a", Kind: FolderEntry}},
		"a file below a file":       {top, {Path: "a", Kind: FileEntry}, {Path: "a/b", Kind: FileEntry}},
		"a file before its folder":  {top, {Path: "a/b", Kind: FileEntry}, {Path: "a", Kind: FolderEntry}},
		"a name twice":              {top, {Path: "a", Kind: FileEntry}, {Path: "a", Kind: FileEntry}},
		"a link, then a folder":     {top, {Path: "a", Kind: LinkEntry, To: outside}, {Path: "a", Kind: FolderEntry}, {Path: "a/b", Kind: FileEntry}},
		"the folder twice":          {top, top},
		"a device":                  {top, {Path: "a", Kind: "device"}},
		"a link without an end":     {top, {Path: "a", Kind: LinkEntry}},
		"a size below nothing":      {top, {Path: "a", Kind: FileEntry, Size: -1}},
		"a folder with bytes":       {top, {Path: "a", Kind: FolderEntry, Size: 1}},
		"a name that is not one":    {top, {Path: `a\x0`, Kind: FileEntry}},
		"a name with a zero byte":   {top, {Path: `a\x00`, Kind: FileEntry}},
		"a name that is two slices": {top, {Path: "a//b", Kind: FileEntry}},
	} {
		if CheckList(list, 10, 1<<20) == nil {
			t.Errorf("%s: the list was accepted", name)
		}
		if err := Unpack(filepath.Join(t.TempDir(), "f"), list, strings.NewReader("aaaa")); err == nil {
			t.Errorf("%s: it was unpacked", name)
		}
		if left, _ := filepath.Glob(outside + "/*"); len(left) > 0 {
			t.Fatalf("%s: it wrote %v", name, left)
		}
	}
	if err := CheckList(listedFolder, 4, 100); err == nil {
		t.Error("more names than are accepted")
	}
	if err := CheckList(listedFolder, 5, 6); err == nil {
		t.Error("more bytes than are accepted")
	}
	if err := CheckList([]Listed{top, {Path: "a", Kind: FileEntry, Size: 1 << 62}, {Path: "b", Kind: FileEntry, Size: 1 << 62}, {Path: "c", Kind: FileEntry, Size: 1 << 62}}, 5, 6); err == nil {
		t.Error("sizes that add up to less")
	}
}

func TestKeepNewestLeavesWhatWasUsedLast(t *testing.T) {
	cache := t.TempDir()
	for i, name := range []string{"a", "b", "c"} {
		if err := os.MkdirAll(filepath.Join(cache, name, "f"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := Touch(filepath.Join(cache, name), time.Unix(1_700_000_000+int64(i), 0)); err != nil {
			t.Fatal(err)
		}
	}
	if err := Touch(filepath.Join(cache, "a"), time.Unix(1_700_000_000+int64(9), 0)); err != nil {
		t.Fatal(err)
	}
	if err := KeepNewest(cache, 2); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(cache + "/*"); len(left) != 2 || filepath.Base(left[0]) != "a" || filepath.Base(left[1]) != "c" {
		t.Errorf("left: %v", left)
	}
	if err := KeepNewest(filepath.Join(cache, "none"), 2); err != nil {
		t.Error(err)
	}
}
