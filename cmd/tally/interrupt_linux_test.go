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
)

// slowCheck costs three quarters of what a check may spend on its expression.
var slowCheck = strings.TrimSuffix(strings.Repeat(`!run.answer.matches('(.{0,12}){0,12}x') && `, 3), " && ")

// addSlow gives a workspace a class whose cases take long to grade, and a file to grade
// a trajectory with.
func (w *killedWorkspace) addSlow(cases int) {
	w.t.Helper()
	dir := filepath.Join(w.dir, "bench", "slow")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		w.t.Fatal(err)
	}
	var lines bytes.Buffer
	for i := range cases {
		fmt.Fprintf(&lines, `{"id":"case-%d","input":"?","model":[{"text":"%s"}],"grade":{"kind":"cel","at_turn":1,"expression":"%s"}}`+"\n", i, strings.Repeat("a", 100_000), slowCheck)
	}
	for name, data := range map[string]string{
		filepath.Join(dir, "registration.yaml"): strings.Replace(bulkRegistration, "class: bulk", "class: slow", 1), filepath.Join(dir, "dataset.jsonl"): lines.String(),
		filepath.Join(w.dir, "grading.yaml"): "version: 1\ngrade: {kind: cel, at_turn: 1, expression: \"" + slowCheck + "\"}\n",
	} {
		if err := os.WriteFile(name, []byte(data), 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
}

// waitForChild waits until a process has started another, which goes by its name alone,
// and gives that; 0 if it ended. Before it is that program it is a copy of its parent,
// which waits for it.
func waitForChild(t *testing.T, pid int) (child int) {
	t.Helper()
	for range 6000 {
		lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
		if err != nil || len(lists) == 0 {
			return 0
		}
		for _, list := range lists {
			data, _ := os.ReadFile(list)
			if n, _ := fmt.Sscan(string(data), &child); n != 1 {
				continue
			}
			if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child)); bytes.Count(line, []byte{0}) == 1 {
				return child
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	return 0
}

// patience is far more than a command takes to end, and less than the process of its own
// may take, after which the command would go on by itself.
const patience = 20 * time.Second

// TestASignalEndsWhatComputes stops each command that grades while an expression is
// evaluated, in a process that is made to stand still: a command that waits for its answer
// does not end. It says that it was interrupted, with grading left undone, and what it did
// before can be gone on with.
func TestASignalEndsWhatComputes(t *testing.T) {
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d/children", os.Getpid(), os.Getpid())); err != nil {
		t.Skip("this kernel does not tell the children of a process")
	}
	const cases = 4
	w := newKilledWorkspace(t)
	w.addSlow(cases)
	at := func(args ...string) *exec.Cmd { return w.command(append([]string{"--workspace", w.dir}, args...)...) }
	stop := func(signal os.Signal, args ...string) {
		t.Helper()
		cmd := at(append(args, "--json")...)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, patience
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		child := waitForChild(t, cmd.Process.Pid)
		began := child > 0 && syscall.Kill(child, syscall.SIGSTOP) == nil
		cmd.Process.Signal(signal)
		signalled := time.Now()
		hangs := time.AfterFunc(patience, func() {
			t.Errorf("%s waits for an answer after a signal", args[0])
			cmd.Process.Kill()
		})
		err := cmd.Wait()
		hangs.Stop()
		if child > 0 {
			syscall.Kill(child, syscall.SIGKILL)
		}
		t.Logf("%s: ended %v after %v", args[0], time.Since(signalled).Round(time.Millisecond), signal)
		if !began || err == nil || !strings.Contains(out.String(), `"name":"Interrupted"`) {
			t.Errorf("%s: began to evaluate: %v, %v\n%.1000s", strings.Join(args, " "), began, err, &out)
		}
	}
	stop(syscall.SIGTERM, "run", "slow")
	stop(os.Interrupt, "run", "slow", "--resume")
	if out, err := at("run", "slow", "--resume").CombinedOutput(); err != nil {
		t.Fatalf("it cannot be gone on with: %v\n%.1000s", err, out)
	}
	stop(syscall.SIGTERM, "rescore", "slow.default.1", "--reason", "to see it stop")
	stop(syscall.SIGTERM, "grade", "slow.default.1:case-0", "--with", filepath.Join(w.dir, "grading.yaml"))
	if out, err := at("ledger", "verify", "--strict").CombinedOutput(); err != nil {
		t.Errorf("the ledger does not verify: %v\n%s", err, out)
	}
	for _, args := range [][]string{{"gate", "slow.default.1"}, {"scorecard", "slow.default.1"}, {"why", "slow.default.1:case-0"}, {"verify", "--recompute"}} {
		if out, err := at(args...).CombinedOutput(); err != nil && args[0] != "gate" {
			t.Errorf("%v: %v\n%.600s", args, err, out)
		}
	}
}

// TestASignalEndsWhatDoesNotListen stops a command that waits for its input: it is ended
// after a moment, with the words of one that was asked to stop.
func TestASignalEndsWhatDoesNotListen(t *testing.T) {
	w := newKilledWorkspace(t)
	for _, signal := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		cmd := w.command("--workspace", w.dir, "attest", "verify", "-", "--json")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// More than a pipe holds: once it is written, the command reads.
		if _, err := in.Write(bytes.Repeat([]byte(" "), 256<<10)); err != nil {
			t.Fatal(err)
		}
		cmd.Process.Signal(signal)
		hangs := time.AfterFunc(patience, func() {
			t.Errorf("after %v it goes on waiting", signal)
			cmd.Process.Kill()
		})
		err = cmd.Wait()
		hangs.Stop()
		in.Close()
		if err == nil || !strings.Contains(out.String(), `"name":"Interrupted"`) {
			t.Errorf("%v: %v\n%.600s", signal, err, &out)
		}
	}
}
