package store

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

func TestPackGivesBackWhatWasCommitted(t *testing.T) {
	dir := t.TempDir()
	v := OpenVault(OS{}, dir)
	p, err := CreatePack(OS{}, filepath.Join(v.PacksDir(), "a.pack"))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	names := make([]digest.Content, 200)
	for i := range names {
		wg.Go(func() {
			names[i] = p.Put(fmt.Appendf(nil, "piece %d", i%150)) // fifty are put twice
			if err := p.Commit(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	blob, err := v.Put([]byte("single"))
	if err != nil {
		t.Fatal(err)
	}
	names = append(names, blob)
	for i, d := range names {
		want := fmt.Sprintf("piece %d", i%150)
		if d == blob {
			want = "single"
		}
		got, err := v.Get(d, 1<<20)
		if err != nil || string(got) != want {
			t.Errorf("piece %d: got %q, %v", i, got, err)
		}
	}
	if _, err := v.Get(digest.ContentOf([]byte("never put")), 1<<20); !refusal.Is(err, refusal.NotFound) {
		t.Errorf("a piece that was never put: %v, want NotFound", err)
	}
}

// TestAWrongCopyInAPackHidesNothing appends wrong bytes under a good name, before
// and after the good piece, in the same pack and in others, and as a blob: the
// good piece is given out, and the wrong one is said.
func TestAWrongCopyInAPackHidesNothing(t *testing.T) {
	good := []byte("what happened")
	d := digest.ContentOf(good)
	record := func(data []byte) []byte {
		return append(binary.BigEndian.AppendUint64(bytes.Clone(d[:]), uint64(len(data))), data...)
	}
	right, wrong, longer := record(good), record([]byte("what happenee")), record([]byte("something much longer"))
	pack := func(records ...[]byte) []byte { return append([]byte(packHeader), bytes.Join(records, nil)...) }
	for name, files := range map[string]map[string][]byte{
		"appended":                  {"packs/a.pack": pack(right, wrong)},
		"appended, of another size": {"packs/a.pack": pack(right, longer)},
		"before it":                 {"packs/a.pack": pack(wrong, right)},
		"in a pack before":          {"packs/a.pack": pack(wrong), "packs/b.pack": pack(right)},
		"in a pack after":           {"packs/a.pack": pack(right), "packs/b.pack": pack(longer)},
		"a wrong blob":              {"packs/a.pack": pack(right), "blobs/" + hex.EncodeToString(d[:1]) + "/" + hex.EncodeToString(d[:]): []byte("else")},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, data := range files {
				path := filepath.Join(dir, filepath.FromSlash(file))
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			v := OpenVault(OS{}, dir)
			if got, err := v.Get(d, 1<<20); err != nil || !bytes.Equal(got, good) {
				t.Errorf("got %q, %v", got, err)
			}
			if err := v.Check(d, 1<<20); err != nil {
				t.Error(err)
			}
			if wrong, err := v.WrongCopies(1 << 20); err != nil || len(wrong) == 0 || !refusal.Is(wrong[0], refusal.DigestMismatch) {
				t.Errorf("the wrong copy is not said: %v, %v", wrong, err)
			}
		})
	}
	dir := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "packs"), 0o700), os.WriteFile(filepath.Join(dir, "packs", "a.pack"), pack(right, right), 0o600)); err != nil {
		t.Fatal(err)
	}
	v := OpenVault(OS{}, dir)
	if wrong, err := v.WrongCopies(1 << 20); err != nil || len(wrong) > 0 {
		t.Errorf("two good copies: %v, %v", wrong, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "packs", "a.pack"), pack(wrong, longer), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenVault(OS{}, dir).Get(d, 1<<20); !refusal.Is(err, refusal.DigestMismatch) {
		t.Errorf("two wrong copies: %v", err)
	}
}

// A file that is not a pack hides nothing in the others; but it is unknown
// whether it had what is not found elsewhere.
func TestVaultWithAFileThatIsNotAPack(t *testing.T) {
	for what, spoil := range map[refusal.Name]func(name string) error{
		refusal.Malformed:  func(name string) error { return os.WriteFile(name, []byte("something else\n"), 0o600) },
		refusal.Unreadable: func(name string) error { return os.Mkdir(name, 0o700) },
	} {
		v := OpenVault(OS{}, t.TempDir())
		p, err := CreatePack(OS{}, filepath.Join(v.PacksDir(), "b.pack"))
		if err != nil {
			t.Fatal(err)
		}
		kept := p.Put([]byte("kept"))
		if err := errors.Join(p.Commit(), p.Close(), spoil(filepath.Join(v.PacksDir(), "a.pack"))); err != nil {
			t.Fatal(err)
		}
		if got, err := v.Get(kept, 1<<20); string(got) != "kept" {
			t.Errorf("%s: got %q, %v", what, got, err)
		}
		if _, err := v.Get(digest.ContentOf([]byte("gone")), 1<<20); !refusal.Is(err, what) {
			t.Errorf("a piece that is not found: %v, want %s", err, what)
		}
	}
}

// TestPackForgetsAndStillGivesBack puts more pieces than a pack remembers, and
// the first of them once more at the end.
func TestPackForgetsAndStillGivesBack(t *testing.T) {
	v := OpenVault(OS{}, t.TempDir())
	p, err := CreatePack(OS{}, filepath.Join(v.PacksDir(), "a.pack"))
	if err != nil {
		t.Fatal(err)
	}
	first := p.Put([]byte("first"))
	for i := range packMemory {
		p.Put(fmt.Appendf(nil, "%d", i))
	}
	if again := p.Put([]byte("first")); again != first {
		t.Errorf("the same piece is named %s and %s", first, again)
	}
	if len(p.has) > packMemory {
		t.Errorf("remembers %d pieces", len(p.has))
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := v.Get(first, 100); err != nil || string(got) != "first" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestPackNoBitFlips flips every bit of a pack: no piece may come back changed.
func TestPackNoBitFlips(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and one goroutine has nothing to race with")
	}
	dir := t.TempDir()
	name := filepath.Join(dir, "packs", "a.pack")
	p, err := CreatePack(OS{}, name)
	if err != nil {
		t.Fatal(err)
	}
	pieces := map[digest.Content][]byte{}
	for _, s := range []string{"one", "", "three and some more"} {
		pieces[p.Put([]byte(s))] = []byte(s)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		for bit := range 8 {
			forged := bytes.Clone(data)
			forged[i] ^= 1 << bit
			if err := os.WriteFile(name, forged, 0o600); err != nil {
				t.Fatal(err)
			}
			lost := 0
			v := OpenVault(OS{}, dir)
			for d, want := range pieces {
				got, err := v.Get(d, 1<<20)
				if err != nil {
					lost++
				} else if !bytes.Equal(got, want) {
					t.Fatalf("byte %d bit %d: %s came back as %q", i, bit, d, got)
				}
			}
			if lost == 0 {
				t.Fatalf("byte %d bit %d: no check noticed", i, bit)
			}
		}
	}
}

// TestPackTornEnd cuts a pack at every length: what was whole comes back, and
// the rest is missing and not an error of the folder.
func TestPackTornEnd(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "packs", "a.pack")
	p, err := CreatePack(OS{}, name)
	if err != nil {
		t.Fatal(err)
	}
	first := p.Put([]byte("first"))
	if err := p.Commit(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	p.Put([]byte("second"))
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for n := range data {
		if err := os.WriteFile(name, data[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := OpenVault(OS{}, dir).Get(first, 1<<20)
		if there := int64(n) >= whole.Size(); there != (err == nil) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
		if err != nil && !refusal.Is(err, refusal.NotFound) {
			t.Errorf("cut to %d bytes: %v, want NotFound", n, err)
		}
	}
}

// failingFS fails every sync after the first n.
type failingFS struct {
	OS
	syncs *int
}

type failingFile struct {
	File
	syncs *int
}

func (f failingFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	file, err := f.OS.OpenFile(name, flag, perm)
	return failingFile{file, f.syncs}, err
}

func (f failingFile) Sync() error {
	if *f.syncs--; *f.syncs < 0 {
		return syscall.EIO
	}
	return f.File.Sync()
}

func TestPackTakesNothingAfterAFailure(t *testing.T) {
	syncs := 1
	p, err := CreatePack(failingFS{syncs: &syncs}, filepath.Join(t.TempDir(), "a.pack"))
	if err != nil {
		t.Fatal(err)
	}
	p.Put([]byte("one"))
	if err := p.Commit(); !refusal.Is(err, refusal.WriteFailed) || !errors.Is(err, syscall.EIO) {
		t.Errorf("got %v, want WriteFailed", err)
	}
	syncs = 100
	p.Put([]byte("two"))
	if err := p.Commit(); !refusal.Is(err, refusal.WriteFailed) {
		t.Errorf("after a failure: %v, want WriteFailed", err)
	}
}

// TestVaultReadsFromManyPacksAtOnce: more packs than are kept open, and readers
// that come at the same time.
func TestVaultReadsFromManyPacksAtOnce(t *testing.T) {
	v := OpenVault(OS{}, t.TempDir())
	var names []digest.Content
	var texts [][]byte
	for i := range 3 * maxOpenPacks {
		p, err := CreatePack(OS{}, filepath.Join(v.PacksDir(), fmt.Sprintf("%d.pack", i)))
		if err != nil {
			t.Fatal(err)
		}
		for j := range 20 {
			text := bytes.Repeat(fmt.Appendf(nil, "piece %d of %d\n", j, i), 1+j*j*30) // up to 170 KB: more than a window
			names, texts = append(names, p.Put(text)), append(texts, text)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for reader := range 4 {
		wg.Go(func() {
			for i := range names {
				at := (i*7 + reader*13) % len(names)
				if data, err := v.Get(names[at], 1<<20); err != nil || !bytes.Equal(data, texts[at]) {
					t.Errorf("piece %d: %d bytes, %v", at, len(data), err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(v.open); n > maxOpenPacks+4 {
		t.Errorf("%d packs are open", n)
	}
}

// TestVaultFindsABlobBesideADamagedPack: a copy that is whole is enough.
func TestVaultFindsABlobBesideADamagedPack(t *testing.T) {
	v := OpenVault(OS{}, t.TempDir())
	name := filepath.Join(v.PacksDir(), "a.pack")
	p, err := CreatePack(OS{}, name)
	if err != nil {
		t.Fatal(err)
	}
	other, text := p.Put([]byte("another")), []byte("some evidence")
	d := p.Put(text)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1] ^= 1
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Get(other, 100); err != nil { // scans the pack
		t.Fatal(err)
	}
	if _, err := v.Get(d, 100); !refusal.Is(err, refusal.DigestMismatch) {
		t.Errorf("a damaged piece: %v", err)
	}
	if _, err := v.Put(text); err != nil {
		t.Fatal(err)
	}
	if got, err := v.Get(d, 100); err != nil || !bytes.Equal(got, text) {
		t.Errorf("with a blob beside it: %q, %v", got, err)
	}
}

// TestPackTakesLargePieces among small ones, from several goroutines: nothing
// gets in between, and what Commit has acknowledged is there.
func TestPackTakesLargePieces(t *testing.T) {
	v := OpenVault(OS{}, t.TempDir())
	p, err := CreatePack(OS{}, filepath.Join(v.PacksDir(), "a.pack"))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	texts := make(map[digest.Content][]byte)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 5 {
				text := bytes.Repeat(fmt.Appendf(nil, "%d %d\n", w, i), 10)
				if (w+i)%4 == 0 {
					text = bytes.Repeat(text, packBuffer/len(text)+1)
				}
				d := p.Put(text)
				if err := p.Commit(); err != nil {
					t.Error(err)
				}
				mu.Lock()
				texts[d] = text
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	for d, text := range texts {
		if got, err := v.Get(d, 1<<30); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%d bytes: %v", len(text), err)
		}
	}
}

// TestFirstPiecesOfAPackAreOnDiskWithIt: one write and one sync serve the header
// and the pieces that a pack begins with.
func TestFirstPiecesOfAPackAreOnDiskWithIt(t *testing.T) {
	v := OpenVault(OS{}, t.TempDir())
	p, err := CreatePack(OS{}, filepath.Join(v.PacksDir(), "a.pack"), []byte("one"), []byte("two"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, piece := range []string{"one", "two"} { // before anything is committed
		if got, err := v.Get(digest.ContentOf([]byte(piece)), 100); err != nil || string(got) != piece {
			t.Errorf("%q, %v, want %q", got, err, piece)
		}
	}
}
