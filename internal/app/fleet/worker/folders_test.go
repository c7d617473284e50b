package worker

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/agent"
)

// TestMountsAreThoseOfTheRegistration: what a coordinator has mounted must be what it
// registered, in its place.
func TestMountsAreThoseOfTheRegistration(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	real, err := agent.DigestMount(dir)
	if err != nil {
		t.Fatal(err)
	}
	other := digest.ContentOf([]byte("other"))
	target := &agent.Target{Kind: agent.KindCommand, Command: &agent.Command{Mounts: []agent.CommandMount{{Host: dir, Inside: "/data"}}}}
	if err := sameMounts(target, []evidence.PlannedMount{{Inside: "/data", Digest: &real}, {Inside: "tests:/go"}}); err != nil {
		t.Errorf("the mounts of the registration: %v", err)
	}
	for name, planned := range map[string][]evidence.PlannedMount{
		"none":                          {},
		"another place":                 {{Inside: "/else", Digest: &real}},
		"another folder":                {{Inside: "/data", Digest: &other}},
		"one whose content was unknown": {{Inside: "/data"}},
	} {
		if err := sameMounts(target, planned); !refusal.Is(err, refusal.DigestMismatch) {
			t.Errorf("registered with %s: %v", name, err)
		}
	}
}

// TestWorkersOfOneMachinePlaceTheSameFolder: several of them may fetch it at once, the
// first time and after it was changed.
func TestWorkersOfOneMachinePlaceTheSameFolder(t *testing.T) {
	cache := t.TempDir()
	made := func(dir, text string) *store.Tree {
		draft, err := store.NewTree(dir)
		if err == nil {
			err = draft.Write("f/a", []byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
		return draft
	}
	first := filepath.Join(cache, "first")
	if err := made(first, "right").Commit(false); err != nil {
		t.Fatal(err)
	}
	want, err := agent.DigestMount(filepath.Join(first, "f"))
	if err != nil {
		t.Fatal(err)
	}
	for round := range 100 {
		dir := filepath.Join(cache, "folder")
		if round%2 == 0 {
			if err := made(dir, "forged").Commit(true); err != nil {
				t.Fatal(err)
			}
		} else if err := store.RemoveTree(dir); err != nil {
			t.Fatal(err)
		}
		var workers sync.WaitGroup
		start := make(chan struct{})
		for range 4 {
			draft := made(dir, "right")
			workers.Go(func() {
				<-start
				if err := place(draft, dir, want); err != nil {
					t.Error(err)
				}
				draft.Discard()
			})
		}
		close(start)
		workers.Wait()
		if got, err := agent.DigestMount(filepath.Join(dir, "f")); err != nil || got != want {
			t.Fatalf("round %d: %v, %v", round, got, err)
		}
	}
}
