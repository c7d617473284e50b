package runfolder

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

func runsFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "r") // shorter than that of t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { RemoveTree(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestSweepTakesOnlyFoldersWithoutAnOwner(t *testing.T) {
	runs := runsFolder(t)
	base, err := Open(runs)
	if err != nil {
		t.Fatal(err)
	}
	owned, err := base.Make()
	if err != nil {
		t.Fatal(err)
	}
	defer owned.Remove()
	left, err := base.Make()
	if err != nil {
		t.Fatal(err)
	}
	left.lock.Close()                                                     // as when the process ends
	for _, name := range []string{"not-ours", "results", "n0123456789"} { // the last may be one that is being made
		if err := os.Mkdir(filepath.Join(runs, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	base.Sweep()
	entries, err := os.ReadDir(runs)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	want := []string{"n0123456789", "not-ours", filepath.Base(owned.Dir), "results"}
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("left %v, want %v", names, want)
	}
}

// Many runs begin and sweep at once; none takes another's folder.
func TestSweepSparesFoldersThatAreBeingMade(t *testing.T) {
	base, err := Open(runsFolder(t))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				base.Sweep()
				r, err := base.Make()
				if err == nil {
					_, err = r.Write("file", nil)
				}
				if err == nil {
					err = r.Remove()
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestRunFolderOfAnotherUserIsRefused(t *testing.T) {
	dir := runsFolder(t)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "not a folder of ours alone") {
		t.Errorf("a folder that every user can write to: %v", err)
	}
	target := runsFolder(t)
	link := filepath.Join(target, "link")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(link); err == nil {
		t.Error("a link was accepted")
	}
}

// gVisor's sockets have short paths only; a folder that is too deep is said so
// at once, and the default steps aside.
func TestRunsInADeepTemporaryFolder(t *testing.T) {
	deep := filepath.Join(t.TempDir(), strings.Repeat("d", 100))
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(deep); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("got %v", err)
	}
	t.Setenv("TMPDIR", deep)
	if base, err := Open(""); err != nil || len(base.Dir) > maxBaseBytes {
		t.Errorf("got %v, %v", base, err)
	}
}
