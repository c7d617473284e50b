//go:build unix

package digest

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tallystick/internal/record/refusal"
)

func TestReadTreeRefusesWhatIsNotAFile(t *testing.T) {
	for _, tt := range []struct {
		name, path, says string
		make             func(t *testing.T, dir string) error
	}{
		{"link to a file", "l", "a symbolic link", func(t *testing.T, dir string) error { return os.Symlink("a", filepath.Join(dir, "l")) }},
		{"link to a folder", "l", "a symbolic link", func(t *testing.T, dir string) error { return os.Symlink("f", filepath.Join(dir, "l")) }},
		{"link below", "f/l", "a symbolic link", func(t *testing.T, dir string) error { return os.Symlink("../a", filepath.Join(dir, "f", "l")) }},
		{"link to nothing", "l", "a symbolic link", func(t *testing.T, dir string) error { return os.Symlink("gone", filepath.Join(dir, "l")) }},
		{"link out of the folder", "l", "a symbolic link", func(t *testing.T, dir string) error { return os.Symlink("/etc/passwd", filepath.Join(dir, "l")) }},
		{"link to itself", "l", "a symbolic link", func(t *testing.T, dir string) error { return os.Symlink("l", filepath.Join(dir, "l")) }},
		{"excluded file is a link", "case.yaml", "a symbolic link", func(t *testing.T, dir string) error { return os.Symlink("a", filepath.Join(dir, "case.yaml")) }},
		{"named pipe", "p", "a named pipe", func(t *testing.T, dir string) error { return syscall.Mkfifo(filepath.Join(dir, "p"), 0o600) }},
		{"excluded file is a pipe", "case.yaml", "a named pipe", func(t *testing.T, dir string) error { return syscall.Mkfifo(filepath.Join(dir, "case.yaml"), 0o600) }},
		{"socket", "s", "a socket", func(t *testing.T, dir string) error {
			// The name of a socket is limited to about 100 bytes; the test's
			// own folder may be longer.
			t.Chdir(dir)
			l, err := net.Listen("unix", "s")
			if err == nil {
				t.Cleanup(func() { l.Close() })
			}
			return err
		}},
		{"device", "d", "a device", func(t *testing.T, dir string) error {
			err := syscall.Mknod(filepath.Join(dir, "d"), syscall.S_IFCHR|0o600, 1<<8|3)
			if err != nil {
				t.Skipf("only root makes devices: %v", err)
			}
			return nil
		}},
		{"name in two cases", "A", "differs only in case", func(t *testing.T, dir string) error { return writeUnlessThere(t, dir, "A") }},
		{"excluded name in two cases", "CASE.YAML", "differs only in case", func(t *testing.T, dir string) error {
			if err := os.WriteFile(filepath.Join(dir, "case.yaml"), nil, 0o600); err != nil {
				return err
			}
			return writeUnlessThere(t, dir, "CASE.YAML")
		}},
		{"folder in two cases, empty", "F", "differs only in case", func(t *testing.T, dir string) error {
			if _, err := os.Stat(filepath.Join(dir, "F")); err == nil {
				t.Skip("this file system ignores case")
			}
			return os.Mkdir(filepath.Join(dir, "F"), 0o700)
		}},
		{"odd name of an empty folder", "-x", "begins with '-'", func(t *testing.T, dir string) error { return os.Mkdir(filepath.Join(dir, "-x"), 0o700) }},
		{"backslash", `b\c`, "backslash", func(t *testing.T, dir string) error { return os.WriteFile(filepath.Join(dir, `b\c`), nil, 0o600) }},
		{"newline", "b\nc", "control character", func(t *testing.T, dir string) error { return os.WriteFile(filepath.Join(dir, "b\nc"), nil, 0o600) }},
		{"not UTF-8", "b\xff", "not valid UTF-8", func(t *testing.T, dir string) error {
			if err := os.WriteFile(filepath.Join(dir, "b\xff"), nil, 0o600); err != nil {
				t.Skipf("this file system refuses it by itself: %v", err)
			}
			return nil
		}},
		{"trailing dot", "b.", "ends in a dot", func(t *testing.T, dir string) error { return os.WriteFile(filepath.Join(dir, "b."), nil, 0o600) }},
		{"deeper than a path can be", strings.Repeat("d/", 128) + "d", "cannot be divided", func(t *testing.T, dir string) error {
			return os.MkdirAll(filepath.Join(dir, strings.Repeat("d/", 200)), 0o700)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root, dir := folderOf(t, map[string]string{"a": "1", "f/b": "2"})
			if err := tt.make(t, dir); err != nil {
				t.Fatal(err)
			}
			tree, err := ReadTree(root, ".", TreeLimits{Exclude: []string{"case.yaml"}})
			if tree != nil {
				t.Error("a tree came with the refusal")
			}
			// Of two names that collide, the one listed last is named first.
			path := tt.path
			if tt.says == "differs only in case" {
				path = ""
			}
			checkRefusal(t, err, tt.says, path)
		})
	}
}

func writeUnlessThere(t *testing.T, dir, name string) error {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
		t.Skip("this file system ignores case")
	}
	return os.WriteFile(filepath.Join(dir, name), nil, 0o600)
}

func TestReadTreeRefusesALinkAsItsFolder(t *testing.T) {
	root, dir := folderOf(t, map[string]string{"real/a": "1", "x/real/a": "1"})
	for link, to := range map[string]string{"l": "real", "x/l": "real", "out": "/"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("x", filepath.Join(dir, "y")); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"l", "x/l", "out", "y/real"} {
		_, err := ReadTree(root, folder, TreeLimits{})
		checkRefusal(t, err, "a symbolic link", folder)
	}
}

func TestReadTreeSaysWhenItMayNotRead(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root reads everything")
	}
	for _, path := range []string{"a", "f"} {
		root, dir := folderOf(t, map[string]string{"a": "1", "f/b": "2"})
		if err := os.Chmod(filepath.Join(dir, path), 0); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Chmod(filepath.Join(dir, path), 0o700) })
		if _, err := ReadTree(root, ".", TreeLimits{}); !refusal.Is(err, refusal.Unreadable) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want Unreadable", path, err)
		}
	}
}

// Between looking at a name and opening it an attacker may put something else
// in its place. These tests do so at exactly that moment.
func TestExchangedFileIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name     string
		exchange func(path string) error
	}{
		{"for a link inside", func(p string) error { return os.Symlink("secret", p) }},
		{"for another file", func(p string) error { return os.WriteFile(p, []byte("other"), 0o600) }},
		{"for a pipe without writer", func(p string) error { return syscall.Mkfifo(p, 0o600) }},
		{"for a folder", func(p string) error { return os.Mkdir(p, 0o700) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root, dir := folderOf(t, map[string]string{"a": "1", "secret": "2"})
			seen, err := root.Lstat("a")
			if err != nil {
				t.Fatal(err)
			}
			// Moved, not removed, so that its inode is not given to the new one.
			if err := os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "moved")); err != nil {
				t.Fatal(err)
			}
			if err := tt.exchange(filepath.Join(dir, "a")); err != nil {
				t.Fatal(err)
			}
			r := reader{limits: TreeLimits{MaxBytes: 100}, names: newNames()}
			data, err := r.file(root, "a", "a", seen)
			if !refusal.Is(err, refusal.Unreadable) || !strings.Contains(err.Error(), "a changed while it was read") || data != nil {
				t.Errorf("got %q, %v", data, err)
			}
		})
	}
}

func TestExchangedFolderIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name     string
		exchange func(path string) error
	}{
		{"for a link inside", func(p string) error { return os.Symlink("secret", p) }},
		{"for another folder", func(p string) error { return os.Mkdir(p, 0o700) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root, dir := folderOf(t, map[string]string{"f/a": "1", "secret/a": "2"})
			seen, err := root.Lstat("f")
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(filepath.Join(dir, "f"), filepath.Join(dir, "moved")); err != nil {
				t.Fatal(err)
			}
			if err := tt.exchange(filepath.Join(dir, "f")); err != nil {
				t.Fatal(err)
			}
			folder, err := openFolder(root, "f", "f", seen)
			if !refusal.Is(err, refusal.Unreadable) || !strings.Contains(err.Error(), "changed while it was read") || folder != nil {
				t.Errorf("got %v, %v", folder, err)
			}
		})
	}
}

func TestGrowingFileIsRefused(t *testing.T) {
	// Files of /proc say that they have no bytes, and then have some: to a
	// reader they have grown since.
	root, err := os.OpenRoot("/proc/self")
	if err != nil {
		t.Skipf("no /proc here: %v", err)
	}
	defer root.Close()
	seen, err := root.Lstat("status")
	if err != nil {
		t.Fatal(err)
	}
	r := reader{limits: TreeLimits{MaxBytes: 1 << 20}, names: newNames()}
	data, err := r.file(root, "status", "status", seen)
	if !refusal.Is(err, refusal.Unreadable) || !strings.Contains(err.Error(), "changed while it was read") || data != nil {
		t.Errorf("got %q, %v", data, err)
	}
}
