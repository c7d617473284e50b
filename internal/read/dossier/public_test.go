package dossier

import (
	"testing"

	"tallystick/internal/read/history"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/testing/historytest"
)

// What leaves is read by digest, and no digest gets a piece of a held-out case out:
// neither its index nor what that names, also if another case names it too.
func TestPublicRefusesThePiecesOfHeldOutCases(t *testing.T) {
	vault := store.OpenVault(store.OS{}, t.TempDir())
	put := func(data []byte) digest.Content {
		name, err := vault.Put(data)
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	answer := put([]byte("the answer of both"))
	index := func(story string, heldOut bool) (digest.Content, digest.Content) {
		lines := put([]byte(story))
		data, err := canon.Marshal(&evidence.CaseFiles{Answer: &answer, HeldOut: heldOut, Trajectory: evidence.TrajectoryFile{Digest: lines}, Version: format.Version})
		if err != nil {
			t.Fatal(err)
		}
		return put(data), lines
	}
	shownIndex, shownStory := index("shown", false)
	keptIndex, keptStory := index("kept", true)

	b := historytest.New(t)
	plan := historytest.Registration("a.1", "t", 1, 2, 1)
	b.Register(plan)
	for i, name := range []digest.Content{shownIndex, keptIndex} {
		record := historytest.Score(plan, i, 1, 1)
		record.EvidenceDigests = []digest.Content{name}
		b.Case(plan, record)
	}
	h, err := history.NewReader(history.Options{}).Read(b.Verify)
	if err != nil {
		t.Fatal(err)
	}
	read := func(ask Ask) *Public {
		r := &Reading{History: h, ask: ask, vault: vault, hidden: make(map[digest.Content]bool), heldOut: map[string]map[string]bool{plan.Class: {}}}
		return r.Dossier(h.Attempt("a.1")).Public()
	}
	for name, d := range map[string]digest.Content{"index": keptIndex, "trajectory": keptStory, "answer": answer} {
		if data, err := read(Ask{}).Piece(d); data != nil || !refusal.Is(err, refusal.Usage) {
			t.Errorf("%s of the held-out case: %q, %v", name, data, err)
		}
		if _, err := read(Ask{ShowHeldOut: true}).Piece(d); err != nil {
			t.Errorf("%s of the held-out case, asked for: %v", name, err)
		}
	}
	for name, d := range map[string]digest.Content{"index": shownIndex, "trajectory": shownStory} {
		if _, err := read(Ask{}).Piece(d); err != nil {
			t.Errorf("%s of the other case: %v", name, err)
		}
	}
}
