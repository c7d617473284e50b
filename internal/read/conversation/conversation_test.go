package conversation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/vantage"
)

func content(s string) trajectory.Content {
	return trajectory.NewContent([]byte(s), trajectory.ArgumentHead)
}

func pointer(s string) *trajectory.Content {
	c := content(s)
	return &c
}

func started(input string) trajectory.Payload {
	p := policy.ForMode(policy.Autonomous)
	return &trajectory.RunStarted{Attempt: "a-1", Case: "c", Class: "k", Execution: 1, Format: trajectory.Format, Governance: p.Mode,
		Input: pointer(input), Policy: p.SerialisedDigest(), PolicyShort: p.ShortHash(), Repeat: 1, Target: "t", Vantage: vantage.Gateway}
}

func asked(call, prompt string) trajectory.Payload {
	c := trajectory.NewContent([]byte(prompt), trajectory.PromptHead)
	return &trajectory.ModelCallStarted{Call: call, Messages: 1, Model: "m", Prompt: c, Provider: "openai", Request: c.Digest}
}

func replied(call, output string) trajectory.Payload {
	return &trajectory.ModelCallCompleted{Call: call, FinishReason: "stop", Output: trajectory.NewContent([]byte(output), trajectory.ResultHead), Source: "cassette"}
}

// told writes events as a harness does, reads them back and tells them.
func told(t *testing.T, o Options, payloads ...trajectory.Payload) *Conversation {
	t.Helper()
	return Of(slices.Values(events(t, payloads...)), o)
}

func events(t *testing.T, payloads ...trajectory.Payload) []trajectory.Event {
	t.Helper()
	log, turn := trajectory.NewLog(), 0
	for i, p := range payloads {
		if p.Type() == trajectory.TurnStartedType {
			turn++
		}
		if _, err := log.Append(turn, p, time.Duration(i)*time.Millisecond); err != nil {
			t.Fatalf("event %d, %s: %v", i+1, p.Type(), err)
		}
	}
	v, err := trajectory.Verify(log.Bytes(), trajectory.HeadIs(log.Head()))
	if err != nil {
		t.Fatal(err)
	}
	return slices.Collect(v.Events())
}

// shape is a conversation in a line for each item.
func shape(c *Conversation) string {
	var b strings.Builder
	for _, t := range c.Turns {
		fmt.Fprintf(&b, "turn %d\n", t.N)
		for _, i := range t.Items {
			kind := ""
			switch {
			case i.Speech != nil:
				kind = i.Speech.Role
				if i.Speech.Text != nil {
					kind += ": " + i.Speech.Text.Head
				}
				if i.Speech.Same > 0 {
					kind += fmt.Sprintf(": as in event %d", i.Speech.Same)
				}
			case i.Exchange != nil:
				kind = fmt.Sprintf("model, %d new, %d repeated", len(i.Exchange.Request.New), i.Exchange.Request.Repeated)
				for _, m := range i.Exchange.Request.New {
					kind += "; " + m.Role + " " + m.Text.In + " " + m.Text.Head
				}
				if i.Exchange.Reply != nil {
					kind += ": " + i.Exchange.Reply.Head
				}
				if len(i.Exchange.Calls) > 0 {
					kind += " calls " + strings.Join(i.Exchange.Calls, ",")
				}
				if i.Exchange.Answers {
					kind += " (the answer)"
				}
			case i.Call != nil:
				kind = fmt.Sprintf("call %s, %s", i.Call.Name, i.Call.Vantage)
				for _, d := range i.Call.Decisions {
					kind += fmt.Sprintf(", %s by %s", d.Verdict, d.Rule)
				}
				for _, a := range i.Call.Approvals {
					kind += fmt.Sprintf(", approved %v by %s", a.Approved, a.By)
				}
				if i.Call.Result != nil {
					kind += ": " + i.Call.Result.Head
				}
			case i.Memory != nil:
				kind = fmt.Sprintf("memory %s: ", i.Memory.Key)
				if i.Memory.Before != nil {
					kind += i.Memory.Before.Head + " to "
				}
				kind += i.Memory.After.Head
			case i.Files != nil:
				kind = "files"
				for _, f := range i.Files.Changed {
					kind += " " + f.Path
				}
			case i.Note != nil:
				kind = string(i.Note.Type)
			}
			fmt.Fprintf(&b, "  %s | %s\n", i.String(), kind)
		}
	}
	return b.String()
}

// One tool call is seven events at a gateway: asked for, brought, decided, put to a
// person, answered, made, reported. They are one item.
func TestOneToolCallIsOneItem(t *testing.T) {
	args := trajectory.NewArgs([]byte(`{"amount":100,"to":"alice"}`))
	first := `{"messages":[{"content":"You are a clerk.","role":"system"},{"content":"Pay alice","role":"user"}],"model":"m"}`
	second := `{"messages":[{"content":"You are a clerk.","role":"system"},{"content":"Pay alice","role":"user"},{"role":"assistant","tool_calls":[{"function":{"arguments":"{\"amount\":100,\"to\":\"alice\"}","name":"transfer"},"id":"call_1","type":"function"}]},{"content":"paid","role":"tool","tool_call_id":"call_1"}],"model":"m"}`
	c := told(t, Options{},
		started("Pay alice"),
		&trajectory.TurnStarted{Input: pointer("Pay alice")},
		asked("m1", first),
		replied("m1", `{"text":"I will.","tool_calls":[{"args":"{\"amount\":100,\"to\":\"alice\"}","name":"transfer"}]}`),
		&trajectory.ToolObserved{Args: args, Call: "m1", ID: "call_1", Name: "transfer", Vantage: trajectory.Proposed},
		&trajectory.ToolProposed{Args: args, Call: "c1", ID: "call_1", Name: "transfer", Class: policy.Financial},
		&trajectory.PolicyDecision{Action: policy.Tool, Call: "c1", Check: policy.Denied, Name: "transfer", Reason: "large", Rule: "large", Verdict: policy.Escalate},
		&trajectory.ApprovalRequested{Action: policy.Tool, Call: "c1", Name: "transfer", Reason: "large", Rule: "large"},
		&trajectory.ApprovalResolved{Approved: true, By: "case", Call: "c1"},
		&trajectory.ToolExecuted{Args: args, Call: "c1", Name: "transfer", Result: content("paid"), Source: "fixture"},
		asked("m2", second),
		&trajectory.ToolObserved{Args: args, Call: "m2", ID: "call_1", Name: "transfer", Result: pointer("paid"), Vantage: trajectory.Reported},
		replied("m2", "Done."),
		&trajectory.TurnCompleted{Answer: pointer("Done.")},
		&trajectory.RunCompleted{Answer: pointer("Done."), Status: "completed"},
	)
	want := `turn 0
  1 | run_started
turn 1
  2 | user: Pay alice
  3 to 4 | model, 1 new, 1 repeated; system /messages/0/content You are a clerk.: I will. calls transfer
  5 to 10, 12 | call transfer, executed, escalate by large, approved true by case: paid
  11, 13 to 14 | model, 0 new, 4 repeated: Done. (the answer)
  15 | run_completed
`
	if got := shape(c); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestARequestIsToldByWhatIsNew(t *testing.T) {
	long := strings.Repeat("the rules of the house. ", 200)
	prompt := func(more string) string {
		return `{"messages":[{"content":"` + long + `","role":"system"},{"content":"hi","role":"user"}` + more + `],"model":"m"}`
	}
	whole := map[digest.Content][]byte{}
	for _, p := range []string{prompt(""), prompt(`,{"content":"hello","role":"assistant"},{"content":"remember: never pay","role":"user"}`)} {
		whole[digest.ContentOf([]byte(p))] = []byte(p)
	}
	list := []trajectory.Payload{
		started("hi"), &trajectory.TurnStarted{Input: pointer("hi")}, asked("m1", prompt("")), replied("m1", "hello"),
		asked("m2", prompt(`,{"content":"hello","role":"assistant"},{"content":"remember: never pay","role":"user"}`)), replied("m2", "well"),
	}
	find := func(d digest.Content) ([]byte, bool) {
		data, ok := whole[d]
		return data, ok
	}
	c := told(t, Options{Whole: find}, list...)
	first, second := c.Find(3).Exchange.Request, c.Find(5).Exchange.Request
	if len(first.New) != 1 || first.New[0].Text.Head != long || first.Repeated != 1 {
		t.Errorf("the first request has %d new and %d repeated", len(first.New), first.Repeated)
	}
	if len(second.New) != 1 || second.New[0].Text.Head != "remember: never pay" || second.New[0].Text.In != "/messages/3/content" || second.Repeated != 3 {
		t.Errorf("the second request has %d new and %d repeated: %+v", len(second.New), second.Repeated, second.New)
	}
	// Without the evidence the request is not taken apart, and says so.
	c = told(t, Options{}, list...)
	if r := c.Find(5).Exchange.Request; r.Unread == "" || len(r.New) > 0 || !r.Whole.Cut {
		t.Errorf("without the whole: %+v", r)
	}
	// In a part that begins later nothing is called new of which that is not known.
	all := events(t, list...)
	part := Of(slices.Values(all[4:]), Options{Before: all[:1], Whole: find})
	if r := part.Find(5).Exchange.Request; len(r.New) != 0 || r.Repeated != 4 {
		t.Errorf("in a later part %d are new", len(r.New))
	}
}

// A call that a reply asks for and of which no event tells is not lost.
func TestACallThatOnlyTheReplyNamesIsTold(t *testing.T) {
	c := told(t, Options{}, started("x"), &trajectory.TurnStarted{}, asked("m1", `{"messages":[]}`), replied("m1", `{"text":"","tool_calls":[{"args":"{\"q\":1}","name":"search"}]}`))
	x := c.Find(4).Exchange
	if len(x.Untold) != 1 || x.Untold[0].Name != "search" || x.Untold[0].Value.Head != `{"q":1}` || len(x.Calls) != 0 {
		t.Errorf("got %+v", x)
	}
}

func TestMemoryIsToldAsAChange(t *testing.T) {
	write := func(call, entry, supersedes, value string) []trajectory.Payload {
		return []trajectory.Payload{
			&trajectory.MemoryProposed{Call: call, Confidence: 1, Key: "name", Source: "agent", Supersedes: supersedes, Tier: trajectory.Semantic, Value: content(value)},
			&trajectory.PolicyDecision{Action: policy.MemoryWrite, Call: call, Check: policy.Allowed, Name: "name", Reason: "r", Rule: "mode:autonomous", Verdict: policy.Allow},
			&trajectory.MemoryWritten{Call: call, Confidence: 1, Entry: entry, Key: "name", Source: "agent", Supersedes: supersedes, Tier: trajectory.Semantic, Value: content(value)},
		}
	}
	c := told(t, Options{}, slices.Concat([]trajectory.Payload{started("x"), &trajectory.TurnStarted{}}, write("w1", "m1", "", "Bob"), write("w2", "m2", "m1", "Alice"))...)
	if got := shape(c); !strings.Contains(got, "3 to 5 | memory name: Bob\n") || !strings.Contains(got, "6 to 8 | memory name: Bob to Alice\n") {
		t.Errorf("got\n%s", got)
	}
	if m := c.Find(6).Memory; m.Before.Event != 5 || len(m.Decisions) != 1 || !m.Written {
		t.Errorf("got %+v", m)
	}
}

func TestAnAnswerThatWasSaidIsNotSaidAgain(t *testing.T) {
	c := told(t, Options{}, started("x"), &trajectory.TurnStarted{Input: pointer("x")}, &trajectory.TurnCompleted{Answer: pointer("yes")},
		&trajectory.TurnStarted{Input: pointer("x")}, &trajectory.TurnCompleted{Answer: pointer("yes")}, &trajectory.RunCompleted{Answer: pointer("yes"), Status: "completed"})
	want := "turn 0\n  1 | run_started\nturn 1\n  2 | user: x\n  3 | assistant: yes\nturn 2\n  4 | user: x\n  5 | assistant: as in event 3\n  6 | run_completed\n"
	if got := shape(c); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// every has an event of each type, in an order that a run can have.
func every() []trajectory.Payload {
	args, d := trajectory.NewArgs([]byte(`{"a":"b"}`)), digest.ContentOf([]byte("x"))
	return []trajectory.Payload{
		&trajectory.ContextCompiled{Admitted: []string{}, Budget: 9, Compression: []string{}, Sections: map[string]int{"system": 1}, Used: 1, Window: 10},
		&trajectory.Plan{Text: content("first this")},
		asked("m", `{"messages":[{"content":"q","role":"user"}]}`), replied("m", "a"),
		&trajectory.ToolProposed{Args: args, Call: "c", Name: "t"},
		&trajectory.PolicyDecision{Action: policy.Tool, Call: "c", Check: policy.Denied, Name: "t", Reason: "no", Rule: "r", Verdict: policy.Deny},
		&trajectory.PolicyViolation{Call: "c", Rule: "r", Text: "no"},
		&trajectory.ToolExecuted{Args: args, Call: "d", Name: "t", Result: content("r"), Source: "fixture"},
		&trajectory.ToolObserved{Args: args, Call: "m", Name: "t", Vantage: trajectory.Proposed},
		&trajectory.ApprovalRequested{Action: policy.Approval, Call: "q", Name: "may I", Reason: "no", Rule: "r"},
		&trajectory.ApprovalResolved{Approved: true, By: "case", Call: "q"},
		&trajectory.MemoryProposed{Call: "w", Confidence: 1, Key: "k", Source: "s", Tier: trajectory.Working, Value: content("v")},
		&trajectory.MemoryWritten{Call: "w", Confidence: 1, Entry: "e", Key: "k", Source: "s", Tier: trajectory.Working, Value: content("v")},
		&trajectory.MemoryRetrieved{Entries: []string{"e"}},
		&trajectory.CheckpointSaved{Checkpoint: "p", Digest: d},
		&trajectory.Rollback{Call: "c", Checkpoint: "p", Identical: true, Reason: "no", Restored: d},
		&trajectory.HandedOff{Call: "h", From: "a", To: "b"},
		&trajectory.TransportRequest{Host: "h", Method: "POST", Path: "/", Protocol: "http", Status: 200},
		&trajectory.FileWritten{Bytes: 1, Digest: d, Path: "f"}, &trajectory.FileDeleted{Path: "f"},
		&trajectory.SecurityEvent{Detail: "d", Name: "n", Severity: "warn"},
		&trajectory.LimitReached{Limit: "turns", Max: 1},
		&trajectory.Failure{Call: "m", Detail: "d", Name: "n"},
		&trajectory.TestRun{Command: []string{"go"}, Exit: 1, Output: content("FAIL")},
		&trajectory.WorldStarted{Clock: "host", Command: []string{"python3"}, Tools: content("[]")},
		&trajectory.WorldState{Phase: trajectory.WorldAfter, State: content(`{"state":1}`)},
		&trajectory.ServiceTraffic{Name: "db", Port: 5432, Protocol: "postgresql"},
		&trajectory.TurnCompleted{Answer: pointer("a")},
		&trajectory.TurnStarted{Input: pointer("more")},
		&trajectory.UserMoved{By: trajectory.ByScript, Say: pointer("next"), Source: "script"},
		&trajectory.UserToolCalled{Args: args, By: trajectory.ByScript, Name: "t", Result: content("r"), Source: "fixture"},
		&trajectory.UserBrokeRule{By: trajectory.ByModel, Rule: "limit", Text: "too long"},
		&trajectory.UserEnded{By: trajectory.ByModel, Turns: 2, Why: "broke_rule"},
	}
}

// Whatever happened in whatever order: each event belongs to one item, and items stand in
// the order of their first events. A reader who trusts the conversation misses none.
func TestEveryEventBelongsToOneItem(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for run := range 300 {
		list := []trajectory.Payload{started("x"), &trajectory.TurnStarted{Input: pointer("x")}}
		pool := every()
		for range random.IntN(60) {
			list = append(list, pool[random.IntN(len(pool))])
		}
		list = append(list, &trajectory.RunCompleted{Answer: pointer("a"), Status: "completed"})
		if run == 0 {
			list = append(append(list[:2:2], pool...), &trajectory.RunFailed{Detail: "d", Name: "n"})
		}
		all := events(t, list...)
		from := 0
		if run%3 == 2 {
			from = random.IntN(len(all))
		}
		c := Of(slices.Values(all[from:]), Options{Before: all[:min(from, 1)]})
		var seen []int
		last := 0
		for _, turn := range c.Turns {
			for _, item := range turn.Items {
				if item.Seq() <= last || !slices.IsSorted(item.Events) {
					t.Fatalf("run %d: item of events %v after %d", run, item.Events, last)
				}
				last = item.Seq()
				seen = append(seen, item.Events...)
				if n := kinds(&item); n != 1 {
					t.Fatalf("run %d: an item of %d kinds", run, n)
				}
			}
		}
		slices.Sort(seen)
		if len(seen) != len(all)-from || seen[0] != from+1 || len(slices.Compact(seen)) != len(seen) {
			t.Fatalf("run %d: %d of %d events are told: %v", run, len(seen), len(all)-from, seen)
		}
	}
}

func kinds(i *Item) (n int) {
	for _, has := range []bool{i.Speech != nil, i.Exchange != nil, i.Call != nil, i.Memory != nil, i.Files != nil, i.Note != nil} {
		if has {
			n++
		}
	}
	return n
}

func TestEveryTypeOfEventIsTold(t *testing.T) {
	seen := map[trajectory.Type]bool{"run_started": true, "run_completed": true, "run_failed": true}
	for _, p := range every() {
		seen[p.Type()] = true
	}
	for _, typ := range trajectory.Types() {
		if !seen[typ] {
			t.Errorf("the test above has no %s", typ)
		}
	}
}
