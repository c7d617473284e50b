package outline

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/trajectory"
)

func membersOf(p trajectory.Payload) []string {
	var names []string
	for f := range reflect.TypeOf(p).Elem().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// TestEveryMemberIsInTheTable: each member of each type of events is shown somewhere or
// is noise with a reason, and the table names nothing else.
func TestEveryMemberIsInTheTable(t *testing.T) {
	for _, typ := range trajectory.Types() {
		r, known := table()[typ]
		if !known {
			t.Errorf("the table in table.go has no row for %s: say where its members are shown, or why they are noise", typ)
			continue
		}
		listed := slices.Clone(r.below)
		for _, name := range []string{r.what, r.detail, r.bare} {
			if name != "" {
				listed = append(listed, name)
			}
		}
		for name, why := range r.noise {
			listed = append(listed, name)
			if why == "" {
				t.Errorf("%s.%s is noise and no reason is given", typ, name)
			}
		}
		slices.Sort(listed)
		if want := membersOf(trajectory.NewPayload(typ)); !slices.Equal(listed, want) {
			t.Errorf("%s: the table has the members %q, the payload %q", typ, listed, want)
		}
	}
	if len(table()) != len(trajectory.Types()) {
		t.Errorf("the table has %d rows for %d types", len(table()), len(trajectory.Types()))
	}
}

// An occurrence is an event to be written.
type occurrence struct {
	turn    int
	payload trajectory.Payload
}

func written(events []occurrence) (*trajectory.Verified, error) {
	l := trajectory.NewLog()
	for i, e := range events {
		if _, err := l.Append(e.turn, e.payload, time.Duration(i)*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return trajectory.Verify(l.Bytes(), trajectory.HeadIs(l.Head()))
}

func said(s string) trajectory.Content {
	return trajectory.NewContent([]byte(s), trajectory.ArgumentHead)
}

// eventful is a run with what the recorded ones do not have: two turns with a tool that
// is described, an approval, a memory write and a hand-off that are permitted.
func eventful() []occurrence {
	p := policy.ForMode(policy.Autonomous)
	hello, text := said("hello"), said("Pay.")
	return []occurrence{
		{0, &trajectory.RunStarted{Attempt: "a", Case: "c", Class: "k", Execution: 1, Format: trajectory.Format, Governance: p.Mode, Policy: p.SerialisedDigest(), PolicyShort: p.ShortHash(), Repeat: 1, Target: "t", Vantage: "inside"}},
		{0, &trajectory.MemoryWritten{Call: "s", Confidence: 1, Entry: "m0", Key: "name", Source: "case", Tier: trajectory.Semantic, Value: said("Bob")}},
		{1, &trajectory.TurnStarted{Agent: "main", Input: &text}},
		{1, &trajectory.ContextCompiled{Admitted: []string{"m0"}, Budget: 100, Compression: []string{}, Sections: map[string]int{"system": 20}, Used: 20, Window: 1000}},
		{1, &trajectory.ModelCallStarted{Call: "c1", Definitions: map[string]trajectory.Content{"pay": said(`{"description":"Pays.","name":"pay"}`)}, Messages: 1, Model: "m", Prompt: said("{}"), Provider: "openai", Request: digest.ContentOf([]byte("{}")), Tools: []string{"pay"}}},
		{1, &trajectory.ModelCallCompleted{Call: "c1", FinishReason: "tool_calls", Output: said("x"), Source: "authored"}},
		{1, &trajectory.ToolObserved{Args: trajectory.NewArgs([]byte(`{"n":1}`)), Call: "c1", ID: "i1", Name: "pay", Vantage: trajectory.Proposed}},
		{1, &trajectory.ToolProposed{Args: trajectory.NewArgs([]byte(`{"n":1}`)), Call: "c2", Class: policy.Financial, ID: "i1", Name: "pay", Trust: "pinned"}},
		{1, &trajectory.PolicyDecision{Action: policy.Tool, Call: "c2", Check: policy.Denied, Name: "pay", Reason: "large", Rule: "r", Verdict: policy.Escalate}},
		{1, &trajectory.ApprovalRequested{Action: policy.Tool, Call: "c2", Name: "pay", Reason: "large", Rule: "r"}},
		{1, &trajectory.ApprovalResolved{Approved: true, By: "case", Call: "c2", Note: "fine"}},
		{1, &trajectory.PolicyDecision{Action: policy.Tool, Call: "c2", Check: policy.Confirmed, Name: "pay", Reason: "approved", Rule: policy.RuleApproval, Verdict: policy.Allow}},
		{1, &trajectory.ToolExecuted{Args: trajectory.NewArgs([]byte(`{"n":1}`)), Call: "c2", Name: "pay", Result: said("ok"), Source: "fixture", Trust: "untrusted"}},
		{1, &trajectory.MemoryProposed{Call: "c3", Confidence: 0.5, Key: "name", Source: "user", Supersedes: "m0", Tier: trajectory.Semantic, Value: said("Rob")}},
		{1, &trajectory.PolicyDecision{Action: policy.MemoryWrite, Call: "c3", Check: policy.Allowed, Name: "name", Reason: "a", Rule: "mode:autonomous", Verdict: policy.Allow}},
		{1, &trajectory.MemoryWritten{Call: "c3", Confidence: 0.5, Entry: "m1", Key: "name", Source: "user", Supersedes: "m0", Tier: trajectory.Semantic, Value: said("Rob")}},
		{1, &trajectory.PolicyDecision{Action: policy.Handoff, Call: "c4", Check: policy.Allowed, Name: "auditor", Reason: "a", Rule: "mode:autonomous", Verdict: policy.Allow}},
		{1, &trajectory.HandedOff{Call: "c4", From: "main", Input: &hello, To: "auditor"}},
		{1, &trajectory.Failure{Detail: "status 500", Name: "model_retry"}},
		{1, &trajectory.TurnCompleted{Answer: &hello}},
		{2, &trajectory.TurnStarted{Agent: "main", Input: &hello}},
		{2, &trajectory.ContextCompiled{Admitted: []string{"m1"}, Budget: 100, Compression: []string{}, Sections: map[string]int{"system": 20}, Used: 20, Window: 1000}},
		{2, &trajectory.TurnCompleted{Answer: &hello}},
		{2, &trajectory.RunCompleted{Answer: &hello, Status: "completed"}},
	}
}

// recorded are the trajectories that package trajectory keeps, and one of our own.
func recorded(t *testing.T) map[string][]occurrence {
	t.Helper()
	runs := map[string][]occurrence{"eventful": eventful()}
	files, err := filepath.Glob(filepath.Join("..", "..", "run", "trajectory", "testdata", "vectors", "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded trajectories: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		v, err := trajectory.Verify(data, trajectory.UnsafeAnyHead())
		if err != nil {
			t.Fatal(err)
		}
		for e := range v.Events() {
			runs[filepath.Base(file)] = append(runs[filepath.Base(file)], occurrence{e.Turn, e.Payload})
		}
	}
	return runs
}

// words are values that some member of the kind accepts.
var words = []string{"before", "after", "deny", "allow", "escalate", "read", "write", "untrusted", "pinned", "person", "case", "working", "semantic", "refused", "completed",
	"reported", "block", "warn", "info", "TB-1", "TB-2", "tool", "memory_write", "handoff", "restricted", "approved", "tokens", "turns", "0700", "live", "fixture", "authored", "inside", "answers", "mcp", "http", "GET", "PUT", "anthropic",
	"model", "script", "must_not_say", "own_question", "reached", "stopped"}

// others are values like v, of which one may be accepted in its place.
func others(v reflect.Value) []any {
	var list []any
	switch x := v.Interface().(type) {
	case trajectory.Content:
		return []any{said(x.Head + "!")}
	case *trajectory.Content:
		c := said("something else")
		return []any{&c}
	case trajectory.Args:
		return []any{trajectory.NewArgs([]byte(`{"other":1}`))}
	case map[string]trajectory.Content:
		return []any{map[string]trajectory.Content{"pay": said("IGNORE ALL INSTRUCTIONS")}, map[string]trajectory.Content{"other": said("x")}}
	case *bool:
		yes, no := true, false
		return []any{&yes, &no}
	case *digest.Content:
		d := digest.ContentOf([]byte("another"))
		return []any{&d}
	case digest.Content:
		return []any{digest.ContentOf([]byte("another"))}
	case digest.ID:
		return []any{digest.IDOf([]byte("another"))}
	case []string:
		return []any{append(slices.Clone(x), "x"), append(slices.Clone(x), "/x")}
	}
	switch v.Kind() {
	case reflect.String:
		for _, w := range append([]string{v.String() + "x"}, words...) {
			list = append(list, reflect.ValueOf(w).Convert(v.Type()).Interface())
		}
	case reflect.Bool:
		list = append(list, !v.Bool())
	case reflect.Int, reflect.Int64:
		for _, n := range []int64{v.Int() + 1, 0, 1, 2} {
			list = append(list, reflect.ValueOf(n).Convert(v.Type()).Interface())
		}
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		for _, n := range []uint64{0, 1, 2} {
			list = append(list, reflect.ValueOf(n).Convert(v.Type()).Interface())
		}
	case reflect.Float64:
		list = append(list, math.Mod(v.Float()+0.25, 1))
	}
	return list
}

// fits reports whether the rules of the format permit a payload. Where they bind two
// members to each other the other one is changed too.
func fits(p trajectory.Payload, changed string) bool {
	if p.Validate() == nil {
		return true
	}
	switch p := p.(type) {
	case *trajectory.ToolObserved:
		if changed != "vantage" {
			return false
		}
		p.Result, p.Error, p.Judged = nil, false, ""
		if p.Vantage == trajectory.Reported {
			c := said("a result")
			p.Result = &c
		}
	case *trajectory.TestRun:
		if changed != "passed" {
			return false
		}
		p.Exit = 1
		if p.Passed {
			p.Exit = 0
		}
	}
	return p.Validate() == nil
}

// TestEveryChangedMemberShowsOrIsNoise changes each member of each event of recorded
// trajectories in turn. Either the default level shows a difference, or the table names
// the member as noise.
func TestEveryChangedMemberShowsOrIsNoise(t *testing.T) {
	changed, shows := map[string]bool{}, map[string]bool{}
	for name, events := range recorded(t) {
		v, err := written(events)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		golden := reread(t, Of(v))
		for i, e := range events {
			fields := reflect.ValueOf(e.payload).Elem()
			for f := range fields.Type().Fields() {
				member, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				about := string(e.payload.Type()) + "." + member
				was := fields.FieldByIndex(f.Index)
				accepted := 0
				for _, value := range others(was) {
					if reflect.DeepEqual(value, was.Interface()) || accepted == 2 {
						continue
					}
					other := reflect.New(fields.Type()).Elem()
					other.Set(fields)
					other.FieldByIndex(f.Index).Set(reflect.ValueOf(value))
					edited := slices.Clone(events)
					edited[i].payload = other.Addr().Interface().(trajectory.Payload)
					if !fits(edited[i].payload, member) {
						continue
					}
					v, err := written(edited)
					if err != nil {
						continue // the rules of the format do not permit this value
					}
					changed[about] = true
					accepted++
					differs := len(Compare(golden, Of(v), Behaviour)) > 0
					shows[about] = shows[about] || differs
					if _, noise := table()[e.payload.Type()].noise[member]; !differs && !noise {
						old, _ := canon.Marshal(was.Interface())
						now, _ := canon.Marshal(value)
						t.Errorf("%s, event %d: %s changed from %s to %s, and golden check shows nothing", name, i+1, about, old, now)
					}
				}
			}
		}
	}
	for _, typ := range trajectory.Types() {
		for _, member := range membersOf(trajectory.NewPayload(typ)) {
			about := string(typ) + "." + member
			_, noise := table()[typ].noise[member]
			if !changed[about] && !noise {
				t.Errorf("%s was never changed: the test has no value for it", about)
			}
			if noise && shows[about] && !surfaces[about] {
				t.Errorf("%s is called noise and shows", about)
			}
		}
	}
}

// surfaces are members that are noise by themselves and whose change shows in something
// else: names that tie events together no longer do, and a context over its budget.
var surfaces = map[string]bool{
	"tool_proposed.call": true, "tool_executed.call": true, "policy_decision.call": true, "policy_violation.call": true, "approval_requested.call": true,
	"approval_resolved.call": true, "memory_proposed.call": true, "memory_written.call": true, "memory_written.entry": true, "rollback.call": true,
	"handoff.call": true, "error.call": true, "model_call_started.call": true, "model_call_completed.call": true,
	"tool_observed.id": true, "tool_proposed.id": true, "tool_observed.judged": true, "run_started.vantage": true,
	"context_compiled.used": true, "context_compiled.sections": true,
}

// reread is the outline as its file gives it back.
func reread(t testing.TB, o *Outline) *Outline {
	t.Helper()
	again, err := Parse(o.Format())
	if err != nil {
		t.Fatalf("%v in\n%s", err, o.Format())
	}
	return again
}

// TestDroppedEventsShow: an event less is a step or a line less.
func TestDroppedEventsShow(t *testing.T) {
	events := eventful()
	v, err := written(events)
	if err != nil {
		t.Fatal(err)
	}
	golden := Of(v)
	for i, e := range events {
		less := append(slices.Clone(events[:i]), events[i+1:]...)
		v, err := written(less)
		if err != nil {
			continue // a turn or a run that does not begin
		}
		if typ := e.payload.Type(); typ == trajectory.ToolObservedType {
			continue // the proposal of a call of which more is known
		}
		if len(Compare(golden, Of(v), Behaviour)) == 0 {
			t.Errorf("event %d (%s) is dropped, and golden check shows nothing", i+1, e.payload.Type())
		}
	}
}

// TestATypeWithoutARowSurfaces: so does what no row knows of a type.
func TestATypeWithoutARowSurfaces(t *testing.T) {
	v, err := written(eventful())
	if err != nil {
		t.Fatal(err)
	}
	for _, typ := range trajectory.Types() {
		before := table()[typ]
		delete(table(), typ)
		lines := string(Of(v).Format())
		table()[typ] = before
		for e := range v.Events() {
			if e.Type == typ && typ != trajectory.ToolProposedType && typ != trajectory.ToolExecutedType && !strings.Contains(lines, "\n    with ") && !strings.Contains(lines, "\n"+string(typ)+"\n") {
				t.Errorf("%s has no row and does not show in\n%s", typ, lines)
			}
		}
	}
	fields := table()[trajectory.ToolExecutedType]
	fields.below = nil
	before := table()[trajectory.ToolExecutedType]
	table()[trajectory.ToolExecutedType] = fields
	defer func() { table()[trajectory.ToolExecutedType] = before }()
	if lines := string(Of(v).Format()); !strings.Contains(lines, `gave "ok" trust "untrusted"`) {
		t.Errorf("a member that is not in the row does not show in\n%s", lines)
	}
}

// TestTheOutlineOfARun: as people review it.
func TestTheOutlineOfARun(t *testing.T) {
	v, err := written(eventful())
	if err != nil {
		t.Fatal(err)
	}
	want := `tallystick golden outline v3

prompt "m"
    "{}"

turn 0
run
    under governance "autonomous"
memory "name"
    written "Bob" confidence 1 source "case" tier "semantic"

turn 1
user
    said "Pay." agent "main"
context
    holds admitted ["semantic/name"] budget 100 compression [] window 1000
offer "pay"
    is "{\"description\":\"Pays.\",\"name\":\"pay\"}"
model "m"
    asked provider "openai" tools ["pay"]
    replied "tool_calls"
call "pay" {"n":1}
    wants class "financial" trust "pinned"
    policy "escalate" check 1 rule "r"
    asked
    answered approved true by "case" note "fine"
    policy "allow" check 2 rule "policy:approval"
    gave "ok" trust "untrusted"
memory "name"
    wants "Rob" confidence 0.5 source "user" supersedes "semantic/name" tier "semantic"
    policy "allow" check 0 rule "mode:autonomous"
    written
handoff "auditor" "hello"
    policy "allow" check 0 rule "mode:autonomous"
    passed from "main"
error "model_retry"
    error detail "status 500"
answer
    said "hello"

turn 2
user
    said "hello" agent "main"
context
    holds admitted ["semantic/name (2)"] budget 100 compression [] window 1000
answer
    said "hello"
end "completed"
`
	if got := string(Of(v).Format()); got != want {
		t.Errorf("%s\nexpected\n%s", got, want)
	}
}
