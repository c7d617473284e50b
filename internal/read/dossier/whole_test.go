package dossier

import (
	"io/fs"
	"syscall"
	"testing"

	"tallystick/internal/read/history"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/record/workspace"
	"tallystick/internal/testing/historytest"
)

// What is missing is known by case, and a case that was not read is not whole.
func TestReadAllKnowsWhatIsMissingByCase(t *testing.T) {
	b := historytest.New(t)
	b.Run(historytest.Registration("a.1", "t", 1, 4, 1), 0, 0, 1, -1)
	h, err := history.NewReader(history.Options{}).Read(b.Verify)
	if err != nil {
		t.Fatal(err)
	}
	r := &Reading{History: h, vault: store.OpenVault(store.OS{}, t.TempDir()), seen: make(map[digest.Content]bool)}
	if _, err := r.vault.Put([]byte("evidence of a.1 0")); err != nil {
		t.Fatal(err)
	}
	w, err := r.Dossier(h.Attempt("a.1")).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	missing := map[string]bool{}
	for c := range w.Cases() {
		missing[c.ID] = refusal.Is(w.Missing(c.Case), refusal.NotFound)
	}
	for id, want := range map[string]bool{"case-01": false, "case-02": true, "case-03": true, "case-04": true} {
		if missing[id] != want {
			t.Errorf("%s: missing %v, want %v", id, missing[id], want)
		}
	}
	for _, entry := range []int64{-1, 0, 1, 2, 999} { // none is of a record
		if err := w.Missing(&history.Case{ID: "other", Index: entry}); !refusal.Is(err, refusal.NotFound) {
			t.Errorf("a case of no attempt, entry %d: %v", entry, err)
		}
	}
}

// What could not be read is not what is missing: no caller gets a Whole.
func TestAnUnreadableDiskIsNoVerdict(t *testing.T) {
	b := historytest.New(t)
	b.Run(historytest.Registration("a.1", "t", 1, 4, 1), 0, 0, 1, 1)
	h, err := history.NewReader(history.Options{}).Read(b.Verify)
	if err != nil {
		t.Fatal(err)
	}
	r := &Reading{History: h, vault: store.OpenVault(broken{}, t.TempDir()), seen: make(map[digest.Content]bool)}
	if w, err := r.Dossier(h.Attempt("a.1")).ReadAll(); w != nil || !refusal.Is(err, refusal.Unreadable) {
		t.Errorf("got %v, %v, want Unreadable", w, err)
	}
	r.Place = &Place{Workspace: &workspace.Workspace{Dir: t.TempDir()}}
	if w, err := r.ForDisplay().Dossier(h.Attempt("a.1")); w != nil || !refusal.Is(err, refusal.Unreadable) {
		t.Errorf("for display: got %v, %v, want Unreadable", w, err)
	}
}

// broken is a disk that nothing can be read from.
type broken struct{ store.OS }

func (broken) OpenFile(string, int, fs.FileMode) (store.File, error) { return nil, syscall.EIO }
func (broken) ReadDir(string) ([]fs.DirEntry, error)                 { return nil, syscall.EIO }
