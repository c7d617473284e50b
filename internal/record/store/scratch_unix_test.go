//go:build unix

package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// scratch makes a working folder beside a file that no call may reach.
func scratch(t *testing.T) (s *Scratch, dir, secret string) {
	t.Helper()
	top := t.TempDir()
	dir, secret = filepath.Join(top, "work"), filepath.Join(top, "secret.txt")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := OpenScratch(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, dir, secret
}

func TestScratchStaysInItsFolder(t *testing.T) {
	s, dir, secret := scratch(t)
	for name, target := range map[string]string{"out": secret, "up": "../secret.txt", "dir": "..", "abs": filepath.Dir(secret), "loop": "loop", "deep": "a/../../secret.txt"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	names := []string{"out", "up", "deep", "loop", "dir/secret.txt", "abs/secret.txt", "dir/new.txt", "abs/new.txt",
		"../secret.txt", "/etc/passwd", secret, "a/../../secret.txt", "./a", "a//b", "", ".", "..", "a\\b", "a\x00b", "a/"}
	for _, name := range names {
		if data, err := s.Read(name, 100); !isMisuse(err) {
			t.Errorf("reading %q gave %q, %v", name, data, err)
		}
		if err := s.Write(name, []byte("changed")); !isMisuse(err) {
			t.Errorf("writing %q: %v", name, err)
		}
		if name != "." {
			if list, _, err := s.List(name, true, 100); !isMisuse(err) {
				t.Errorf("listing %q gave %v, %v", name, list, err)
			}
		}
	}
	if data, err := os.ReadFile(secret); err != nil || string(data) != "secret" {
		t.Errorf("the file outside is %q, %v", data, err)
	}
	if entries, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(entries) != 2 {
		t.Errorf("outside are %v, %v", entries, err)
	}
	// Removing a link removes the link.
	for _, name := range []string{"out", "dir"} {
		if err := s.Remove(name); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(secret); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"abs/secret.txt", "../secret.txt", secret, "."} {
		if err := s.Remove(name); !isMisuse(err) {
			t.Errorf("removing %q: %v", name, err)
		}
	}
}

func isMisuse(err error) bool {
	var m *MisuseError
	return errors.As(err, &m)
}

func TestScratchReadsAndWritesFiles(t *testing.T) {
	s, dir, _ := scratch(t)
	if err := s.Write("a/b/c.txt", []byte("one")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "a/b/c.txt"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := s.Write("a/b/c.txt", []byte("2")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("b/c.txt", filepath.Join(dir, "a/link")); err != nil {
		t.Fatal(err)
	}
	if data, err := s.Read("a/link", 1); err != nil || string(data) != "2" {
		t.Errorf("read %q through a link that stays inside, %v", data, err)
	}
	if err := s.Write("a/link", []byte("3")); !isMisuse(err) {
		t.Errorf("writing through a link: %v", err)
	}
	if data, err := s.Read("a/b/c.txt", 1); err != nil || string(data) != "2" {
		t.Errorf("read %q, %v", data, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "a/b/c.txt")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the mode became %v, %v", info.Mode(), err)
	}
	for _, tt := range []struct {
		name string
		do   func() error
		want string
	}{
		{"a file that is too large", func() error { _, err := s.Read("a/b/c.txt", 0); return err }, "larger than 0 bytes"},
		{"a file that is not there", func() error { _, err := s.Read("a/x", 1); return err }, `there is no "a/x"`},
		{"a folder as file", func() error { _, err := s.Read("a", 1); return err }, `"a" is a folder`},
		{"writing over a folder", func() error { return s.Write("a", nil) }, `"a" is a folder`},
		{"a file as folder", func() error { return s.Write("a/b/c.txt/d", nil) }, "is not a folder"},
		{"a full folder", func() error { return s.Remove("a") }, "is not empty"},
		{"removing nothing", func() error { return s.Remove("x") }, `there is no "x"`},
		{"listing a file", func() error { _, _, err := s.List("a/b/c.txt", false, 9); return err }, "is not a folder"},
		{"other case", func() error { return s.Write("a/B/d.txt", nil) }, `differs only in case from "a/b"`},
		{"other case of a file", func() error { return s.Write("a/b/C.txt", nil) }, `differs only in case from "a/b/c.txt"`},
		{"a name that is an option", func() error { return s.Write("-rf", nil) }, "begins with '-'"},
		{"a name that a reader cannot see", func() error { return s.Write("a\u200b", nil) }, "invisible"},
		{"a name that is too long", func() error { return s.Write(strings.Repeat("x", 200), nil) }, "cannot be divided"},
	} {
		err := tt.do()
		if !isMisuse(err) || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	for _, name := range []string{"a/b/c.txt", "a/link"} {
		if err := s.Remove(name); err != nil {
			t.Error(err)
		}
	}
	if err := s.Remove("a/b"); err != nil {
		t.Error(err)
	}
	if _, err := s.Read("a/b", 1); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// A pipe that an agent laid must not make a read or a write wait for ever.
func TestScratchDoesNotWaitAtPipes(t *testing.T) {
	s, dir, _ := scratch(t)
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read("pipe", 10); !isMisuse(err) {
		t.Error(err)
	}
	if err := s.Write("pipe", []byte("x")); !isMisuse(err) {
		t.Error(err)
	}
	if list, _, err := s.List(".", false, 10); err != nil || len(list) != 1 || list[0].Kind != "other" {
		t.Error(list, err)
	}
}

func TestScratchListsInOrder(t *testing.T) {
	s, dir, _ := scratch(t)
	for _, name := range []string{"b/c/d.txt", "a.txt", "b/x.txt"} {
		if err := s.Write(name, []byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("b", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	show := func(name string, recursive bool, limit int) string {
		list, more, err := s.List(name, recursive, limit)
		if err != nil {
			t.Fatal(err)
		}
		var words []string
		for _, e := range list {
			words = append(words, e.Name+":"+e.Kind)
		}
		if more {
			words = append(words, "...")
		}
		return strings.Join(words, " ")
	}
	for _, tt := range []struct{ got, want string }{
		{show(".", false, 10), "a.txt:file b:folder link:link"},
		{show(".", true, 10), "a.txt:file b:folder b/c:folder b/c/d.txt:file b/x.txt:file link:link"},
		{show("b", true, 10), "c:folder c/d.txt:file x.txt:file"},
		{show(".", true, 2), "a.txt:file b:folder ..."},
	} {
		if tt.got != tt.want {
			t.Errorf("got  %s\nwant %s", tt.got, tt.want)
		}
	}
}

func TestScratchKeepsMachineProblemsApart(t *testing.T) {
	if _, err := OpenScratch(filepath.Join(t.TempDir(), "nothing")); err == nil || isMisuse(err) {
		t.Errorf("got %v", err)
	}
	s, _, _ := scratch(t)
	s.Close()
	if _, err := s.Read("a", 1); err == nil || isMisuse(err) {
		t.Errorf("got %v", err)
	}
}
