package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"tallystick/internal/read/bundle"
)

// openTerminal returns both ends of a pseudo-terminal of the given size.
func openTerminal(t *testing.T, rows, columns uint16) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this needs a pseudo-terminal: %v", err)
	}
	t.Cleanup(func() { person.Close() })
	fd := int(person.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Skipf("this needs a pseudo-terminal: %v", err)
	}
	t.Cleanup(func() { program.Close() })
	if err := unix.IoctlSetWinsize(int(program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}); err != nil {
		t.Fatal(err)
	}
	return person, program
}

// On a terminal a replay stops after each page, in colours; leaving it early
// does not hide that the outcome does not hold.
func TestReplayIsPagedOnATerminal(t *testing.T) {
	person, program := openTerminal(t, 30, 200)
	b := &bundle.Bundle{Outcome: bundle.Solved, Diff: []byte("+new\n-old\n"),
		Spec: []byte(strings.Repeat("line\n", 5)), TestLog: []byte(strings.Repeat("line\n", 100) + "tests: 0 passed, 1 failed\n")}
	data, err := b.Pack(bundle.Seals{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.rvf")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, typed string
		color       string
		prompts     int
	}{
		{"q leaves", "q\n", "xterm", 1},
		{"Enter, then q", "\nq\n", "xterm", 2},
		{"a terminal without colours", "q\n", "dumb", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			env := newEnv(program, program, program, func(k string) string { return map[string]string{"TERM": tt.color}[k] })
			seen := make(chan string, 1)
			go func() {
				var out bytes.Buffer
				buf := make([]byte, 4096)
				for !strings.Contains(out.String(), "the end") {
					n, err := person.Read(buf)
					if err != nil {
						break
					}
					out.Write(buf[:n])
				}
				seen <- out.String()
			}()
			if _, err := person.WriteString(tt.typed); err != nil {
				t.Fatal(err)
			}
			code := newProgram(env).main([]string{"replay", "--unsafe-unsigned", path})
			program.WriteString("the end")
			out := <-seen
			if code != 3 {
				t.Errorf("exit %d, want 3", code)
			}
			if n := strings.Count(out, pagerPrompt); n != tt.prompts {
				t.Errorf("asked %d times, want %d:\n%q", n, tt.prompts, out)
			}
			if colored := strings.Contains(out, "\x1b[32m+new\x1b[0m"); colored != (tt.color == "xterm") {
				t.Errorf("coloured is %v:\n%q", colored, out)
			}
			if strings.Contains(out, "NOT SUPPORTED") || !strings.Contains(out, "the test log says 0 passed, 1 failed") {
				t.Errorf("shown to the end, or without the refusal:\n%q", out)
			}
		})
	}
}
