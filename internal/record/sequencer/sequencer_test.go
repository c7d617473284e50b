package sequencer

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
)

// testKey returns the n-th of a fixed row of keys.
func testKey(t testing.TB, n byte) *seal.Key {
	t.Helper()
	k, err := seal.NewKey(bytes.NewReader(bytes.Repeat([]byte{n}, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// testSigners is a signers file with one operator and two curators.
func testSigners(t testing.TB) []byte {
	t.Helper()
	data, err := seal.Compose(1, digest.ID{}, []seal.Entry{
		{Principals: "olga@example.com", Key: testKey(t, 1).Public(), Roles: []seal.Role{seal.Operator}},
		{Principals: "alice@example.com", Key: testKey(t, 2).Public(), Roles: []seal.Role{seal.Curator}},
		{Principals: "bob@example.com", Key: testKey(t, 3).Public(), Roles: []seal.Role{seal.Curator, seal.Security}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// testConfig is a ledger in a temporary folder, at a clock that stands still
// unless the test moves it.
func testConfig(t testing.TB) Config {
	t.Helper()
	return testConfigIn(t, t.TempDir())
}

func testConfigIn(t testing.TB, dir string) Config {
	t.Helper()
	now := time.Date(2026, 5, 12, 14, 0, 0, 0, time.UTC)
	if err := os.MkdirAll(filepath.Join(dir, "ledger"), 0o700); err != nil {
		t.Fatal(err)
	}
	return Config{
		Place: Place{
			FS:       store.OS{},
			Dir:      filepath.Join(dir, "ledger"),
			StateDir: filepath.Join(dir, "state"),
			Anchors:  filepath.Join(dir, "anchors"),
		},
		Origin:    "example.com/evals",
		TrustRoot: digest.IDOf(testSigners(t)),
		Key:       testKey(t, 1),
		Now:       func() time.Time { return now },
	}
}

func mustCreate(t testing.TB, cfg Config, notes int) {
	t.Helper()
	l, err := Create(context.Background(), cfg, testSigners(t))
	if err != nil {
		t.Fatal(err)
	}
	for i := range notes {
		if _, err := l.Append(evidence.NoteKind, fmt.Appendf(nil, `{"n":%d}`, i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func mustOpen(t testing.TB, cfg Config) *Ledger {
	t.Helper()
	l, err := Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func options(cfg Config) ledger.Options {
	return ledger.Options{Origin: cfg.Origin, TrustRoot: cfg.TrustRoot, Decode: true, EverySeal: true}
}

func TestAppendThenVerify(t *testing.T) {
	cfg := testConfig(t)
	mustCreate(t, cfg, 3)
	v, err := cfg.Verify(options(cfg))
	if err != nil {
		t.Fatal(err)
	}
	if v.Size != 4 || v.Seals != 4 || v.Tail.Torn != 0 {
		t.Errorf("size %d, seals %d, torn %d; want 4, 4, 0", v.Size, v.Seals, v.Tail.Torn)
	}
	l := mustOpen(t, cfg)
	pos, err := l.Append(evidence.NoteKind, []byte(`{"n":3}`))
	if err != nil {
		t.Fatal(err)
	}
	if pos.Index != 4 {
		t.Errorf("index %d, want 4", pos.Index)
	}
	pub, err := l.PublishAnchor(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if pub.Anchor.Size != 5 {
		t.Errorf("anchor of %d entries, want 5", pub.Anchor.Size)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, cfg).Close()
}

func TestOpenRefusesASecondWriter(t *testing.T) {
	cfg := testConfig(t)
	mustCreate(t, cfg, 1)
	l := mustOpen(t, cfg)
	defer l.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err := Open(ctx, cfg)
	if !refusal.Is(err, refusal.LedgerBusy) {
		t.Errorf("got %v, want LedgerBusy", err)
	}
}

// TestCommittedSeesEveryBatchInOrder: an index that is fed by it has every
// entry before its caller is told that it is on disk.
func TestCommittedSeesEveryBatchInOrder(t *testing.T) {
	cfg := testConfig(t)
	mustCreate(t, cfg, 0)
	var mu sync.Mutex
	seen := map[int64]string{}
	var last Tip
	cfg.Committed = func(records []ledger.Record, tip Tip) {
		mu.Lock()
		defer mu.Unlock()
		for _, r := range records {
			if r.Index != int64(len(seen))+1 {
				t.Errorf("entry %d came after %d others", r.Index, len(seen))
			}
			if at := ledger.PositionOf(cfg.Origin, r.Index, r.Prev, r.Raw); at != r.Position {
				t.Errorf("entry %d is shown with other bytes than were chained", r.Index)
			}
			seen[r.Index] = string(r.Raw)
		}
		last = tip
	}
	l, err := Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for i := range 20 {
				body := fmt.Sprintf(`{"i":%d,"w":%d}`, i, w)
				pos, err := l.Append(evidence.NoteKind, []byte(body))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				raw := seen[pos.Index]
				mu.Unlock()
				if !strings.Contains(raw, body) {
					t.Errorf("entry %d was acknowledged and is seen as %q", pos.Index, raw)
				}
			}
		})
	}
	writers.Wait()
	if tip := l.Tip(); last.Size != 161 || last.Size != tip.Size || last.Root != tip.Root {
		t.Errorf("the last tip is of %d entries, the ledger has %d", last.Size, tip.Size)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
