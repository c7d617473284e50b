package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
	"tallystick/internal/record/workspace"
)

const bulkRegistration = `version: 1
class: bulk
trust: scratch
current_tier: bronze
limits: {wall_clock_seconds: 60, memory_bytes: 1073741824, turns: 20, tokens: 100000, cost_microdollars: 1000000}
governance: restricted
isolation: {classes: [gvisor], scope: case, allow_weaker: false}
judged_scores_count: false
`

// addBulk gives a workspace a class of n cases that need no sandbox.
func (w *killedWorkspace) addBulk(n int) {
	w.t.Helper()
	dir := filepath.Join(w.dir, "bench", "bulk")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		w.t.Fatal(err)
	}
	var lines bytes.Buffer
	for i := range n {
		fmt.Fprintf(&lines, `{"id":"case-%05d","input":"What is %d plus %d?","model":[{"text":"%d"}],"expected":"%d","grade":{"kind":"exact"}}`+"\n", i, i, i, 2*i, 2*i)
	}
	for name, data := range map[string][]byte{"registration.yaml": []byte(bulkRegistration), "dataset.jsonl": lines.Bytes()} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
}

// TestKilledAttemptIsResumed kills the real program with SIGKILL, again and
// again, in the middle of an attempt of 1,000 cases, and resumes it. In the end
// the ledger must prove each case exactly once, and must tell how often each
// was begun.
func TestKilledAttemptIsResumed(t *testing.T) {
	t.Parallel()
	const cases = 1000
	w := newKilledWorkspace(t)
	w.addBulk(cases)
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	kills := 0
	for round := 0; ; round++ {
		args := []string{"--workspace", w.dir, "run", "bulk", "--json", "--jobs", "8"}
		if round > 0 {
			args = append(args, "--resume")
		}
		cmd := w.command(args...)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if round < 6 {
			// Not before the attempt is registered: then there would be nothing
			// to resume.
			w.waitForAttempt(cmd.Process.Pid)
			time.Sleep(time.Duration(random.IntN(120)) * time.Millisecond)
			cmd.Process.Signal(syscall.SIGKILL)
		}
		err := cmd.Wait()
		w.repairIfTorn()
		if err == nil {
			var answer struct{ Total, Passed int }
			if err := json.Unmarshal(stdout.Bytes(), &answer); err != nil || answer.Total != cases || answer.Passed != cases {
				t.Fatalf("in the end: %s (%v)", stdout.Bytes(), err)
			}
			break
		}
		if cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("round %d: %v\n%s", round, err, stderr.Bytes())
		}
		kills++
	}
	t.Logf("killed %d times", kills)
	w.checkEachCaseOnce(cases)
	if out, err := w.command("--workspace", w.dir, "ledger", "verify", "--strict").CombinedOutput(); err != nil {
		t.Errorf("the ledger does not verify: %v\n%s", err, out)
	}
}

// waitForAttempt waits until a run has made its folder, or has ended.
func (w *killedWorkspace) waitForAttempt(pid int) {
	for range 3000 {
		if _, err := os.Stat(filepath.Join(w.dir, ".tally", "runs", "bulk.default.1", "events.jsonl")); err == nil {
			if n := w.entries(); n > 8 || syscall.Kill(pid, 0) != nil {
				return
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	w.t.Fatal("the run never began")
}

// entries counts the lines of the ledger as they lie on disk.
func (w *killedWorkspace) entries() int {
	files, _ := filepath.Glob(filepath.Join(w.dir, ".tally", "ledger", "segments", "*"))
	n := 0
	for _, f := range files {
		data, _ := os.ReadFile(f)
		n += bytes.Count(data, []byte("\n"))
	}
	return n
}

func (w *killedWorkspace) checkEachCaseOnce(cases int) {
	w.t.Helper()
	ws, err := workspace.Load(w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	place := sequencer.Place{FS: store.OS{}, Dir: ws.LedgerDir(), StateDir: w.state}
	scored, started, registered, finished := map[string]int{}, map[string]int{}, 0, 0
	_, err = place.Verify(ledger.Options{Origin: ws.Settings.Origin, TrustRoot: ws.Settings.TrustRoot, Decode: true, Visit: func(r ledger.Record) error {
		switch b := r.Body.(type) {
		case *evidence.AttemptRegistered:
			registered++
		case *evidence.AttemptFinished:
			finished++
		case *evidence.CaseStarted:
			started[b.CaseID]++
			if b.Execution != started[b.CaseID] {
				w.t.Errorf("case %s: start %d says execution %d", b.CaseID, started[b.CaseID], b.Execution)
			}
		case *evidence.CaseScored:
			scored[b.CaseID]++
		}
		return nil
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	if registered != 1 || finished != 1 || len(scored) != cases {
		w.t.Errorf("%d attempts registered, %d finished, %d of %d cases scored", registered, finished, len(scored), cases)
	}
	for id, n := range scored {
		if n != 1 {
			w.t.Errorf("case %s was scored %d times", id, n)
		}
	}
	again := 0
	for _, n := range started {
		again += n - 1
	}
	w.t.Logf("%d cases were begun more than once", again)
}

// A replay needs no network: it is run in a network namespace without so much
// as a loopback address.
func TestReplayRunsWithoutANetwork(t *testing.T) {
	w := newKilledWorkspace(t)
	w.addBulk(20)
	cmd := w.command("--workspace", w.dir, "run", "bulk", "--json")
	cmd.SysProcAttr = withoutNetwork()
	out, err := cmd.Output()
	if cmd.ProcessState == nil {
		t.Skipf("this machine gives no network namespace to an ordinary user: %v", err)
	}
	var answer struct{ Passed int }
	if err != nil || json.Unmarshal(out, &answer) != nil || answer.Passed != 20 {
		t.Errorf("%s %v", out, err)
	}
}

// TestEventsOfAKilledAttemptCannotBeChanged kills the real program in the middle of an
// attempt. What its list of events was when the last case began is in the ledger:
// a change of it before the attempt is resumed is found out, before and after.
func TestEventsOfAKilledAttemptCannotBeChanged(t *testing.T) {
	t.Parallel()
	w := newKilledWorkspace(t)
	w.addBulk(300)
	cmd := w.command("--workspace", w.dir, "run", "bulk", "--jobs", "2")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.waitForAttempt(cmd.Process.Pid)
	cmd.Process.Signal(syscall.SIGKILL)
	if cmd.Wait() == nil {
		t.Skip("the run was faster than the signal")
	}
	w.repairIfTorn()
	list := filepath.Join(w.dir, ".tally", "runs", "bulk.default.1", "events.jsonl")
	honest, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	strict := func() string {
		out, _ := w.command("--workspace", w.dir, "ledger", "verify", "--strict").CombinedOutput()
		return string(out)
	}
	if out := strict(); !strings.Contains(out, "registered and never finished") || strings.Contains(out, "events:") {
		t.Errorf("after the kill: %s", out)
	}
	first, rest, _ := bytes.Cut(honest, []byte("\n"))
	for name, forged := range map[string][]byte{
		"a line is edited":  append(bytes.Replace(first, []byte(`"info"`), []byte(`"warn"`), 1), honest[len(first):]...),
		"a line is taken":   rest,
		"nothing is left":   nil,
		"a line is added":   append([]byte("{}\n"), honest...),
		"the end is cut":    first,
		"the list is blank": bytes.Repeat([]byte("\n"), bytes.Count(honest, []byte("\n"))),
	} {
		if err := os.WriteFile(list, forged, 0o600); err != nil {
			t.Fatal(err)
		}
		if out := strict(); !strings.Contains(out, "are not those that were there when a case began") {
			t.Errorf("%s: %s", name, out)
		}
	}
	if err := os.Remove(list); err != nil {
		t.Fatal(err)
	}
	if out := strict(); !strings.Contains(out, "events.jsonl is gone") {
		t.Errorf("the list is gone: %s", out)
	}
	// Resumed over an edited list, the end seals what is there; the beginning does not.
	if err := os.WriteFile(list, append([]byte("{}\n"), honest...), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := w.command("--workspace", w.dir, "run", "bulk", "--resume", "--quiet").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out := strict(); !strings.Contains(out, "are not those that were there when a case began") {
		t.Errorf("resumed over a changed list: %s", out)
	}
}
