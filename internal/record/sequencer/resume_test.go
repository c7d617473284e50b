package sequencer

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
)

// indexes is a visitor and what it saw.
func indexes() (func(ledger.Record) error, *[]int64) {
	seen := new([]int64)
	return func(r ledger.Record) error { *seen = append(*seen, r.Index); return nil }, seen
}

// TestOpeningContinuesFromAVerification: a command that has read the ledger
// does not read it again to append to it, and a later reader continues from
// what opening verified.
func TestOpeningContinuesFromAVerification(t *testing.T) {
	cfg := testConfig(t)
	cfg.segmentBytes = 2000
	mustCreate(t, cfg, 30)
	o := ledger.Options{Origin: cfg.Origin, TrustRoot: cfg.TrustRoot}
	first, err := cfg.Verify(o)
	if err != nil {
		t.Fatal(err)
	}
	appendNotes(t, cfg, 7) // by another process

	var seen *[]int64
	cfg.From = first
	cfg.Visit, seen = indexes()
	l, err := Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if want := []int64{31, 32, 33, 34, 35, 36, 37}; !slices.Equal(*seen, want) {
		t.Errorf("opening visits %v, want %v", *seen, want)
	}
	if v := l.Verified(); v.Size != 38 || l.Tip().TreeHead != v.TreeHead {
		t.Errorf("opened at %v, verified %v", l.Tip().TreeHead, v.TreeHead)
	}
	if _, err := l.Append(evidence.NoteKind, []byte(`{"after":true}`)); err != nil {
		t.Fatal(err)
	}
	o.From = l.Verified()
	o.Visit, seen = indexes()
	after, err := cfg.Verify(o)
	if err != nil || after.Size != 39 || !slices.Equal(*seen, []int64{38}) {
		t.Errorf("reading while it is open: %v, %v, visits %v", after, err, *seen)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	o.From, o.Visit = nil, nil
	if fresh, err := cfg.Verify(o); err != nil || fresh.TreeHead != after.TreeHead || fresh.Seals != after.Seals || fresh.Tail != after.Tail {
		t.Errorf("from the start %+v (%v), continued %+v", fresh, err, after)
	}
}

func appendNotes(t *testing.T, cfg Config, n int) {
	t.Helper()
	l, err := Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		if _, err := l.Append(evidence.NoteKind, []byte(`{}`)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestContinuingSeesThatAFileWasReplacedOrTouched: the bytes that were verified
// are not read again, so a file that is not the one they were read from is.
func TestContinuingSeesThatAFileWasReplacedOrTouched(t *testing.T) {
	flip := func(t *testing.T, path string) []byte {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		data[40] ^= 1
		return data
	}
	inPlace := func(t *testing.T, path string) {
		if err := os.WriteFile(path, flip(t, path), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	replaced := func(t *testing.T, path string) {
		if err := os.WriteFile(path+".new", flip(t, path), 0o600); err != nil {
			t.Fatal(err)
		}
		age(t, path+".new")
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name    string
		segment int // which is changed, from the end
		change  func(*testing.T, string)
		grown   bool // the ledger was appended to in between
	}{
		{"last segment changed in place", 1, inPlace, false},
		{"last segment replaced", 1, replaced, false},
		{"last segment replaced, then appended to", 1, replaced, true},
		{"earlier segment changed in place", 2, inPlace, true},
		{"earlier segment replaced", 2, replaced, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := testConfig(t)
			cfg.segmentBytes = 2000
			mustCreate(t, cfg, 30)
			paths, err := filepath.Glob(filepath.Join(cfg.SegmentsDir(), "*"))
			if err != nil || len(paths) < 3 {
				t.Fatal(paths, err)
			}
			for _, p := range paths {
				age(t, p)
			}
			o := ledger.Options{Origin: cfg.Origin, TrustRoot: cfg.TrustRoot}
			if o.From, err = cfg.Verify(o); err != nil {
				t.Fatal(err)
			}
			if tt.grown {
				appendNotes(t, cfg, 1)
			}
			tt.change(t, paths[len(paths)-tt.segment])
			if _, err := cfg.Verify(o); !refusal.Is(err, refusal.ChainTamperDetected) {
				t.Errorf("got %v", err)
			}
		})
	}

	t.Run("touched and otherwise the same", func(t *testing.T) {
		cfg := testConfig(t)
		mustCreate(t, cfg, 3)
		o := ledger.Options{Origin: cfg.Origin, TrustRoot: cfg.TrustRoot}
		first, err := cfg.Verify(o)
		if err != nil {
			t.Fatal(err)
		}
		age(t, filepath.Join(cfg.SegmentsDir(), "0000000000000000.log"))
		o.From = first
		var seen *[]int64
		o.Visit, seen = indexes()
		if v, err := cfg.Verify(o); err != nil || v.TreeHead != first.TreeHead || len(*seen) != 0 {
			t.Errorf("got %v, %v, visits %v", v, err, *seen)
		}
	})
}

// age dates a file back, so that a change shows however coarse the clock of the
// file system is.
func age(t *testing.T, path string) {
	t.Helper()
	when := time.Date(2026, 5, 12, 12, 0, 0, 0, time.UTC)
	if err := os.Chtimes(path, when, when); err != nil {
		t.Fatal(err)
	}
}

// TestOpeningFromAnotherLedgerIsRefused: a verification of one ledger says
// nothing about another.
func TestOpeningFromAnotherLedgerIsRefused(t *testing.T) {
	cfg, other := testConfig(t), testConfig(t)
	mustCreate(t, cfg, 3)
	mustCreate(t, other, 5)
	v, err := other.Verify(ledger.Options{Origin: other.Origin, TrustRoot: other.TrustRoot})
	if err != nil {
		t.Fatal(err)
	}
	cfg.From = v
	if l, err := Open(context.Background(), cfg); !refusal.Is(err, refusal.HistoryRolledBack) {
		t.Errorf("got %v, %v", l, err)
	}
}
