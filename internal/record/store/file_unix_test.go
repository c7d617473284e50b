//go:build unix

package store_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
)

// An anchor or a checkpoint that was replaced by a pipe must not keep a
// verifier waiting for ever.
func TestPipesAreNeitherWaitedForNorReplaced(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Skip(err)
	}
	if _, err := store.ReadFile(store.OS{}, name, 1); !refusal.Is(err, refusal.Unreadable) {
		t.Errorf("got %v, want Unreadable", err)
	}
	if err := store.ScanPack(store.OS{}, name, nil); !refusal.Is(err, refusal.Unreadable) {
		t.Errorf("as a pack: got %v, want Unreadable", err)
	}
	// Nor is the pipe replaced: another program has its other end.
	if err := store.WriteFile(store.OS{}, name, nil, 0o600); !refusal.Is(err, refusal.WriteFailed) {
		t.Errorf("writing over it: %v", err)
	}
	if info, err := os.Lstat(name); err != nil || info.Mode().Type() != os.ModeNamedPipe {
		t.Errorf("%v, %v", info, err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(name)); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

// Neither is a link, such as /dev/stdout, replaced or written through: it may
// lead to any file.
func TestLinksAreNotWrittenThrough(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	if err := os.WriteFile(target, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if err := store.WriteFile(store.OS{}, link, []byte("x"), 0o600); !refusal.Is(err, refusal.WriteFailed) {
		t.Errorf("writing over it: %v", err)
	}
	if got, err := os.Readlink(link); got != target {
		t.Errorf("the link is gone: %s, %v", got, err)
	}
	if data, _ := os.ReadFile(target); string(data) != "kept" {
		t.Errorf("the target has %q", data)
	}
	// Also one that leads nowhere yet.
	if err := os.Remove(target); err != nil {
		t.Fatal(err)
	}
	if err := store.CreateFile(store.OS{}, link, []byte("x"), 0o600); !refusal.Is(err, refusal.AlreadyExists) {
		t.Errorf("creating it: %v", err)
	}
}
