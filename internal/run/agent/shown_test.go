//go:build linux

package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/sandbox"
)

// showing makes a target with one mount, and shows it.
func showing(t *testing.T) (dir string, s *Shown) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	edit(t, filepath.Join(dir, "lib/a.py"), "x = 1\n")
	target := &Target{Name: "t", Command: &Command{Command: []string{"true"}, Mounts: []CommandMount{{Host: dir, Inside: "/data"}}}}
	s, err := target.Show()
	if err != nil {
		t.Fatal(err)
	}
	return dir, s
}

func edit(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func begin(t *testing.T, s *Shown) *Held {
	t.Helper()
	h, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestOnlyTheCasesOfAChangeAreSpoilt: those that ran when it happened, all of them;
// not those that begin when everything is as it was digested again.
func TestOnlyTheCasesOfAChangeAreSpoilt(t *testing.T) {
	dir, s := showing(t)
	first := begin(t, s)
	if err := first.End(); err != nil {
		t.Fatalf("nothing changed: %v", err)
	}
	one, two := begin(t, s), begin(t, s)
	edit(t, filepath.Join(dir, "lib/a.py"), "x = 2\n")
	edit(t, filepath.Join(dir, "lib/a.py"), "x = 1\n")
	if err := one.End(); !refusal.Is(err, refusal.ShownChanged) || !strings.Contains(err.Error(), "/data/lib/a.py") {
		t.Errorf("the first: %v", err)
	}
	three := begin(t, s)
	if err := two.End(); !refusal.Is(err, refusal.ShownChanged) {
		t.Errorf("the one beside it: %v", err)
	}
	if err := three.End(); err != nil {
		t.Errorf("the one after it: %v", err)
	}
	// What stays changed is not shown to any case.
	four := begin(t, s)
	edit(t, filepath.Join(dir, "lib/a.py"), "x = 2\n")
	if err := four.End(); !refusal.Is(err, refusal.ShownChanged) {
		t.Errorf("changed for good: %v", err)
	}
	if _, err := s.Begin(); !refusal.Is(err, refusal.ShownChanged) || !strings.Contains(err.Error(), "it has the digest") {
		t.Errorf("a case began with something else: %v", err)
	}
}

// TestEverythingThatASandboxShowsIsExpected: what is bound must be what was digested,
// by its place, each folder of the system too.
func TestEverythingThatASandboxShowsIsExpected(t *testing.T) {
	dir, s := showing(t)
	expect := s.Expect()
	if _, ok := expect[dir]; !ok {
		t.Error("the mount is not expected")
	}
	for _, top := range sandbox.SystemFolders() {
		if _, err := os.Lstat(top); err == nil {
			if _, ok := expect[top]; !ok {
				t.Errorf("%s is not expected", top)
			}
		}
	}
	// A folder that is named by a link is expected at both names: it is bound by one of them.
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	linked, err := (&Target{Name: "t", Command: &Command{Command: []string{"true"}, Mounts: []CommandMount{{Host: link, Inside: "/data"}}}}).Show()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{link, dir} {
		if is, ok := linked.Expect()[name]; !ok || is != expect[dir] {
			t.Errorf("%s is not expected, or as something else", name)
		}
	}
	target := &Target{Name: "t", Command: &Command{Command: []string{"true"}, Mounts: []CommandMount{{Host: dir, Inside: "/data"}}}}
	r := &commandRun{c: target.Command, o: Options{Shown: s}}
	for _, m := range r.sandbox(nil).ReadOnly {
		if _, ok := expect[m.Host]; !ok {
			t.Errorf("%s is shown and not expected", m.Host)
		}
	}
}
