package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/run/agent"
	"tallystick/internal/run/harness"
)

// Version managers put shims into home folders, which the sandbox does not show.
// A newcomer's first command must not fail on that.
func TestTryLooksForTheProgramWhereTheSandboxShowsIt(t *testing.T) {
	home, here := t.TempDir(), t.TempDir()
	shim := func(dir, name string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if _, err := os.Stat("/usr/bin/env"); err != nil {
		t.Skip("there is no /usr/bin/env")
	}
	hidden := shim(home, "env")
	only := shim(home, "tally-test-program")
	own := shim(here, "own")
	t.Setenv("PATH", home+":/usr/bin:/bin")
	for _, tt := range []struct {
		name, program, want, note string
		unsafe                    bool
	}{
		{"shim of a program of /usr", "env", "/usr/bin/env", "does not show " + hidden, false},
		{"shim, without a sandbox", "env", hidden, "", true},
		{"only in the home folder", "tally-test-program", only, "", false},
		{"by its path, in a folder that is shown", own, own, "", false},
		{"by its path, in a folder that is not", hidden, hidden, "", false},
		{"nowhere", "tally-no-such-program", "tally-no-such-program", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			said := ""
			note := func(format string, args ...any) { said += fmt.Sprintf(format, args...) }
			o := &TryOptions{Spec: harness.Spec{UnsafeAgent: tt.unsafe}}
			got := o.program(note, tt.program, []agent.CommandMount{{Host: here}})
			if got != tt.want || !strings.Contains(said, tt.note) || tt.note == "" && said != "" {
				t.Errorf("%q (%s), want %q", got, said, tt.want)
			}
		})
	}
}

// What is shown to a program that is tried never holds a key or an answer.
func TestTryViewShowsNoKeysAndNoAnswers(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{".ssh/id_ed25519", "agent.py", "clean/agent.py", "ws/.tally/keys/operator", "ws/tally.yaml", "ws/agent.py", "ws/targets/a/agent.py", "ws/targets/b.py",
		"ws/bench/c/expected/answer", "project/deep/er/.ssh/id_rsa", "project/agent.py", "many/node_modules/x/.ssh/fake", "many/agent.js"} {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(home, "ws"), filepath.Join(home, "clean-looking")); err != nil {
		t.Fatal(err)
	}
	getenv := func(name string) string {
		if name == "HOME" {
			return home
		}
		return ""
	}
	for _, tt := range []struct {
		here, named string
		want        string // what is shown, below the home folder; "" for nothing
	}{
		{"clean", "clean/agent.py", "clean"},
		{"many", "many/agent.js", "many"},
		{"", "agent.py", "agent.py"},
		{"", "clean/agent.py", "clean"},
		{"", ".ssh/id_ed25519", ""},
		{"", "ws/.tally/keys/operator", ""},
		{"project", "project/agent.py", "project/agent.py"},
		{"project", "project/deep/er/.ssh/id_rsa", ""},
		{"clean", "ws/bench/c/expected/answer", "clean"}, // what is elsewhere is not shown at all
		{"ws", "ws/agent.py", "ws/agent.py"},
		{"ws", "ws/targets/a/agent.py", "ws/targets/a"},
		{"ws", "ws/targets/b.py", "ws/targets/b.py"},
		{"ws", "ws/bench/c/expected/answer", ""},
		{"ws", "ws/tally.yaml", ""},
		{"ws", "ws/.tally/keys/operator", ""},
		{"ws/bench/c", "ws/bench/c/expected", ""},
		{"clean-looking", "clean-looking/bench/c/expected/answer", ""},
	} {
		here := filepath.Join(home, tt.here)
		v := newTryView(here, getenv)
		said := false
		mounts := v.mounts(here, []string{filepath.Join(home, tt.named)}, func(string, ...any) { said = true })
		got := ""
		for _, m := range mounts {
			rel, _ := filepath.Rel(home, m.Host)
			got += rel
		}
		if got != tt.want || said == (tt.want != "" && tt.want == tt.here) {
			t.Errorf("in %q, %q: shows %q, want %q; said so: %v", tt.here, tt.named, got, tt.want, said)
		}
	}
}
