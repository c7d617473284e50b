package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The note is a file that every user of the folder can edit.
func TestSweepRemovesNothingThatHasNotOurName(t *testing.T) {
	top := t.TempDir()
	foreign := filepath.Join(top, "cgroup", "user.slice")   // not our name
	elsewhere := filepath.Join(top, "data", "tallystick-0") // our name, and no cgroup
	for _, dir := range []string{foreign, elsewhere} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := note(top, dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := Sweep(top); err != nil {
		t.Error(err)
	}
	for _, dir := range []string{foreign, elsewhere} {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("it was removed: %v", err)
		}
	}
	if err := Sweep(filepath.Join(top, "absent")); err != nil {
		t.Errorf("a folder without a note: %v", err)
	}
}

func TestSweepRemovesAGroupThatWasLeft(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "r0123456789")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	g := New(folder, 64<<20, 16)
	if g == nil {
		t.Skip("no control group can be made here")
	}
	if g.fd != nil {
		g.fd.Close() // as when the process ends
	}
	for _, dir := range g.dirs {
		if !strings.HasPrefix(filepath.Base(dir), Prefix(filepath.Dir(folder))) {
			t.Errorf("%s has not the name that says whose it is", dir)
		}
	}
	if err := Sweep(folder); err != nil {
		t.Fatal(err)
	}
	for _, dir := range g.dirs {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", dir, err)
		}
	}
}
