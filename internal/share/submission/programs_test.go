package submission

import (
	"strings"
	"testing"
)

// TestInstalledPackagesAreNamed: the audit does not look through them, and says so.
func TestInstalledPackagesAreNamed(t *testing.T) {
	notes := installed([]byte(`{"command":{"venv":".venv"},"kind":"command","venv":"blake3:12ab"}`))
	if len(notes) != 1 || !strings.Contains(notes[0], "venv, blake3:12ab, are known by this digest and were not looked through") {
		t.Errorf("%q", notes)
	}
	if notes := installed([]byte(`{"command":{"command":["python3","/agent/agent.py"]},"kind":"command"}`)); len(notes) != 0 {
		t.Errorf("of a target without packages: %q", notes)
	}
}
