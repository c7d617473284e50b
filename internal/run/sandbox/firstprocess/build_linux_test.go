package firstprocess

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"tallystick/internal/run/sandbox/calls"
	"tallystick/internal/run/sandbox/identity"
)

// TestAMountOfSomethingElseIsRefused: what the first process binds is what was digested,
// whatever was put at its path after the mounts were checked.
func TestAMountOfSomethingElseIsRefused(t *testing.T) {
	if os.Getenv("TALLY_TEST_MOUNTS") == "" {
		cmd := exec.Command("unshare", "--mount", "--map-root-user", os.Args[0], "-test.run", "^TestAMountOfSomethingElseIsRefused$", "-test.v")
		cmd.Env = append(os.Environ(), "TALLY_TEST_MOUNTS=1")
		out, err := cmd.CombinedOutput()
		if err != nil && !strings.Contains(string(out), "--- ") {
			t.Skipf("no mount can be made here: %v: %s", err, out)
		}
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	for name, swap := range map[string]func(from string) error{
		"nothing": func(string) error { return nil },
		"another in its place": func(from string) error {
			if err := os.Rename(from, from+".kept"); err != nil {
				return err
			}
			return os.Mkdir(from, 0o755)
		},
		"a folder above": func(from string) error {
			above := filepath.Dir(from)
			if err := os.Rename(above, above+".kept"); err != nil {
				return err
			}
			return os.MkdirAll(from, 0o755)
		},
		"mounted over it": func(from string) error { return unix.Mount("tmpfs", from, "tmpfs", 0, "") },
	} {
		root, from := t.TempDir(), filepath.Join(t.TempDir(), "above", "from")
		if err := os.MkdirAll(from, 0o755); err != nil {
			t.Fatal(err)
		}
		is, err := identity.Of(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := swap(from); err != nil {
			t.Fatal(err)
		}
		b := &Build{Root: root, Mounts: []Mount{{}, {From: from, At: "/data", Folder: true, Is: &is}}, Policy: calls.Policy{Agent: true}}
		ended := make(chan error)
		go func() { // the thread has mounts of its own afterwards, and ends with this
			runtime.LockOSThread()
			if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
				ended <- err
				return
			}
			ended <- b.mountHost()
		}()
		if err := <-ended; (err != nil && strings.Contains(err.Error(), "than what was digested")) != (name != "nothing") {
			t.Errorf("%s: %v", name, err)
		}
		_ = unix.Unmount(from, unix.MNT_DETACH) // what swap put there
	}
}
