package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	told "tallystick/internal/read/answer"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
	"tallystick/internal/record/workspace"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/journal"
	"tallystick/internal/testing/fakemodel"
)

// A paidWorkspace has a class whose cases have four turns and a judge, and a
// provider of models on this machine that counts its calls.
type paidWorkspace struct {
	*killedWorkspace
	server *fakemodel.Server

	more chan struct{} // a call came
}

const paidVotes = 3

func newPaidWorkspace(t *testing.T, cases int) *paidWorkspace {
	t.Helper()
	w := &paidWorkspace{killedWorkspace: newKilledWorkspace(t), more: make(chan struct{}, 1<<16)}
	w.server = fakemodel.Answer(t, func(r fakemodel.Request) fakemodel.Reply {
		w.more <- struct{}{}
		time.Sleep(2 * time.Millisecond)
		if strings.Contains(string(r.Body), "judge-1") {
			return fakemodel.Reply{Text: `{"score":0.75,"passed":true,"reason":"It counts."}`}
		}
		return fakemodel.Reply{Text: fmt.Sprintf("turn %d", strings.Count(string(r.Body), `"user"`))}
	})
	var lines bytes.Buffer
	for i := range cases {
		fmt.Fprintf(&lines, `{"id":"case-%03d","turns":[{"text":"Count for %d."},{"text":"On."},{"text":"On."},{"text":"On."}],"expected":"turn 4","checks":[{"name":"exact","grade":{"kind":"exact"}},{"name":"judge","grade":{"kind":"judge","criteria":"It counts.","votes":%d}}]}`+"\n", i, i, paidVotes)
	}
	for name, text := range map[string]string{
		"bench/paid/registration.yaml": strings.ReplaceAll(bulkRegistration, "class: bulk", "class: paid"),
		"bench/paid/dataset.jsonl":     lines.String(),
		"targets/default.yaml":         "version: 1\nkind: builtin\nbuiltin: {model: fake-1, api: openai.chat, max_output_tokens: 100, retries: 0}\n",
		"judge.yaml":                   "version: 1\nmodel: judge-1\napi: openai.chat\ntemperature: 0\nmax_output_tokens: 200\n",
		"providers.yaml":               "version: 1\nopenai:\n  base_url: " + w.server.OpenAI() + "\n  prices:\n    fake-1: {input: 1000000, output: 4000000}\n    judge-1: {input: 1000000, output: 4000000}\n",
	} {
		file := filepath.Join(w.dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// paidScore is what of a record may not depend on how often the run was killed.
type paidScore struct {
	Outcome   evidence.Outcome
	Score     float64
	Cost      int64
	Tokens    int64
	Turns     int
	Execution int
}

// A paidBooks is what the ledger has of a live attempt.
type paidBooks struct {
	scores   map[string]paidScore
	finished *evidence.Paid
	resumed  int // records of executions that were resumed
}

func (w *paidWorkspace) books(attempt string) paidBooks {
	w.t.Helper()
	ws, err := workspace.Load(w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	b := paidBooks{scores: map[string]paidScore{}}
	place := sequencer.Place{FS: store.OS{}, Dir: ws.LedgerDir(), StateDir: w.state}
	_, err = place.Verify(ledger.Options{Origin: ws.Settings.Origin, TrustRoot: ws.Settings.TrustRoot, Decode: true, Visit: func(r ledger.Record) error {
		switch x := r.Body.(type) {
		case *evidence.CaseScored:
			if x.Attempt != attempt {
				return nil
			}
			s := paidScore{x.Outcome, -1, x.CostMicroUSD, x.Tokens, x.Turns, x.Execution}
			if x.Score != nil {
				s.Score = x.Score.Score
			}
			b.scores[x.CaseID] = s
			if x.Resumed > 0 {
				b.resumed++
			}
		case *evidence.AttemptFinished:
			if x.Attempt == attempt {
				b.finished = x.Paid
			}
		}
		return nil
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// journal reads the lines of an attempt's journal.
func (w *paidWorkspace) journal(attempt string) []journal.Line {
	w.t.Helper()
	return w.journalIn("runs", attempt)
}

// journalIn reads the lines of the journal in a private folder.
func (w *paidWorkspace) journalIn(folder ...string) []journal.Line {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(w.dir, ".tally", filepath.Join(folder...), journal.File))
	if err != nil {
		w.t.Fatal(err)
	}
	var lines []journal.Line
	for line := range bytes.Lines(data) {
		var l journal.Line
		if err := json.Unmarshal(line, &l); err != nil {
			w.t.Fatal(err)
		}
		lines = append(lines, l)
	}
	return lines
}

// keyOf is the key of a request, as the journal has it.
func keyOf(t *testing.T, r fakemodel.Request) digest.ID {
	t.Helper()
	q, err := cassette.ModelRequest(r.API, r.Body, nil)
	if err != nil {
		t.Fatal(err)
	}
	return q.Key
}

// liveRun starts a live run, and kills it after so many calls and a while if
// calls is not negative. It reports whether it came to its end.
func (w *paidWorkspace) liveRun(calls int, wait time.Duration, args ...string) (done bool) {
	w.t.Helper()
	cmd := w.command(append([]string{"--workspace", w.dir, "run", "paid", "--live", "--max-cost", "5", "--jobs", "4", "--json"}, args...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	return w.kill(cmd, &out, calls, wait)
}

// kill starts a command that pays, and kills it as liveRun does.
func (w *paidWorkspace) kill(cmd *exec.Cmd, out *bytes.Buffer, calls int, wait time.Duration) (done bool) {
	w.t.Helper()
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var err error
	for n := 0; n < calls; n++ {
		select {
		case <-w.more:
			continue
		case err = <-ended:
			ended <- err
		}
		break
	}
	if calls >= 0 {
		time.Sleep(wait)
		cmd.Process.Signal(syscall.SIGKILL)
	}
	err = <-ended
	for len(w.more) > 0 {
		<-w.more
	}
	w.repairIfTorn()
	if cmd.ProcessState.ExitCode() == refusal.ExitGate {
		return true // it came to its end, and a case ended as an error
	}
	if err != nil && (calls < 0 || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL) {
		w.t.Fatalf("%v: %v\n%s", cmd.Args, err, out.Bytes())
	}
	return err == nil
}

// TestKilledLiveRunLosesNothingThatWasPaid kills a live run again and again, and
// resumes it. Every call that the provider counted must be in the books, as paid
// or as sent with an outcome that is not known; no call that was answered may be
// made again; and the scores must be those of a run that was not killed.
// TALLY_JOURNAL_KILLS says how often; .ci/conformance does it fifty times.
func TestKilledLiveRunLosesNothingThatWasPaid(t *testing.T) {
	t.Parallel()
	kills, seed := 8, uint64(13)
	if n, err := strconv.Atoi(os.Getenv("TALLY_JOURNAL_KILLS")); err == nil {
		kills = n
	}
	cases := 2 + kills*3/2
	w := newPaidWorkspace(t, cases)
	random := rand.New(rand.NewPCG(seed, 1))
	killed := 0
	for ; killed < kills; killed++ {
		args := []string{}
		if killed > 0 {
			args = append(args, "--resume")
		}
		// The first is killed after its first call: before it is registered there
		// would be nothing to resume.
		if w.liveRun(1+random.IntN(10), time.Duration(random.IntN(6000))*time.Microsecond, args...) {
			break
		}
	}
	if killed < kills {
		t.Fatalf("the run came to its end after %d kills", killed)
	}
	w.checkLogTellsWhatWasPaid()
	w.liveRun(-1, 0, "--resume")
	counted := len(w.server.Requests())

	const attempt = "paid.default.1"
	got := w.books(attempt)
	w.checkEveryCallIsThere(attempt, got)
	if want := cases * (4 + paidVotes); got.finished.Calls != want {
		t.Errorf("%d calls were paid, a run without a kill pays %d", got.finished.Calls, want)
	}
	w.checkLibraryHasEach(cases * (4 + paidVotes))
	if got.resumed == 0 {
		t.Error("no execution was resumed, so nothing was tested")
	}
	if out, err := w.command("--workspace", w.dir, "ledger", "verify", "--strict").CombinedOutput(); err != nil {
		t.Errorf("the ledger does not verify: %v\n%s", err, out)
	}

	if out, err := w.command("--workspace", w.dir, "verify", "--recompute").CombinedOutput(); err != nil {
		t.Errorf("counted again it differs: %v\n%s", err, out)
	}
	w.checkForgedJournalIsFound(attempt)

	w.liveRun(-1, 0)
	want := w.books("paid.default.2")
	for id, s := range got.scores {
		s.Execution = 1 // of a case that was killed before its first call it is 2
		got.scores[id] = s
	}
	if diff := cmp.Diff(want.scores, got.scores); diff != "" {
		t.Errorf("the scores differ (-undisturbed +killed):\n%s", diff)
	}
	t.Logf("%d kills: the provider counted %d calls; the books have %d paid, %d unknown; %d records were resumed", killed, counted, got.finished.Calls, got.finished.Unknown, got.resumed)
}

// checkLogTellsWhatWasPaid asks for an attempt that has not ended.
func (w *paidWorkspace) checkLogTellsWhatWasPaid() {
	w.t.Helper()
	replies := 0
	for _, l := range w.journal("paid.default.1") {
		if l.Kind == journal.Reply {
			replies++
		}
	}
	var said struct{ Attempts []told.Logged }
	out, err := w.command("--workspace", w.dir, "log", "--json").Output()
	if err == nil {
		err = json.Unmarshal(out, &said)
	}
	if err != nil || len(said.Attempts) != 1 {
		w.t.Fatalf("tally log: %v\n%s", err, out)
	}
	if a := said.Attempts[0]; a.Finished || a.Paid == nil || a.Paid.Calls != replies || a.Paid.CostUSD == 0 {
		w.t.Errorf("the journal has %d replies, and tally log says %+v", replies, a.Paid)
	}
}

// checkLibraryHasEach says that each reply is one draw of the ledger and one file,
// however often the run was killed.
func (w *paidWorkspace) checkLibraryHasEach(want int) {
	w.t.Helper()
	files, err := filepath.Glob(filepath.Join(w.dir, "cassettes", "replies", "*", "*.json"))
	if err != nil {
		w.t.Fatal(err)
	}
	segments, err := filepath.Glob(filepath.Join(w.dir, ".tally", "ledger", "segments", "*"))
	if err != nil {
		w.t.Fatal(err)
	}
	draws := 0
	for _, name := range segments {
		data, err := os.ReadFile(name)
		if err != nil {
			w.t.Fatal(err)
		}
		draws += bytes.Count(data, []byte(`"kind":"reply.drawn"`))
	}
	if len(files) != want || draws != want {
		w.t.Errorf("the library has %d replies of %d draws, want %d of each", len(files), draws, want)
	}
}

// checkForgedJournalIsFound makes a call cheaper in the journal of a finished
// attempt, and cuts its last line off.
func (w *paidWorkspace) checkForgedJournalIsFound(attempt string) {
	w.t.Helper()
	file := filepath.Join(w.dir, ".tally", "runs", attempt, journal.File)
	good, err := os.ReadFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	for name, forged := range map[string][]byte{
		"cheaper": bytes.Replace(good, []byte(`"cost_microdollars":30`), []byte(`"cost_microdollars":29`), 1),
		"cut off": good[:bytes.LastIndexByte(good[:len(good)-1], '\n')+1],
	} {
		if err := os.WriteFile(file, forged, 0o600); err != nil {
			w.t.Fatal(err)
		}
		out, err := w.command("--workspace", w.dir, "verify", "--recompute").CombinedOutput()
		if err == nil || !bytes.Contains(out, []byte("paid")) {
			w.t.Errorf("a journal that is %s: %v\n%s", name, err, out)
		}
	}
	if err := os.WriteFile(file, good, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// checkEveryCallIsThere holds the journal and the ledger against what the provider
// counted.
func (w *paidWorkspace) checkEveryCallIsThere(attempt string, b paidBooks) {
	w.t.Helper()
	calls, unknown := w.checkJournal(w.journal(attempt), w.server.Requests())
	p := b.finished
	if p == nil || p.Calls != calls || p.Unknown != unknown || p.Calls+p.Unknown < len(w.server.Requests()) || p.Calls > len(w.server.Requests()) {
		w.t.Errorf("the books have %+v; the journal %d answered and %d unknown, the provider %d", p, calls, unknown, len(w.server.Requests()))
	}
	if p != nil && p.CostMicroUSD != int64(calls)*30 {
		w.t.Errorf("the books have a cost of %d for %d calls of 30 micro-dollars", p.CostMicroUSD, calls)
	}
}

// checkJournal holds a journal against what the provider counted, and says how many
// calls were answered and of how many it is not known.
func (w *paidWorkspace) checkJournal(lines []journal.Line, requests []fakemodel.Request) (calls, unknown int) {
	w.t.Helper()
	served, intents, replies := map[digest.ID]int{}, map[digest.ID]int{}, map[digest.ID]int{}
	for _, r := range requests {
		served[keyOf(w.t, r)]++
	}
	of := map[int]journal.Line{}
	for _, l := range lines {
		switch l.Kind {
		case journal.Intent:
			of[l.Line] = l
			intents[*l.Request]++
			unknown++
			votes := 1
			if l.Pays == journal.Judge {
				votes = paidVotes
			}
			if replies[*l.Request] >= votes {
				w.t.Errorf("line %d: the call %s was answered and is paid again", l.Line, l.Request)
			}
		case journal.Reply:
			replies[*of[l.Intent].Request]++
			calls++
			unknown--
		case journal.Failed:
			w.t.Errorf("line %d: %s %s", l.Line, l.Outcome, l.Reason)
		}
	}
	for key, n := range served {
		if n > intents[key] {
			w.t.Errorf("the provider counted %d calls of %s, the journal has %d", n, key, intents[key])
		}
	}
	if calls+unknown < len(requests) || calls > len(requests) {
		w.t.Errorf("the journal has %d answered and %d unknown, the provider %d", calls, unknown, len(requests))
	}
	return calls, unknown
}
