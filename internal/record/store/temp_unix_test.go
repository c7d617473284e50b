//go:build unix

package store

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// owns is set in the process that is killed.
const owns = "STORE_TEST_OWNS_A_TEMPORARY_FOLDER"

// TestMain lets a test start a process that makes a temporary folder and waits.
func TestMain(m *testing.M) {
	if os.Getenv(owns) == "" {
		os.Exit(m.Run())
	}
	dir, _, err := TempDir("tally-work-")
	if err == nil {
		err = os.MkdirAll(filepath.Join(dir, "work", "sealed"), 0o755)
	}
	if err == nil {
		err = os.Chmod(filepath.Join(dir, "work", "sealed"), 0)
	}
	if err != nil {
		panic(err)
	}
	os.Stdout.WriteString(dir + "\n")
	for { // nothing else runs here, and a program whose every goroutine waits ends itself
		time.Sleep(time.Hour)
	}
}

// owning starts such a process and gives its folder.
func owning(t *testing.T, temp string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), owns+"=1", "TMPDIR="+temp)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line := make([]byte, 4096)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	return cmd, strings.TrimSpace(string(line[:n]))
}

// TestFoldersOfKilledProcessesAreSwept: and those of processes that live, of other
// programs, and links are left alone.
func TestFoldersOfKilledProcessesAreSwept(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	killed, left := owning(t, temp)
	_, lives := owning(t, temp)
	own, remove, err := TempDir("tally-agent-")
	if err != nil {
		t.Fatal(err)
	}
	owner, _ := tempOwner(filepath.Base(left))
	outside := filepath.Join(t.TempDir(), "outside")
	link := filepath.Join(temp, "tally-work-"+owner+"-link")
	others := []string{filepath.Join(temp, "tally-work-123456"), filepath.Join(temp, "other-work-"+owner+"-1"), filepath.Join(temp, "tally-work-abcdefghijklmnop-1"), outside}
	for _, dir := range others {
		if err := os.MkdirAll(filepath.Join(dir, "f"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, link); err != nil {
		t.Fatal(err)
	}
	SweepTemp()
	if _, err := os.Stat(left); err != nil {
		t.Fatalf("the folder of a process that lives: %v", err)
	}
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait()
	SweepTemp()
	if _, err := os.Lstat(left); !os.IsNotExist(err) {
		t.Errorf("the folder of a process that was killed: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(temp, ownerPrefix+owner)); !os.IsNotExist(err) {
		t.Errorf("its lock: %v", err)
	}
	for _, dir := range append(others, lives, own, link, filepath.Join(outside, "f")) {
		if _, err := os.Lstat(dir); err != nil {
			t.Errorf("what is not its folder: %v", err)
		}
	}
	if err := remove(); err != nil {
		t.Error(err)
	}
}

// TestALockThatIsNotOneIsNotFollowed: a link or a folder in the place of a lock, and a
// lock of another user, say nothing.
func TestALockThatIsNotOneIsNotFollowed(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	free := filepath.Join(t.TempDir(), "free")
	if err := os.WriteFile(free, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	make := func(owner string, lock func(path string) error) string {
		dir := filepath.Join(temp, "tally-work-"+owner+"-1")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := lock(filepath.Join(temp, ownerPrefix+owner)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	kept := []string{
		make("aaaaaaaaaaaaaaaa", func(p string) error { return os.Symlink(free, p) }),
		make("bbbbbbbbbbbbbbbb", func(p string) error { return os.Mkdir(p, 0o700) }),
	}
	if os.Getuid() == 0 {
		kept = append(kept, make("cccccccccccccccc", func(p string) error {
			if err := os.WriteFile(p, nil, 0o666); err != nil {
				return err
			}
			return os.Chown(p, 65534, 65534)
		}))
		foreign := make("dddddddddddddddd", func(p string) error { return os.WriteFile(p, nil, 0o600) })
		if err := os.Chown(foreign, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		kept = append(kept, foreign)
	}
	SweepTemp()
	for _, dir := range kept {
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(free); err != nil {
		t.Error(err)
	}
}
