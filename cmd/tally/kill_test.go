package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
)

// killRounds is how often a writer is killed: enough to hit starting, writing
// and answering, and to tear a tail now and then.
const killRounds = 20

// TestKilledWriterLosesNothingItAcknowledged kills the real program at random
// while it appends, and requires after each time that the ledger verifies and
// that every entry whose answer was read is in its place.
func TestKilledWriterLosesNothingItAcknowledged(t *testing.T) {
	t.Parallel()
	tally := newKilledWorkspace(t)
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)

	acked := make(map[int64]digest.ID)
	var torn, unanswered, idle int
	for round := range killRounds {
		before := len(acked)
		// By turns at any time, and in the middle of its answers.
		delay, answers := time.Minute, random.IntN(bodies)
		if round%2 == 0 {
			delay, answers = time.Duration(random.IntN(150))*time.Millisecond, bodies
		}
		tally.killWhileAppending(round, delay, answers, acked)
		if len(acked) == before {
			idle++
		}
		if tally.repairIfTorn() {
			torn++
		}
		unanswered = tally.check(acked)
	}
	t.Logf("%d writers killed: %d entries acknowledged, all there; %d more on disk without an answer; %d torn tails repaired; %d killed before their first answer",
		killRounds, len(acked), unanswered, torn, idle)
	if len(acked) == 0 {
		t.Error("nothing was ever acknowledged, so nothing was tested")
	}
	// The next writer goes on as if nothing had been.
	tally.killWhileAppending(killRounds, time.Minute, bodies+1, acked)
	tally.check(acked)
}

// A killedWorkspace runs tally in a workspace with a memory of its own.
type killedWorkspace struct {
	program string // "" for the one on the PATH
	t       *testing.T
	dir     string
	state   string
}

func newKilledWorkspace(t *testing.T) *killedWorkspace {
	w := &killedWorkspace{t: t, dir: filepath.Join(t.TempDir(), "ws"), state: t.TempDir()}
	if out, err := w.command("init", w.dir).CombinedOutput(); err != nil {
		t.Fatalf("tally init: %v\n%s", err, out)
	}
	return w
}

// command runs the program that TestMain put on the PATH, or another one.
func (w *killedWorkspace) command(args ...string) *exec.Cmd {
	cmd := exec.Command(cmp.Or(w.program, "tally"), args...)
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+w.state)
	return cmd
}

// bodies is how many a writer is fed if it lives that long.
const bodies = 250

// killWhileAppending starts a writer, feeds it without pause, kills it after
// the delay or that many answers, and adds what it answered to acked.
func (w *killedWorkspace) killWhileAppending(round int, delay time.Duration, answers int, acked map[int64]digest.ID) {
	w.t.Helper()
	cmd := w.command("ledger", "append", "--kind", "note", "--json", "--workspace", w.dir)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		defer stdin.Close()
		for n := range bodies {
			if _, err := fmt.Fprintf(stdin, `{"round":%d,"n":%d,"pad":%q}`+"\n", round, n, strings.Repeat("x", n%700)); err != nil {
				return // it is dead
			}
		}
	}()
	timer := time.AfterFunc(delay, func() { cmd.Process.Kill() })
	defer timer.Stop()

	lines := bufio.NewReader(stdout)
	for n := 0; ; n++ {
		if n == answers {
			cmd.Process.Kill()
		}
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			break // half a line is no answer
		}
		if err != nil {
			w.t.Fatal(err)
		}
		var a struct {
			Index int64     `json:"index"`
			Head  digest.ID `json:"head"`
		}
		if err := json.Unmarshal(line, &a); err != nil {
			w.t.Fatalf("round %d: answer %q: %v", round, line, err)
		}
		if old, twice := acked[a.Index]; twice {
			w.t.Fatalf("round %d: entry %d was given twice: %s and %s", round, a.Index, old, a.Head)
		}
		acked[a.Index] = a.Head
	}
	cmd.Wait() // killed, or done before it could be
}

// repairIfTorn repairs the ledger if verification says that it is torn.
func (w *killedWorkspace) repairIfTorn() bool {
	w.t.Helper()
	out, err := w.command("ledger", "verify", "--json", "--workspace", w.dir).CombinedOutput()
	if err != nil {
		w.t.Fatalf("tally ledger verify: %v\n%s", err, out)
	}
	var report struct {
		OK    bool     `json:"ok"`
		Notes []string `json:"notes"`
	}
	if err := json.Unmarshal(out, &report); err != nil || !report.OK {
		w.t.Fatalf("tally ledger verify: %v\n%s", err, out)
	}
	if len(report.Notes) == 0 {
		return false
	}
	if out, err := w.command("ledger", "repair", "--workspace", w.dir).CombinedOutput(); err != nil {
		w.t.Fatalf("tally ledger repair after %q: %v\n%s", report.Notes, err, out)
	}
	return true
}

// check requires that every acknowledged entry is in the verified ledger, and
// returns how many others are.
func (w *killedWorkspace) check(acked map[int64]digest.ID) int {
	w.t.Helper()
	heads := make(map[int64]digest.ID)
	place := sequencer.Place{FS: store.OS{}, Dir: filepath.Join(w.dir, ".tally", "ledger")}
	_, err := place.Verify(ledger.Options{UnsafeAnyRoot: true, Decode: true, Visit: func(r ledger.Record) error {
		heads[r.Index] = r.Head
		return nil
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	for index, head := range acked {
		if heads[index] != head {
			w.t.Fatalf("entry %d was acknowledged as %s and is %s", index, head, heads[index])
		}
	}
	return len(heads) - len(acked) - 1 // the first entry is init's
}
