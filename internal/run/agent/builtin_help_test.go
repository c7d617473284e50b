package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/session"
	"tallystick/internal/run/tools"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/wire"
)

var apis = []wire.API{wire.OpenAIChat, wire.OpenAIResponses, wire.AnthropicMessages}

// A said is one reply of a model that was written by hand.
type said struct {
	text    string
	refusal string
	calls   []wire.Call
	status  int64
	body    string // instead of all others
	finish  string
}

func text(s string) said { return said{text: s} }

func status(n int64) said { return said{status: n} }

// want is a reply that calls one tool; args is JSON.
func want(name, args string) said { return said{calls: []wire.Call{{Name: name, Args: []byte(args)}}} }

// encode writes the reply as its API does.
func (s said) encode(t testing.TB, api wire.API, n int) cassette.Response {
	t.Helper()
	if s.status != 0 {
		return cassette.Response{Status: s.status, Body: canonical(t, `{"error":{"message":"try later","type":"overloaded"}}`)}
	}
	if s.body != "" {
		if text, err := canon.Canonicalize([]byte(s.body)); err == nil {
			return cassette.Response{Status: 200, Body: text}
		}
		return cassette.Response{Status: 200, Text: s.body}
	}
	var doc any
	id := func(i int) string { return fmt.Sprintf("call_%dabcdefgh%d", n, i) }
	switch api {
	case wire.OpenAIResponses:
		output := []any{}
		if s.text != "" || s.refusal != "" {
			part := map[string]any{"type": "output_text", "text": s.text, "annotations": []any{}}
			if s.refusal != "" {
				part = map[string]any{"type": "refusal", "refusal": s.refusal}
			}
			output = append(output, map[string]any{"type": "message", "id": fmt.Sprintf("msg_%dabcdefghi", n), "role": "assistant", "status": "completed", "content": []any{part}})
		}
		for i, c := range s.calls {
			output = append(output, map[string]any{"type": "function_call", "id": fmt.Sprintf("fc_%dabcdefghi%d", n, i), "call_id": id(i), "name": c.Name, "arguments": string(c.Args), "status": "completed"})
		}
		r := map[string]any{"id": fmt.Sprintf("resp_%dabcdefghi", n), "object": "response", "status": "completed", "output": output, "error": nil, "incomplete_details": nil}
		if s.finish == "length" {
			r["status"], r["incomplete_details"] = "incomplete", map[string]any{"reason": "max_output_tokens"}
		}
		doc = r
	case wire.AnthropicMessages:
		content := []any{}
		if words := s.text + s.refusal; words != "" {
			content = append(content, map[string]any{"type": "text", "text": words})
		}
		stop := "end_turn"
		for i, c := range s.calls {
			content = append(content, map[string]any{"type": "tool_use", "id": "toolu_" + id(i), "name": c.Name, "input": canon.RawMessage(c.Args)})
			stop = "tool_use"
		}
		if s.refusal != "" {
			stop = "refusal"
		}
		if s.finish == "length" {
			stop = "max_tokens"
		}
		doc = map[string]any{"id": fmt.Sprintf("msg_%dabcdefghi", n), "type": "message", "role": "assistant", "content": content, "stop_reason": stop, "model": "m"}
	default:
		message := map[string]any{"role": "assistant", "content": nil, "refusal": nil}
		if s.text != "" {
			message["content"] = s.text
		}
		if s.refusal != "" {
			message["refusal"] = s.refusal
		}
		var calls []any
		for i, c := range s.calls {
			calls = append(calls, map[string]any{"id": id(i), "type": "function", "function": map[string]any{"name": c.Name, "arguments": string(c.Args)}})
		}
		finish := "stop"
		if calls != nil {
			message["tool_calls"], finish = calls, "tool_calls"
		}
		if s.finish != "" {
			finish = s.finish
		}
		doc = map[string]any{"id": "chatcmpl-1", "object": "chat.completion", "choices": []any{map[string]any{"index": 0, "finish_reason": finish, "message": message}}}
	}
	b, err := canon.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return cassette.Response{Status: 200, Body: b}
}

func canonical(t testing.TB, s string) []byte {
	t.Helper()
	b, err := canon.Canonicalize([]byte(s))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A puppet is a model that says what it is told, in order.
type puppet struct {
	t        testing.TB
	say      []said
	stream   bool
	requests []string
}

func (p *puppet) Call(_ context.Context, api wire.API, body []byte, _ func(string) error) (*cassette.Interaction, error) {
	if err := canon.Validate(body); err != nil {
		p.t.Errorf("the request is not canonical: %v\n%s", err, body)
	}
	p.requests = append(p.requests, string(body))
	if len(p.requests) > len(p.say) {
		return nil, fmt.Errorf("the puppet has no reply %d", len(p.requests))
	}
	r := p.say[len(p.requests)-1].encode(p.t, api, len(p.requests))
	if p.stream && r.Status == 200 && r.Body != nil {
		chunks, err := wire.StreamOfBody(api, r.Body, false)
		if err != nil {
			p.t.Fatal(err)
		}
		r = cassette.Response{Status: 200, Stream: chunks}
	}
	return &cassette.Interaction{LatencyMS: 5, Model: &cassette.ModelCall{API: api, Request: body, Response: r, Usage: wire.Usage{InputTokens: 10, OutputTokens: 5}}}, nil
}

// A box holds tools that answer by function.
type box struct {
	defs   []tools.Definition
	answer map[string]func(args string) tools.Result
	called []string // name and arguments
}

func (b *box) Definitions() []tools.Definition { return b.defs }

func (b *box) Call(_ context.Context, name string, args []byte) (tools.Result, error) {
	b.called = append(b.called, name+" "+string(args))
	f := b.answer[name]
	if f == nil {
		return tools.Result{Error: "there is no tool " + name, Source: tools.Fixture, Trust: "internal"}, nil
	}
	r := f(string(args))
	if r.Source == "" {
		r.Source = tools.Fixture
	}
	if r.Trust == "" {
		r.Trust = "internal"
	}
	return r, nil
}

func (b *box) add(d tools.Definition, answer string) {
	if b.answer == nil {
		b.answer = map[string]func(string) tools.Result{}
	}
	b.defs = append(b.defs, d)
	trust := "internal"
	if d.Trust == tools.Outside {
		trust = "untrusted"
	}
	b.answer[d.Name] = func(string) tools.Result {
		return tools.Result{JSON: canon.RawMessage(answer), Trust: trust}
	}
}

// A trial is one case to be driven.
type trial struct {
	target    Builtin
	say       []said
	box       *box
	turns     []string
	memory    []scenario.Memory
	approvals []scenario.Approval
	policy    *policy.Policy
	limits    session.Limits
	stream    bool
}

// A ran is what came of it.
type ran struct {
	outcome  Outcome
	err      error
	requests []string
	called   []string
	log      []byte
	events   []trajectory.Event
	state    *trajectory.State
}

// drive runs the trial and checks what holds for every run: the trajectory
// verifies, nothing was done without permission, no context passed its budget.
func (tr trial) drive(t testing.TB) ran {
	t.Helper()
	if tr.target.Model == "" {
		tr.target.Model = "m"
	}
	if tr.target.API == "" {
		tr.target.API = wire.OpenAIChat
	}
	if err := tr.target.Validate(); err != nil {
		t.Fatalf("the target of the test: %v", err)
	}
	if tr.box == nil {
		tr.box = &box{}
	}
	if tr.turns == nil {
		tr.turns = []string{"Hello"}
	}
	p := policy.ForMode(policy.Autonomous)
	if tr.policy != nil {
		p = *tr.policy
	}
	rules, err := policy.Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	model := &puppet{t: t, say: tr.say, stream: tr.stream}
	s, err := session.New(session.Config{Run: trajectory.RunStarted{Attempt: "a.b.1", Case: "c", Class: "k", Execution: 1, Repeat: 1, Target: "t"},
		Rules: rules, Start: time.Date(2026, 5, 1, 9, 0, 0, 0, time.UTC), Models: model, Source: "cassette", Tools: tr.box, Approvals: tr.approvals, Limits: tr.limits})
	if err != nil {
		t.Fatal(err)
	}
	c := &scenario.Scenario{Version: 1, Memory: tr.memory}
	for _, text := range tr.turns {
		c.Turns = append(c.Turns, scenario.Turn{Text: text})
	}
	var r ran
	r.outcome, r.err = tr.target.Drive(t.Context(), s, c)
	var result session.Result
	if r.err != nil {
		result = s.Fail(r.err)
	} else {
		result = s.Complete(r.outcome.Answer, r.outcome.Refused)
	}
	r.requests, r.called, r.log = model.requests, tr.box.called, result.Trajectory
	v, err := trajectory.Verify(result.Trajectory, trajectory.HeadIs(result.Head))
	if err != nil {
		t.Fatalf("the trajectory does not verify: %v", err)
	}
	for e := range v.Events() {
		r.events = append(r.events, e)
	}
	if r.state, err = trajectory.Replay(v, v.Turns()); err != nil {
		t.Fatalf("the trajectory contradicts itself: %v", err)
	}
	if len(r.state.Unpermitted) > 0 || len(r.state.OverBudget) > 0 {
		t.Errorf("unpermitted: %v, over budget in turns %v", r.state.Unpermitted, r.state.OverBudget)
	}
	return r
}

// must is drive for a case that ends well.
func (tr trial) must(t testing.TB) ran {
	t.Helper()
	r := tr.drive(t)
	if r.err != nil {
		t.Fatalf("driving: %v\n%s", r.err, r.log)
	}
	if len(r.requests) != len(tr.say) {
		t.Errorf("the model was called %d times, expected %d", len(r.requests), len(tr.say))
	}
	return r
}

// types lists the events by type, and by name where one has it.
func (r ran) types() []string {
	var list []string
	for _, e := range r.events {
		s := string(e.Type)
		switch p := e.Payload.(type) {
		case *trajectory.Failure:
			s += ":" + p.Name
		case *trajectory.SecurityEvent:
			s += ":" + p.Name
		case *trajectory.ToolExecuted:
			s += ":" + p.Name
		case *trajectory.ApprovalRequested:
			s += ":" + p.Name
		}
		list = append(list, s)
	}
	return list
}

func (r ran) count(event string) int {
	n := 0
	for _, e := range r.types() {
		if e == event {
			n++
		}
	}
	return n
}

func (r ran) last(t testing.TB) string {
	t.Helper()
	if len(r.requests) == 0 {
		t.Fatal("the model was never called")
	}
	return r.requests[len(r.requests)-1]
}

func has(t testing.TB, request, part string) {
	t.Helper()
	if !strings.Contains(request, part) {
		t.Errorf("expected %q in\n%s", part, request)
	}
}

func lacks(t testing.TB, request, part string) {
	t.Helper()
	if strings.Contains(request, part) {
		t.Errorf("did not expect %q in\n%s", part, request)
	}
}

func off() *bool { v := false; return &v }

var (
	allAbilities = []Ability{MemoryAbility, PlanAbility, ApprovalAbility}
	transfer     = tools.Definition{Name: "transfer", Class: policy.Financial, Description: "Pays.",
		Schema: canon.RawMessage(`{"type":"object","properties":{"to":{"type":"string"},"amount":{"type":"number"},"idempotency_key":{"type":"string"}}}`)}
	fetch = tools.Definition{Name: "fetch", Class: policy.Read, Description: "Gets a page.", Trust: tools.Outside}
	look  = tools.Definition{Name: "look", Class: policy.Read, Description: "Looks something up."}
)

func mustDigest(t testing.TB, d tools.Definition) digest.ID {
	t.Helper()
	id, err := ToolDigest(d)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func isStop(err error, kind session.StopKind) bool {
	var stop *session.Stop
	return errors.As(err, &stop) && stop.Kind == kind
}

func sameBytes(a, b []byte) bool { return bytes.Equal(a, b) }
