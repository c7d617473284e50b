package store

import (
	"os"
	"path/filepath"
	"testing"
)

func TestATreeIsThereWholeOrNotAtAll(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "site")
	write := func(text string) *Tree {
		t.Helper()
		tree, err := NewTree(dir)
		if err == nil {
			err = tree.Write("a/b.txt", []byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
		return tree
	}
	expect := func(text string, beside int) {
		t.Helper()
		data, _ := os.ReadFile(filepath.Join(dir, "a", "b.txt"))
		entries, err := os.ReadDir(top)
		if err != nil || string(data) != text || len(entries) != beside {
			t.Errorf("%q and %d names, expected %q and %d (%v)", data, len(entries), text, beside, err)
		}
	}

	tree := write("first")
	expect("", 1) // under another name
	for _, name := range []string{"../x", "/x", "a/../../x"} {
		if tree.Write(name, nil) == nil {
			t.Errorf("%s was written", name)
		}
	}
	if err := tree.Discard(); err != nil {
		t.Error(err)
	}
	expect("", 0)

	if err := os.Mkdir(dir, 0o755); err != nil { // an empty folder is not in the way
		t.Fatal(err)
	}
	if err := write("first").Commit(false); err != nil {
		t.Error(err)
	}
	expect("first", 1)

	second := write("second")
	if second.Commit(false) == nil {
		t.Error("a folder with files was replaced")
	}
	expect("first", 2)
	if err := second.Commit(true); err != nil {
		t.Error(err)
	}
	expect("second", 1)
}
