package lab

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/journal"
	"tallystick/internal/testing/fakemodel"
)

// A till is a workspace with a case of two turns, in whose first the model pays
// a bill, which needs an approval; and a provider that may be cut off.
type till struct {
	*place
	server *fakemodel.Server
	cutAt  atomic.Int64 // the call at which the run is interrupted
	cut    context.CancelFunc
	down   string // the case whose calls fail
}

const bill = `{"id":%q,"turns":[{"text":"Pay the bill %s."},{"text":"And now?"}],"tools":[{"name":"pay","class":"financial","replies":[{"result":{"paid":true}}]}],"expected":"done","grade":{"kind":"exact"}}`

func newTill(t *testing.T, cases ...string) *till {
	t.Helper()
	w := &till{place: newPlace(t)}
	w.server = fakemodel.Answer(t, func(r fakemodel.Request) fakemodel.Reply {
		if w.cutAt.Add(-1) == 0 {
			w.cut()
			return fakemodel.Reply{Hang: true}
		}
		switch {
		case w.down != "" && strings.Contains(string(r.Body), "Pay the bill "+w.down):
			return fakemodel.Reply{Status: 500, Headers: map[string]string{"retry-after-ms": "0"}, Body: `{"error":{"message":"down"}}`}
		case strings.Contains(string(r.Body), "And now?"):
			return fakemodel.Reply{Text: "done"}
		case strings.Contains(string(r.Body), `"tool"`):
			return fakemodel.Reply{Text: "paid"}
		}
		return fakemodel.Reply{ToolCalls: []fakemodel.ToolCall{{Name: "pay", Arguments: `{"amount":5}`}}}
	})
	w.write("providers.yaml", "version: 1\nopenai:\n  base_url: "+w.server.OpenAI()+"\n  key_env: BENCH_KEY\n  prices:\n    fake-1: {input: 1000000, output: 4000000}\n")
	w.write("bench/cities/registration.yaml", strings.ReplaceAll(registration, "governance: autonomous", "governance: approved"))
	var lines []string
	for _, id := range cases {
		lines = append(lines, fmt.Sprintf(bill, id, id))
	}
	w.dataset(lines...)
	return w
}

// live runs or resumes an attempt, which is interrupted at a call if cutAt is not
// 0. The person answers approvals with yes or no; "" is no answer.
func (w *till) live(resume bool, person string, cutAt int64, change ...func(*harness.Spec)) (*RunResult, error) {
	w.t.Helper()
	s, err := w.setup(func(o *harness.Spec) {
		o.Live, o.Jobs, o.Resume, o.MaxCostMicroUSD = true, 1, resume, 1_000_000
		for _, f := range change {
			f(o)
		}
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w.cut = cancel
	w.cutAt.Store(cutAt)
	var with harness.Parties
	if person != "" {
		with.People = saying(person == "yes")
	}
	return s.Run(ctx, with, nil)
}

type saying bool

func (s saying) Approve(context.Context, string, harness.Question) (approve, answered bool, err error) {
	return bool(s), true, nil
}

// story is what the ledger has of the cases, and what was paid in the end.
func (w *till) story() (story []string, paid *evidence.Paid) {
	w.t.Helper()
	w.visit(func(r ledger.Record) {
		switch b := r.Body.(type) {
		case *evidence.CaseStarted:
			story = append(story, fmt.Sprintf("%s started %d", b.CaseID, b.Execution))
		case *evidence.CaseScored:
			story = append(story, fmt.Sprintf("%s %s %d resumed %d", b.CaseID, b.Outcome, b.Execution, b.Resumed))
		case *evidence.AttemptFinished:
			paid = b.Paid
		}
	})
	return story, paid
}

func (w *till) require(calls, paid, unknown int, want ...string) {
	w.t.Helper()
	story, p := w.story()
	if strings.Join(story, ", ") != strings.Join(want, ", ") {
		w.t.Errorf("the ledger has\n\t%s\nwant\n\t%s", strings.Join(story, ", "), strings.Join(want, ", "))
	}
	if n := len(w.server.Requests()); n != calls {
		w.t.Errorf("the provider counted %d calls, want %d", n, calls)
	}
	if p == nil || p.Calls != paid || p.Unknown != unknown || p.CostMicroUSD != int64(paid)*30 {
		w.t.Errorf("the books have %+v, want %d paid and %d unknown", p, paid, unknown)
	}
}

func (w *till) journalFile() string {
	return filepath.Join(w.dir, ".tally", "runs", "cities.default.1", journal.File)
}

func TestSuspendedLiveCaseGoesOnWithTheSameReply(t *testing.T) {
	w := newTill(t, "rent")
	if _, err := w.live(false, "", 0); !refusal.Is(err, refusal.ApprovalPending) {
		t.Fatal(err)
	}
	ran, err := w.live(true, "yes", 0)
	if err != nil || ran.Outcomes[evidence.Passed] != 1 {
		t.Fatalf("%+v, %v", ran, err)
	}
	w.require(3, 3, 0, "rent started 1", "rent passed 1 resumed 1")
}

// TestResumeWithoutAProviderWaits: that the person who approved is away is not
// another way to go.
func TestResumeWithoutAProviderWaits(t *testing.T) {
	w := newTill(t, "rent")
	if _, err := w.live(false, "yes", 3); !refusal.Is(err, refusal.Interrupted) {
		t.Fatal(err)
	}
	if _, err := w.live(true, "", 0); !refusal.Is(err, refusal.ApprovalPending) {
		t.Fatal(err)
	}
	if _, err := w.live(true, "yes", 0); err != nil {
		t.Fatal(err)
	}
	w.require(4, 3, 1, "rent started 1", "rent passed 1 resumed 2")
}

// TestWhatWasPaidIsBroughtToItsEnd: a case that has paid for calls is driven as
// far as they go, also when nothing is left to spend.
func TestWhatWasPaidIsBroughtToItsEnd(t *testing.T) {
	w := newTill(t, "rent")
	if _, err := w.live(false, "", 0); !refusal.Is(err, refusal.ApprovalPending) {
		t.Fatal(err)
	}
	if _, err := w.live(true, "yes", 0, func(o *harness.Spec) { o.MaxCostMicroUSD = 30 }); err != nil {
		t.Fatal(err)
	}
	w.require(1, 1, 0, "rent started 1", "rent truncated 1 resumed 1")
}

// TestAgentThatNeedsFewerCallsIsStartedAgain: the journal has a call more than
// the agent makes.
func TestAgentThatNeedsFewerCallsIsStartedAgain(t *testing.T) {
	w := newTill(t, "rent")
	if _, err := w.live(false, "yes", 3); !refusal.Is(err, refusal.Interrupted) {
		t.Fatal(err)
	}
	w.addCall()
	if _, err := w.live(true, "yes", 0); err != nil {
		t.Fatal(err)
	}
	// The call that was cut off is made again before the reply can be known.
	w.require(7, 6, 2, "rent started 1", "rent started 2", "rent passed 2 resumed 0")
}

// addCall writes a call into the journal that the agent never makes.
func (w *till) addCall() {
	w.t.Helper()
	data, err := os.ReadFile(w.journalFile())
	if err != nil {
		w.t.Fatal(err)
	}
	var header journal.Line
	if err := canon.Unmarshal(data[:bytes.IndexByte(data, '\n')], &header); err != nil {
		w.t.Fatal(err)
	}
	j, err := journal.Open(store.OS{}, filepath.Dir(w.journalFile()), journal.Owner{Attempt: header.Attempt, Origin: header.Origin, Registered: *header.Registered}, true, time.Now)
	if err != nil {
		w.t.Fatal(err)
	}
	defer j.Close()
	c, err := j.Case(journal.Execution{Case: "rent", Repeat: 1, Number: 1})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, l := range bytes.Split(data, []byte("\n")) {
		var line journal.Line
		if canon.Unmarshal(l, &line) == nil && line.Kind == journal.Intent {
			c.Recall(journal.Agent, *line.Request)
		}
	}
	call, err := c.Call(journal.Agent, digest.IDOf([]byte("another request")))
	if err == nil {
		_, err = call.Send("openai.chat", "fake-1", nil)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestInterruptedCallIsCountedAndMadeAgain(t *testing.T) {
	w := newTill(t, "rent", "power")
	if _, err := w.live(false, "yes", 3); !refusal.Is(err, refusal.Interrupted) {
		t.Fatal(err)
	}
	if _, err := w.live(true, "yes", 0); err != nil {
		t.Fatal(err)
	}
	w.require(7, 6, 1, "rent started 1", "rent passed 1 resumed 1", "power started 1", "power passed 1 resumed 0")
}

func TestAgentThatGoesAnotherWayIsStartedAgain(t *testing.T) {
	w := newTill(t, "rent")
	if _, err := w.live(false, "yes", 3); !refusal.Is(err, refusal.Interrupted) {
		t.Fatal(err)
	}
	// The person thinks better of it, so the second request is another one.
	if _, err := w.live(true, "no", 0); err != nil {
		t.Fatal(err)
	}
	w.require(6, 5, 1, "rent started 1", "rent started 2", "rent passed 2 resumed 0")
	data, err := os.ReadFile(filepath.Join(w.dir, ".tally", "runs", "cities.default.1", "events.jsonl"))
	if err != nil || !bytes.Contains(data, []byte("bench.case.restarted")) || !bytes.Contains(data, []byte("went another way")) {
		t.Errorf("the events do not say why: %s %v", data, err)
	}
}

func TestLimitOfAResumedAttemptCountsUnknownOutcomes(t *testing.T) {
	w := newTill(t, "rent")
	var lines []byte
	if _, err := w.live(false, "yes", 2); !refusal.Is(err, refusal.Interrupted) {
		t.Fatal(err)
	}
	// The ceiling of the call that was cut off and the cost of the one before
	// it are spent: no third call fits beside them.
	lines, _ = os.ReadFile(w.journalFile())
	ceiling := int64(0)
	for line := range bytes.Lines(lines) {
		if at := bytes.Index(line, []byte(`"ceiling_microdollars":`)); at >= 0 {
			fmt.Sscanf(string(line[at+len(`"ceiling_microdollars":`):]), "%d", &ceiling)
		}
	}
	limit := func(o *harness.Spec) { o.MaxCostMicroUSD = 2*ceiling + 29 }
	if _, err := w.live(true, "yes", 0, limit); err != nil {
		t.Fatal(err)
	}
	w.require(2, 1, 1, "rent started 1", "rent truncated 1 resumed 1")
}

func TestForgedJournalIsNotResumedFrom(t *testing.T) {
	w := newTill(t, "rent", "power")
	// Rent is recorded, power is cut off in its second call.
	if _, err := w.live(false, "yes", 5); !refusal.Is(err, refusal.Interrupted) {
		t.Fatal(err)
	}
	good, err := os.ReadFile(w.journalFile())
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(w.journalFile())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	asked := len(w.server.Requests())
	header := good[:bytes.IndexByte(good, '\n')+1]
	for name, tt := range map[string]struct {
		forged []byte
		refuse refusal.Name
		want   string
	}{
		"a cheaper call":     {bytes.Replace(good, []byte(`"cost_microdollars":30`), []byte(`"cost_microdollars":3`), 1), refusal.ChainTamperDetected, "does not follow the line before it"},
		"a better answer":    {bytes.Replace(good, []byte("done"), []byte("DONE"), 1), refusal.ChainTamperDetected, "does not follow the line before it"},
		"cut to its header":  {header, refusal.ChainTamperDetected, "lines were cut off or changed"},
		"of another attempt": {bytes.Replace(good, []byte(`"attempt":"cities.default.1"`), []byte(`"attempt":"cities.default.2"`), 1), refusal.ChainTamperDetected, "it is the journal of cities.default.2"},
		"none":               {nil, refusal.NotFound, "is gone"},
	} {
		if bytes.Equal(tt.forged, good) {
			t.Fatalf("%s: nothing was changed", name)
		}
		if err := os.WriteFile(w.journalFile(), tt.forged, 0o600); err != nil {
			t.Fatal(err)
		}
		if tt.forged == nil {
			os.Remove(w.journalFile())
		}
		_, err := w.live(true, "yes", 0)
		if !refusal.Is(err, tt.refuse) || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), journal.File) {
			t.Errorf("%s: got %v, want %s %q", name, err, tt.refuse, tt.want)
		}
	}
	if n := len(w.server.Requests()); n != asked {
		t.Errorf("%d calls were made on forged journals", n-asked)
	}
	if err := os.WriteFile(w.journalFile(), good, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := w.live(true, "yes", 0); err != nil {
		t.Error(err)
	}
	w.require(7, 6, 1, "rent started 1", "rent passed 1 resumed 0", "power started 1", "power passed 1 resumed 1")
}

// TestForeignJournalIsRefused: two people run the same class; the attempts
// have one name, and not one registration.
func TestForeignJournalIsRefused(t *testing.T) {
	mine, theirs := newTill(t, "rent"), newTill(t, "rent")
	for _, w := range []*till{mine, theirs} {
		if _, err := w.live(false, "yes", 3); !refusal.Is(err, refusal.Interrupted) {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(theirs.journalFile())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(mine.journalFile(), data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := mine.live(true, "yes", 0); !refusal.Is(err, refusal.ChainTamperDetected) || !strings.Contains(err.Error(), "it is the journal of") {
		t.Error(err)
	}
}

// TestVerdictThatIsKeptIsNotAskedForAgain: the run is cut off in the second of two
// verdicts. The first is in the signed cache, and that its calls are not made again
// does not make it another execution.
func TestVerdictThatIsKeptIsNotAskedForAgain(t *testing.T) {
	b := newTribunal(t)
	check := `{"name":"%s","grade":{"kind":"judge","criteria":"%s."}}`
	b.dataset(`{"id":"norway","input":"What is the capital of Norway?","expected":"Oslo","checks":[` + fmt.Sprintf(check, "a", "Right") + "," + fmt.Sprintf(check, "b", "Short") + `]}`)
	s, err := b.setup(func(o *harness.Spec) { o.Live, o.MaxCostMicroUSD = true, 1_000_000 })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.verdicts = []string{verdict(1, "It is right."), "cut", verdict(1, "It is short.")}
	b.cut = cancel
	if _, err := s.Run(ctx, harness.Parties{}, nil); !refusal.Is(err, refusal.Interrupted) {
		t.Fatal(err)
	}
	ran, err := b.run(func(o *harness.Spec) { o.Live, o.MaxCostMicroUSD, o.Resume = true, 1_000_000, true }, harness.Parties{})
	if err != nil || ran.Outcomes[evidence.Passed] != 1 || b.asked != 3 || len(b.server.Requests()) != 4 || ran.Paid.Calls != 3 || ran.Paid.Unknown != 1 {
		t.Errorf("%+v, %v, asked %d times", ran, err, b.asked)
	}
	var started []int
	b.visit(func(r ledger.Record) {
		if c, ok := r.Body.(*evidence.CaseStarted); ok {
			started = append(started, c.Execution)
		}
	})
	if len(started) != 1 {
		t.Errorf("executions %v, want one", started)
	}
}

// TestErrorsAreRunAgainAsAnAttemptOfTheirOwn: an outage ends one case; only that
// one is paid for again, and what counts stays the first attempt.
func TestErrorsAreRunAgainAsAnAttemptOfTheirOwn(t *testing.T) {
	w := newTill(t, "rent", "power")
	w.down = "power"
	if ran, err := w.live(false, "yes", 0); err != nil || ran.Outcomes[evidence.Errored] != 1 || ran.Paid.Refused != 5 {
		t.Fatalf("%+v, %v", ran, err)
	}
	w.down = ""
	retry := func(name string) (*RunResult, error) {
		c, err := w.open().ReadCorpus("", dossier.Ask{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		s, err := New(c, harness.Spec{Class: "cities", Targets: []string{"default"}, Version: "test", Live: true, MaxCostMicroUSD: 1_000_000, ErrorsOf: name})
		if err != nil {
			return nil, err
		}
		return s.Run(context.Background(), harness.Parties{People: saying(true)}, nil)
	}
	ran, err := retry(harness.Newest)
	if err != nil || ran.Attempt != "cities.default.2" || ran.Planned != 1 || ran.Outcomes[evidence.Passed] != 1 {
		t.Fatalf("%+v, %v", ran, err)
	}
	w.visit(func(r ledger.Record) {
		if b, ok := r.Body.(*evidence.AttemptRegistered); ok && b.Number == 2 {
			if b.Plan.Retries != "cities.default.1" || !b.Plan.Filtered || len(b.Plan.Cases) != 1 || b.Plan.Cases[0].ID != "power" {
				t.Errorf("the plan is %+v", b.Plan)
			}
		}
	})
	for name, want := range map[string]refusal.Name{harness.Newest: refusal.NotFound, "cities.default.2": refusal.NotFound, "cities.default.9": refusal.UnknownName} {
		if _, err := retry(name); !refusal.Is(err, want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

// A bank is a live MCP server that counts the calls of its tool, and may be cut off in
// one of them.
type bank struct {
	fakemodel.MCP
	calls atomic.Int64
	cut   func() // of the next call; nil to answer
}

func (b *bank) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if bytes.Contains(body, []byte(`"tools/call"`)) {
		b.calls.Add(1)
		if cut := b.cut; cut != nil {
			b.cut = nil
			cut()
			<-r.Context().Done()
			return
		}
	}
	b.MCP.ServeHTTP(w, r)
}

// withBank is a till whose bills are paid by a live tool of a class.
func withBank(t *testing.T, class string) (*till, *bank) {
	t.Helper()
	w, b := newTill(t), &bank{}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	settings, err := os.ReadFile(filepath.Join(w.dir, "providers.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	w.write("providers.yaml", string(settings)+"mcp:\n  bank: {url: \""+server.URL+"\"}\n")
	w.dataset(`{"id":"rent","turns":[{"text":"Pay the bill rent."},{"text":"And now?"}],"tools":[{"name":"pay","remote":"echo","class":"` + class + `","source":"mcp:bank"}],"expected":"done","grade":{"kind":"exact"}}`)
	return w, b
}

// TestFinishedLiveToolIsNotCalledAgain: the run is cut off in the model call after the
// bill was paid. The resumed case is told what the bank said, and the bank is not asked.
func TestFinishedLiveToolIsNotCalledAgain(t *testing.T) {
	w, b := withBank(t, "financial")
	if _, err := w.live(false, "yes", 3); !refusal.Is(err, refusal.Interrupted) {
		t.Fatal(err)
	}
	if n := b.calls.Load(); n != 1 {
		t.Fatalf("the bill was paid %d times before the run was interrupted", n)
	}
	ran, err := w.live(true, "yes", 0)
	if err != nil || ran.Outcomes[evidence.Passed] != 1 {
		t.Fatalf("%+v, %v", ran, err)
	}
	if n := b.calls.Load(); n != 1 {
		t.Errorf("the bill was paid %d times", n)
	}
	w.require(4, 3, 1, "rent started 1", "rent passed 1 resumed 1")
}

// TestLiveToolOfUnknownOutcomeIsNotCalledAgain: the run is cut off while the bank is at
// it. It is unknown whether the bill was paid, which is in the books; a tool that only
// reads is called again.
func TestLiveToolOfUnknownOutcomeIsNotCalledAgain(t *testing.T) {
	for class, want := range map[string]struct {
		calls   int64
		outcome evidence.Outcome
	}{"financial": {1, evidence.Errored}, "read": {2, evidence.Passed}} {
		t.Run(class, func(t *testing.T) {
			w, b := withBank(t, class)
			b.cut = func() { w.cut() }
			if _, err := w.live(false, "yes", 0); !refusal.Is(err, refusal.Interrupted) {
				t.Fatal(err)
			}
			ran, err := w.live(true, "yes", 0)
			if err != nil || ran.Outcomes[want.outcome] != 1 || b.calls.Load() != want.calls {
				t.Fatalf("%+v, %v, %d calls", ran, err, b.calls.Load())
			}
			if _, paid := w.story(); paid.Unknown != 1 || paid.UnknownMicroUSD != 0 {
				t.Errorf("the books have %+v", paid)
			}
		})
	}
}
