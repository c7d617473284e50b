//go:build linux

package sandbox

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/sandbox/identity"
)

// TestAnotherFolderInThePlaceOfTheDigestedOneIsRefused: moved away, by a folder above
// it, or by a link that was turned. Nothing runs.
func TestAnotherFolderInThePlaceOfTheDigestedOneIsRefused(t *testing.T) {
	eachClass(t, func(t *testing.T, class Class) {
		above := filepath.Join(workFolder(t), "above")
		dir := filepath.Join(above, "data")
		fill := func(dir, text string) {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "file"), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		fill(dir, "right")
		is, err := identity.Of(dir)
		if err != nil {
			t.Fatal(err)
		}
		run := func() (AgentResult, error) {
			o := agentOptions(class, "cat", "/data/file")
			o.ReadOnly, o.Expect = []Mount{{Host: dir, Inside: "/data"}}, map[string]identity.ID{dir: is}
			return RunAgent(context.Background(), o)
		}
		if r, err := run(); err != nil || string(r.Stdout) != "right" {
			t.Fatalf("%v %+v", err, r)
		}
		if err := os.Rename(above, above+".kept"); err != nil {
			t.Fatal(err)
		}
		fill(dir, "wrong")
		if r, err := run(); !refusal.Is(err, refusal.ShownChanged) {
			t.Errorf("a folder above was exchanged: %v %s", err, r.Stdout)
		}
	})
}

// TestWhatIsBoundIsLookedAtAgain: what was right when the mounts were checked may be
// another thing when they are made.
func TestWhatIsBoundIsLookedAtAgain(t *testing.T) {
	one, two := workFolder(t), workFolder(t)
	is, err := identity.Of(one)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkPlace(one, one, &is); err != nil {
		t.Error(err)
	}
	if err := checkPlace(two, one, &is); !refusal.Is(err, refusal.ShownChanged) || !strings.Contains(err.Error(), one) {
		t.Errorf("got %v", err)
	}
	if err := checkPlace(filepath.Join(two, "gone"), one, &is); !refusal.Is(err, refusal.ShownChanged) {
		t.Errorf("got %v", err)
	}
}
