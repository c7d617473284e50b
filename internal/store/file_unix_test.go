//go:build unix

package store_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"tallystick/internal/refusal"
	"tallystick/internal/store"
)

// An anchor or a checkpoint that somebody made a pipe must not keep a verifier
// waiting for ever.
func TestReadFileDoesNotWaitAtPipes(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Skip(err)
	}
	if _, err := store.ReadFile(store.OS{}, name, 1); !refusal.Is(err, refusal.Unreadable) {
		t.Errorf("got %v, want Unreadable", err)
	}
}
