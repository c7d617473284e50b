package provider

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/journal"
	"tallystick/internal/run/wire"
	"tallystick/internal/testing/fakemodel"
	"tallystick/internal/testing/faultfs"
)

const paidDir = "/w/runs/chat.default.1"

// openPaid opens a journal on a disk, and the side of the only case.
func openPaid(t *testing.T, disk *faultfs.Disk, existing bool) (*journal.Journal, *journal.Running) {
	t.Helper()
	owner := journal.Owner{Attempt: "chat.default.1", Origin: "local/a", Registered: digest.ContentOf([]byte("r"))}
	j, err := journal.Open(disk, paidDir, owner, existing, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	c, err := j.Case(journal.Execution{Case: "hello", Repeat: 1, Number: 1})
	if err != nil {
		t.Fatal(err)
	}
	return j, c
}

// newPaidBed is a bed with a journal and a budget.
func newPaidBed(t *testing.T, server *fakemodel.Server, disk *faultfs.Disk, existing bool) (*bed, *journal.Journal) {
	t.Helper()
	j, c := openPaid(t, disk, existing)
	return newBed(t, server, func(cfg *Config) { cfg.Journal, cfg.Budget = c, NewBudget(1_000_000) }), j
}

// journalText is the journal as it is on disk.
func journalText(t *testing.T, disk *faultfs.Disk) string {
	t.Helper()
	data, err := store.ReadFile(disk, paidDir+"/"+journal.File, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestIntentIsOnDiskBeforeTheCallAndTheReplyBeforeItIsSeen(t *testing.T) {
	disk := faultfs.New("/w")
	server := fakemodel.Answer(t, func(fakemodel.Request) fakemodel.Reply {
		// What a power cut would leave while the provider works.
		if left := journalText(t, disk.PowerCut(1)); strings.Count(left, `"kind":"intent"`) != 1 || strings.Contains(left, `"kind":"reply"`) {
			t.Errorf("when the call is made the journal has\n%s", left)
		}
		return fakemodel.Reply{Text: "Hello there, you"}
	})
	b, j := newPaidBed(t, server, disk, false)
	var events []string
	var seen []bool // for each event, whether the reply was on disk
	it, err := b.Call(context.Background(), wire.OpenAIChat, []byte(chatStream), func(event string) error {
		events = append(events, event)
		seen = append(seen, strings.Contains(journalText(t, disk.PowerCut(1)), `"kind":"reply"`))
		return nil
	})
	if err != nil || slices.Index(seen, true) != len(seen)-1 {
		t.Errorf("%v of %d events, %v", seen, len(it.Model.Response.Stream), err)
	}
	if want := it.Model.Response.Stream; len(want) < 3 || !slices.Equal(events, want) {
		t.Errorf("the client was given\n%q\nand the provider said\n%q", events, want)
	}
	if p := j.Paid(); p.Calls != 1 || p.CostMicroUSD != 30 || p.Unknown != 0 {
		t.Errorf("%+v", p)
	}
	requireNoKey(t, "the journal", journalText(t, disk))
}

func TestResumedCallIsAnsweredFromTheJournal(t *testing.T) {
	disk := faultfs.New("/w")
	server := fakemodel.New(t, fakemodel.Reply{Text: "Hello"}, fakemodel.Reply{Status: 400, Body: `{"error":{"message":"no"}}`})
	b, _ := newPaidBed(t, server, disk, false)
	was := b.mustCall(t, wire.OpenAIChat, chatBody)
	again, j := newPaidBed(t, server, disk.Crash(), true)
	seen, it, err := again.streamed(wire.OpenAIChat, chatStream) // as a stream: the key ignores that
	if err != nil || !strings.Contains(seen, "Hello") || it.LatencyMS != was.LatencyMS {
		t.Errorf("%q %v %v", seen, it, err)
	}
	if s := again.Stats(); s != (Stats{Recalled: 1}) || len(server.Requests()) != 1 || again.cfg.Budget.Spent() != 0 {
		t.Errorf("%+v, %d requests", s, len(server.Requests()))
	}
	requireReplay(t, again.recorded(t), wire.OpenAIChat, chatBody, it)
	// An error status is a reply like any other, and not billed.
	again.mustCall(t, wire.OpenAIChat, `{"model":"fake-1","messages":[{"role":"user","content":"Bye"}],"max_tokens":10}`)
	if p := j.Paid(); p.Calls != 1 || p.Refused != 1 {
		t.Errorf("%+v", p)
	}
}

func TestAnotherRequestThanTheJournalsIsNotSent(t *testing.T) {
	disk := faultfs.New("/w")
	server := fakemodel.New(t, fakemodel.Reply{Text: "Hello"})
	b, _ := newPaidBed(t, server, disk, false)
	b.mustCall(t, wire.OpenAIChat, chatBody)
	again, _ := newPaidBed(t, server, disk.Crash(), true)
	_, err := again.call(wire.OpenAIChat, `{"model":"fake-1","messages":[{"role":"user","content":"Bye"}],"max_tokens":10}`)
	requireRefusal(t, err, refusal.JournalDiffers, "case hello, execution 1", "call 1")
	if len(server.Requests()) != 1 {
		t.Error("it was sent")
	}
}

func TestEachTryIsInTheJournal(t *testing.T) {
	busy := fakemodel.Reply{Status: 429, Headers: map[string]string{"retry-after-ms": "0"}, Body: `{"error":{"message":"slow down"}}`}
	disk := faultfs.New("/w")
	b, j := newPaidBed(t, fakemodel.New(t, busy, fakemodel.Reply{Cut: true, Raw: "x"}, fakemodel.Reply{Text: "at last"}), disk, false)
	b.mustCall(t, wire.OpenAIChat, chatBody)
	if p := j.Paid(); p.Calls != 1 || p.Refused != 1 || p.Unknown != 1 || p.UnknownMicroUSD == 0 {
		t.Errorf("%+v", p)
	}
	text := journalText(t, disk)
	for _, want := range []string{`"try":1`, `"try":2`, `"try":3`, `"outcome":"refused","prev"`, `"reason":"status 429"`, `"outcome":"unknown"`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if spent := b.cfg.Budget.Spent(); spent != 30+j.Paid().UnknownMicroUSD {
		t.Errorf("the budget has %d", spent)
	}
}

func TestUnreachableProviderIsNotSent(t *testing.T) {
	server := fakemodel.New(t)
	disk := faultfs.New("/w")
	b, j := newPaidBed(t, server, disk, false)
	for _, e := range b.access.Settings.Endpoints {
		e.BaseURL = "http://127.0.0.1:1/v1"
	}
	if _, err := b.call(wire.OpenAIChat, chatBody); err == nil {
		t.Fatal("there is no provider")
	}
	if p := j.Paid(); p.Calls+p.Refused+p.Unknown != 0 {
		t.Errorf("%+v", p)
	}
}

// TestFullDisk: an intent that cannot be written is not sent; a reply that cannot
// be written is not seen, and the outcome of its call stays unknown.
func TestFullDisk(t *testing.T) {
	for at, tt := range map[int]struct {
		name            string
		served, unknown int
	}{0: {"writing the intent", 0, 0}, 2: {"writing the reply", 1, 1}} {
		disk := faultfs.New("/w")
		server := fakemodel.New(t, fakemodel.Reply{Text: "Hello"})
		b, _ := newPaidBed(t, server, disk, false)
		disk.Inject(faultfs.Fault{At: at, Kind: faultfs.NoSpace})
		saw := ""
		it, err := b.Call(context.Background(), wire.OpenAIChat, []byte(chatBody), func(event string) error { saw += event; return nil })
		requireRefusal(t, err, refusal.DiskFull, journal.File)
		if it != nil || saw != "" || len(server.Requests()) != tt.served {
			t.Errorf("%s: saw %q and %v, the provider got %d calls", tt.name, saw, it, len(server.Requests()))
		}
		// From then on nothing is sent at all.
		if _, err := b.call(wire.OpenAIChat, chatBody); !refusal.Is(err, refusal.DiskFull) || len(server.Requests()) != tt.served {
			t.Errorf("%s: the next call: %v", tt.name, err)
		}
		disk.Inject(faultfs.Fault{})
		j, _ := openPaid(t, disk.Crash(), true)
		if p := j.Paid(); p.Unknown != tt.unknown || p.Calls != 0 {
			t.Errorf("%s: the books have %+v", tt.name, p)
		}
		if spent := b.cfg.Budget.Spent(); (spent > 0) != (tt.unknown > 0) {
			t.Errorf("%s: the budget has %d", tt.name, spent)
		}
	}
}

func TestSettledQuestionNeedNotBeAskedAgain(t *testing.T) {
	disk := faultfs.New("/w")
	server := fakemodel.New(t, fakemodel.Reply{Text: "Hello"})
	judge := func(existing bool, disk *faultfs.Disk) (*bed, *journal.Running) {
		_, c := openPaid(t, disk, existing)
		return newBed(t, server, func(cfg *Config) { cfg.Journal, cfg.Purpose = c, cassette.ForJudge }), c
	}
	b, _ := judge(false, disk)
	b.mustCall(t, wire.OpenAIChat, chatBody)
	b, c := judge(true, disk.Crash())
	if c.Equalled(journal.Agent) != nil {
		t.Error("the agent has to do with it")
	}
	if err := b.Settle(wire.OpenAIChat, []byte(chatBody)); err != nil || c.Equalled(journal.Judge) != nil {
		t.Errorf("%v, %v", err, c.Equalled(journal.Judge))
	}
}
