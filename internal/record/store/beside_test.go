package store

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tallystick/internal/record/refusal"
)

// besideFolder makes a folder with files, a secret beside it, and links to that.
func besideFolder(t *testing.T) (dir, secret string) {
	t.Helper()
	top := t.TempDir()
	dir, secret = filepath.Join(top, "given"), filepath.Join(top, "secret.txt")
	for name, text := range map[string]string{secret: "SECRET", filepath.Join(dir, "in.txt"): "in", filepath.Join(dir, "sub", "deep.txt"): "deep", filepath.Join(dir, "%2e%2e.txt"): "percent"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"link.txt": "../secret.txt", "absolute.txt": secret, "up": "..", "far": top, "chain.txt": "link.txt", "inside.txt": "sub/deep.txt", "loop.txt": "loop.txt"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Skip(err)
		}
	}
	return dir, secret
}

// TestNothingLeadsOutOfAFolder: whatever a file says of another one, only what lies in its
// folder or below is read.
func TestNothingLeadsOutOfAFolder(t *testing.T) {
	dir, secret := besideFolder(t)
	for name, want := range map[string]string{
		"in.txt": "in", "./in.txt": "in", "sub/deep.txt": "deep", "file://in.txt": "in", "inside.txt": "deep", "%2e%2e.txt": "percent", "sub//deep.txt": "deep",
	} {
		if got, err := ReadBeside(filepath.Join(dir, "config.yaml"), name, 100); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for _, name := range []string{
		"", ".", "..", "../secret.txt", "sub/../../secret.txt", "sub/../in.txt", "./../secret.txt", "/..", secret, "/" + secret, "file://" + secret, "file://../secret.txt",
		"file:///../secret.txt", "file://localhost" + secret, "FILE://../secret.txt", "https://example.com/secret.txt", "file:" + secret,
		"%2e%2e/secret.txt", "..%2fsecret.txt", "file://%2e%2e/secret.txt", "..%00/secret.txt",
		`..\secret.txt`, `sub\..\..\secret.txt`, `C:\secret.txt`, "C:/secret.txt", "c:secret.txt", `\\server\share\secret.txt`, "//server/share/secret.txt", `\secret.txt`,
		"in.txt\x00", "../secret.txt\x00.txt", "in.txt\n", "link.txt", "absolute.txt", "chain.txt", "up/secret.txt", "far/secret.txt", "up/given/../secret.txt", "loop.txt", "sub", "gone.txt",
		"\uff0e\uff0e/secret.txt", "..;/secret.txt", "~/secret.txt", "$HOME/secret.txt",
	} {
		got, err := ReadBeside(filepath.Join(dir, "config.yaml"), name, 100)
		if err == nil {
			t.Errorf("%q was read: %q", name, got)
			continue
		}
		if r := refusal.Of(err); r.Name != refusal.Malformed && r.Name != refusal.Unreadable || r.Hint == "" {
			t.Errorf("%q: %v (%s), hint %q", name, err, r.Name, r.Hint)
		}
	}
	// Names that a walk of the folder found are read as they are, and lead nowhere either.
	for _, name := range []string{"../secret.txt", "sub/../../secret.txt", secret, "link.txt", "absolute.txt", "up/secret.txt", "far/secret.txt", "", ".", "../secret.txt\x00"} {
		if got, err := ReadBelow(dir, name, 100); err == nil {
			t.Errorf("%q was read: %q", name, got)
		}
	}
	odd := "a\\b: c\n.py"
	if err := os.WriteFile(filepath.Join(dir, odd), []byte("odd"), 0o600); err != nil {
		t.Skip(err)
	}
	if got, err := ReadBelow(dir, odd, 100); err != nil || string(got) != "odd" {
		t.Errorf("an odd name: %q, %v", got, err)
	}
	if _, err := ReadBelow(dir, "in.txt", 1); !refusal.Is(err, refusal.TooLarge) {
		t.Errorf("more than may be read: %v", err)
	}
}

// TestALinkThatIsPutThereInBetweenLeadsNowhere exchanges a file for a link, and a folder
// for one, while they are read.
func TestALinkThatIsPutThereInBetweenLeadsNowhere(t *testing.T) {
	dir, _ := besideFolder(t)
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		plain, link := filepath.Join(dir, "plain"), filepath.Join(dir, "lead")
		for !stop.Load() {
			os.Mkdir(plain, 0o700)
			os.WriteFile(filepath.Join(plain, "secret.txt"), []byte("honest"), 0o600)
			os.Rename(plain, filepath.Join(dir, "swapped"))
			os.RemoveAll(filepath.Join(dir, "swapped"))
			os.Symlink("..", link)
			os.Rename(link, filepath.Join(dir, "swapped"))
			os.Remove(filepath.Join(dir, "swapped"))
		}
	}()
	for range 3000 {
		if got, err := ReadBelow(dir, "swapped/secret.txt", 100); err == nil && strings.Contains(string(got), "SECRET") {
			t.Error("a link was followed")
			break
		}
	}
	stop.Store(true)
	<-done
}

// TestOnlyFilesAreRead: a pipe, a device, a socket and a folder are told from a file at
// once, by every way in which this package opens one.
func TestOnlyFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Skip(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	if err := os.Symlink("pipe", filepath.Join(dir, "link")); err != nil {
		t.Skip(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	read := map[string]func(name string) error{
		"ReadFile":  func(name string) error { _, err := ReadFile(OS{}, filepath.Join(dir, name), 10); return err },
		"ReadBelow": func(name string) error { _, err := ReadBelow(dir, name, 10); return err },
		"Open":      func(name string) error { _, err := Open(filepath.Join(dir, name)); return err },
		"OpenBelow": func(name string) error { _, err := OpenBelow(dir, name); return err },
	}
	for how, f := range read {
		for _, name := range []string{"pipe", "socket", "link", "folder"} {
			ended := make(chan error, 1)
			go func() { ended <- f(name) }()
			select {
			case err := <-ended:
				if err == nil {
					t.Errorf("%s read the %s", how, name)
				}
			case <-time.After(time.Minute):
				t.Fatalf("%s waits for the %s", how, name)
			}
		}
	}
	if _, err := ReadFile(OS{}, "/dev/zero", 10); !refusal.Is(err, refusal.Unreadable) || !strings.Contains(err.Error(), "device") {
		t.Errorf("a device: %v", err)
	}
}
