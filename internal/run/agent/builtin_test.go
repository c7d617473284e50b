package agent

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/strictyaml"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/session"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/wire"
)

func TestTargetsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, tt := range []struct{ yaml, says string }{
		{"model: m\napi: openai.chat\n", ""},
		{"model: m\napi: openai.chat\nretries: 0\nmitigations: {fence_untrusted: false, guard_memory: true}\n", ""},
		{"model: m\napi: anthropic.messages\nsystem: Hi\ncontext: {window: 1000, budget: 999}\nmax_steps: 3\ntools: [a, b]\nabilities: [memory]\nrecall: 2\nagents:\n  - {name: x, description: why}\n", ""},
		{"model: m\napi: openai\n", `api: found "openai"`},
		{"model: \"\"\napi: openai.chat\n", "model: the model's name has 0 bytes"},
		{"api: openai.chat\n", "model"},
		{"model: m\napi: openai.chat\ncolour: red\n", "colour"},
		{"model: m\napi: openai.chat\ncontext: {window: 1000, budget: 1000}\n", "context.budget: found 1000, expected less than the window of 1000"},
		{"model: m\napi: openai.chat\ncontext: {budget: 128000}\n", "context.budget"},
		{"model: m\napi: openai.chat\ncontext: {window: 1000, budget: 900}\nmax_output_tokens: 101\n", "with room for 101 tokens of output"},
		{"model: m\napi: openai.chat\ncontext: {window: -5}\n", "context.window"},
		{"model: m\napi: openai.chat\nmax_steps: -1\n", "max_steps: found -1"},
		{"model: m\napi: openai.chat\nmax_steps: 1001\n", "max_steps"},
		{"model: m\napi: openai.chat\nretries: 11\n", "retries"},
		{"model: m\napi: openai.chat\nrecall: 257\n", "recall"},
		{"model: m\napi: openai.chat\ntemperature: 2.5\n", "temperature"},
		{"model: m\napi: openai.chat\nmax_output_tokens: -1\n", "max_output_tokens"},
		{"model: m\napi: openai.chat\ntools: [a, a]\n", "tools.1"},
		{"model: m\napi: openai.chat\nabilities: [flying]\n", `abilities.0: found "flying"`},
		{"model: m\napi: openai.chat\nabilities: [plan, plan]\n", "abilities.1"},
		{"model: m\napi: openai.chat\nagents:\n  - {name: main, description: why}\n", "another agent is called main"},
		{"model: m\napi: openai.chat\nagents:\n  - {name: A b, description: why}\n", "agents.0.name"},
		{"model: m\napi: openai.chat\nagents:\n  - {name: a, description: \"\"}\n", "agents.0.description"},
		{"model: m\napi: openai.chat\nagents:\n  - {name: a, description: b, abilities: [x]}\n", "agents.0.abilities.0"},
		{"model: m\napi: openai.chat\nmitigations: {all: false}\n", "all"},
		{"model: m\napi: openai.chat\npinned: {fetch: abc}\n", "pinned"},
	} {
		var b Builtin
		doc, err := strictyaml.Decode("t.yaml", []byte(tt.yaml), strictyaml.Rules{PlainDigits: true}, &b)
		if err == nil {
			if err = b.Validate(); err != nil {
				err = doc.Refuse(err)
			}
		}
		switch {
		case tt.says == "" && err != nil:
			t.Errorf("%q: %v", tt.yaml, err)
		case tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)):
			t.Errorf("%q: err %v, expected %q", tt.yaml, err, tt.says)
		}
	}
}

func TestTheDefaultBudgetIsTwoFifthsOfTheWindow(t *testing.T) {
	b := Builtin{Context: &ContextSize{Window: 1000}}
	if window, budget := b.contextSize(); window != 1000 || budget != 400 {
		t.Errorf("window %d, budget %d", window, budget)
	}
	b = Builtin{}
	if window, budget := b.contextSize(); window != 128_000 || budget != 51_200 {
		t.Errorf("window %d, budget %d", window, budget)
	}
}

// A replayed session, as the harness makes one, for benchmarks.
func benchmark(b *testing.B, tr trial) {
	first := tr.must(b)
	var interactions []cassette.Interaction
	model := &puppet{t: b, say: tr.say}
	for _, request := range first.requests {
		it, err := model.Call(context.Background(), tr.api(), []byte(request), nil)
		if err != nil {
			b.Fatal(err)
		}
		canonical, err := cassette.ModelRequest(tr.api(), []byte(request), nil)
		if err != nil {
			b.Fatal(err)
		}
		it.Model.Request = canonical.Canonical()
		interactions = append(interactions, *it)
	}
	tape, err := cassette.New(cassette.Authored, nil, 0, interactions)
	if err != nil {
		b.Fatal(err)
	}
	rules, err := policy.Compile(policy.ForMode(policy.Autonomous))
	if err != nil {
		b.Fatal(err)
	}
	target := tr.target
	target.Model, target.API = "m", tr.api()
	c := &scenario.Scenario{Version: 1, Memory: tr.memory}
	if tr.turns == nil {
		tr.turns = []string{"Hello"}
	}
	for _, text := range tr.turns {
		c.Turns = append(c.Turns, scenario.Turn{Text: text})
	}
	if tr.box == nil {
		tr.box = &box{}
	}
	b.ReportAllocs()
	for b.Loop() {
		tr.box.called = nil
		s, err := session.New(session.Config{Run: trajectory.RunStarted{Attempt: "a.b.1", Case: "c", Class: "k", Execution: 1, Repeat: 1, Target: "t"},
			Rules: rules, Start: time.Date(2026, 5, 1, 9, 0, 0, 0, time.UTC), Models: &session.Replay{Player: cassette.NewPlayer(tape)}, Source: "cassette", Tools: tr.box})
		if err != nil {
			b.Fatal(err)
		}
		out, err := target.Drive(context.Background(), s, c)
		if err != nil {
			b.Fatal(err)
		}
		s.Complete(out.Answer, out.Refused)
	}
}

func (tr trial) api() wire.API {
	if tr.target.API == "" {
		return wire.OpenAIChat
	}
	return tr.target.API
}

// Whatever a model answers, the loop comes to an end, says why, and leaves a
// trajectory that verifies.
func FuzzHostileReplies(f *testing.F) {
	for i, api := range apis {
		for _, s := range []said{text("hi"), want("memory_write", `{"tier":"semantic","key":"a","value":"b"}`), want("handoff", `{"agent":"other","input":"x"}`),
			want("transfer", `{"to":"eve"}`), {refusal: "no"}, {calls: []wire.Call{{Name: "fetch", Args: []byte(`{}`)}, {Name: "nosuch", Args: []byte(`{}`)}}}} {
			f.Add(uint8(i), string(s.encode(f, api, 1).Body), string(text("ok").encode(f, api, 2).Body))
		}
	}
	f.Add(uint8(0), `{"choices":[{"message":{"tool_calls":[{"function":{"name":"plan","arguments":"{\"text\":"}},{"id":"a"},{"id":"a"}]}}]}`, `{"choices":[{"message":{"content":[{"type":"text","text":"x"}]}}]}`)
	f.Add(uint8(1), `{"output":[{"type":"function_call"},{"type":"message","content":"x"}]}`, `{"status":"queued"}`)
	f.Add(uint8(2), `{"type":"message","content":[{"type":"tool_use","input":[]}]}`, `{"type":"error"}`)
	f.Add(uint8(2), "{\"err"+strings.Repeat("\xbf", 110), `{}`) // its error was once too long for run_failed
	f.Fuzz(func(t *testing.T, which uint8, first, second string) {
		api := apis[int(which)%len(apis)]
		tr := everything(api)
		tr.target.MaxSteps = 4
		tr.turns = []string{"a", "b"}
		tr.say = []said{{body: first + " "}, {body: second + " "}, {body: first + " "}, {body: second + " "}, text("end"), text("end"), text("end"), text("end")}
		r := tr.drive(t)
		if r.err == nil && r.count("run_completed") != 1 || r.err != nil && r.count("run_failed")+r.count("run_completed") != 1 {
			t.Errorf("err %v, events %v", r.err, r.types())
		}
		if r.err != nil && strings.TrimSpace(r.err.Error()) == "" {
			t.Error("a failure without a reason")
		}
	})
}

func TestTooManyCallsAreDropped(t *testing.T) {
	var s said
	for i := range maxCalls + 5 {
		s.calls = append(s.calls, wire.Call{Name: "look", Args: []byte(fmt.Sprintf(`{"n":%d}`, i))})
	}
	b := &box{}
	b.add(look, `1`)
	r := trial{box: b, say: []said{s, text("x")}}.must(t)
	if len(r.called) != maxCalls || r.count("error:too_many_calls") != 1 {
		t.Errorf("%d calls, events %v", len(r.called), r.types())
	}
}

func TestIdsThatCannotBeSentBackAreReplaced(t *testing.T) {
	body := `{"choices":[{"finish_reason":"tool_calls","message":{"tool_calls":[` +
		`{"function":{"name":"look","arguments":"{}"}},{"id":"same","function":{"name":"look","arguments":"{}"}},{"id":"same","function":{"name":"","arguments":null}},{"id":"` + strings.Repeat("x", 500) + `","function":{"name":"` + strings.Repeat("n", 500) + `","arguments":{"a":1}}}]}}]}`
	b := &box{}
	b.add(look, `1`)
	r := trial{box: b, say: []said{{body: body}, text("x")}}.must(t)
	for _, id := range []string{`"tool_call_id":"call_1"`, `"tool_call_id":"same"`, `"tool_call_id":"call_3"`, `"tool_call_id":"call_4"`, `"name":"unnamed"`} {
		has(t, r.last(t), id)
	}
	lacks(t, r.last(t), strings.Repeat("n", 129))
}
