package trajectory

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/policy"
)

// Two runs that did the same at another speed, with other ids, in another
// attempt, have one canonical form.
func TestCanonicalFormDoesNotDependOnTimeSpeedAndNames(t *testing.T) {
	one, err := Canonical(verified(t, sample(plainRun), plainRun.tick), Options{})
	if err != nil {
		t.Fatal(err)
	}
	two, err := Canonical(verified(t, sample(otherRun), otherRun.tick), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if d := Compare(one, two); d != nil {
		t.Errorf("they differ:\n%s", d)
	}
	if !bytes.Equal(one.Format(), two.Format()) {
		t.Error("the texts differ")
	}
	kept, err := Canonical(verified(t, sample(otherRun), otherRun.tick), Options{KeepCost: true})
	if err != nil {
		t.Fatal(err)
	}
	if d := Compare(one, kept); d == nil || !strings.Contains(d.String(), "cost_microdollars: 99") {
		t.Errorf("kept costs do not show: %v", d)
	}
}

func TestGoldenTextReadsBackAsTheSameTrace(t *testing.T) {
	c := trace(t, sample(plainRun))
	text := c.Format()
	back, err := ParseGolden(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if !reflect.DeepEqual(back, c) {
		t.Errorf("got %+v\nwant %+v", back, c)
	}
	if !bytes.Equal(back.Format(), text) {
		t.Error("formatting again gives another text")
	}
	for _, want := range []string{
		"\nturn 1\nturn_started agent=\"clerk\"\n    input.head: \"Pay 100 to alice\"\n",
		"\ntool_proposed call=\"call-3\" name=\"transfer\"\n    args.values.amount: 100\n    args.values.empty: {}\n    args.values.to.\"\": 1\n    args.values.to.\"a.b\": [1,{\"x\":null}]\n",
		"    text.head:\n      \"look up alice,\\n\"\n      \"then pay\\n\"\n",
		`detail: "hidden \u202e text"`,
		`supersedes: "entry-1"`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the golden text has no\n%s\nin\n%s", want, text)
		}
	}
	for _, gone := range []string{"latency_ms", "attempt", "prev=", "prev:", "cost_microdollars", "\u202e"} {
		if bytes.Contains(text, []byte(gone)) {
			t.Errorf("the golden text has %q", gone)
		}
	}
}

func TestParseGoldenRefuses(t *testing.T) {
	good := string(trace(t, sample(plainRun)).Format())
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "", "line 1: expected"},
		{"another version", strings.Replace(good, "v1", "v2", 1), "line 1: expected"},
		{"an unknown type", strings.Replace(good, "\nplan\n", "\nplot\n", 1), "no event type"},
		{"trailing space", strings.Replace(good, "\nplan\n", "\nplan \n", 1), "not as the program writes it"},
		{"another spelling of a number", strings.Replace(good, "amount: 100", "amount: 1e2", 1), "not as the program writes it"},
		{"a value before its event", goldenHeader + "    x: 1\n", "before the first event"},
		{"an event before its turn", goldenHeader + "plan\n", "before the first turn"},
		{"a text before its path", goldenHeader + "\nturn 0\nplan\n      \"x\"\n", "before its path"},
		{"bad JSON", strings.Replace(good, "amount: 100", "amount: 1,2", 1), "line "},
		{"no newline at the end", strings.TrimSuffix(good, "\n"), "not as the program writes it"},
		{"other line ends", strings.ReplaceAll(good, "\n", "\r\n"), "line 1: it ends in CR LF"},
		{"a merge conflict", strings.Replace(good, "\nplan\n", "\n<<<<<<< HEAD\nplan\n", 1), "no event type"},
	} {
		_, err := ParseGolden([]byte(tt.text))
		if err == nil || !strings.Contains(err.Error(), tt.want) || !refusal.Is(err, refusal.Malformed) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestSecretsAndTheirDigestsStayOutOfGoldens(t *testing.T) {
	run := func(secret string) []byte {
		hidden := NewRedacted([]byte("key "+secret), []byte("key [REDACTED]"), PromptHead)
		long := NewRedacted([]byte(secret+strings.Repeat("x", 9000)), []byte("[REDACTED]"+strings.Repeat("x", 9000)), PromptHead)
		return trace(t, []step{{0, started(plainRun)}, {0, &Plan{hidden}}, {0, &Plan{long}},
			{0, &ToolProposed{Args: NewRedactedArgs([]byte(`{"k":"`+secret+`"}`), []byte(`{"k":"[REDACTED]"}`)), Call: "c", Name: "x"}}}).Format()
	}
	if one, two := run("sk-1"), run("sk-22"); !bytes.Equal(one, two) || bytes.Contains(one, []byte("sk-")) {
		t.Errorf("%s\n%s", one, two)
	}
}

// A change beyond the head shows, because the digest of a text that was cut is
// kept.
func TestChangesBeyondTheHeadShow(t *testing.T) {
	run := func(end string) *Trace {
		return trace(t, []step{{0, started(plainRun)}, {0, &RunCompleted{Answer: textPointer(strings.Repeat("x", 9000) + end), Status: "completed"}}})
	}
	if d := Compare(run("a"), run("b")); d == nil || d.Change != ChangedAnswer {
		t.Errorf("got %v", d)
	}
}

func toolSteps(call, name, args, result string) []step {
	return []step{
		{1, &ToolProposed{Args: NewArgs([]byte(args)), Call: call, Name: name}},
		{1, &PolicyDecision{policy.Tool, call, policy.Allowed, name, "ok", policy.RuleAutonomous, policy.Allow}},
		{1, &ToolExecuted{Args: NewArgs([]byte(args)), Call: call, Name: name, Result: text(result), Source: "fixture"}},
	}
}

func memoryStep(call, key, value string) step {
	return step{1, &MemoryProposed{Call: call, Confidence: 1, Key: key, Source: "user", Tier: Semantic, Value: text(value)}}
}

// run wraps the steps of turn 1.
func run(answer string, parts ...[]step) []step {
	steps := []step{{0, started(plainRun)}, {1, &TurnStarted{}}}
	for _, p := range parts {
		steps = append(steps, p...)
	}
	return append(steps, step{1, &TurnCompleted{}}, step{2, &TurnStarted{}}, step{2, &TurnCompleted{}},
		step{2, &RunCompleted{Answer: textPointer(answer), Status: "completed"}})
}

func TestCompareClassifiesTheFirstDivergence(t *testing.T) {
	a, b, c := toolSteps("c1", "find", `{"q":"alice"}`, "id 7"), toolSteps("c2", "pay", `{"id":7}`, "ok"), toolSteps("c3", "pay", `{"id":7}`, "ok")
	deny := slices.Clone(b)
	deny[1] = step{1, &PolicyDecision{policy.Tool, "c2", policy.Denied, "pay", "no", "no-pay", policy.Deny}}
	reason := slices.Clone(b)
	reason[1] = step{1, &PolicyDecision{policy.Tool, "c2", policy.Allowed, "pay", "because", policy.RuleAutonomous, policy.Allow}}
	violation := step{1, &PolicyViolation{Call: "c2", Rule: "no-pay", Text: "denied tool: pay"}}
	model := func(prompt, output string) []step {
		return []step{
			{1, &ModelCallStarted{Call: "m", Messages: 1, Model: "m", Prompt: text(prompt), Provider: "p"}},
			{1, &ModelCallCompleted{Call: "m", FinishReason: "stop", Output: text(output), Source: "cassette"}},
		}
	}
	approval := func(yes bool) []step {
		return []step{{1, &ApprovalRequested{Action: policy.Tool, Call: "c9", Name: "pay", Rule: "r"}}, {1, &ApprovalResolved{Approved: yes, By: "case", Call: "c9"}}}
	}
	context := func(used int) []step {
		return []step{{1, &ContextCompiled{Budget: 100, Sections: map[string]int{"system": used}, Used: int64(used)}}}
	}
	handoff := func(to string) []step { return []step{{1, &HandedOff{Call: "h", From: "x", To: to}}} }
	mem := func(steps ...step) []step { return steps }

	for _, tt := range []struct {
		name        string
		golden, got []step
		want        Change
		turn, step  int
		shows       string
	}{
		{"one tool call more", run("x", a), run("x", a, b), New, 1, 5, `+ tool_proposed call="call-2" name="pay"`},
		{"the same call twice", run("x", a, b), run("x", a, b, c), New, 1, 8, "+ tool_proposed"},
		{"one tool call less", run("x", a, b), run("x", a), Missing, 1, 5, `- tool_proposed call="call-2" name="pay"`},
		{"the first call missing", run("x", a, b), run("x", b), Missing, 1, 2, `- tool_proposed call="call-1" name="find"`},
		{"calls in another order", run("x", a, b), run("x", b, a), Reordered, 1, 2, "+ tool_proposed"},
		{"memory in another order", run("x", mem(memoryStep("1", "a", "x"), memoryStep("2", "b", "y"))), run("x", mem(memoryStep("1", "b", "y"), memoryStep("2", "a", "x"))), Reordered, 1, 2, ""},
		{"a violation", run("x", deny), run("x", deny, mem(violation)), New, 1, 5, "denied tool: pay"},
		{"other arguments", run("x", a, b), run("x", a, toolSteps("c2", "pay", `{"id":8}`, "ok")), ChangedArguments, 1, 5, "- args.values.id: 7\n  + args.values.id: 8\n"},
		{"an argument more", run("x", a), run("x", toolSteps("c1", "find", `{"q":"alice","all":true}`, "id 7")), ChangedArguments, 1, 2, "+ args.values.all: true"},
		{"another result", run("x", a), run("x", toolSteps("c1", "find", `{"q":"alice"}`, "id 8")), ChangedResult, 1, 4, `- result.head: "id 7"`},
		{"another tool", run("x", a), run("x", toolSteps("c1", "seek", `{"q":"alice"}`, "id 7")), ChangedTool, 1, 2, `name: "seek"`},
		{"another agent", run("x", handoff("auditor")), run("x", handoff("mallory")), ChangedTool, 1, 2, `to: "mallory"`},
		{"another verdict", run("x", b), run("x", deny), ChangedVerdict, 1, 3, `- verdict: "allow"`},
		{"another reason", run("x", b), run("x", reason), ChangedFields, 1, 3, `reason: "because"`},
		{"another approval", run("x", approval(true)), run("x", approval(false)), ChangedVerdict, 1, 3, "+ approved: false"},
		{"another memory value", run("x", mem(memoryStep("1", "a", "x"))), run("x", mem(memoryStep("1", "a", "y"))), ChangedMemory, 1, 2, `+ value.head: "y"`},
		{"another memory key", run("x", mem(memoryStep("1", "a", "x"))), run("x", mem(memoryStep("1", "b", "x"))), ChangedMemory, 1, 2, `+ key: "b"`},
		{"another context", run("x", context(10)), run("x", context(20)), ChangedContext, 1, 2, "+ used: 20"},
		{"another prompt", run("x", model("a", "b")), run("x", model("c", "b")), ChangedArguments, 1, 2, "prompt.head"},
		{"another reply", run("x", model("a", "b")), run("x", model("a", "c")), ChangedOutput, 1, 3, "output.head"},
		{"another answer", run("x", a), run("y", a), ChangedAnswer, 2, 3, "  - answer.head: \"x\"\n  + answer.head: \"y\"\n"},
		{"another kind of event", run("x", mem(step{1, &Plan{text("p")}})), run("x", mem(step{1, &Failure{Detail: "d", Name: "n"}})), ChangedType, 1, 2, "- plan"},
		{"a run cut short", run("x", a), run("x", a)[:6], Missing, 2, 1, "- turn_started"},
		{"a run that goes on", run("x", a)[:6], run("x", a), New, 2, 1, "+ turn_started"},
		{"a turn more", run("x", a)[:7], append(run("x", a)[:7], step{3, &TurnStarted{}}), New, 3, 1, "+ turn_started"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := Compare(trace(t, tt.golden), trace(t, tt.got))
			if d == nil {
				t.Fatal("no divergence was found")
			}
			if d.Change != tt.want || d.Turn != tt.turn || d.Step != tt.step || !strings.Contains(d.String(), tt.shows) {
				t.Errorf("got %s\nwant %s at turn %d, step %d, with %q", d, tt.want, tt.turn, tt.step, tt.shows)
			}
			if d.Change == New && d.Golden != nil || d.Change == Missing && d.Got != nil || d.Golden == nil && d.Got == nil {
				t.Errorf("the sides are wrong: %+v", d)
			}
			// The other way round, what was new is missing.
			back := Compare(trace(t, tt.got), trace(t, tt.golden))
			opposite := map[Change]Change{New: Missing, Missing: New}
			want := d.Change
			if o, ok := opposite[want]; ok {
				want = o
			}
			if back == nil || back.Change != want {
				t.Errorf("the other way round: %v, want %s", back, want)
			}
		})
	}
}

func TestComparingATraceWithItselfFindsNothing(t *testing.T) {
	for _, steps := range [][]step{sample(plainRun), small(), run("x"), {{0, started(plainRun)}}} {
		c := trace(t, steps)
		if d := Compare(c, trace(t, steps)); d != nil {
			t.Errorf("%s", d)
		}
		if d, err := CheckGolden(c.Format(), verified(t, steps, time.Second), Options{}); d != nil || err != nil {
			t.Errorf("%v, %v", d, err)
		}
	}
}

// Every single dropped, doubled or exchanged event is found, at or before its
// place.
func TestCompareFindsEveryStructuralChange(t *testing.T) {
	golden := trace(t, sample(plainRun))
	for i := range golden.Steps {
		dropped := &Trace{slices.Delete(slices.Clone(golden.Steps), i, i+1)}
		if d := Compare(golden, dropped); d == nil || d.Change != Missing && d.Change != ChangedTool && d.Change != ChangedType {
			t.Errorf("event %d dropped: %v", i, d)
		}
		doubled := &Trace{slices.Insert(slices.Clone(golden.Steps), i, golden.Steps[i])}
		if d := Compare(golden, doubled); d == nil || d.Change != New {
			t.Errorf("event %d doubled: %v", i, d)
		}
		if i > 0 && golden.Steps[i].Turn == golden.Steps[i-1].Turn {
			exchanged := &Trace{slices.Clone(golden.Steps)}
			exchanged.Steps[i], exchanged.Steps[i-1] = exchanged.Steps[i-1], exchanged.Steps[i]
			if d := Compare(golden, exchanged); d == nil || d.Change != Reordered || d.Step != golden.Steps[i-1].Number {
				t.Errorf("events %d and %d exchanged: %v", i-1, i, d)
			}
		}
	}
}

func TestCheckGoldenRefusesABrokenFile(t *testing.T) {
	v := verified(t, small(), time.Millisecond)
	if d, err := CheckGolden([]byte("nonsense"), v, Options{}); err == nil || d != nil {
		t.Errorf("got %v, %v", d, err)
	}
	other := trace(t, run("x"))
	if d, err := CheckGolden(other.Format(), v, Options{}); err != nil || d == nil {
		t.Errorf("got %v, %v", d, err)
	}
}

// FuzzParseGolden: what is read is written as the same text.
func FuzzParseGolden(f *testing.F) {
	f.Add(trace(f, sample(plainRun)).Format())
	f.Add([]byte(goldenHeader + "\nturn 0\nplan\n    text.\"a:b\":\n      \"x\\n\"\n      \"y\"\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ParseGolden(text)
		if err != nil {
			return
		}
		if !bytes.Equal(c.Format(), text) {
			t.Fatal("another text")
		}
		if d := Compare(c, c); d != nil {
			t.Fatal(d)
		}
	})
}

// benchRun is a run of about 200 events.
func benchRun() []step {
	var parts [][]step
	for i := range 65 {
		parts = append(parts, toolSteps(fmt.Sprint("c", i), "find", fmt.Sprintf(`{"q":"alice %d","page":%d}`, i, i), strings.Repeat("result ", 20)))
	}
	return run("done", parts...)
}

func BenchmarkCheckGolden1000TracesOf200Events(b *testing.B) {
	v := verified(b, benchRun(), time.Millisecond)
	c, err := Canonical(v, Options{})
	if err != nil {
		b.Fatal(err)
	}
	golden := c.Format()
	l := write(b, benchRun(), time.Millisecond)
	data, pin := l.Bytes(), HeadIs(l.Head())
	b.ReportMetric(float64(v.Len()), "events")
	b.Run("equal", func(b *testing.B) {
		for b.Loop() {
			for range 1000 {
				if d, err := CheckGolden(golden, v, Options{}); d != nil || err != nil {
					b.Fatal(d, err)
				}
			}
		}
	})
	b.Run("verify_and_equal", func(b *testing.B) {
		for b.Loop() {
			for range 1000 {
				v, err := Verify(data, pin)
				if err != nil {
					b.Fatal(err)
				}
				if d, err := CheckGolden(golden, v, Options{}); d != nil || err != nil {
					b.Fatal(d, err)
				}
			}
		}
	})
	b.Run("diverging_at_the_end", func(b *testing.B) {
		other := benchRun()
		other[len(other)-1].payload = &RunCompleted{Answer: textPointer("no"), Status: "completed"}
		v := verified(b, other, time.Millisecond)
		for b.Loop() {
			for range 1000 {
				if d, err := CheckGolden(golden, v, Options{}); d == nil || err != nil {
					b.Fatal(d, err)
				}
			}
		}
	})
	b.Run("compare_parsed", func(b *testing.B) {
		one, err := ParseGolden(golden)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			for range 1000 {
				if d := Compare(one, c); d != nil {
					b.Fatal(d)
				}
			}
		}
	})
}
