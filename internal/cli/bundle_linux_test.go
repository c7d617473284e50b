package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/read/bundle"
	"tallystick/internal/testing/terminal"
)

// On a terminal a replay stops after each page, in colours; leaving it early
// does not hide that the outcome does not hold.
func TestReplayIsPagedOnATerminal(t *testing.T) {
	person, program := terminal.Open(t, 30, 200)
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
