package sequencer

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"tallystick/internal/record/ledger"
)

// published opens a ledger, appends notes and publishes. It reports whether the tree was
// taken up where it was published last.
func published(t *testing.T, cfg Config, notes int) (continued bool) {
	t.Helper()
	l := mustOpen(t, cfg)
	for range notes {
		if _, err := l.Append("note", []byte(`{"n":1}`)); err != nil {
			t.Fatal(err)
		}
	}
	tip := l.Tip()
	read := func(path string) ([]byte, error) { return os.ReadFile(cfg.tileFile(path)) }
	_, _, err := l.opened.Published(cfg.publishedSize(tip), read)
	if _, err := l.PublishAnchor(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return err == nil
}

// requireTiles compares every published tile with the entries.
func requireTiles(t *testing.T, cfg Config) {
	t.Helper()
	check, err := cfg.CheckTiles()
	if err != nil {
		t.Fatal(err)
	}
	v, err := cfg.Verify(ledger.Options{Origin: cfg.Origin, TrustRoot: cfg.TrustRoot, Visit: check.Visit})
	if err != nil {
		t.Fatal(err)
	}
	problems, err := check.Problems(v)
	if err != nil || len(problems) > 0 || len(check.Unexpected()) > 0 {
		t.Fatalf("%d entries: %v, %v, unexpected %v", v.Size, err, problems, check.Unexpected())
	}
}

// TestPublishingContinuesWhereItEnded: tiles are the same as if all entries had been read,
// over the ends of bundles and of tiles of the second level.
func TestPublishingContinuesWhereItEnded(t *testing.T) {
	cfg := testConfig(t)
	cfg.segmentBytes = 20000
	mustCreate(t, cfg, 3)
	if published(t, cfg, 0) {
		t.Error("a tree that was never published was taken up")
	}
	for i, notes := range []int{1, 0, 250, 1, 0, 255, 256, 257, 700, 2} {
		if !published(t, cfg, notes) {
			t.Errorf("publication %d read every entry", i)
		}
		requireTiles(t, cfg)
	}
}

// TestPublishingDoesNotContinueFromChangedTiles: then every entry is read, and what is
// published is right.
func TestPublishingDoesNotContinueFromChangedTiles(t *testing.T) {
	for name, change := range map[string]func(data []byte) []byte{
		"a byte":         func(data []byte) []byte { data[len(data)-3] ^= 1; return data },
		"cut":            func(data []byte) []byte { return data[:len(data)-1] },
		"more":           func(data []byte) []byte { return append(data, 0) },
		"nothing left":   func(data []byte) []byte { return nil },
		"another's leaf": func(data []byte) []byte { copy(data[len(data)/2:], data[:20]); return data },
	} {
		for _, level := range []string{"entries", "0"} {
			t.Run(name+" of "+level, func(t *testing.T) {
				cfg := testConfig(t)
				mustCreate(t, cfg, 300)
				published(t, cfg, 0)
				// The part of a bundle, or of a tile, that was not full.
				tiles, err := filepath.Glob(filepath.Join(cfg.TilesDir(), "tile", level, "001.p", "*"))
				if err != nil || len(tiles) != 1 {
					t.Fatalf("%v, %v", tiles, err)
				}
				data, err := os.ReadFile(tiles[0])
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(tiles[0], change(data), 0o600); err != nil {
					t.Fatal(err)
				}
				if published(t, cfg, 5) {
					t.Error("the tree was taken up from changed tiles")
				}
				os.Remove(tiles[0])
				requireTiles(t, cfg)
			})
		}
	}
}
