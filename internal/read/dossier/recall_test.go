package dossier_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
)

// A house is a workspace whose clock a test moves.
type house struct {
	t     *testing.T
	dir   string
	now   time.Time
	notes strings.Builder
}

func newHouse(t *testing.T) *house {
	t.Cleanup(dossier.KeepFrom(1))
	h := &house{t: t, dir: filepath.Join(t.TempDir(), "w"), now: time.Date(2026, 5, 12, 9, 0, 0, 0, time.UTC)}
	if _, err := ceremony.Init(context.Background(), ceremony.InitOptions{Dir: h.dir, Operator: "operator@local"}, h.world()); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *house) world() dossier.World {
	state, home := filepath.Join(filepath.Dir(h.dir), "state"), filepath.Dir(h.dir)
	return dossier.World{
		Now:  func() time.Time { return h.now },
		Note: func(format string, args ...any) { fmt.Fprintf(&h.notes, format+"\n", args...) },
		Getenv: func(name string) string {
			return map[string]string{"XDG_STATE_HOME": state, "HOME": home, "PATH": os.Getenv("PATH")}[name]
		},
	}
}

func (h *house) open() *dossier.Place {
	h.t.Helper()
	p, err := dossier.Open(h.dir, h.world())
	if err != nil {
		h.t.Fatal(err)
	}
	return p
}

// note appends a record that a history reads, and one that it only counts.
func (h *house) note(n int) {
	h.t.Helper()
	event := &evidence.IntegrityEvent{Name: "MissingAnchor", Severity: evidence.Warn, Boundary: "TB-7", Detail: fmt.Sprint("number ", n)}
	if _, err := h.open().Append(context.Background(), evidence.IntegrityEventKind, event); err != nil {
		h.t.Fatal(err)
	}
	h.now = h.now.Add(time.Minute)
}

// read reads what is recent, as a run does, and keeps it.
func (h *house) read() *dossier.Reading {
	h.t.Helper()
	r, err := h.open().Read(dossier.Ask{Git: true, Recent: true, Want: func(*history.Attempt) bool { return false }})
	if err != nil {
		h.t.Fatal(err)
	}
	if err := r.Remember(); err != nil {
		h.t.Fatal(err)
	}
	return r
}

// TestARecalledHistoryIsTheWholeOne: what a run is told of the past is the same whether
// it read all of it or began from what was kept, over several commands.
func TestARecalledHistoryIsTheWholeOne(t *testing.T) {
	h := newHouse(t)
	for n := range 4 {
		h.note(n)
		got := h.read()
		if entries, _ := got.Recalled(); (entries > 0) != (n > 0) {
			t.Errorf("reading %d took %d entries from what was kept", n, entries)
		}
		want, err := h.open().Read(dossier.Ask{Want: func(*history.Attempt) bool { return false }})
		if err != nil {
			t.Fatal(err)
		}
		if got.History.Line() != want.History.Line() || !reflect.DeepEqual(got.History.Events, want.History.Events) || !reflect.DeepEqual(got.History.Authorities, want.History.Authorities) || len(got.History.Attempts) != len(want.History.Attempts) {
			t.Errorf("reading %d: %+v, want %+v", n, got.History, want.History)
		}
	}
}

// TestAllIsReadOnceADay: a damage that no glance at the files shows is found at the
// latest after a day of use.
func TestAllIsReadOnceADay(t *testing.T) {
	h := newHouse(t)
	h.note(1)
	first := h.read()
	if entries, _ := first.Recalled(); entries != 0 || strings.Contains(h.notes.String(), "once a day") {
		t.Fatalf("the first reading took %d entries; %s", entries, h.notes.String())
	}
	h.now = h.now.Add(23 * time.Hour)
	second := h.read()
	if _, whole := second.Recalled(); !whole.Go().Before(h.now) || strings.Contains(h.notes.String(), "once a day") {
		t.Errorf("all was read at %s, before a day had passed", whole)
	}
	h.now = h.now.Add(2 * time.Hour)
	h.read()
	if !strings.Contains(h.notes.String(), "once a day") {
		t.Error("a day has passed and not all was read")
	}
	h.now = h.now.Add(time.Minute)
	if _, whole := h.read().Recalled(); h.now.Sub(whole.Go()) > time.Hour {
		t.Errorf("all was read at %s by what is kept, now is %s", whole, h.now)
	}
	// A clock that was put back makes no reading unnecessary for years.
	h.notes.Reset()
	h.now = h.now.Add(-30 * time.Minute)
	h.read()
	if !strings.Contains(h.notes.String(), "once a day") {
		t.Error("the clock went back and not all was read")
	}
}

// TestAWholeReadingThatFailsIsTold: what the daily reading finds ends the command.
func TestAWholeReadingThatFailsIsTold(t *testing.T) {
	h := newHouse(t)
	h.note(1)
	h.read()
	h.now = h.now.Add(25 * time.Hour)
	r, err := h.open().Read(dossier.Ask{Recent: true, Want: func(*history.Attempt) bool { return false }})
	if err != nil {
		t.Fatal(err)
	}
	segments, err := filepath.Glob(filepath.Join(h.dir, ".tally", "ledger", "segments", "*.log"))
	if err != nil || len(segments) != 1 {
		t.Fatal(segments, err)
	}
	data, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(segments[0], []byte(strings.Replace(string(data), "number 1", "number 2", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.Remember(); refusal.ExitCode(err) != refusal.ExitUnverified {
		t.Errorf("a changed ledger was read as a whole: %v", err)
	}
}
