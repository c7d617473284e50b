package sandbox

import (
	"os"
	"path/filepath"
	"testing"
)

// tally-fleet makes its sandboxes of the tally beside it: asked once, and the running
// program where there is none.
func TestSandboxesAreMadeOfWhatWasTold(t *testing.T) {
	before := madeOf
	defer func() { madeOf = before }()
	data, err := os.ReadFile(box)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, data, 0o755); err != nil {
		t.Fatal(err)
	}
	for answer, want := range map[string]string{other: other, "": thisProgram} {
		asked := 0
		MakeOf(func() string { asked++; return answer })
		for range 2 {
			if got := madeOf(); got != want {
				t.Errorf("told %q: %q, want %q", answer, got, want)
			}
		}
		if asked != 1 {
			t.Errorf("asked %d times", asked)
		}
		if got, err := resolveExecutable(box); err != nil || got != box {
			t.Errorf("a program that was named: %q, %v", got, err)
		}
	}
	MakeOf(func() string { return other })
	if got, err := resolveExecutable(""); err != nil || got != other {
		t.Errorf("told %q: %q, %v", other, got, err)
	}
}
