package agent

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"tallystick/internal/record/evidence"
	"tallystick/internal/run/sandbox/identity"
)

// plannedOf lists the mounts of a target as a plan has them.
func plannedOf(t *testing.T, target *Target) []evidence.PlannedMount {
	t.Helper()
	shown, err := target.Show()
	if err != nil {
		t.Fatal(err)
	}
	return shown.Planned()
}

// TestAMountIsNamedByWhatIsInIt: an agent that lies in a mount is not exchanged
// unnoticed, however it is done.
func TestAMountIsNamedByWhatIsInIt(t *testing.T) {
	make := func() string {
		dir := t.TempDir()
		for name, text := range map[string]string{"agent.py": "print(1)\n", "lib/a.py": "x = 1\n"} {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink("agent.py", filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	mounted := func(dir string) evidence.PlannedMount {
		return plannedOf(t, &Target{Command: &Command{Mounts: []CommandMount{{Host: dir, Inside: "/opt/agent"}}}})[0]
	}
	honest := mounted(make())
	if honest.Digest == nil || honest.Held != evidence.HeldCompared || honest.Inside != "/opt/agent" {
		t.Fatalf("%+v", honest)
	}
	if again := mounted(make()); *again.Digest != *honest.Digest {
		t.Error("the same files in another folder have another digest")
	}
	for name, change := range map[string]func(dir string) error{
		"another text of the same length": func(d string) error { return os.WriteFile(filepath.Join(d, "agent.py"), []byte("print(2)\n"), 0o644) },
		"executable":                      func(d string) error { return os.Chmod(filepath.Join(d, "agent.py"), 0o755) },
		"renamed":                         func(d string) error { return os.Rename(filepath.Join(d, "lib/a.py"), filepath.Join(d, "lib/b.py")) },
		"a file more":                     func(d string) error { return os.WriteFile(filepath.Join(d, "sitecustomize.py"), nil, 0o644) },
		"a file less":                     func(d string) error { return os.Remove(filepath.Join(d, "lib/a.py")) },
		"a link elsewhere": func(d string) error {
			os.Remove(filepath.Join(d, "link"))
			return os.Symlink("lib/a.py", filepath.Join(d, "link"))
		},
		"a file in place of the link": func(d string) error {
			os.Remove(filepath.Join(d, "link"))
			return os.WriteFile(filepath.Join(d, "link"), []byte("print(1)\n"), 0o644)
		},
	} {
		dir := make()
		if err := change(dir); err != nil {
			t.Fatal(err)
		}
		if got := mounted(dir); got.Digest == nil || *got.Digest == *honest.Digest {
			t.Errorf("%s: %+v", name, got)
		}
	}
	// What cannot be digested has no digest, and says why.
	dir := make()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	// A program that writes to a file through a map leaves no trace, so no file is digested
	// that one could.
	written := func(flag int, name string) string {
		dir := make()
		if err := os.Link(filepath.Join(dir, "lib/a.py"), filepath.Join(dir, "lib/linked.py")); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(filepath.Join(dir, name), flag, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		r, err := os.Open(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if !identity.OpenForWriting(r) {
			t.Skip("this file system does not tell who writes")
		}
		return dir
	}
	for name, path := range map[string]string{"a pipe": dir, "nothing": filepath.Join(dir, "gone"), "a file that is written to": written(os.O_RDWR, "agent.py"),
		"one deep in it": written(os.O_WRONLY|os.O_APPEND, "lib/a.py"), "one by another link": written(os.O_WRONLY, "lib/linked.py")} {
		target := &Target{Command: &Command{Mounts: []CommandMount{{Host: path, Inside: "/opt/agent"}}}}
		shown, err := target.Show()
		if err != nil {
			t.Fatal(err)
		}
		if got := shown.Planned()[0]; got.Digest != nil || got.Held != "" || shown.Why()["/opt/agent"] == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
