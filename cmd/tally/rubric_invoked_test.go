package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tallystick/internal/run/bench"
)

// TestARubricIsAnnouncedBeforeItRuns kills the real program with SIGKILL while a
// rubric runs, in every command that runs one. That it was started must be on
// disk: a rubric that takes the program down with it is the one that must be
// found.
func TestARubricIsAnnouncedBeforeItRuns(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip("needs ssh-keygen")
	}
	a := newAgentWorkspace(t)
	w := &killedWorkspace{t: t, dir: a.dir, state: a.state, program: a.tally}
	for name, text := range map[string]string{
		"registration.yaml":     bulkRegistration,
		"rubric.star":           "def score(harness_output, expected, case_metadata):\n    for i in range(1 << 60):\n        pass\n",
		"cases/a/case.yaml":     string(bench.NewCase("a", "A", nil, nil, time.Now()).YAML()) + "rubric_limits: {wall_clock_seconds: 4, memory_bytes: 268435456}\n",
		"cases/a/scenario.yaml": "version: 1\nturns: [{text: \"Say hello.\"}]\nmodel: [{text: hello}]\n",
		"cases/a/input/a.txt":   "a\n",
	} {
		w.writeBulk(name, text)
	}
	// The rubric ends at its limit, so the attempt ends as failed.
	if out, _ := w.command("--workspace", w.dir, "run", "bulk").CombinedOutput(); !bytes.Contains(out, []byte("rubric.timeout")) {
		t.Fatalf("the rubric was not stopped:\n%s", out)
	}
	rita := w.addOperator("rita")

	runs := filepath.Join(w.dir, ".tally", "runs")
	own := filepath.Join(w.dir, ".tally", "events.jsonl")
	w.killInRubric(filepath.Join(runs, "bulk.default.1.again-*", "events.jsonl"), "TALLY_OPERATOR_KEY="+rita, "reproduce", "bulk.default.1")
	for _, args := range [][]string{{"rescore", "bulk.default.1", "--dry-run"}, {"golden", "check", "bulk"}, {"golden", "update", "bulk"}} {
		w.killInRubric(own, "X=", args...)
		if err := os.Remove(own); err != nil {
			t.Error(err)
		}
	}
	w.killInRubric(filepath.Join(runs, "bulk.default.2", "events.jsonl"), "X=", "run", "bulk")
}

func (w *killedWorkspace) must(args ...string) {
	w.t.Helper()
	if out, err := w.command(append([]string{"--workspace", w.dir}, args...)...).CombinedOutput(); err != nil {
		w.t.Fatalf("tally %v: %v\n%s", args, err, out)
	}
}

func (w *killedWorkspace) writeBulk(name, text string) {
	w.t.Helper()
	file := filepath.Join(w.dir, "bench", "bulk", name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// addOperator appoints one more operator and returns the key's file.
func (w *killedWorkspace) addOperator(name string) string {
	w.t.Helper()
	key := filepath.Join(w.t.TempDir(), name)
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key).CombinedOutput(); err != nil {
		w.t.Fatalf("%v\n%s", err, out)
	}
	w.must("signers", "next")
	signers := filepath.Join(w.dir, "signers", "allowed_signers")
	before, err := os.ReadFile(signers)
	if err != nil {
		w.t.Fatal(err)
	}
	pub, err := os.ReadFile(key + ".pub")
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(signers, fmt.Appendf(before, "%s@example.com %s roles=operator\n", name, strings.TrimSpace(string(pub))), 0o644); err != nil {
		w.t.Fatal(err)
	}
	for _, who := range []string{"example-alice", "example-bob"} {
		w.must("signers", "sign", "--key", filepath.Join(w.dir, ".tally", "keys", who))
	}
	w.must("signers", "apply")
	return key
}

// killInRubric starts a command, waits until the list of events says that a
// rubric was invoked, and kills it. The list must not say more by then.
func (w *killedWorkspace) killInRubric(list, env string, args ...string) {
	w.t.Helper()
	cmd := w.command(append([]string{"--workspace", w.dir}, args...)...)
	cmd.Env = append(cmd.Env, env)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	found := waitForText(list, "rubric.invoked")
	cmd.Process.Signal(syscall.SIGKILL)
	cmd.Wait()
	if !strings.Contains(found, "rubric.invoked") || strings.Contains(found, "rubric.completed") || strings.Contains(found, "rubric.killed_timeout") {
		w.t.Errorf("tally %v: while the rubric ran, its list of events held %q\n%s", args, found, out.Bytes())
	}
}

// waitForText reads files until one holds a text, for at most a minute.
func waitForText(pattern, text string) (found string) {
	for range 6000 {
		names, _ := filepath.Glob(pattern)
		for _, name := range names {
			data, _ := os.ReadFile(name)
			if found = string(data); strings.Contains(found, text) {
				return found
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	return found
}
