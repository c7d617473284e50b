package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
	"tallystick/internal/record/workspace"
)

// staticTally builds the program as it is released, once: a sandbox runs this
// same file again, and for that it must be static.
var staticTally = sync.OnceValues(func() (string, error) {
	var err error
	if staticDir, err = os.MkdirTemp("", "tally-static-"); err != nil {
		return "", err
	}
	tally := filepath.Join(staticDir, "tally")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", tally, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building: %w\n%s", err, out)
	}
	return tally, nil
})

var staticDir string

// An agentWorkspace runs the released program against targets of every kind.
type agentWorkspace struct {
	t          *testing.T
	tally      string
	dir, state string
	env        []string // further variables
}

func newAgentWorkspace(t *testing.T) *agentWorkspace {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the sandbox needs Linux")
	}
	if testing.Short() {
		t.Skip("builds the whole program")
	}
	tally, err := staticTally()
	if err != nil {
		t.Fatal(err)
	}
	w := &agentWorkspace{t: t, tally: tally, dir: filepath.Join(t.TempDir(), "ws"), state: t.TempDir()}
	if out, err := w.command("init", w.dir).CombinedOutput(); err != nil {
		t.Fatalf("tally init: %v\n%s", err, out)
	}
	if out, err := w.command("sandbox", "probe", "--json").Output(); err != nil || !bytes.Contains(out, []byte(`"class":"gvisor","works":true`)) {
		t.Skipf("gvisor does not start here: %s", out)
	}
	return w
}

func (w *agentWorkspace) command(args ...string) *exec.Cmd {
	cmd := exec.Command(w.tally, args...)
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+w.state, "SECRET_OF_THE_HOST=do-not-tell")
	cmd.Env = append(cmd.Env, w.env...)
	return cmd
}

func (w *agentWorkspace) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// run runs a class and returns the records of the attempt, by case.
func (w *agentWorkspace) run(args ...string) (records map[string]*evidence.CaseScored, stderr string) {
	w.t.Helper()
	cmd := w.command(append([]string{"--workspace", w.dir, "run", "--json"}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	// 4 says that not every case passed, which the records tell too.
	if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() != 4 {
		w.t.Fatalf("tally run %v: %v\n%s", args, err, errs.Bytes())
	}
	var answer struct{ Attempt struct{ ID string } }
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
		w.t.Fatal(err)
	}
	ws, err := workspace.Load(w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	records = map[string]*evidence.CaseScored{}
	place := sequencer.Place{FS: store.OS{}, Dir: ws.LedgerDir(), StateDir: w.state}
	if _, err := place.Verify(ledger.Options{Origin: ws.Settings.Origin, TrustRoot: ws.Settings.TrustRoot, Decode: true, Visit: func(r ledger.Record) error {
		if c, ok := r.Body.(*evidence.CaseScored); ok && c.Attempt == answer.Attempt.ID {
			records[c.CaseID] = c
		}
		return nil
	}}); err != nil {
		w.t.Fatal(err)
	}
	return records, errs.String()
}

// agentRegistration has little time, so that an agent that never ends does not
// hold up the tests.
const agentRegistration = `version: 1
class: agents
trust: scratch
current_tier: bronze
limits: {wall_clock_seconds: 20, memory_bytes: 1073741824, turns: 20, tokens: 100000, cost_microdollars: 1000000}
governance: autonomous
isolation: {classes: [gvisor], scope: case, allow_weaker: false}
judged_scores_count: false
`

func shTarget(script string) string {
	return "version: 1\nkind: command\ncommand:\n  command: [/bin/sh, -c, " + fmt.Sprintf("%q", script) + "]\n"
}

func TestTargetsOfEveryKind(t *testing.T) {
	t.Parallel()
	w := newAgentWorkspace(t)
	w.write("bench/agents/registration.yaml", agentRegistration)
	w.write("bench/agents/dataset.jsonl", `{"id":"echo","input":"ping","model":[{"text":"ping"}],"expected":"ping","files":{"notes/a.txt":"one\n"},"grade":{"kind":"exact"}}`+"\n")
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		var turn struct{ Input string }
		json.NewDecoder(r.Body).Decode(&turn)
		json.NewEncoder(out).Encode(map[string]string{"answer": turn.Input})
	}))
	defer server.Close()
	broken := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) { out.Write([]byte("\x1b[31mnot json")) }))
	defer broken.Close()

	for name, tt := range map[string]struct {
		target, outcome, isolation, reason string
		args                               []string
	}{
		"builtin":        {"version: 1\nkind: builtin\nbuiltin: {model: m, api: anthropic.messages}\n", "passed", "", "", nil},
		"command":        {shTarget("cat"), "passed", "gvisor", "", nil},
		"bare":           {shTarget("cat"), "passed", "none", "", []string{"--unsafe-agent"}},
		"http":           {"version: 1\nkind: http\nhttp: {url: " + fmt.Sprintf("%q", server.URL) + "}\n", "passed", "remote", "", nil},
		"http-garbage":   {"version: 1\nkind: http\nhttp: {url: " + fmt.Sprintf("%q", broken.URL) + "}\n", "errored", "remote", "not JSON", nil},
		"dead-at-length": {shTarget("seq 5000 >&2; echo KeyError: gone >&2; exit 3"), "errored", "gvisor", "bytes left out …\n", nil},
		"dead-exception": {shTarget("seq 5000 >&2; echo KeyError: gone >&2; exit 3"), "errored", "none", "\nKeyError: gone", []string{"--unsafe-agent"}},
		"dead":           {shTarget("echo oops >&2; exit 3"), "errored", "gvisor", "exit status 3; its standard error:\noops", nil},
		"missing":        {"version: 1\nkind: command\ncommand:\n  command: [/no/such/program]\n", "errored", "gvisor", "could not be started", nil},
		"garbage":        {shTarget(`printf '\377\376'`), "errored", "gvisor", "not UTF-8", nil},
		"answers-wrong":  {shTarget("echo pong"), "failed", "gvisor", "", nil},
		// A variable of ours, the workspace, a user's home: none exists.
		"curious": {shTarget(`test -z "$SECRET_OF_THE_HOST" && ! ls ` + w.dir + ` && ! ls /root && test "$(cat notes/a.txt)" = one && cat`), "passed", "gvisor", "", nil},
		// Whatever it writes stays in its folder.
		"writes": {shTarget("echo two > notes/a.txt && echo new > b.txt && cat"), "passed", "gvisor", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			w.write("targets/"+name+".yaml", tt.target)
			records, _ := w.run(append([]string{"agents", "--target", name}, tt.args...)...)
			r := records["echo"]
			if r == nil || string(r.Outcome) != tt.outcome || r.AgentIsolation != tt.isolation || !strings.Contains(r.Reason, tt.reason) {
				t.Errorf("record %+v, want %+v", r, tt)
			}
		})
	}
}

func TestAgentThatNeverEndsIsTruncated(t *testing.T) {
	t.Parallel()
	w := newAgentWorkspace(t)
	w.write("bench/agents/registration.yaml", strings.Replace(agentRegistration, "wall_clock_seconds: 20", "wall_clock_seconds: 2", 1))
	w.write("bench/agents/dataset.jsonl", `{"id":"echo","input":"ping","expected":"ping","grade":{"kind":"exact"}}`+"\n")
	w.write("targets/sleeper.yaml", shTarget("sleep 600"))
	records, _ := w.run("agents", "--target", "sleeper")
	// It did run in a sandbox, though it left no result there.
	if r := records["echo"]; r == nil || r.Outcome != evidence.Truncated || r.Score != nil || r.AgentIsolation != "gvisor" {
		t.Errorf("record %+v", r)
	}
}
