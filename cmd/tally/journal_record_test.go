//go:build linux

package main

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"tallystick/internal/testing/terminal"
)

// atTerminal is the command that records, at a terminal whose person agrees.
func (w *paidWorkspace) atTerminal() (cmd *exec.Cmd, screen *bytes.Buffer) {
	w.t.Helper()
	person, program := terminal.Open(w.t, 40, 200)
	cmd = w.command("--workspace", w.dir, "record", "paid", "--unsafe-record", "--max-cost", "5", "--jobs", "4")
	cmd.Env = append(cmd.Environ(), "CI=") // recording is refused where CI says so
	screen = &bytes.Buffer{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, screen, program
	io.WriteString(person, "record\n")
	go io.Copy(io.Discard, person) // or the program would wait for somebody to read
	return cmd, screen
}

// record starts a recording, and kills it as liveRun does.
func (w *paidWorkspace) record(calls int, wait time.Duration) (done bool) {
	w.t.Helper()
	cmd, screen := w.atTerminal()
	return w.kill(cmd, screen, calls, wait)
}

// TestKilledRecordingLosesNothingThatWasPaid is the same for "tally record", which
// the same command resumes: every call is in the journal, none that was answered is
// made again, and the recordings are whole.
func TestKilledRecordingLosesNothingThatWasPaid(t *testing.T) {
	t.Parallel()
	kills := 6
	if n, err := strconv.Atoi(os.Getenv("TALLY_JOURNAL_KILLS")); err == nil {
		kills = n
	}
	cases := 2 + kills
	w := newPaidWorkspace(t, cases)
	random := rand.New(rand.NewPCG(14, 1))
	for killed := range kills {
		if w.record(1+random.IntN(8), time.Duration(random.IntN(6000))*time.Microsecond) {
			t.Fatalf("the recording came to its end after %d kills", killed)
		}
	}
	w.record(-1, 0)
	counted := w.server.Requests()
	calls, unknown := w.checkJournal(w.journalIn("recordings", "paid", "default", "1"), counted)
	if want := cases * (4 + paidVotes); calls != want {
		t.Errorf("%d calls were paid, a recording that nobody kills pays %d", calls, want)
	}
	// Everything replays from what was recorded, without a provider.
	if out, err := w.command("--workspace", w.dir, "run", "paid", "--json").CombinedOutput(); err != nil {
		t.Errorf("replaying the recordings: %v\n%s", err, out)
	}
	if n := len(w.server.Requests()); n != len(counted) {
		t.Errorf("%d more calls were made by a replay", n-len(counted))
	}
	// That recording is over: the next one would pay again, so it needs a word.
	cmd, _ := w.atTerminal()
	if err := cmd.Run(); err == nil || len(w.server.Requests()) != len(counted) {
		t.Errorf("recording again: %v, %d calls", err, len(w.server.Requests())-len(counted))
	}
	t.Logf("%d kills of a recording: the provider counted %d calls; the journal has %d paid, %d unknown", kills, len(counted), calls, unknown)
}
