//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// hugeBytes is the size of each hostile file, and maxResident what tally may
// use to refuse it; 120 MB was measured.
const (
	hugeBytes   = 1 << 30
	maxResident = 256 << 20
)

// TestHugeFilesAreRefusedInLittleMemory grows each file that tally reads to
// 1 GB, as a hole that takes no room on disk.
func TestHugeFilesAreRefusedInLittleMemory(t *testing.T) {
	w := newKilledWorkspace(t)
	if out, err := w.command("ledger", "anchor", "publish", "--workspace", w.dir).CombinedOutput(); err != nil {
		t.Fatalf("tally ledger anchor publish: %v\n%s", err, out)
	}
	verify := []string{"ledger", "verify"}
	tests := []struct {
		file string // pattern below the workspace or the state folder
		args []string
		exit int
		name string
	}{
		{".tally/ledger/segments/*.log", verify, 3, "ChainTamperDetected"},
		{".tally/ledger/segments/*.log", []string{"ledger", "append", "--kind", "note"}, 3, "ChainTamperDetected"},
		{".tally/ledger/segments/*.log", []string{"ledger", "repair"}, 3, "ChainTamperDetected"},
		{".tally/ledger/segments/*.log", []string{"verify", w.dir}, 3, "ChainTamperDetected"},
		{".tally/ledger/tiles/checkpoint", verify, 3, "CheckpointInvalid"},
		{".tally/ledger/tiles/tile/entries/000.p/1", verify, 3, "TileMismatch"},
		{".tally/keys/operator", []string{"ledger", "append", "--kind", "note"}, 1, "TooLarge"},
		{"audit/anchors/*.json", verify, 3, "AnchorSignatureInvalid"},
		{"signers/allowed_signers", []string{"signers", "show"}, 1, "TooLarge"},
		{"tally.yaml", verify, 1, "TooLarge"},
		{"../state/tallystick/ledgers/*.head", verify, 1, "MemoryDamaged"},
	}
	for _, tt := range tests {
		t.Run(filepath.Base(filepath.Dir(tt.file))+"/"+filepath.Base(tt.file)+" "+tt.args[0]+" "+tt.args[len(tt.args)-1], func(t *testing.T) {
			pattern := filepath.Join(w.dir, tt.file)
			if rest, ok := bytes.CutPrefix([]byte(tt.file), []byte("../state/")); ok {
				pattern = filepath.Join(w.state, string(rest))
			}
			names, err := filepath.Glob(pattern)
			if err != nil || len(names) != 1 {
				t.Fatalf("%s: found %q, want one file (%v)", pattern, names, err)
			}
			grow(t, names[0])

			cmd := w.command(append(tt.args, "--json", "--workspace", w.dir)...)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			err = cmd.Run()
			var failed *exec.ExitError
			if !errors.As(err, &failed) || failed.ExitCode() != tt.exit {
				t.Fatalf("got %v, want exit %d\n%s", err, tt.exit, stderr.Bytes())
			}
			var refused struct{ Name string }
			if err := json.Unmarshal(stderr.Bytes(), &refused); err != nil || refused.Name != tt.name {
				t.Errorf("refused as %q, want %q\n%s", refused.Name, tt.name, stderr.Bytes())
			}
			resident := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss * 1024
			t.Logf("%d MB resident", resident>>20)
			if resident > maxResident {
				t.Errorf("%d bytes resident, want at most %d", resident, maxResident)
			}
		})
	}
}

// grow makes the file huge and puts it back when the test ends.
func grow(t *testing.T, name string) {
	t.Helper()
	before, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(name, before, 0o600); err != nil {
			t.Fatal(err)
		}
	})
	if err := os.Truncate(name, hugeBytes); err != nil {
		t.Fatal(err)
	}
}
