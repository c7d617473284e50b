//go:build unix

package importer

import (
	"context"
	"path/filepath"
	"syscall"
	"testing"

	"tallystick/internal/record/refusal"
)

// TestANamedPipeIsRefused and not waited for.
func TestANamedPipeIsRefused(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Read(context.Background(), []string{pipe}, Options{})
	wantRefusal(t, err, refusal.Unreadable, "not a regular file")
}
