package agent

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/strictyaml"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/session"
	"tallystick/internal/run/tools"
	"tallystick/internal/run/trajectory"
)

func page(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../../../docs/builtin-agent.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// block returns the text of the block that opens with this line.
func block(t *testing.T, page, open string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page, "\n```"+open+"\n")
	text, _, closed := strings.Cut(rest, "```\n")
	if !ok || !closed {
		t.Fatalf("the page has no block %s", open)
	}
	return text
}

// The example of the page, with the real tools of a case.
func TestThePagesExampleIsWhatHappens(t *testing.T) {
	page := page(t)
	target, err := Parse("example", "example.yaml", []byte(block(t, page, "yaml target")))
	if err != nil {
		t.Fatal(err)
	}
	var c scenario.Scenario
	if _, err := strictyaml.Decode("scenario.yaml", []byte(block(t, page, "yaml scenario")), strictyaml.Rules{PlainDigits: true}, &c); err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	box, err := tools.New(c.Tools, "", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := policy.Compile(policy.ForMode(policy.Autonomous))
	if err != nil {
		t.Fatal(err)
	}
	model := &puppet{t: t, say: []said{want("gate", `{"flight":"SK 4711"}`), text("Gate B7.")}}
	s, err := session.New(session.Config{Run: trajectory.RunStarted{Attempt: "a.b.1", Case: "c", Class: "k", Execution: 1, Repeat: 1, Target: "t"},
		Rules: rules, Start: time.Date(2026, 5, 1, 9, 0, 0, 0, time.UTC), Models: model, Source: "cassette", Tools: box})
	if err != nil {
		t.Fatal(err)
	}
	out, err := target.Builtin.Drive(t.Context(), s, &c)
	if err != nil || out.Answer != "Gate B7." {
		t.Fatalf("outcome %+v, %v", out, err)
	}
	if got := model.requests[0] + "\n"; got != block(t, page, "json request") {
		t.Errorf("the request is\n%s", got)
	}
	i := strings.Index(model.requests[1], `{"role":"assistant"`)
	if got, _, _ := strings.Cut(model.requests[1][max(i, 0):], `],"model"`); got+"\n" != block(t, page, "json messages") {
		t.Errorf("the messages are\n%s", got)
	}
	v, err := trajectory.Verify(s.Complete(out.Answer, false).Trajectory, trajectory.UnsafeAnyHead())
	if err != nil {
		t.Fatal(err)
	}
	for e := range v.Events() {
		if p, ok := e.Payload.(*trajectory.ContextCompiled); ok {
			got, err := canon.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			if string(got)+"\n" != block(t, page, "json event") {
				t.Errorf("the event is\n%s", got)
			}
			break
		}
	}
}

// The author of a target needs complete lists.
func TestThePageNamesEverySetting(t *testing.T) {
	page := page(t)
	for _, v := range []any{Builtin{}, Helper{}, Mitigations{}} {
		kind := reflect.TypeOf(v)
		for i := range kind.NumField() {
			name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
			if name != "context" && !strings.Contains(page, "`"+name+"`") {
				t.Errorf("the page does not say %s of %s", name, kind.Name())
			}
		}
	}
	for _, name := range []string{"context.window", "context.budget", "model_retry", "reply_cut", "reply_empty", "too_many_calls", "tool_not_offered", "step_limit",
		"memory_conflict", "malformed_arguments", "unknown_agent", "context_over_budget", "tool_refused", "memory_write_stopped", "tainted_call_stopped", "repeated_call_stopped", "handoff_tool_denied",
		memoryWriteTool, memorySearchTool, planTool, askApprovalTool, handoffTool} {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("the page does not say %s", name)
		}
	}
}
