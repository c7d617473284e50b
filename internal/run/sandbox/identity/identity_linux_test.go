package identity

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// tree makes a folder with a few files in it, and a folder above it of its own.
func tree(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "above", "shown")
	for name, text := range map[string]string{"agent.py": "print(1)\n", "lib/a.py": "x = 1\n", "lib/b.py": "y = 1\n"} {
		write(t, filepath.Join(dir, name), text)
	}
	if err := os.Symlink("agent.py", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func takeTree(t *testing.T, dir string) *Tree {
	t.Helper()
	got, err := Take(dir, 100)
	if err != nil {
		t.Fatal(err)
	}
	if changed := got.Changed(); changed != "" {
		t.Fatalf("an untouched tree: %s", changed)
	}
	return got
}

// putBack writes a text, and then the old one with the old times: a later look
// finds the same name, size, content and times.
func putBack(t *testing.T, name, text string) {
	t.Helper()
	old, err := os.ReadFile(name)
	must(t, err)
	info, err := os.Stat(name)
	must(t, err)
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt([]byte(text[:len(old)]), 0)
	must(t, err)
	_, err = f.WriteAt(old, 0)
	must(t, err, f.Close(), os.Chtimes(name, info.ModTime(), info.ModTime()))
}

// TestEveryChangeShowsThoughItWasTakenBack: each row leaves the tree with the names,
// contents, sizes and times that it had.
func TestEveryChangeShowsThoughItWasTakenBack(t *testing.T) {
	const evil = "print(2)\nprint(3)\nprint(4)\n"
	for name, change := range map[string]func(t *testing.T, dir string){
		"edited in place":  func(t *testing.T, dir string) { putBack(t, filepath.Join(dir, "agent.py"), evil) },
		"deep in a folder": func(t *testing.T, dir string) { putBack(t, filepath.Join(dir, "lib/b.py"), evil) },
		"renamed away and back": func(t *testing.T, dir string) {
			a, b := filepath.Join(dir, "agent.py"), filepath.Join(dir, "kept")
			must(t, os.Rename(a, b))
			write(t, a, evil)
			must(t, os.Rename(b, a))
		},
		"exchanged and exchanged back": func(t *testing.T, dir string) {
			other := filepath.Join(t.TempDir(), "other")
			write(t, other, evil)
			a := filepath.Join(dir, "agent.py")
			for range 2 {
				must(t, unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE))
			}
		},
		"the whole folder swapped": func(t *testing.T, dir string) {
			must(t, os.Rename(dir, dir+".kept"))
			write(t, filepath.Join(dir, "agent.py"), evil)
			must(t, os.RemoveAll(dir), os.Rename(dir+".kept", dir))
		},
		"through another hard link": func(t *testing.T, dir string) {
			putBack(t, filepath.Join(filepath.Dir(filepath.Dir(dir)), "hard"), evil)
		},
		"through a memory map": func(t *testing.T, dir string) {
			f, err := os.OpenFile(filepath.Join(dir, "agent.py"), os.O_RDWR, 0)
			must(t, err)
			defer f.Close()
			m, err := unix.Mmap(int(f.Fd()), 0, 9, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			must(t, err)
			old := string(m)
			copy(m, evil)
			copy(m, old)
			must(t, unix.Munmap(m))
		},
		"a file that came and went": func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "lib/sitecustomize.py"), evil)
			must(t, os.Remove(filepath.Join(dir, "lib/sitecustomize.py")))
		},
		"a link turned and turned back": func(t *testing.T, dir string) {
			link := filepath.Join(dir, "link")
			must(t, os.Remove(link), os.Symlink("lib/a.py", link), os.Remove(link), os.Symlink("agent.py", link))
		},
		"a mode and back": func(t *testing.T, dir string) {
			must(t, os.Chmod(filepath.Join(dir, "agent.py"), 0o755), os.Chmod(filepath.Join(dir, "agent.py"), 0o644))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tree(t)
			must(t, os.Link(filepath.Join(dir, "agent.py"), filepath.Join(filepath.Dir(filepath.Dir(dir)), "hard")))
			got := takeTree(t, dir)
			change(t, dir)
			if got.Changed() == "" {
				t.Error("the change does not show")
			}
		})
	}
}

// TestATreeIsWhereItWas: what is asked for by another path afterwards is not the
// same.
func TestATreeIsWhereItWas(t *testing.T) {
	one, two := tree(t), tree(t)
	link := filepath.Join(t.TempDir(), "current")
	must(t, os.Symlink(one, link))
	got := takeTree(t, link)
	must(t, os.Remove(link), os.Symlink(two, link))
	if changed := got.Changed(); !strings.Contains(changed, "leads to") {
		t.Errorf("the link was turned: %q", changed)
	}
	got = takeTree(t, one)
	must(t, os.Rename(filepath.Dir(one), filepath.Dir(one)+".kept"))
	write(t, filepath.Join(one, "agent.py"), "print(1)\n")
	if got.Changed() == "" {
		t.Error("a folder above was exchanged")
	}
}

// TestAFileThatIsOpenForWritingIsToldOf: its change time may stand still while it is
// written to through a map.
func TestAFileThatIsOpenForWritingIsToldOf(t *testing.T) {
	name := filepath.Join(tree(t), "agent.py")
	open := func() bool {
		f, err := os.Open(name)
		must(t, err)
		defer f.Close()
		return OpenForWriting(f)
	}
	if open() {
		t.Error("no process writes to it")
	}
	w, err := os.OpenFile(name, os.O_RDWR, 0)
	must(t, err)
	if !open() {
		t.Error("it is open for writing")
	}
	m, err := unix.Mmap(int(w.Fd()), 0, 9, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must(t, err, w.Close())
	if !open() {
		t.Log("a map that outlives its descriptor is not seen on this file system")
	}
	must(t, unix.Munmap(m))
	if open() {
		t.Error("no process writes to it any more")
	}
}

// TestAMountShows: one that covers the tree, or lies in it.
func TestAMountShows(t *testing.T) {
	if os.Getenv("TALLY_TEST_MOUNTS") == "" {
		cmd := exec.Command("unshare", "--mount", "--map-root-user", os.Args[0], "-test.run", "^TestAMountShows$", "-test.v")
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
	dir, evil := tree(t), tree(t)
	for _, at := range []string{dir, filepath.Join(dir, "lib"), filepath.Join(dir, "agent.py")} {
		from := filepath.Join(evil, strings.TrimPrefix(at, dir))
		got := takeTree(t, dir)
		must(t, unix.Mount(from, at, "", unix.MS_BIND, ""))
		if got.Changed() == "" {
			t.Errorf("something is mounted at %s", at)
		}
		if _, err := Take(dir, 100); at != dir && err == nil {
			t.Error("a tree with a mount in it was taken")
		}
		must(t, unix.Unmount(at, 0))
	}
	host, err := TakeHost([]string{dir})
	must(t, err)
	if changed := host.Changed(); changed != "" {
		t.Fatal(changed)
	}
	must(t, unix.Mount("tmpfs", filepath.Join(dir, "lib"), "tmpfs", 0, ""))
	if host.Changed() == "" {
		t.Error("something is mounted over the system's folders")
	}
	must(t, unix.Unmount(filepath.Join(dir, "lib"), 0))
}

// TestAHostShowsWhatWasInstalled: not an edit of a file, which it says of itself.
func TestAHostShowsWhatWasInstalled(t *testing.T) {
	dir := tree(t)
	time.Sleep(tick)
	host, err := TakeHost([]string{dir, filepath.Join(dir, "gone")})
	must(t, err)
	lines := strings.Join(host.Lines(), "\n")
	if again, err := TakeHost([]string{dir}); err != nil || strings.Join(again.Lines(), "\n") != lines {
		t.Errorf("the same folders have other lines: %v", err)
	}
	write(t, filepath.Join(dir, "lib/new.so"), "x")
	if host.Changed() == "" {
		t.Error("something was installed")
	}
}
