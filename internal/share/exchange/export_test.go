package exchange

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/schema"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/session"
	"tallystick/internal/run/tools"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/wire"
	"tallystick/internal/share/foreign"
	"tallystick/internal/share/otel"
)

// requests are three calls of a model as an agent makes them: a question, the
// same with what the tools gave, and the next question.
var requests = map[wire.API][3]string{
	wire.OpenAIChat: {
		`{"model":"m-1","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"find it"}]}`,
		`{"model":"m-1","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"find it"},{"role":"assistant","tool_calls":[{"id":"x","type":"function","function":{"name":"Read","arguments":"{}"}}]},{"role":"tool","tool_call_id":"x","content":"found"}]}`,
		`{"model":"m-1","messages":[{"role":"user","content":[{"type":"text","text":"thanks"}]}]}`,
	},
	wire.OpenAIResponses: {
		`{"model":"m-1","instructions":"Be brief.","input":"find it"}`,
		`{"model":"m-1","instructions":"Be brief.","input":[{"role":"user","content":"find it"},{"type":"function_call","call_id":"x","name":"Read","arguments":"{}"},{"type":"function_call_output","call_id":"x","output":"found"}]}`,
		`{"model":"m-1","input":[{"role":"user","content":[{"type":"input_text","text":"thanks"}]}]}`,
	},
	wire.AnthropicMessages: {
		`{"model":"m-1","max_tokens":9,"system":"Be brief.","messages":[{"role":"user","content":"find it"}]}`,
		`{"model":"m-1","max_tokens":9,"system":[{"type":"text","text":"Be brief."}],"messages":[{"role":"user","content":"find it"},{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"Read","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"found"}]}]}`,
		`{"model":"m-1","max_tokens":9,"messages":[{"role":"user","content":"thanks"}]}`,
	},
}

// run is a real session of two turns with a tool call that is allowed, one that
// is denied, and an answer longer than its event.
func run(t testing.TB, api wire.API) session.Result {
	t.Helper()
	rules, err := policy.Compile(policy.ForMode(policy.Restricted))
	if err != nil {
		t.Fatal(err)
	}
	found := canon.RawMessage(`{"is":"found"}`)
	latency := int64(30)
	box, err := tools.New([]tools.Definition{{Name: "Read", Class: policy.Read, Replies: []tools.Reply{{Result: &found, LatencyMS: &latency}}},
		{Name: "Bash", Class: policy.Privileged, Replies: []tools.Reply{{Result: &found}}}}, "", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("You are welcome. ", 1000)
	s, err := session.New(session.Config{Rules: rules, Source: "authored", Tools: box,
		Run: trajectory.RunStarted{Attempt: "chat.default.1", Case: "a", Class: "chat", Target: "default", Repeat: 1, Execution: 1},
		Models: session.NewScript((&scenario.Scenario{Model: []scenario.Reply{
			{ToolCalls: []scenario.Call{{Name: "Read", Args: &map[string]any{"what": "it"}}, {Name: "Bash", Args: &map[string]any{"c": "rm"}}}, TokensIn: 10, TokensOut: 5, CostMicroUSD: 7, LatencyMS: 120},
			{Text: "here", TokensIn: 20, TokensOut: 1},
			{Text: long, TokensIn: 30, TokensOut: 2}}}).RepliesFor(cassette.ForAgent))})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ask := func(i int) {
		t.Helper()
		_, err := s.Model(ctx, api, []byte(requests[api][i]), nil)
		check(err)
	}
	call := func(name, args string, denied bool) {
		t.Helper()
		reply, err := s.Tool(ctx, session.ToolCall{Name: name, Args: []byte(args)})
		check(err)
		if reply.Denied != denied {
			t.Fatalf("%s: %+v", name, reply)
		}
	}
	check(s.StartTurn("main", "find it"))
	ask(0)
	call("Read", `{"what":"it"}`, false)
	call("Bash", `{"c":"rm"}`, true)
	ask(1)
	check(s.CompleteTurn("here"))
	check(s.StartTurn("main", "thanks"))
	ask(2)
	check(s.CompleteTurn(long))
	return s.Complete(long, false)
}

func one(c otel.Trace) iter.Seq2[otel.Trace, error] {
	return func(yield func(otel.Trace, error) bool) { yield(c, nil) }
}

var attempt = otel.Run{ID: "chat.default.1", Class: "chat", Target: "default", Level: "scratch", Version: "v0"}

func caseOf(r session.Result) otel.Trace {
	score := 0.5
	return otel.Trace{ID: "a", Repeat: 1, Execution: 1, Started: time.Date(2026, 5, 1, 9, 0, 0, 0, time.UTC), Took: time.Second, Trajectory: r.Verified,
		Content: func(d digest.Content) ([]byte, bool) { text, ok := r.Contents[d]; return text, ok },
		Outcome: "failed", Score: &score, Reason: "grade.mismatch",
		Checks: []grade.Detail{{Check: "total", Grader: grade.Exact, Outcome: grade.Mismatch, Score: &score, Why: "found 1, expected 2"}, {Grader: grade.ByJudge, Outcome: grade.Unscored, Why: "no judge"}}}
}

// actions are what a round trip must keep.
func actions(v *trajectory.Verified) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	answer := func(c *trajectory.Content) string {
		if c == nil {
			return "-"
		}
		return c.Digest.String()
	}
	for e := range v.Events() {
		switch p := e.Payload.(type) {
		case *trajectory.TurnStarted:
			add("turn %d %s %s", e.Turn, p.Agent, answer(p.Input))
		case *trajectory.TurnCompleted:
			add("turn %d ends %s", e.Turn, answer(p.Answer))
		case *trajectory.ModelCallStarted:
			add("ask %s %s %d", p.Provider, p.Model, p.Messages)
		case *trajectory.ModelCallCompleted:
			add("reply %s %s %d %d %d %d ms", p.Output.Digest, p.FinishReason, p.TokensIn, p.TokensOut, p.CostMicroUSD, p.LatencyMS)
		case *trajectory.ToolProposed:
			add("wants %s %s %s", p.Call, p.Name, p.Args.Digest)
		case *trajectory.ToolObserved:
			// The history of the run tells of a call that no model asked for.
			if p.Vantage == trajectory.Reported {
				add("wants %s %s %s", p.ID, p.Name, p.Args.Digest)
			}
		case *trajectory.ToolExecuted:
			add("gave %s %s %s %s", p.Call, p.Name, p.Args.Digest, p.Result.Digest)
		case *trajectory.RunCompleted:
			add("end %s %s", p.Status, answer(p.Answer))
		}
	}
	return out
}

func TestARoundTripKeepsTurnsToolCallsAndModelCalls(t *testing.T) {
	for api := range requests {
		t.Run(string(api), func(t *testing.T) {
			r := run(t, api)
			doc, err := otel.Export(attempt, one(caseOf(r)))
			if err != nil {
				t.Fatal(err)
			}
			for what, file := range map[string][]byte{"json": doc, "protobuf": protoOf(t, doc)} {
				back, err := Import(what, file)
				if err != nil {
					t.Fatal(err)
				}
				want := actions(r.Verified)
				if len(want) < 13 {
					t.Fatalf("the run did too little to show anything:\n%s", strings.Join(want, "\n"))
				}
				if d := cmp.Diff(want, actions(back[0].Verified)); d != "" {
					t.Errorf("%s: run -, imported +\n%s", what, d)
				}
				if e := back[0].Evaluations; len(e) != 3 || e[0].Name != "case" || *e[0].Score != 0.5 || e[0].Label != "failed" || e[1].Name != "check total exact" || e[2].Score != nil {
					t.Errorf("evaluations %+v", e)
				}
			}
		})
	}
}

// TestAnExportHasTheSameBytesAgain, so that two people can compare theirs.
func TestAnExportHasTheSameBytesAgain(t *testing.T) {
	a, err := otel.Export(attempt, one(caseOf(run(t, wire.OpenAIChat))))
	if err != nil {
		t.Fatal(err)
	}
	b, err := otel.Export(attempt, one(caseOf(run(t, wire.OpenAIChat))))
	if err != nil || !bytes.Equal(a, b) {
		t.Errorf("the same attempt gave other bytes (%v)", err)
	}
	other := caseOf(run(t, wire.OpenAIChat))
	other.Repeat = 2
	c, err := otel.Export(attempt, one(other))
	if err != nil {
		t.Fatal(err)
	}
	if jsonSpans(t, a)[0].TraceID == jsonSpans(t, c)[0].TraceID {
		t.Error("two repetitions have one trace id")
	}
}

// TestEveryEventOfATrajectoryIsExported, as a span or as an event of one.
func TestEveryEventOfATrajectoryIsExported(t *testing.T) {
	r := run(t, wire.OpenAIChat)
	doc, err := otel.Export(attempt, one(caseOf(r)))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	seen := map[string]bool{}
	last := ""
	for _, s := range jsonSpans(t, doc) {
		// The events of a replay share a millisecond, and readers sort by time.
		if string(s.Start) <= last {
			t.Errorf("span %s begins at %s, the one before it at %s", s.Name, s.Start, last)
		}
		last = string(s.Start)
		if seen[s.SpanID] {
			t.Errorf("span %s is there twice", s.SpanID)
		}
		seen[s.SpanID] = true
		got[textOf(s.Attributes, "gen_ai.operation.name")]++
		for _, e := range s.Events {
			got[e.Name]++
		}
	}
	want := map[string]int{"gen_ai.evaluation.result": 3, "invoke_workflow": 1}
	for e := range r.Verified.Events() {
		switch e.Type {
		case trajectory.RunStartedType, trajectory.RunCompletedType, trajectory.TurnCompletedType, trajectory.ModelCallCompletedType, trajectory.ToolExecutedType:
		case trajectory.TurnStartedType:
			want["invoke_agent"]++
		case trajectory.ModelCallStartedType:
			want["chat"]++
		case trajectory.ToolProposedType:
			want["execute_tool"]++
		default:
			want["tallystick."+string(e.Type)]++
			if p, ok := e.Payload.(*trajectory.ToolObserved); ok && p.Vantage == trajectory.Reported {
				want["execute_tool"]++ // no model asked for this one
			}
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("want -, got +\n%s", d)
	}
}

func TestACaseThatWasNotRunIsExportedAsSuch(t *testing.T) {
	doc, err := otel.Export(attempt, one(otel.Trace{ID: "b", Repeat: 1, Started: time.Unix(5, 0), Outcome: "not_run"}))
	if err != nil {
		t.Fatal(err)
	}
	spans := jsonSpans(t, doc)
	if len(spans) != 1 || len(spans[0].Events) != 1 {
		t.Fatalf("%s", doc)
	}
	a := spans[0].Events[0].Attributes
	if textOf(a, "gen_ai.evaluation.score.label") != "not_run" || textOf(a, "error.type") != "not_run" || textOf(a, "gen_ai.evaluation.score.value") != "" {
		t.Errorf("%s", doc)
	}
}

func TestAFailedRunAndALostTextShow(t *testing.T) {
	l := trajectory.NewLogWithEvents()
	long := trajectory.NewContent([]byte(strings.Repeat("x", 9000)), trajectory.PromptHead)
	for i, p := range []trajectory.Payload{
		&trajectory.RunStarted{Attempt: "a", Case: "c", Class: "k", Execution: 1, Format: trajectory.Format, Governance: policy.Autonomous, Repeat: 1, Target: "t"},
		&trajectory.TurnStarted{Input: &long},
		&trajectory.ModelCallStarted{Call: "c1", Model: "m", Provider: "openai", Prompt: long, Request: long.Digest},
		&trajectory.Failure{Call: "c1", Name: "CassetteMiss", Detail: "missed"},
		&trajectory.RunFailed{Name: "CassetteMiss", Detail: "missed"},
	} {
		if _, err := l.Append(min(i, 1), p, 0); err != nil {
			t.Fatal(err)
		}
	}
	doc, err := otel.Export(attempt, one(otel.Trace{ID: "c", Trajectory: l.Verified(), Outcome: "errored", Started: time.Unix(5, 0)}))
	if err != nil {
		t.Fatal(err)
	}
	spans := jsonSpans(t, doc)
	if root := spans[0].Attributes; textOf(root, "error.type") != "CassetteMiss" || textOf(root, "tallystick.run.status") != "failed" {
		t.Errorf("root %+v", root)
	}
	for _, s := range spans[1:] {
		if textOf(s.Attributes, "tallystick.texts_cut") != "1" {
			t.Errorf("%s does not say that a text was cut", s.Name)
		}
	}
	back, err := Import("x", doc)
	if err != nil {
		t.Fatal(err)
	}
	if got := lines(back[0]); got[len(got)-1] != "1 failed CassetteMiss: missed" {
		t.Errorf("got %q", got)
	}
}

// TestEveryTypeOfEventShows: what does not become a span, or an attribute of
// one, is an event of the span in which it happened.
func TestEveryTypeOfEventShows(t *testing.T) {
	inSpans := []trajectory.Type{trajectory.RunStartedType, trajectory.RunCompletedType, trajectory.RunFailedType, trajectory.TurnStartedType, trajectory.TurnCompletedType,
		trajectory.ModelCallStartedType, trajectory.ModelCallCompletedType, trajectory.ToolProposedType, trajectory.ToolExecutedType}
	seen := map[trajectory.Type]bool{}
	files, err := filepath.Glob("../../run/trajectory/testdata/vectors/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal("no trajectories", err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		v, err := trajectory.Verify(data, trajectory.UnsafeAnyHead())
		if err != nil {
			t.Fatal(err)
		}
		doc, err := otel.Export(attempt, one(otel.Trace{ID: "c", Trajectory: v, Outcome: "passed", Started: time.Unix(5, 0)}))
		if err != nil {
			t.Fatal(err)
		}
		for e := range v.Events() {
			seen[e.Type] = true
			if !slices.Contains(inSpans, e.Type) && !bytes.Contains(doc, []byte(`"tallystick.`+string(e.Type)+`"`)) {
				t.Errorf("%s: event %d, %s, is not in the export", name, e.Seq, e.Type)
			}
		}
	}
	for _, typ := range trajectory.Types() {
		if !seen[typ] {
			t.Errorf("%s was not tried", typ)
		}
	}
}

func TestAnErrorOfTheEvidenceIsNoShorterExport(t *testing.T) {
	lost := refusal.Newf(refusal.NotFound, "the evidence is gone")
	_, err := otel.Export(attempt, func(yield func(otel.Trace, error) bool) {
		_ = yield(otel.Trace{ID: "a", Outcome: "passed"}, nil) && yield(otel.Trace{}, lost)
	})
	if !refusal.Is(err, refusal.NotFound) {
		t.Errorf("got %v", err)
	}
}

// TestRealTrajectoriesFitTheSchema: what a session writes and what Import makes
// of it are lines of docs/formats/trajectory.schema.json.
func TestRealTrajectoriesFitTheSchema(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/formats/trajectory.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	s, err := schema.Compile(doc)
	if err != nil {
		t.Fatal(err)
	}
	logs := map[string][]byte{}
	for api := range requests {
		r := run(t, api)
		logs[string(api)] = r.Trajectory
	}
	for _, name := range []string{"current.json", "events.json", "indexed.json", "atif.json"} {
		logs[name] = importFile(t, name)[0].Trajectory
	}
	for what, log := range logs {
		for line := range bytes.Lines(log) {
			if p := s.Check(bytes.TrimSuffix(line, []byte("\n"))); p != nil {
				t.Errorf("%s: %s\n%v", what, line, p)
			}
		}
	}
}

func TestActionsKeepWhatAnAgentDid(t *testing.T) {
	r := run(t, wire.OpenAIChat)
	doc, err := otel.Export(attempt, one(caseOf(r)))
	if err != nil {
		t.Fatal(err)
	}
	back, err := Import("x", doc)
	if err != nil {
		t.Fatal(err)
	}
	canonical := func(v *trajectory.Verified) *trajectory.Trace {
		t.Helper()
		v, err := foreign.Actions(v)
		if err != nil {
			t.Fatal(err)
		}
		c, err := trajectory.Canonical(v, trajectory.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	other := string(canonical(r.Verified).Format())
	if d := cmp.Diff(string(canonical(back[0].Verified).Format()), other); d != "" {
		t.Errorf("imported -, run +\n%s", d)
	}
	for _, has := range []string{"tool_proposed", `"Bash"`, "turn_completed", "find it"} {
		if !strings.Contains(other, has) {
			t.Errorf("the actions have no %s:\n%s", has, other)
		}
	}
}
