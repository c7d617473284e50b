package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/wire"
)

// steps reads spans as the test writes them: package share/otel, which reads the
// real ones, comes after this one.
func steps(contentType string, body []byte) ([]Step, error) {
	if contentType != "application/json" {
		return nil, errors.New("no such encoding")
	}
	var list []struct {
		Start                  uint64
		Span, ID, Name, Result string
		Args                   json.RawMessage
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	var out []Step
	for _, s := range list {
		out = append(out, Step{s.Start, s.Span, wire.Result{ID: s.ID, Name: s.Name, Args: s.Args, Sent: s.Result}})
	}
	return out, nil
}

const spanType = "application/json"

// What an agent's spans tell of is reported, never executed, in the order in which
// the agent says that it happened, once, and the policy has a word.
func TestSpansAreReportedSteps(t *testing.T) {
	c := newCase(t, caseOptions{steps: steps}) // whose policy denies transfer
	for _, body := range []string{
		`[{"start":30,"span":"c","name":"transfer","args":{"to":"eve"},"result":"done"}]`,
		`[{"start":20,"span":"b","name":"search","args":{"q":"x"},"result":"two"},{"start":10,"span":"a","name":"search","args":{"q":"x"},"result":"one"}]`,
		`[{"start":10,"span":"a","name":"search","args":{"q":"x"},"result":"one"}]`, // sent again, as exporters do
	} {
		if a := c.send(t, "POST", "/v1/traces", body, "Content-Type", spanType); a.status != 200 || a.body != "{}" {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	if a := c.send(t, "POST", "/v1/traces", "garbage", "Content-Type", spanType); a.status != 400 {
		t.Errorf("garbage: %d %s", a.status, a.body)
	}
	v := c.end(t)
	var seen []string
	for e := range v.Events() {
		switch p := e.Payload.(type) {
		case *trajectory.ToolObserved:
			seen = append(seen, fmt.Sprintf("%s %s %s", p.Vantage, p.Name, p.Result.Head))
		case *trajectory.PolicyViolation:
			seen = append(seen, fmt.Sprintf("violation, unprevented %t", p.Unprevented))
		case *trajectory.ToolExecuted:
			t.Errorf("a span became an executed call: %+v", p)
		}
	}
	want := []string{"reported search one", "reported search two", "reported transfer done", "violation, unprevented true"}
	if fmt.Sprint(seen) != fmt.Sprint(want) {
		t.Errorf("seen %q, want %q", seen, want)
	}
}

// A result that the agent sent to its model and tells of in a span too is one call.
func TestASpanAndAResultAreOneCall(t *testing.T) {
	for name, span := range map[string]string{
		"with the id":    `[{"start":10,"span":"a","id":"call_authored1a","name":"get_weather","args":{"city":"Oslo"},"result":"{\"sky\":\"rain\"}"}]`,
		"without the id": `[{"start":10,"span":"a","name":"get_weather","args":{"city":"Oslo"},"result":"{\"sky\":\"rain\"}"}]`,
	} {
		t.Run(name, func(t *testing.T) {
			tape := `format: tallystick-cassette/1-draft
interactions:
- model: {api: openai.chat, request: {model: m, messages: [{role: user, content: weather}]}, reply: {message: {tool_calls: [{name: get_weather, arguments: {city: Oslo}}]}}}
- model: {api: openai.chat, request: {model: m, messages: [{role: user, content: weather}, {role: assistant, tool_calls: [{id: call_authored1a, type: function, function: {name: get_weather, arguments: "{\"city\":\"Oslo\"}"}}]}, {role: tool, tool_call_id: call_authored1a, content: "{\"sky\":\"rain\"}"}]}, reply: {message: {text: It rains.}}}
`
			c := newCase(t, caseOptions{cassette: []byte(tape), steps: steps})
			first := `{"model":"m","messages":[{"role":"user","content":"weather"}]}`
			if a := c.send(t, "POST", "/v1/chat/completions", first); a.status != 200 {
				t.Fatal(a.body)
			}
			second := `{"model":"m","messages":[{"role":"user","content":"weather"},{"role":"assistant","tool_calls":[{"id":"call_authored1a","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}}]},{"role":"tool","tool_call_id":"call_authored1a","content":"{\"sky\":\"rain\"}"}]}`
			if a := c.send(t, "POST", "/v1/chat/completions", second); a.status != 200 {
				t.Fatal(a.body)
			}
			if a := c.send(t, "POST", "/v1/traces", span, "Content-Type", spanType); a.status != 200 {
				t.Fatal(a.body)
			}
			n := 0
			for e := range c.end(t).Events() {
				if p, ok := e.Payload.(*trajectory.ToolObserved); ok && p.Vantage == trajectory.Reported {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%d reports of one call", n)
			}
		})
	}
}

func TestSpansHaveBounds(t *testing.T) {
	c := newCase(t, caseOptions{steps: func(string, []byte) ([]Step, error) { return make([]Step, maxSteps/2), nil }})
	for i, want := range []int{200, 200, 413} {
		if a := c.send(t, "POST", "/v1/traces", "x"); a.status != want {
			t.Errorf("request %d: %d, want %d", i+1, a.status, want)
		}
	}
	c = newCase(t, caseOptions{})
	if a := c.send(t, "POST", "/v1/traces", "x"); a.status != 404 {
		t.Errorf("where no spans are taken: %d", a.status)
	}
}
