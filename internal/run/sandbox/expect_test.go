//go:build linux

package sandbox

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/sandbox/firstprocess"
	"tallystick/internal/run/sandbox/identity"
	"tallystick/internal/run/sandbox/runfolder"
)

// TestAnotherFolderInThePlaceOfTheDigestedOneIsRefused: moved away, by a folder above
// it, or by a link that was turned. Nothing runs.
func TestAnotherFolderInThePlaceOfTheDigestedOneIsRefused(t *testing.T) {
	eachClass(t, func(t *testing.T, class Class) {
		above := filepath.Join(workFolder(t), "above")
		dir := filepath.Join(above, "data")
		fill := func(dir, text string) {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "file"), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		fill(dir, "right")
		is, err := identity.Of(dir)
		if err != nil {
			t.Fatal(err)
		}
		run := func() (AgentResult, error) {
			o := agentOptions(class, "cat", "/data/file")
			o.ReadOnly, o.Expect = []Mount{{Host: dir, Inside: "/data"}}, map[string]identity.ID{dir: is}
			return RunAgent(context.Background(), o)
		}
		if r, err := run(); err != nil || string(r.Stdout) != "right" {
			t.Fatalf("%v %+v", err, r)
		}
		if err := os.Rename(above, above+".kept"); err != nil {
			t.Fatal(err)
		}
		fill(dir, "wrong")
		if r, err := run(); !refusal.Is(err, refusal.ShownChanged) {
			t.Errorf("a folder above was exchanged: %v %s", err, r.Stdout)
		}
	})
}

// TestWhatIsBoundIsLookedAtAgain: what was right when the mounts were checked may be
// another thing when they are made.
func TestWhatIsBoundIsLookedAtAgain(t *testing.T) {
	one, two := workFolder(t), workFolder(t)
	is, err := identity.Of(one)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkPlace(one, one, &is); err != nil {
		t.Error(err)
	}
	if err := checkPlace(two, one, &is); !refusal.Is(err, refusal.ShownChanged) || !strings.Contains(err.Error(), one) {
		t.Errorf("got %v", err)
	}
	if err := checkPlace(filepath.Join(two, "gone"), one, &is); !refusal.Is(err, refusal.ShownChanged) {
		t.Errorf("got %v", err)
	}
}

// TestABindOfSomethingElseIsRefused: what is at the path when it is bound, after everything
// was checked, by links and renames, for files and folders. Nothing is started.
func TestABindOfSomethingElseIsRefused(t *testing.T) {
	if os.Getenv("TALLY_TEST_MOUNTS") == "" {
		cmd := exec.Command("unshare", "--mount", "--map-root-user", os.Args[0], "-test.run", "^TestABindOfSomethingElseIsRefused$", "-test.v")
		cmd.Env = append(os.Environ(), "TALLY_TEST_MOUNTS=1", boxVariable+"="+box)
		out, err := cmd.CombinedOutput()
		if err != nil && !strings.Contains(string(out), "--- ") {
			t.Skipf("no mount can be made here: %v: %s", err, out)
		}
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, swap := range map[string]func(from string) error{
		"nothing": func(string) error { return nil },
		"another in its place": func(from string) error {
			info, err := os.Stat(from)
			must(err)
			must(os.Rename(from, from+".kept"))
			if info.IsDir() {
				return os.Mkdir(from, 0o755)
			}
			return os.WriteFile(from, nil, 0o644)
		},
		"a link in its place": func(from string) error {
			must(os.Rename(from, from+".kept"))
			other := from + ".other"
			info, err := os.Stat(from + ".kept")
			must(err)
			if info.IsDir() {
				must(os.Mkdir(other, 0o755))
			} else {
				must(os.WriteFile(other, nil, 0o644))
			}
			return os.Symlink(other, from)
		},
		"another is mounted over it": func(from string) error {
			info, err := os.Stat(from)
			must(err)
			if info.IsDir() {
				return unix.Mount("tmpfs", from, "tmpfs", 0, "")
			}
			must(os.WriteFile(from+".other", nil, 0o644))
			return unix.Mount(from+".other", from, "", unix.MS_BIND, "")
		},
	} {
		for _, folder := range []bool{true, false} {
			dir := t.TempDir()
			from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
			for _, at := range []string{from, to} {
				must(firstprocess.MakeMountPoint(at, folder))
			}
			is, err := identity.Of(from)
			must(err)
			must(swap(from))
			l := &launch{binds: []bind{{from: from, to: to, is: &is}}, folder: &runfolder.Folder{Dir: dir}}
			ended := make(chan error)
			go func() { // the thread has mounts of its own afterwards, and ends with this
				runtime.LockOSThread()
				ended <- l.privateMounts()
			}()
			if err := <-ended; refusal.Is(err, refusal.ShownChanged) != (name != "nothing") {
				t.Errorf("%s, folder %t: %v", name, folder, err)
			}
			_ = unix.Unmount(from, unix.MNT_DETACH) // what swap put there
		}
	}
}
