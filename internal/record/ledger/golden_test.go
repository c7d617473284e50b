package ledger

import (
	"bytes"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

var addGoldens = flag.Bool("add-goldens", false, "write format goldens that do not exist yet")

// TestLedgerBytesNeverChange makes the test ledger and everything derived from
// it again and compares the bytes with those in testdata/1-draft.
//
// From format 1 on these files are promises, not expected output: users have
// ledgers, receipts and anchors like them, which must verify for ever. Those of
// a draft show that nothing changes by accident. If this test fails and the
// format was not meant to change, the change is wrong. -add-goldens writes
// files that are missing and never touches one that is there.
func TestLedgerBytesNeverChange(t *testing.T) {
	receipt, anchor, checkpoint, p := proofs(t)
	segments := render(honest(t))
	tree, leaves := &Tree{}, &Leaves{Origin: testOrigin}
	o := trust(t)
	o.Visit = func(r Record) error { leaves.Add(r.Position); return tree.Add(r.Leaf) }
	mustVerify(t, one(segments), o)
	files := map[string][]byte{
		"signers":                       version1(t),
		"segments/0000000000000000.log": segments,
		"entry-3.receipt":               receipt,
		"2026-05-12.json":               anchor,
		"tiles/checkpoint":              checkpoint,
	}
	for _, tile := range tilesOf(t, tree, leaves) {
		files["tiles/"+tile.Path] = tile.Data
	}
	dir := filepath.Join("testdata", "1-draft")
	for name, made := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		want, err := os.ReadFile(path)
		if os.IsNotExist(err) && *addGoldens {
			want, err = made, os.MkdirAll(filepath.Dir(path), 0o755)
			if err == nil {
				err = os.WriteFile(path, made, 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(made, want) {
			t.Errorf("%s: the bytes made today are not the bytes promised", name)
		}
	}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if name, _ := filepath.Rel(dir, path); err == nil && !e.IsDir() && files[filepath.ToSlash(name)] == nil {
			t.Errorf("%s is promised and no longer made", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := VerifyReceipt(receipt, nil, p); err != nil {
		t.Error(err)
	}
}
