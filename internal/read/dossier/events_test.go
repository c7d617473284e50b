package dossier

import (
	"os"
	"path/filepath"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/workspace"
)

// The end of an attempt names the digest of its list of events and how many there are:
// each is compared by itself, so a record whose two words contradict each other is not
// believed either.
func TestEventsAreComparedByDigestAndNumber(t *testing.T) {
	p := &Place{Workspace: &workspace.Workspace{Dir: t.TempDir()}}
	list := []byte("{\"a\":1}\n{\"a\":2}\n")
	file := p.eventsFile("fix.agent.1")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, list, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		sealed digest.Content
		count  int64
		same   bool
	}{
		{"as it was sealed", digest.ContentOf(list), 2, true},
		{"a record without a number", digest.ContentOf(list), 0, true},
		{"another digest", digest.ContentOf(list[:8]), 2, false},
		{"a number that is too small", digest.ContentOf(list), 1, false},
		{"a number that is too large", digest.ContentOf(list), 3, false},
	} {
		why, err := p.EventsChanged("fix.agent.1", tt.sealed, tt.count)
		if err != nil || (why == "") != tt.same {
			t.Errorf("%s: says %q, %v", tt.name, why, err)
		}
	}
}
