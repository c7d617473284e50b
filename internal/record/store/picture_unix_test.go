//go:build unix

package store

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

var roomy = PictureLimits{MaxEntries: 1000, MaxBytes: 1 << 20, KeepBytes: 1 << 20}

// do makes a folder with a few files and has something done to it.
func planted(t *testing.T) (dir string, start *Picture) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "work")
	start = PictureOf([]digest.File{{Path: "a.txt", Data: []byte("one")}, {Path: "d/b.txt", Data: []byte("two")}, {Path: "d/e/c.txt", Data: nil}})
	if err := start.Restore(dir, roomy); err != nil {
		t.Fatal(err)
	}
	return dir, start
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// hostile are things that a program can do to its folder, and how they are told.
var hostile = []struct {
	name string
	do   func(dir string) error
	want string // the differences; "" if no picture can be taken
	says string // of the refusal
}{
	{"nothing", func(string) error { return nil }, "-", ""},
	{"a new file", func(d string) error { return os.WriteFile(d+"/evil.txt", []byte("x"), 0o644) }, "+evil.txt", ""},
	{"a change", func(d string) error { return os.WriteFile(d+"/a.txt", []byte("x"), 0o644) }, "~a.txt", ""},
	{"a removed file", func(d string) error { return os.Remove(d + "/d/b.txt") }, "-d/b.txt", ""},
	{"a mode", func(d string) error { return os.Chmod(d+"/a.txt", 0o755) }, "~a.txt 0755", ""},
	{"a mode of a folder", func(d string) error { return os.Chmod(d+"/d", 0o700) }, "~d 0700", ""},
	{"an empty folder", func(d string) error { return os.Mkdir(d+"/new", 0o755) }, "+new", ""},
	{"a link", func(d string) error { return os.Symlink("/etc/passwd", d+"/l") }, "+l -> /etc/passwd", ""},
	{"a link in place of a file", func(d string) error { os.Remove(d + "/a.txt"); return os.Symlink("d/b.txt", d+"/a.txt") }, "~a.txt -> d/b.txt", ""},
	{"a link in place of a folder", func(d string) error { os.RemoveAll(d + "/d/e"); return os.Symlink("..", d+"/d/e") }, "~d/e -> .. -d/e/c.txt", ""},
	{"a name that is not UTF-8", func(d string) error { return os.WriteFile(d+"/\xff\xfe", []byte("x"), 0o644) }, `+\xff\xfe`, ""},
	{"a name with control characters", func(d string) error { return os.WriteFile(d+"/a\nb\x1b[2J", nil, 0o644) }, `+a\x0ab\x1b[2J`, ""},
	{"a name with a backslash", func(d string) error { return os.WriteFile(d+`/\xff`, nil, 0o644) }, `+\\xff`, ""},
	{"a name that is spelled backwards", func(d string) error { return os.WriteFile(d+"/\u202egnp.exe", nil, 0o644) }, `+\xe2\x80\xaegnp.exe`, ""},
	{"a hard link", func(d string) error { return os.Link(d+"/a.txt", d+"/z") }, "+z", ""},
	{"a file in place of a folder", func(d string) error { os.RemoveAll(d + "/d"); return os.WriteFile(d+"/d", []byte("x"), 0o644) }, "~d -d/b.txt -d/e/c.txt", ""},
	{"a pipe", func(d string) error { return syscall.Mkfifo(d+"/p", 0o644) }, "", "p is a named pipe"},
	{"a socket", func(d string) error {
		fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		defer syscall.Close(fd)
		// A socket's path is short; a test's folder need not be.
		at, err := os.Open(d)
		if err != nil {
			return err
		}
		defer at.Close()
		return syscall.Bind(fd, &syscall.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/s", at.Fd())})
	}, "", "s is a socket"},
	{"a pipe and a socket's worth of them", func(d string) error {
		syscall.Mkfifo(d+"/q", 0o644)
		return syscall.Mkfifo(d+"/p", 0o644)
	}, "", "p is a named pipe (and 1 more)"},
	{"too many", func(d string) error {
		for i := range 1001 {
			if err := os.WriteFile(fmt.Sprint(d, "/n", i), nil, 0o644); err != nil {
				return err
			}
		}
		return nil
	}, "", "more than 1000 files and folders"},
	{"too much", func(d string) error { return os.Truncate(d+"/a.txt", 2<<20) }, "", "more than 1048576 bytes"},
	{"too long a path", func(d string) error {
		return os.MkdirAll(d+strings.Repeat("/"+strings.Repeat("x", 200), 6), 0o755)
	}, "", "a path of more than 1024 bytes"},
	{"too deep", func(d string) error { return os.MkdirAll(d+strings.Repeat("/x", 300), 0o755) }, "", "more than 200 folders deep"},
	{"too long a link", func(d string) error { return os.Symlink(strings.Repeat("x", 2000), d+"/l") }, "", "a link to a path"},
}

func tell(diffs []Difference) string {
	var words []string
	for _, d := range diffs {
		word := "~" + EscapePath(d.Path())
		switch {
		case d.Before == nil:
			word = "+" + word[1:]
		case d.After == nil:
			word = "-" + word[1:]
		}
		if d.After != nil && d.After.Link != "" {
			word += " -> " + d.After.Link
		} else if d.Before != nil && d.After != nil && d.Before.Kind == d.After.Kind && d.Before.Mode != d.After.Mode {
			word += fmt.Sprintf(" %04o", d.After.Mode)
		}
		words = append(words, word)
	}
	if words == nil {
		return "-"
	}
	return strings.Join(words, " ")
}

// TestPicturesHideNothing: whatever was done to a folder is told, or the folder
// is refused.
func TestPicturesHideNothing(t *testing.T) {
	for _, tt := range hostile {
		t.Run(tt.name, func(t *testing.T) {
			dir, start := planted(t)
			must(t, tt.do(dir))
			now, err := TakePicture(dir, roomy)
			if tt.want == "" {
				if !refusal.Is(err, refusal.FolderUnreadable) || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), dir) {
					t.Fatalf("got %v, want it refused: %s", err, tt.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := tell(Compare(start, now)); got != tt.want {
				t.Errorf("told %q, want %q", got, tt.want)
			}
			if same := now.Digest() == start.Digest(); same != (tt.want == "-") {
				t.Errorf("the digests are the same: %v", same)
			}
		})
	}
}

// TestRestoreUndoesEverything: also what no picture could be taken of, and the
// folder is the same folder afterwards.
func TestRestoreUndoesEverything(t *testing.T) {
	for _, tt := range hostile {
		t.Run(tt.name, func(t *testing.T) {
			dir, start := planted(t)
			before, err := os.Stat(dir)
			must(t, err)
			must(t, tt.do(dir))
			must(t, start.Restore(dir, roomy))
			now, err := TakePicture(dir, roomy)
			must(t, err)
			if now.Digest() != start.Digest() {
				t.Errorf("left: %s", tell(Compare(start, now)))
			}
			if after, err := os.Stat(dir); err != nil || !os.SameFile(before, after) {
				t.Errorf("another folder is in its place: %v", err)
			}
		})
	}
}

// TestRestoreBringsBackWhatIsOdd: links, modes, hard links and odd names that
// were there when the picture was taken.
func TestRestoreBringsBackWhatIsOdd(t *testing.T) {
	dir, _ := planted(t)
	must(t, os.Symlink("/nowhere", dir+"/l"))
	must(t, os.Link(dir+"/a.txt", dir+"/z"))
	must(t, os.WriteFile(dir+"/\xff", []byte("x"), 0o600))
	must(t, os.Mkdir(dir+"/closed", 0o500))
	was, err := TakePicture(dir, roomy)
	must(t, err)
	must(t, os.Chmod(dir+"/closed", 0o700))
	for _, name := range []string{"l", "z", "\xff", "closed", "d"} {
		must(t, os.RemoveAll(filepath.Join(dir, name)))
	}
	must(t, os.WriteFile(dir+"/a.txt", []byte("changed"), 0o644))
	must(t, was.Restore(dir, roomy))
	now, err := TakePicture(dir, roomy)
	must(t, err)
	if now.Digest() != was.Digest() {
		t.Errorf("not as it was: %s", tell(Compare(was, now)))
	}
	if e := now.Find("z"); e == nil || e.Same != "a.txt" {
		t.Errorf("z is %+v", e)
	}
}

// TestUnreadableModesAreRefused: for a user that modes hold back.
func TestUnreadableModesAreRefused(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root reads everything")
	}
	dir, start := planted(t)
	must(t, os.Chmod(dir+"/a.txt", 0))
	must(t, os.Chmod(dir+"/d", 0))
	if _, err := TakePicture(dir, roomy); !refusal.Is(err, refusal.FolderUnreadable) {
		t.Errorf("got %v", err)
	}
	must(t, start.Restore(dir, roomy))
	if now, err := TakePicture(dir, roomy); err != nil || now.Digest() != start.Digest() {
		t.Errorf("not restored: %v", err)
	}
}

// TestPicturesKeepWhatFits: what does not is compared by its digest.
func TestPicturesKeepWhatFits(t *testing.T) {
	dir, start := planted(t)
	must(t, os.WriteFile(dir+"/big", make([]byte, 1000), 0o644))
	now, err := TakePicture(dir, PictureLimits{MaxEntries: 10, MaxBytes: 2000, KeepBytes: 100, Base: start})
	must(t, err)
	if e := now.Find("big"); e.Kept() || e.Size != 1000 || e.Digest != digest.ContentOf(make([]byte, 1000)) {
		t.Errorf("big is %+v", e)
	}
	if e := now.Find("a.txt"); !e.Kept() || string(e.Data) != "one" {
		t.Errorf("a.txt is %+v", e)
	}
	os.Remove(dir + "/big")
	if err := now.Restore(dir, roomy); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("restored a file that is not kept: %v", err)
	}
}

func TestEscapedPathsComeBack(t *testing.T) {
	for _, name := range []string{"a", "a b", "é", "\xff", `\`, `\xff`, "\\\xff", "a\nb", "\u202e", "\ufffd", "日本", " ", "a\u00a0b"} {
		text := EscapePath(name)
		if back, ok := UnescapePath(text); !ok || back != name {
			t.Errorf("%q became %q and then %q, %v", name, text, back, ok)
		}
	}
	for _, text := range []string{`\`, `\y`, `\x4`, `\x41`, "\xff", "a\n", `\xFF`} {
		if name, ok := UnescapePath(text); ok {
			t.Errorf("%q is %q, and no writer spells it so", text, name)
		}
	}
}
