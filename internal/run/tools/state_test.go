package tools

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"tallystick/internal/record/canon"
)

type rawMessage = canon.RawMessage

// One tool with one reply, and a default that says that it was not given.
func withReply(reply string) string {
	return `  - name: x
    class: read
    state: {num: 3, text: abc, list: [1, two, {a: 1}], sure: true, deep: {a: {b: [10, 20]}}}
    replies:
      - ` + strings.ReplaceAll(strings.TrimSpace(reply), "\n", "\n        ") + `
    default: {result: default}
`
}

func TestRepliesAnswerTheCallsTheyAreFor(t *testing.T) {
	for _, tt := range []struct {
		reply, args string
		given       bool
	}{
		{"args: {}", `{}`, true},
		{"args: {}", ``, true},
		{"args: {}", `{"a":1}`, false},
		{"args: {a: 1, b: [x]}", `{"b":["x"],"a":1.0}`, true},
		{"args: {a: 1}", `{"a":1,"b":2}`, false},
		{"args: {a: 1}", `{"a":"1"}`, false},
		{"has: {a: 1}", `{"a":1,"b":2}`, true},
		{"has: {a: {b: 1}}", `{"a":{"b":1,"c":2}}`, true},
		{"has: {a: {b: 1}}", `{"a":{"c":2}}`, false},
		{"has: {a: [1]}", `{"a":[1,2]}`, false},
		{"has: {a: {}}", `{"a":1}`, false},
		{"where: {a: {eq: 1}}", `{"a":1}`, true},
		{"where: {a: {eq: \"\"}}", `{"a":""}`, true},
		{"where: {a: {ne: 1}}", `{"a":2}`, true},
		{"where: {a: {ne: 1}}", `{}`, false},
		{"where: {a: {lt: 3}}", `{"a":2.5}`, true},
		{"where: {a: {lt: 3}}", `{"a":3}`, false},
		{"where: {a: {le: 3}}", `{"a":3}`, true},
		{"where: {a: {gt: \"{{state.num}}\"}}", `{"a":4}`, true},
		{"where: {a: {gt: \"{{state.num}}\"}}", `{"a":3}`, false},
		{"where: {a: {gt: \"{{state.num}}\"}}", `{"a":"4"}`, false},
		{"where: {a: {ge: 1, lt: 2}}", `{"a":1}`, true},
		{"where: {a: {ge: 1, lt: 2}}", `{"a":2}`, false},
		{"where: {a: {gt: b}}", `{"a":"c"}`, true},
		{"where: {a: {in: [1, x]}}", `{"a":"x"}`, true},
		{"where: {a: {in: [1, x]}}", `{"a":2}`, false},
		{"where: {a: {in: \"{{state.list}}\"}}", `{"a":{"a":1}}`, true},
		{"where: {a: {in: \"{{state.text}}\"}}", `{"a":"abc"}`, false},
		{"where: {a: {has: x}}", `{"a":["x"]}`, true},
		{"where: {a: {has: x}}", `{"a":"axb"}`, true},
		{"where: {a: {has: 1}}", `{"a":"1"}`, false},
		{"where: {a: {matches: \"^a+$\"}}", `{"a":"aaa"}`, true},
		{"where: {a: {matches: \"^a+$\"}}", `{"a":"aab"}`, false},
		{"where: {a: {matches: \"1\"}}", `{"a":1}`, false},
		{"where: {a: {exists: true}}", `{"a":null}`, true},
		{"where: {a: {exists: true}}", `{}`, false},
		{"where: {a: {exists: false}}", `{}`, true},
		{"where: {a: {exists: false}}", `{"a":null}`, false},
		{"where: {a.0.b: {eq: 1}}", `{"a":[{"b":1}]}`, true},
		{"where: {a.1.b: {eq: 1}}", `{"a":[{"b":1}]}`, false},
		{"where: {a: {eq: \"{{args.b}}\"}}", `{"a":[1],"b":[1]}`, true},
		{"where: {a: {eq: 1}, b: {eq: 2}}", `{"a":1,"b":3}`, false},
		{"if: {num: {eq: 3}}", `{}`, true},
		{"if: {num: {eq: 4}}", `{}`, false},
		{"if: {deep.a.b.1: {eq: \"{{args.x}}\"}}", `{"x":20}`, true},
		{"if: {sure: {eq: true}, text: {eq: abd}}", `{}`, false},
		{"call: 1", `{}`, true},
		{"call: 2", `{}`, false},
	} {
		t.Run(tt.reply+" "+tt.args, func(t *testing.T) {
			s := start(t, withReply("result: given\n"+tt.reply), "")
			got := string(call(t, s, "x", tt.args).JSON)
			if want := map[bool]string{true: `"given"`, false: `"default"`}[tt.given]; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

func TestTemplates(t *testing.T) {
	for _, tt := range []struct{ result, args, want string }{
		{`plain`, `{}`, `"plain"`},
		{`"{{args.a}}"`, `{"a":{"b":[1,null]}}`, `{"b":[1,null]}`},
		{`"{{ args.a.b.0 }}"`, `{"a":{"b":[1,null]}}`, `1`},
		{`"{{args.a}}"`, `{}`, `null`},
		{`"a={{args.a}};"`, `{}`, `"a=;"`},
		{`"a={{args.a}} n={{state.num}} l={{state.list}}"`, `{"a":"x\"y"}`, `"a=x\"y n=3 l=[1,\"two\",{\"a\":1}]"`},
		{`{"{{args.a}}": "{{args.a}}", l: ["{{state.deep.a.b.1}}", [], {}, "", 1.5, true, null]}`, `{"a":"v"}`, `{"l":[20,[],{},"",1.5,true,null],"{{args.a}}":"v"}`},
		{`"{{open}}args.a}}"`, `{"a":1}`, `"{{args.a}}"`},
		{`["{{open}}", "x{{open}}{{state.num}}"]`, `{}`, `["{{","x{{3"]`},
		// What an agent writes is not a template, however often it passes.
		{`"{{args.a}}"`, `{"a":"{{state.text}}"}`, `"{{state.text}}"`},
		{`"<{{args.a}}>"`, `{"a":"{{state.text}}"}`, `"<{{state.text}}>"`},
		{`"{{args.a}}{{args.b}}"`, `{"a":"{{state","b":".text}}"}`, `"{{state.text}}"`},
		{`""`, `{}`, `""`},
		{`[]`, `{}`, `[]`},
		{`false`, `{}`, `false`},
	} {
		t.Run(tt.result, func(t *testing.T) {
			s := start(t, withReply("result: "+tt.result), "")
			if got := call(t, s, "x", tt.args); string(got.JSON) != tt.want || got.Error != "" {
				t.Errorf("got %s %s, want %s", got.JSON, got.Error, tt.want)
			}
		})
	}
}

func TestStateChanges(t *testing.T) {
	for _, tt := range []struct{ changes, args, want, failure string }{
		{"add: {num: 1}", `{}`, `{"num":4}`, ""},
		{"add: {num: -1.5}", `{}`, `{"num":1.5}`, ""},
		{"subtract: {num: \"{{args.a}}\"}", `{"a":0.1}`, `{"num":2.9}`, ""},
		{"subtract: {num: 3}", `{}`, `{"num":0}`, ""},
		{"set: {num: {a: \"{{args.a}}\"}}", `{"a":[1]}`, `{"num":{"a":[1]}}`, ""},
		{"append: {list: \"{{args.a}}\"}", `{"a":5}`, `{"list":[1,"two",{"a":1},5]}`, ""},
		{"delete: [num, text]", `{}`, `{"num":null,"text":null}`, ""},
		// Changes see the values as they were before.
		{"set: {num: \"{{state.text}}\", text: \"{{state.num}}\"}", `{}`, `{"num":"abc","text":3}`, ""},
		// What an agent sends must not leave half of the changes.
		{"add: {num: \"{{args.a}}\"}\nset: {text: changed}", `{"a":"1"}`, `{"num":3,"text":"abc"}`, "what changes num is not a number"},
		{"add: {num: \"{{args.a}}\"}\nset: {text: changed}", `{}`, `{"num":3,"text":"abc"}`, "what changes num is not a number"},
		{"add: {num: \"{{args.a}}\"}\nset: {text: changed}", `{"a":9007199254740991}`, `{"num":3,"text":"abc"}`, "too large"},
		{"append: {text: 1}", `{}`, `{"text":"abc"}`, "text is not a list"},
		{"subtract: {text: 1}", `{}`, `{"text":"abc"}`, "text is not a number"},
	} {
		t.Run(tt.changes, func(t *testing.T) {
			s := start(t, withReply("result: ok\n"+tt.changes), "")
			before, _ := s.Snapshot().Values()
			got := call(t, s, "x", tt.args)
			if !strings.Contains(got.Error, tt.failure) || tt.failure == "" && got.Error != "" {
				t.Errorf("error %q", got.Error)
			}
			after, err := s.Snapshot().Values()
			if err != nil {
				t.Fatal(err)
			}
			var old, state, want map[string]any
			for raw, v := range map[*map[string]any][]byte{&old: before, &state: after, &want: []byte(tt.want)} {
				if err := canon.Unmarshal(v, raw); err != nil {
					t.Fatal(err)
				}
			}
			for key := range old {
				expected, changed := want[key]
				if !changed {
					expected = old[key]
				}
				if !equal(state[key], expected) {
					t.Errorf("%s is %v, want %v", key, state[key], expected)
				}
			}
		})
	}
}

func TestRemovedValuesCountFromNothing(t *testing.T) {
	s := start(t, withReply("call: 1\nresult: 1\ndelete: [num, list]")+
		"  - name: z\n    class: read\n    default: {result: \"{{state.num}} {{state.list}}\", add: {num: 2}, append: {list: a}}\n", "")
	call(t, s, "x", "")
	if got := call(t, s, "z", ""); string(got.JSON) != `"2 [\"a\"]"` {
		t.Errorf("got %s", got.JSON)
	}
}

func TestTimesAndCalls(t *testing.T) {
	s := start(t, `  - name: x
    class: read
    schema: {type: object, properties: {bad: false}}
    replies:
      - {call: 3, error: third}
      - {times: 2, result: twice}
    default: {result: rest}
`, "")
	var got []string
	for range 5 {
		r := call(t, s, "x", "{}")
		got = append(got, r.Error+string(r.JSON))
		call(t, s, "x", `{"bad":1}`) // does not count
	}
	if fmt.Sprint(got) != `["twice" "twice" third "rest" "rest"]` {
		t.Errorf("got %v", got)
	}
}

func TestLatencyAndCost(t *testing.T) {
	s := start(t, `  - name: x
    class: read
    latency_ms: 40
    cost_microdollars: 7
    tokens: 2
    replies:
      - {call: 1, result: 1}
      - {call: 2, error: slow, latency_ms: 9000, cost_microdollars: 0, tokens: 0}
    default: {result: 1}
`, "")
	for _, want := range []Result{{Latency: 40 * time.Millisecond, CostMicroUSD: 7, Tokens: 2}, {Latency: 9 * time.Second}, {Latency: 40 * time.Millisecond, CostMicroUSD: 7, Tokens: 2}} {
		if got := call(t, s, "x", ""); got.Latency != want.Latency || got.CostMicroUSD != want.CostMicroUSD || got.Tokens != want.Tokens {
			t.Errorf("got %+v", got)
		}
	}
	// Who was not called costs nothing.
	if got := call(t, s, "x", "[]"); got.Error == "" || got.Latency != 0 || got.CostMicroUSD != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestBadCallsAreAnsweredWithAnError(t *testing.T) {
	s := start(t, `  - name: x
    class: read
    schema: {type: object, required: [a], properties: {a: {type: integer}}}
    replies: [{args: {a: 1}, result: 1}]
`, "")
	for _, tt := range []struct{ name, args, want string }{
		{"y", `{}`, `there is no tool called "y"`},
		{"X", `{"a":1}`, `there is no tool called "X"`},
		{"\x1b[2J\u202e" + strings.Repeat("y", 1000), `{}`, `there is no tool called "\x1b[2J\u202eyyy`},
		{"", `{}`, `there is no tool called ""`},
		{"x", `{"a":1`, "bad arguments: reading JSON"},
		{"x", `{"a":1,"a":2}`, "bad arguments"},
		{"x", `{"a":1}{}`, "bad arguments"},
		{"x", "{\"a\":\"\xff\"}", "bad arguments"},
		{"x", `null`, "found no JSON object"},
		{"x", `[1]`, "found no JSON object"},
		{"x", `"{\"a\":1}"`, "found no JSON object"},
		{"x", ``, "a: found nothing, expected a whole number"},
		{"x", `{"a":"1"}`, `a: found the text "1", expected a whole number`},
		{"x", `{"a":1e999}`, "bad arguments"},
		{"x", `{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, "bad arguments"},
		{"x", `{"a":"` + strings.Repeat("x", maxArgumentBytes) + `"}`, "expected at most 1048576"},
		{"x", `{"a":2}`, "the tool x has no reply for these arguments"},
	} {
		r := call(t, s, tt.name, tt.args)
		if !strings.Contains(r.Error, tt.want) || r.JSON != nil || len(r.Error) > maxErrorBytes || r.Source != "fixture" || r.Trust != "internal" {
			t.Errorf("%.40q %.60s: got %+v, want %s", tt.name, tt.args, r, tt.want)
		}
		if check := s.Check(tt.name, []byte(tt.args)); (check == nil) != strings.Contains(tt.want, "no reply") {
			t.Errorf("%.40q %.60s: Check gives %v", tt.name, tt.args, check)
		}
	}
}

func TestCallEndsWithItsContext(t *testing.T) {
	s := start(t, withReply("result: 1"), "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Call(ctx, "x", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if r := call(t, s, "x", ""); string(r.JSON) != "1" {
		t.Errorf("got %+v", r)
	}
}

func TestRestoreBringsBackWhatWasRemembered(t *testing.T) {
	s := start(t, withReply("times: 2\nresult: \"{{state.num}}\"\nadd: {num: 1}\nappend: {list: x}"), "")
	call(t, s, "x", "")
	at := s.Snapshot()
	saved, err := at.JSON()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := string(call(t, s, "x", "").JSON); got != "5" {
			t.Errorf("the second call gives %s", got)
		}
		if got := string(call(t, s, "x", "").JSON); got != `"default"` {
			t.Errorf("the third call gives %s", got)
		}
		changed, _ := s.Snapshot().JSON()
		if string(changed) == string(saved) {
			t.Error("nothing was changed")
		}
		s.Restore(at)
		restored, _ := s.Snapshot().JSON()
		if string(restored) != string(saved) {
			t.Errorf("restored %s, want %s", restored, saved)
		}
	}
}

// Appending to a list of a snapshot must not write into the memory of another,
// whatever room the list has left.
func TestSnapshotsShareNothing(t *testing.T) {
	s := start(t, withReply("result: \"{{state.list}}\"\nappend: {list: \"{{args.a}}\"}"), "")
	for range 10 {
		call(t, s, "x", `{"a":1}`)
		at := s.Snapshot()
		call(t, s, "x", `{"a":"first"}`)
		kept := s.Snapshot()
		s.Restore(at)
		call(t, s, "x", `{"a":"second"}`)
		if values, _ := kept.Values(); !strings.Contains(string(values), `"first"`) || strings.Contains(string(values), `"second"`) {
			t.Errorf("the kept snapshot is %s", values)
		}
		s.Restore(at)
	}
}

func TestStateCannotGrowWithoutEnd(t *testing.T) {
	s := start(t, withReply("result: 1\nappend: {list: \"{{args.a}}\"}"), "")
	big := `{"a":"` + strings.Repeat("x", 300<<10) + `"}`
	for range 3 {
		if r := call(t, s, "x", big); r.Error != "" {
			t.Fatal(r.Error)
		}
	}
	before, _ := s.Snapshot().Values()
	if r := call(t, s, "x", big); !strings.Contains(r.Error, "remember too much") {
		t.Errorf("got %+v", r)
	}
	if after, _ := s.Snapshot().Values(); string(after) != string(before) {
		t.Error("the state was changed")
	}
}

func TestConcurrentCallsAreCountedOnce(t *testing.T) {
	s := start(t, withReply("result: \"{{state.num}}\"\nadd: {num: 1}"), "")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				call(t, s, "x", "")
				s.Restore(s.Snapshot())
				s.Definitions()
			}
		})
	}
	wg.Wait()
	one := start(t, withReply("result: \"{{state.num}}\"\nadd: {num: 1}"), "")
	for range 8 {
		wg.Go(func() {
			for range 50 {
				call(t, one, "x", "")
			}
		})
	}
	wg.Wait()
	if got := string(call(t, one, "x", "").JSON); got != "404" {
		t.Errorf("got %s", got)
	}
}

func TestModelsDoNotSeeRepliesAndState(t *testing.T) {
	s := start(t, documented(t, "yaml example"), t.TempDir())
	defs := s.Definitions()
	var names []string
	for _, d := range defs {
		names = append(names, d.Name+" "+d.Source+" "+d.Trust+" "+d.Label())
		if d.Replies != nil || d.Default != nil || d.State != nil {
			t.Errorf("%s shows its replies or state", d.Name)
		}
		one, ok := s.Lookup(d.Name)
		if !ok || one.Replies != nil || one.Default != nil || one.State != nil || string(one.Schema) != string(d.Schema) {
			t.Errorf("Lookup gives %+v", one)
		}
	}
	if got, want := strings.Join(names, ", "), "balance fixture bench pinned, fetch fixture outside untrusted, read_file folder bench internal, transfer fixture bench pinned"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if _, ok := s.Lookup("Balance"); ok {
		t.Error("a name in other case is found")
	}
}

func BenchmarkFixtureCall(b *testing.B) {
	s := start(b, documented(b, "yaml example"), b.TempDir())
	at := s.Snapshot()
	args := []byte(`{"amount":1,"key":"k","to":"alice"}`)
	b.ReportAllocs()
	for b.Loop() {
		r, err := s.Call(b.Context(), "transfer", args)
		if err != nil || r.Error != "" {
			b.Fatal(err, r.Error)
		}
		s.Restore(at)
	}
}

func BenchmarkNew(b *testing.B) {
	defs := parse(b, documented(b, "yaml example"))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := New(defs, "folder", nil, nil); err != nil {
			b.Fatal(err)
		}
	}
}
