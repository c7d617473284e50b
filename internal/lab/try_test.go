package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/agent"
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
			o := &TryOptions{Unsafe: tt.unsafe}
			got := o.program(note, tt.program, []agent.CommandMount{{Host: here}})
			if got != tt.want || !strings.Contains(said, tt.note) || tt.note == "" && said != "" {
				t.Errorf("%q (%s), want %q", got, said, tt.want)
			}
		})
	}
}
