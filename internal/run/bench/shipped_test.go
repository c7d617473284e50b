package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/refusal"
)

const shippedRegistration = `version: 1
class: shipped
trust: scratch
current_tier: bronze
limits: {wall_clock_seconds: 60, memory_bytes: 1073741824, turns: 10, tokens: 1000, cost_microdollars: 0}
governance: autonomous
isolation: {classes: [gvisor], scope: case, allow_weaker: false}
judged_scores_count: false
`

func shippedRoot(t *testing.T, registration string) *os.Root {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{RegistrationFile: registration, DatasetFile: `{"id":"a","input":"x"}` + "\n"} {
		file := filepath.Join(dir, Dir, "shipped", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

func TestShippedClassHasANameThatNoFolderCanHave(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	root := shippedRoot(t, shippedRegistration)
	v, err := VerifyShipped(root, "shipped", now)
	if err != nil {
		t.Fatal(err)
	}
	if v.Class() != "builtin:shipped" || v.Level() != "scratch" || v.Manifest().Class != "builtin:shipped" || len(v.Warnings()) != 0 {
		t.Errorf("class %s, level %s, manifest %s, warnings %v", v.Class(), v.Level(), v.Manifest().Class, v.Warnings())
	}
	// The same files in a workspace are another class with another digest.
	own, err := Verify(root, "shipped", Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	if own.Class() != "shipped" || own.Digest() == v.Digest() {
		t.Errorf("in a workspace: class %s, same digest %v", own.Class(), own.Digest() == v.Digest())
	}
	if err := CheckID(v.Class()); err == nil {
		t.Errorf("a folder may be called %s", v.Class())
	}
	if _, err := Verify(root, v.Class(), Options{Now: now}); !refusal.Is(err, refusal.Usage) {
		t.Errorf("Verify of %s gave %v, want a refusal", v.Class(), err)
	}
}

// A class that came with the program cannot claim that people signed it.
func TestShippedClassIsNeverMoreThanScratch(t *testing.T) {
	root := shippedRoot(t, strings.Replace(shippedRegistration, "trust: scratch", "trust: signed", 1))
	if _, err := VerifyShipped(root, "shipped", time.Now()); !refusal.Is(err, refusal.PinMismatch) {
		t.Errorf("got %v, want PinMismatch", err)
	}
}
