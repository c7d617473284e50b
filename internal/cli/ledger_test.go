package cli

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/workspace"
)

// TestStrictLooksBackThirtyDays: unless told otherwise, and then as far as told.
func TestStrictLooksBackThirtyDays(t *testing.T) {
	now := time.Date(2026, 5, 31, 12, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	for _, tt := range []struct {
		since string
		index int64
		age   time.Duration
		want  bool
	}{
		{"", 0, 0, true},
		{"", 0, 30 * day, true},
		{"", 9, 30*day + time.Millisecond, false},
		{"90d", 0, 90 * day, true},
		{"90d", 9, 91 * day, false},
		{"0d", 9, time.Millisecond, false},
		{"2026-05-31", 0, 12 * time.Hour, true},
		{"2026-05-31", 9, 13 * time.Hour, false},
		{"5", 5, 1000 * day, true},
		{"5", 4, 0, false},
	} {
		covers, err := ledgerVerifyOptions{strict: true, since: tt.since}.window(now)
		if err != nil {
			t.Fatal(err)
		}
		if got := covers(tt.index, evidence.At(now.Add(-tt.age))); got != tt.want {
			t.Errorf("--since %q covers entry %d of %s ago: %v, want %v", tt.since, tt.index, tt.age, got, tt.want)
		}
	}
}

// TestASignalStopsLookingAtALedger: a long ledger takes a while, and nothing is
// lost by stopping. It is no finding either.
func TestASignalStopsLookingAtALedger(t *testing.T) {
	p := newScoredPlace(t)
	ctx, signal := context.WithCancel(context.Background())
	signal()
	receipt := filepath.Join(t.TempDir(), "receipt")
	for name, run := range map[string]func(*Env) error{
		"verify": func(e *Env) error { return runLedgerVerify(ctx, e, ledgerVerifyOptions{strict: true}) },
		"show":   func(e *Env) error { return runLedgerShow(ctx, e, 0) },
		"prove":  func(e *Env) error { return runLedgerProve(ctx, e, ledgerProveOptions{out: receipt}) },
	} {
		var out, errs bytes.Buffer
		e := p.newEnv(&out, &errs)
		if err := run(e); !errors.Is(err, context.Canceled) || out.Len()+errs.Len() > 0 {
			t.Errorf("%s: %v, printed %q and %q", name, err, out.String(), errs.String())
		}
		if workspace.Exists(p.workspace(e).AlarmsFile()) || workspace.Exists(receipt) {
			t.Errorf("%s left something behind", name)
		}
	}
}
