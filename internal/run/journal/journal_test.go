package journal

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/testing/faultfs"
)

const dir = "/w/.tally/runs/chat.default.1"

var (
	owner = Owner{Attempt: "chat.default.1", Origin: "local/a", Registered: digest.ContentOf([]byte("registration"))}
	first = Execution{Case: "norway", Repeat: 1, Number: 1}
	noon  = func() time.Time { return time.Date(2026, 5, 12, 12, 0, 0, 0, time.UTC) }
)

func key(text string) digest.ID { return digest.IDOf([]byte(text)) }

func micro(n int64) *int64 { return &n }

func open(t *testing.T, fsys store.FS, existing bool) *Journal {
	t.Helper()
	j, err := Open(fsys, dir, owner, existing, noon)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// ask sends a request of an execution, and answers it unless the reply is "".
func ask(t *testing.T, c *Running, request, reply string) {
	t.Helper()
	call, err := c.Call(Agent, key(request))
	if err != nil {
		t.Fatal(err)
	}
	sent, err := call.Send("openai.chat", "fake-1", micro(500))
	if err != nil {
		t.Fatal(err)
	}
	if reply == "" {
		return
	}
	if err := sent.Reply(canon.RawMessage(fmt.Sprintf(`{"said":%q}`, reply)), micro(30)); err != nil {
		t.Fatal(err)
	}
}

func begin(t *testing.T, j *Journal, e Execution) *Running {
	t.Helper()
	c, err := j.Case(e)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// twoAndAHalf is a journal of two calls that were answered and one that was not.
func twoAndAHalf(t *testing.T) *faultfs.Disk {
	t.Helper()
	disk := faultfs.New("/w")
	c := begin(t, open(t, disk, false), first)
	ask(t, c, "one", "1")
	ask(t, c, "two", "2")
	ask(t, c, "three", "")
	return disk
}

func text(t *testing.T, fsys store.FS) string {
	t.Helper()
	data, err := store.ReadFile(fsys, filepath.Join(dir, File), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestKilledExecutionIsAnsweredFromItsJournal(t *testing.T) {
	j := open(t, twoAndAHalf(t).Crash(), true)
	if p := j.Paid(); p.Calls != 2 || p.CostMicroUSD != 60 || p.Unknown != 1 || p.UnknownMicroUSD != 500 || p.Most() != 560 {
		t.Errorf("paid %+v", p)
	}
	c := begin(t, j, first)
	for _, request := range []string{"one", "two", "three"} {
		k := c.Recall(Agent, key(request))
		if k == nil {
			t.Fatalf("%s is not recalled", request)
		}
		reply, err := k.Reply()
		want := map[string]string{"one": `{"said":"1"}`, "two": `{"said":"2"}`}[request]
		if err != nil || string(reply) != want {
			t.Errorf("%s: %s %v, want %s", request, reply, err, want)
		}
		if reply != nil {
			continue
		}
		sent, err := k.Send("openai.chat", "fake-1", micro(500))
		if err == nil {
			err = sent.Reply(canon.RawMessage(`{"said":"3"}`), micro(30))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if c.Recall(Agent, key("one")) != nil {
		t.Error("one call answers twice")
	}
	ask(t, c, "four", "4")
	if err := c.Equalled(Agent); err != nil || c.Resumed() != 1 {
		t.Errorf("%v, resumed %d times", err, c.Resumed())
	}
	// The call with an unknown outcome counts beside the one that was made
	// again.
	if p := j.Paid(); p.Calls != 4 || p.CostMicroUSD != 120 || p.Unknown != 1 || p.UnknownMicroUSD != 500 {
		t.Errorf("paid %+v", p)
	}
}

func TestAnotherRequestIsAnotherExecution(t *testing.T) {
	for name, requests := range map[string][]string{"at once": {}, "after one": {"one"}, "after two": {"one", "two"}} {
		c := begin(t, open(t, twoAndAHalf(t).Crash(), true), first)
		for _, r := range requests {
			if c.Recall(Agent, key(r)) == nil {
				t.Fatal(r)
			}
		}
		if c.Recall(Agent, key("other")) != nil {
			t.Errorf("%s: another request is recalled", name)
		}
		if _, err := c.Call(Agent, key("other")); !refusal.Is(err, refusal.JournalDiffers) {
			t.Errorf("%s: %v", name, err)
		}
		// From then on nothing is answered: the agent must not go on half way.
		if c.Recall(Agent, key("two")) != nil || c.Equalled(Agent) == nil {
			t.Errorf("%s: it goes on", name)
		}
	}
	// An agent that needs fewer calls went another way too.
	c := begin(t, open(t, twoAndAHalf(t).Crash(), true), first)
	c.Recall(Agent, key("one"))
	if err := c.Equalled(Agent); !refusal.Is(err, refusal.JournalDiffers) || !strings.Contains(err.Error(), "call 2") {
		t.Error(err)
	}
}

func TestExecutionThatEndedMustEndTheSame(t *testing.T) {
	disk := faultfs.New("/w")
	c := begin(t, open(t, disk, false), first)
	if err := c.Ended(key("nothing was paid")); err != nil {
		t.Fatal(err)
	}
	ask(t, c, "one", "1")
	if err := c.Ended(key("a bad answer")); err != nil {
		t.Fatal(err)
	}
	for answer, same := range map[string]bool{"a bad answer": true, "a better one": false} {
		c := begin(t, open(t, disk.Crash(), true), first)
		c.Recall(Agent, key("one"))
		err := c.Ended(key(answer))
		if (err == nil) != same || err != nil && (!refusal.Is(err, refusal.JournalDiffers) || c.Equalled(Judge) == nil) {
			t.Errorf("%s: %v", answer, err)
		}
	}
}

func TestJudgesCallsAreApart(t *testing.T) {
	disk := faultfs.New("/w")
	c := begin(t, open(t, disk, false), first)
	call, err := c.Call(Judge, key("good?"))
	if err == nil {
		_, err = call.Send("openai.chat", "judge-1", nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	c = begin(t, open(t, disk.Crash(), true), first)
	if c.Recall(Agent, key("good?")) != nil {
		t.Error("the agent gets what the judge was told")
	}
	if err := c.Equalled(Agent); err != nil {
		t.Error(err)
	}
	if err := begin(t, open(t, disk.Crash(), true), first).Equalled(Judge); err == nil {
		t.Error("the judge was not asked again")
	}
	c.Settle(Judge, key("good?"))
	if err := c.Equalled(Judge); err != nil {
		t.Error(err)
	}
}

func TestEveryOutcomeIsCounted(t *testing.T) {
	disk := faultfs.New("/w")
	j := open(t, disk, false)
	c := begin(t, j, first)
	for i, end := range []func(*Sent) error{
		func(s *Sent) error { return s.Failed(NotSent, "the connection failed") },
		func(s *Sent) error { return s.Failed(Refused, "status 429") },
		func(s *Sent) error { return s.Failed(Unknown, "the connection failed") },
		func(s *Sent) error { return s.Reply(canon.RawMessage("{}"), nil) },
		func(s *Sent) error { return s.Reply(canon.RawMessage("{}"), micro(7)) },
	} {
		call, err := c.Call(Agent, key(fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		s, err := call.Send("openai.chat", "fake-1", micro(100))
		if err != nil || end(s) != nil {
			t.Fatal(err)
		}
		if end(s) == nil {
			t.Error("one intent has two outcomes")
		}
	}
	disk = disk.Crash()
	j = open(t, disk, true)
	want := evidence.Paid{Calls: 1, CostMicroUSD: 7, Refused: 1, Unknown: 2, UnknownMicroUSD: 200, Journal: j.head}
	if got := j.Paid(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := j.PaidFor("norway", 1); got != want {
		t.Errorf("of the case %+v, want %+v", got, want)
	}
	if got := j.PaidFor("norway", 2); got.Most() != 0 {
		t.Errorf("of the other repetition %+v", got)
	}
}

// rewrite gives the disk another journal.
func rewrite(t *testing.T, text string) *faultfs.Disk {
	t.Helper()
	disk := faultfs.New("/w")
	if err := store.MakeDir(disk, dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := store.WriteFile(disk, filepath.Join(dir, File), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return disk
}

func TestDamagedJournalIsRefusedAndLeftAlone(t *testing.T) {
	good := text(t, twoAndAHalf(t))
	lines := strings.SplitAfter(good, "\n")
	for name, tt := range map[string]struct{ text, want string }{
		"an edited cost":       {strings.Replace(good, `"cost_microdollars":30`, `"cost_microdollars":3`, 1), "line 4: it does not follow"},
		"an edited reply":      {strings.Replace(good, `"said":"1"`, `"said":"9"`, 1), "line 4: it does not follow"},
		"a dropped line":       {lines[0] + lines[1] + strings.Join(lines[3:], ""), "line 3: it says that it is line 4"},
		"a line twice":         {lines[0] + lines[1] + lines[1] + strings.Join(lines[2:], ""), "line 3: it says that it is line 2"},
		"no first line":        {strings.Join(lines[1:], ""), "line 1: it does not say whose"},
		"another spelling":     {strings.Replace(good, `"try":1`, `"try": 1`, 1), "line 2: "},
		"an unknown member":    {strings.Replace(good, `"try":1}`, `"try":1,"x":1}`, 1), "line 2: "},
		"another attempt":      {strings.Replace(good, `"attempt":"chat.default.1"`, `"attempt":"chat.default.2"`, 1), "line 1: it is the journal of chat.default.2 of local/a, expected chat.default.1 of local/a"},
		"another ledger":       {strings.Replace(good, `"origin":"local/a"`, `"origin":"local/b"`, 1), "it is the journal of chat.default.1 of local/b"},
		"another registration": {strings.Replace(good, owner.Registered.String(), digest.ContentOf([]byte("another one")).String(), 1), "registered as blake3:"},
		"another format":       {strings.Replace(good, Format, "other-journal/2", 1), "line 1: "},
		"two outcomes":         {good + follow(lines[5], `"intent":2,"interaction":{},"kind":"reply"`), "line 7: line 2 is not an intent"},
		"no such intent":       {good + follow(lines[5], `"intent":1,"interaction":{},"kind":"reply"`), "line 7: line 1 is not an intent"},
		"zero bytes inside":    {lines[0] + strings.Repeat("\x00", 9) + "\n" + strings.Join(lines[1:], ""), "line 2: "},
	} {
		if tt.text == good {
			t.Fatalf("%s: nothing was changed", name)
		}
		disk := rewrite(t, tt.text)
		_, err := Open(disk, dir, owner, true, noon)
		if err == nil || !refusal.Is(err, refusal.ChainTamperDetected) || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), File) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
		if text(t, disk) != tt.text {
			t.Errorf("%s: the file was changed", name)
		}
	}
	if _, err := Open(rewrite(t, strings.Replace(good, Format, "tallystick-journal/2", 1)), dir, owner, true, noon); !refusal.Is(err, refusal.NewerFormat) {
		t.Errorf("a newer journal: %v", err)
	}
}

// follow is a line 7 that follows the sixth.
func follow(sixth, members string) string {
	return fmt.Sprintf(`{%s,"line":7,"prev":"%s"}`+"\n", members, digest.IDOf([]byte(strings.TrimSuffix(sixth, "\n"))))
}

func TestLostJournalIsMissed(t *testing.T) {
	none := faultfs.New("/w")
	if _, err := Open(none, dir, owner, true, noon); !refusal.Is(err, refusal.NotFound) {
		t.Error(err)
	}
	if _, err := none.Lstat(filepath.Join(dir, File)); err == nil {
		t.Error("a journal was made in the place of the lost one")
	}
	if _, err := Open(rewrite(t, ""), dir, owner, true, noon); !refusal.Is(err, refusal.NotFound) {
		t.Error(err)
	}
	// Lines that were cut off at the end: a record in the ledger names the head.
	good := text(t, twoAndAHalf(t))
	head := open(t, rewrite(t, good), true).Paid().Journal
	cut := good[:strings.LastIndex(strings.TrimSuffix(good, "\n"), "\n")+1]
	if j := open(t, rewrite(t, cut), true); j.Has(head) || !j.Has(digest.IDOf([]byte(strings.SplitAfter(cut, "\n")[2][:len(strings.Split(cut, "\n")[2])]))) {
		t.Error("it does not know its heads")
	}
}

func TestTornLastLineIsCut(t *testing.T) {
	good := text(t, twoAndAHalf(t))
	for name, torn := range map[string]string{
		"half a line":           good + `{"api":"openai.chat","at":`,
		"a line but its end":    good[:len(good)-1],
		"zeros for a sector":    good + `{"api":"` + strings.Repeat("\x00", 512) + "}\n",
		"zeros without newline": good + strings.Repeat("\x00", 100),
	} {
		j := open(t, rewrite(t, torn), true)
		want := 6
		if name == "a line but its end" {
			want = 5
		}
		if j.lines != want {
			t.Errorf("%s: %d lines, want %d", name, j.lines, want)
		}
		ask(t, begin(t, j, Execution{Case: "sweden", Repeat: 1, Number: 1}), "next", "x")
	}
}

// TestEveryFaultLeavesWhatWasPromised breaks each operation of the disk in each
// way, then cuts the power. An intent that was acknowledged is there, so is a
// reply; and no caller is told to send what is not on disk.
func TestEveryFaultLeavesWhatWasPromised(t *testing.T) {
	long := `{"said":"` + strings.Repeat("x", 4*faultfs.Sector) + `"}` // nothing else is in some of its sectors
	hits := 0
	for _, kind := range faultfs.Kinds() {
		for at := range 12 { // three intents and replies, each written and synced
			disk := faultfs.New("/w")
			j := open(t, disk, false)
			c := begin(t, j, first)
			disk.Inject(faultfs.Fault{At: at, Kind: kind})
			sent, replied := 0, 0
			for _, request := range []string{"one", "two", "three"} {
				call, err := c.Call(Agent, key(request))
				if err != nil {
					t.Fatal(err)
				}
				s, err := call.Send("openai.chat", "fake-1", micro(500))
				if err != nil {
					continue
				}
				sent++
				if s.Reply(canon.RawMessage(long), micro(30)) == nil {
					replied++
				}
			}
			if !disk.Hit() {
				continue // a write cannot go wrong as a sync does
			}
			hits++
			for name, left := range map[string]*faultfs.Disk{"kill": disk.Crash(), "power cut": disk.PowerCut(uint64(at))} {
				next := open(t, left, true)
				p := next.Paid()
				// What it read it builds upon, also if a sync had failed.
				ask(t, begin(t, next, Execution{Case: "sweden", Repeat: 1, Number: 1}), "more", "x")
				for seed := range uint64(20) {
					if later := open(t, left.PowerCut(seed), true).Paid(); later.Calls != p.Calls+1 || later.Unknown != p.Unknown {
						t.Errorf("%s at %d, %s: a power cut later %+v, before %+v", kind, at, name, later, p)
					}
				}
				if p.Calls+p.Unknown < sent || p.Calls < replied {
					t.Errorf("%s at %d, %s: %d were sent and %d answered, the journal has %+v", kind, at, name, sent, replied, p)
				}
			}
		}
	}
	if hits < 60 {
		t.Errorf("only %d faults happened", hits)
	}
}

var update = flag.Bool("update", false, "write the example of the page")

// TestPageHasTheExample: the example of docs/formats/journal.md is what the
// package writes.
func TestPageHasTheExample(t *testing.T) {
	disk := faultfs.New("/w")
	c := begin(t, open(t, disk, false), first)
	ask(t, c, "one", "Oslo")
	ask(t, c, "two", "")
	disk = disk.Crash()
	j := open(t, disk, true)
	begin(t, j, first)
	example, head := strings.TrimSuffix(text(t, disk), "\n"), j.Paid().Journal.String()

	const page = "../../../docs/formats/journal.md"
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	start := strings.LastIndex(string(data), "The head is `")
	made := fmt.Sprintf("%sThe head is `%s`.\n\n```\n%s\n```\n", data[:start], head, example)
	if *update {
		if err := os.WriteFile(page, []byte(made), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if made != string(data) {
		t.Error("docs/formats/journal.md has another example: go test ./internal/run/journal -run Page -update")
	}
}

// TestExecutionThatIsDoneIsNotResumed: where no ledger numbers executions, the journal
// says which one is next.
func TestExecutionThatIsDoneIsNotResumed(t *testing.T) {
	disk := twoAndAHalf(t).Crash()
	j := open(t, disk, true)
	if e := j.Next("norway", 1); e != first {
		t.Errorf("after a crash %+v is next, want %+v", e, first)
	}
	if j.PutAway("norway", 1) {
		t.Error("an execution that was cut off counts as put away")
	}
	if err := begin(t, j, first).GiveUp("it went another way"); err != nil {
		t.Fatal(err)
	}
	second := Execution{Case: "norway", Repeat: 1, Number: 2}
	if e := j.Next("norway", 1); e != second || j.PutAway("norway", 1) {
		t.Errorf("after one was given up %+v is next, put away %v", e, j.PutAway("norway", 1))
	}
	c := begin(t, j, second)
	if c.Recall(Agent, key("one")) != nil {
		t.Error("it is answered from the execution that was given up")
	}
	if err := c.PutAway(); err != nil || j.PutAway("norway", 1) {
		t.Errorf("one that paid for nothing leaves a line: %v", err)
	}
	ask(t, c, "one", "1")
	if err := c.PutAway(); err != nil {
		t.Fatal(err)
	}
	if c.PutAway() == nil {
		t.Error("one execution is done twice")
	}
	for _, j := range []*Journal{j, open(t, disk, true)} {
		if e := j.Next("norway", 1); e.Number != 3 || !j.PutAway("norway", 1) {
			t.Errorf("%+v is next", e)
		}
	}
}
