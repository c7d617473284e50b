package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/refusal"
)

// A person whose time is over signs a manifest, and the machine's clock is set
// back to when it was not: the ledger has seen later.
func TestClockSetBackBringsNoSignerBack(t *testing.T) {
	dir := t.TempDir()
	ws := filepath.Join(dir, "ws")
	now := time.Date(2026, 5, 12, 12, 0, 0, 0, time.UTC)
	run := func(stdin string, args ...string) (code int, stderr string) {
		var out, errs bytes.Buffer
		env := &Env{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs,
			Now: func() time.Time { return now },
			Getenv: func(name string) string {
				return map[string]string{"XDG_STATE_HOME": filepath.Join(dir, "state"), "HOME": dir}[name]
			}}
		if args[0] != "init" {
			args = append([]string{"--workspace", ws}, args...)
		}
		code = newProgram(env).main(args)
		return code, errs.String()
	}
	must := func(args ...string) {
		t.Helper()
		if code, stderr := run("{}\n", args...); code != 0 {
			t.Fatalf("tally %s: exit %d: %s", strings.Join(args, " "), code, stderr)
		}
	}
	key := func(name string) string { return filepath.Join(ws, ".tally", "keys", name) }

	must("init", ws)
	must("signers", "next")
	(&trial{T: t, dir: ws}).edit("signers/allowed_signers", "example-bob ", `example-bob valid-before="20260601Z" `)
	for _, who := range []string{"example-alice", "example-bob"} {
		must("signers", "sign", "--key", key(who))
	}
	must("signers", "apply")
	must("bench", "verify", "example")

	now = now.AddDate(0, 2, 0)
	must("ledger", "append", "--kind", "note")
	for _, when := range []string{"his time is over", "the clock is set back"} {
		code, stderr := run("", "--json", "bench", "verify", "example")
		if code != 3 || !strings.Contains(stderr, string(refusal.SignerNotValidThen)) {
			t.Errorf("%s: exit %d: %s", when, code, stderr)
		}
		now = time.Date(2026, 5, 12, 12, 0, 0, 0, time.UTC)
	}
}
