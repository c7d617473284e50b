package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Sandboxes are made of the tally that lies beside tally-fleet only if it is of the same
// build.
func TestTallyBesideIsOfTheSameBuild(t *testing.T) {
	ours := strings.TrimSpace(versionLine(thisBuild()))
	for name, tt := range map[string]struct {
		text string
		mode os.FileMode
		want bool
	}{
		"the same build":    {"#!/bin/sh\n[ \"$1\" = version ] && echo '" + ours + "'\n", 0o755, true},
		"another build":     {"#!/bin/sh\necho 'tally v0.0.1 (commit 0123, go1.26.8)'\n", 0o755, false},
		"says more":         {"#!/bin/sh\necho '" + ours + "'\necho\n", 0o755, false},
		"fails":             {"#!/bin/sh\necho '" + ours + "'\nexit 1\n", 0o755, false},
		"not a program":     {"tally\n", 0o644, false},
		"not one that runs": {"tally\n", 0o755, false},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "tally")
		if err := os.WriteFile(file, []byte(tt.text), tt.mode); err != nil {
			t.Fatal(err)
		}
		want := ""
		if tt.want {
			want = file
		}
		if got := tallyIn(dir); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := tallyIn(t.TempDir()); got != "" {
		t.Errorf("there is none: %q", got)
	}
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "tally"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := tallyIn(folder); got != "" {
		t.Errorf("it is a folder: %q", got)
	}
}
