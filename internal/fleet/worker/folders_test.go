package worker

import (
	"os"
	"path/filepath"
	"testing"

	"tallystick/internal/agent"
	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/refusal"
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
		"none":           {},
		"another place":  {{Inside: "/else", Digest: &real}},
		"another folder": {{Inside: "/data", Digest: &other}},
		"one of which nobody knew what was in it": {{Inside: "/data"}},
	} {
		if err := sameMounts(target, planned); !refusal.Is(err, refusal.DigestMismatch) {
			t.Errorf("registered with %s: %v", name, err)
		}
	}
}
