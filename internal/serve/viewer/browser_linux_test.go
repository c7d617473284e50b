package viewer

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/store"
)

// TestBrowserGetsTheTokenThroughAFile: every user of a machine sees the arguments of
// programs, so the address with its token is in a file that only its owner can read.
func TestBrowserGetsTheTokenThroughAFile(t *testing.T) {
	dir := t.TempDir()
	seen := filepath.Join(dir, "seen")
	program := "#!/bin/sh\n{ tr '\\0' ' ' < /proc/$$/cmdline; echo; ls -ln \"$1\"; cat \"$1\"; } > " + seen + ".tmp && mv " + seen + ".tmp " + seen + "\n"
	if err := os.WriteFile(filepath.Join(dir, "xdg-open"), []byte(program), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("TMPDIR", dir)
	t.Cleanup(store.ReleaseTemp)
	forget := OpenBrowser("http://127.0.0.1:7575/?token=s3cret&x=1")
	var said string
	for deadline := time.Now().Add(time.Minute); said == "" && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		data, _ := os.ReadFile(seen)
		said = string(data)
	}
	arguments, rest, _ := strings.Cut(said, "\n")
	if strings.Contains(arguments, "s3cret") || !strings.Contains(arguments, "open.html") {
		t.Errorf("the arguments are %q", arguments)
	}
	if !strings.HasPrefix(rest, "-rw-------") {
		t.Errorf("the file can be read by others: %s", rest)
	}
	if !strings.Contains(rest, `url=http://127.0.0.1:7575/?token=s3cret&amp;x=1"`) {
		t.Errorf("the page leads elsewhere: %s", rest)
	}
	page := regexp.MustCompile(`\S+open\.html`).FindString(arguments)
	if st, err := os.Stat(filepath.Dir(page)); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("its folder: %v, %v", st, err)
	}
	forget()
	if _, err := os.Stat(page); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
}
