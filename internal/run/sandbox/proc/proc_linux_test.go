package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

func TestProcessesBelowThisOne(t *testing.T) {
	child := exec.Command("sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	pid := child.Process.Pid
	if !slices.Contains(Descendants(os.Getpid()), pid) {
		t.Error("a child is not among the descendants")
	}
	if Gone(pid) {
		t.Error("a child that runs is called gone")
	}
	child.Process.Kill()
	child.Wait()
	if !Gone(pid) || ResidentBytes(pid) != 0 || SharedOutBytes(pid) != 0 {
		t.Error("a process that has ended still holds something")
	}
	whole, share := ResidentBytes(os.Getpid()), SharedOutBytes(os.Getpid())
	if whole < 1<<20 || share < 1<<20 {
		t.Errorf("this process has %d bytes in memory, its share is %d", whole, share)
	}
}

func TestFoldersAndFilesWithoutAName(t *testing.T) {
	dir := t.TempDir()
	before := FolderSize(dir)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.Sync() // until then a file system may not have given it blocks
	if added := FolderSize(dir).Since(before); added.Files != 1 || added.Bytes < 1<<20 {
		t.Errorf("a file of a megabyte added %+v", added)
	}
	held := RemovedSize(os.Getpid(), dir)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if added := FolderSize(dir).Since(before); added != (Usage{}) {
		t.Errorf("a file that was removed counts in its folder: %+v", added)
	}
	if added := RemovedSize(os.Getpid(), dir) - held; added < 1<<20 {
		t.Errorf("an open file that was removed holds %d bytes", added)
	}
}

func TestWhatIsNotThereHoldsNothing(t *testing.T) {
	absent := filepath.Join(t.TempDir(), "absent")
	if UsedOn(absent) != (Usage{}) || FolderSize(absent) != (Usage{}) || RemovedSize(os.Getpid(), absent) != 0 {
		t.Error("a folder that does not exist holds something")
	}
	if err := EachLine(absent, func(string) {}); !os.IsNotExist(err) {
		t.Errorf("reading its lines: %v", err)
	}
}
