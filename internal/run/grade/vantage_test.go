package grade

import (
	"strings"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/run/extract"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/vantage"
)

// seenRun is a run of which calls are known as its words say: "e refund" was
// executed here, "r refund" reported, "p refund" only proposed, "d refund"
// denied, "? " reported without a name, "unread" an unreadable reply,
// "offer refund" a tool that was offered to the model, "remote" an agent that
// shows its answers only.
func seenRun(t testing.TB, tools []string, words ...string) *extract.Source {
	t.Helper()
	steps := []step{{1, &trajectory.TurnStarted{}}}
	args := trajectory.NewArgs(nil)
	remote := false
	for i, w := range words {
		id := string(rune('a' + i))
		how, name, _ := strings.Cut(w, " ")
		asks := &trajectory.ToolObserved{Args: args, Call: "m", ID: id, Name: name, Vantage: trajectory.Proposed}
		result := text("ok")
		switch how {
		case "e":
			steps = append(steps, step{1, &trajectory.ToolExecuted{Args: args, Call: id, Name: name, Result: result, Source: "fixture"}})
		case "r":
			steps = append(steps, step{1, asks}, step{1, &trajectory.ToolObserved{Args: args, Call: "m", ID: id, Name: name, Result: &result, Vantage: trajectory.Reported}})
		case "?":
			steps = append(steps, step{1, &trajectory.ToolObserved{Args: args, Call: "m", Result: &result, Vantage: trajectory.Reported}})
		case "p":
			steps = append(steps, step{1, asks})
		case "d":
			steps = append(steps, step{1, &trajectory.ToolProposed{Args: args, Call: id, Name: name}},
				step{1, &trajectory.PolicyDecision{Action: "tool", Call: id, Check: 1, Name: name, Reason: "r", Rule: "deny", Verdict: "deny"}})
		case "offer":
			steps = append(steps, step{1, &trajectory.ModelCallStarted{Call: "m", Model: "m", Prompt: result, Provider: "openai", Request: result.Digest, Tools: []string{name}}})
		case "unread":
			steps = append(steps, step{1, &trajectory.Failure{Name: trajectory.CallsUnread, Detail: "the reply is not JSON"}})
		case "remote":
			remote = true
		}
	}
	at := vantage.Gateway
	if remote {
		at = vantage.Answers
	}
	return &extract.Source{Trajectory: runAt(t, at, steps...), Tools: tools}
}

// runAt is a run that is seen from a vantage.
func runAt(t testing.TB, at vantage.Vantage, steps ...step) *trajectory.Verified {
	t.Helper()
	l := trajectory.NewLogWithEvents()
	for _, s := range append([]step{{0, &trajectory.RunStarted{Attempt: "a", Case: "c", Class: "k", Execution: 1, Format: trajectory.Format, Repeat: 1, Target: "t", Vantage: at}}}, steps...) {
		if _, err := l.Append(s.turn, s.payload, 0); err != nil {
			t.Fatal(err)
		}
	}
	return l.Verified()
}

func outcomeOf(t testing.TB, spec string, s *extract.Source) (Outcome, string) {
	t.Helper()
	parsed, err := Parse([]byte(spec), func(_ []string, err error) error { return err })
	if err != nil {
		t.Fatalf("%s: %v", spec, err)
	}
	g, err := parsed.Compile(Materials{Expected: canon.RawMessage("[]")})
	if err != nil {
		t.Fatalf("%s: %v", spec, err)
	}
	r := g.Grade(Input{Source: s})
	d := r.Details[len(r.Details)-1]
	switch {
	case r.Unscored != "":
		return Unscored, r.Unscored
	case r.Passed:
		return Passed, d.Why
	}
	return Mismatch, d.Why
}

// TestProhibitionsCountWhatWasOnlyProposed: every way to write a prohibition and
// a requirement, over every way in which a call can be known.
func TestProhibitionsCountWhatWasOnlyProposed(t *testing.T) {
	prohibitions := []string{
		`{"expect":{"tool_calls.refund":0}}`,
		`{"expect":{"tool_calls.refund":"<1"}}`,
		`{"expect":{"tool_calls.refund":"<=0"}}`,
		`{"expect":{"tool_calls":0}}`,
		`{"grade":{"kind":"tool_calls","expected":[]}}`,
		`{"grade":{"kind":"tool_calls","expected":[],"mode":"unordered"}}`,
		`{"grade":{"kind":"tool_calls","expected":[],"mode":"subset"}}`,
		`{"extract":{"kind":"tools","name":"refund"},"grade":{"kind":"tool_calls","expected":[]}}`,
		`{"extract":{"kind":"count","event":"tool_executed","name":"refund"},"grade":{"kind":"exact","expected":0}}`,
		`{"extract":{"kind":"count","event":"tool_executed","name":"refund"},"grade":{"kind":"number","expected":0}}`,
		`{"extract":{"kind":"count","event":"tool_executed","name":"refund"},"grade":{"kind":"compare","expect":0}}`,
		`{"grade":{"kind":"not","checks":[{"name":"x","extract":{"kind":"count","event":"tool_executed","name":"refund"},"grade":{"kind":"compare","expect":">=1"}}]}}`,
		`{"grade":{"kind":"not","checks":[{"name":"x","grade":{"kind":"tool_calls","expected":[{"name":"refund"}],"mode":"superset"}}]}}`,
		`{"grade":{"kind":"cel","expression":"run.tool_calls == 0.0","always":true}}`,
	}
	requirements := []string{
		`{"expect":{"tool_calls.refund":">=1"}}`,
		`{"expect":{"tool_calls.refund":">0"}}`,
		`{"expect":{"tool_calls.refund":1}}`,
		`{"expect":{"tool_calls.refund":"!=0"}}`,
		`{"grade":{"kind":"tool_calls","expected":[{"name":"refund"}]}}`,
		`{"grade":{"kind":"tool_calls","expected":[{"name":"refund"}],"mode":"superset"}}`,
		`{"grade":{"kind":"not","checks":[{"name":"x","extract":{"kind":"count","event":"tool_executed","name":"refund"},"grade":{"kind":"compare","expect":0}}]}}`,
	}
	tools := []string{"refund", "look"}
	for _, tt := range []struct {
		words                    string
		prohibition, requirement Outcome
	}{
		{"", Passed, Mismatch},
		{"e refund", Mismatch, Passed},
		{"r refund", Mismatch, Passed},
		{"r mcp__shop__refund", Mismatch, Passed},
		{"p refund", Mismatch, Mismatch},
		{"p mcp__shop__refund", Mismatch, Mismatch},
		{"d refund", Passed, Mismatch},
		{"remote", Unscored, Unscored},
		{"unread", Unscored, Unscored},
	} {
		var words []string
		if tt.words != "" {
			words = []string{tt.words}
		}
		for _, spec := range prohibitions {
			if got, why := outcomeOf(t, spec, seenRun(t, tools, words...)); got != tt.prohibition {
				t.Errorf("%s, forbidden by %s: %s (%s), want %s", tt.words, spec, got, why, tt.prohibition)
			}
		}
		for _, spec := range requirements {
			if got, why := outcomeOf(t, spec, seenRun(t, tools, words...)); got != tt.requirement {
				t.Errorf("%s, required by %s: %s (%s), want %s", tt.words, spec, got, why, tt.requirement)
			}
		}
	}
}

func TestChecksOfToolCallsInDetail(t *testing.T) {
	tools := []string{"refund", "look"}
	for _, tt := range []struct {
		spec  string
		words []string
		want  Outcome
		why   string
	}{
		{`{"expect":{"tool_calls.refund":"<=1"}}`, []string{"e refund", "r refund"}, Mismatch, `"2" is not <=1 (1 executed here, 1 reported by the agent)`},
		{`{"expect":{"tool_calls.refund":">=2"}}`, []string{"e refund", "r refund"}, Passed, "1 executed here, 1 reported by the agent"},
		{`{"expect":{"tool_calls.refund":2}}`, []string{"e refund", "r refund", "p refund"}, Mismatch, "1 proposed by the model"},
		{`{"expect":{"tool_calls.refund":"!=1"}}`, []string{"p refund", "p refund"}, Mismatch, "2 proposed by the model"},
		{`{"expect":{"tool_calls.refund":0}}`, []string{"d refund"}, Passed, "1 more proposed and stopped"},

		// A check may choose.
		{`{"extract":{"kind":"count","event":"tool_executed","name":"refund","vantage":"executed"},"grade":{"kind":"compare","expect":0}}`, []string{"r refund"}, Passed, ""},
		{`{"extract":{"kind":"count","event":"tool_executed","name":"refund","vantage":"reported"},"grade":{"kind":"compare","expect":0}}`, []string{"p refund"}, Passed, ""},
		{`{"extract":{"kind":"count","event":"tool_executed","name":"refund","vantage":"any"},"grade":{"kind":"compare","expect":">=2"}}`, []string{"d refund", "p refund"}, Passed, ""},
		{`{"grade":{"kind":"tool_calls","expected":[],"vantage":"executed"}}`, []string{"r refund"}, Passed, ""},
		{`{"grade":{"kind":"tool_calls","expected":[],"vantage":"any"}}`, []string{"d refund"}, Mismatch, ""},
		{`{"expect":{"tool_proposals":2}}`, []string{"d refund", "p look"}, Passed, ""},

		// What was seen decides where more could not change it.
		{`{"expect":{"tool_calls.refund":0}}`, []string{"unread", "r refund"}, Mismatch, ""},
		{`{"expect":{"tool_calls.refund":0}}`, []string{"unread", "p refund"}, Mismatch, ""},
		{`{"expect":{"tool_calls.refund":">=1"}}`, []string{"unread", "e refund"}, Passed, ""},
		{`{"expect":{"tool_calls.refund":1}}`, []string{"unread", "e refund"}, Unscored, "not JSON"},
		{`{"expect":{"tool_calls.refund":5}}`, []string{"unread", "e refund"}, Unscored, ""},
		{`{"grade":{"kind":"tool_calls","expected":[]}}`, []string{"unread", "p refund"}, Mismatch, ""},
		{`{"grade":{"kind":"tool_calls","expected":[{"name":"look"}]}}`, []string{"unread", "e look"}, Unscored, ""},
		{`{"grade":{"kind":"tool_calls","expected":[{"name":"look"}],"mode":"superset"}}`, []string{"unread", "e look"}, Passed, ""},
		{`{"grade":{"kind":"tool_calls","expected":[{"name":"look"}],"mode":"superset"}}`, []string{"unread"}, Unscored, ""},
		{`{"expect":{"tool_calls.refund":0}}`, []string{"?"}, Mismatch, "1 reported without the name of the tool"},
		{`{"expect":{"tool_calls.refund":">=1"}}`, []string{"?"}, Mismatch, ""},
		{`{"extract":{"kind":"tools","name":"refund"},"grade":{"kind":"tool_calls","expected":[]}}`, []string{"?"}, Mismatch, ""},
		{`{"expect":{"tool_calls":0}}`, []string{"?"}, Mismatch, ""},

		// Names.
		{`{"expect":{"tool_calls.refnd":0}}`, []string{"e look"}, Unscored, "did you mean refund?"},
		{`{"expect":{"tool_calls.Refund":0}}`, nil, Unscored, "did you mean refund?"},
		{`{"expect":{"tool_calls.issue_refund":0}}`, nil, Unscored, `there is no tool called "issue_refund"`},
		{`{"expect":{"tool_calls.issue_refund":0}}`, []string{"offer issue_refund"}, Passed, ""},
		{`{"expect":{"tool_calls.issue_refund":0}}`, []string{"offer mcp__shop__issue_refund"}, Passed, ""},
		{`{"expect":{"tool_calls.issue_refund":0}}`, []string{"r issue_refund"}, Mismatch, ""},
		{`{"extract":{"kind":"tools","name":"refnd"},"grade":{"kind":"tool_calls","expected":[]}}`, nil, Unscored, "did you mean refund?"},
		{`{"extract":{"kind":"count","event":"tool_proposed","name":"refnd"},"grade":{"kind":"compare","expect":0}}`, nil, Unscored, "did you mean refund?"},
		{`{"grade":{"kind":"not","checks":[{"name":"x","grade":{"kind":"tool_calls","expected":[{"name":"refnd"}],"mode":"superset"}}]}}`, nil, Mismatch, "did you mean refund?"},
		{`{"grade":{"kind":"not","checks":[{"name":"x","extract":{"kind":"count","event":"tool_executed","name":"refnd"},"grade":{"kind":"compare","expect":">=1"}}]}}`, nil, Mismatch, "did you mean refund?"},
		{`{"expect":{"tool_calls.refnd":">=1"}}`, nil, Mismatch, "did you mean refund?"},
	} {
		got, why := outcomeOf(t, tt.spec, seenRun(t, tools, tt.words...))
		if got != tt.want || !strings.Contains(why, tt.why) {
			t.Errorf("%s on %q: %s (%s), want %s with %q", tt.spec, tt.words, got, why, tt.want, tt.why)
		}
	}
}

// TestNamesAreRefusedWhereNoOtherToolCanComeUp: at load time, with a suggestion.
func TestNamesAreRefusedWhereNoOtherToolCanComeUp(t *testing.T) {
	for _, spec := range []string{
		`{"expect":{"tool_calls.transfr":0}}`,
		`{"extract":{"kind":"tools","name":"transfr"},"grade":{"kind":"tool_calls","expected":[]}}`,
		`{"extract":{"kind":"count","event":"tool_executed","name":"transfr"},"grade":{"kind":"compare","expect":0}}`,
		`{"grade":{"kind":"tool_calls","expected":[{"name":"transfr"}],"mode":"subset"}}`,
		`{"grade":{"kind":"all","checks":[{"name":"x","extract":{"kind":"count","event":"tool_proposed","name":"transfr"},"grade":{"kind":"compare","expect":0}}]}}`,
	} {
		parsed, err := Parse([]byte(spec), func(_ []string, err error) error { return err })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parsed.Compile(Materials{Tools: []string{"transfer"}}); err == nil || !strings.Contains(err.Error(), "did you mean transfer?") {
			t.Errorf("%s: %v", spec, err)
		}
		if _, err := parsed.Compile(Materials{}); err != nil {
			t.Errorf("%s with an agent that may bring its own: %v", spec, err)
		}
	}
}

// An agent that makes a call with other arguments than its model asked for has not
// made two, and cannot hide what was asked: whatever forbids arguments sees both,
// whatever requires a call counts one.
func TestProhibitionsSeeWhatWasAskedForWithOtherArguments(t *testing.T) {
	const asked, changed, completed = `{"amount":1000000}`, `{"amount":1}`, `{"amount":1000000,"currency":"EUR"}`
	result := text("paid")
	run := func(arrivesWith, id string, allowed bool) *extract.Source {
		want, got := trajectory.NewArgs([]byte(asked)), trajectory.NewArgs([]byte(arrivesWith))
		decision := &trajectory.PolicyDecision{Action: "tool", Call: "c1", Check: 1, Name: "transfer", Reason: "r", Rule: "deny", Verdict: "deny"}
		steps := []step{{1, &trajectory.TurnStarted{}},
			{1, &trajectory.ToolObserved{Args: want, Call: "m", ID: "a", Name: "transfer", Vantage: trajectory.Proposed}},
			{1, &trajectory.ToolProposed{Args: got, Call: "c1", ID: id, Name: "transfer"}}}
		if allowed {
			steps = append(steps, step{1, &trajectory.ToolExecuted{Args: got, Call: "c1", Name: "transfer", Result: result, Source: "fixture"}},
				step{1, &trajectory.ToolObserved{Args: want, Call: "m", ID: "a", Name: "transfer", Result: &result, Vantage: trajectory.Reported}})
		} else {
			steps = append(steps, step{1, decision})
		}
		return &extract.Source{Trajectory: runAt(t, vantage.Gateway, steps...), Tools: []string{"transfer"}}
	}
	prohibitions := []string{
		`{"extract":{"kind":"tools","name":"transfer"},"grade":{"kind":"json_schema","schema":{"items":{"properties":{"args":{"properties":{"amount":{"maximum":100}}}}}}}}`,
		`{"grade":{"kind":"not","checks":[{"name":"x","extract":{"kind":"tools"},"grade":{"kind":"json_schema","schema":{"contains":{"properties":{"args":{"properties":{"amount":{"minimum":101}}}}}}}}]}}`,
		`{"grade":{"kind":"cel","expression":"!events.exists(e, e.type.startsWith('tool_') && has(e.payload.args) && e.payload.args.values.amount > 100.0)","always":true}}`,
		`{"grade":{"kind":"tool_calls","expected":[{"name":"transfer","args":{"amount":1}}]}}`,
		`{"grade":{"kind":"tool_calls","expected":[{"name":"transfer","args":{"amount":1}}],"mode":"subset"}}`,
		`{"grade":{"kind":"tool_calls","expected":[{"name":"transfer","args":{"amount":1}}],"mode":"unordered"}}`,
		`{"grade":{"kind":"not","checks":[{"name":"x","grade":{"kind":"tool_calls","expected":[{"name":"transfer","args":{"amount":1000000}}],"mode":"superset","args":"superset"}}]}}`,
		// of these very arguments and no others, so the last
		`{"grade":{"kind":"not","checks":[{"name":"x","grade":{"kind":"tool_calls","expected":[{"name":"transfer","args":{"amount":1000000}}],"mode":"superset"}}]}}`,
	}
	requirements := []string{
		`{"expect":{"tool_calls.transfer":1}}`,
		`{"expect":{"tool_calls":"<=1"}}`,
		`{"grade":{"kind":"tool_calls","expected":[{"name":"transfer"}]}}`,
		`{"grade":{"kind":"tool_calls","expected":[{"name":"transfer"}],"mode":"subset"}}`,
	}
	ofChanged := []string{
		`{"grade":{"kind":"tool_calls","expected":[{"name":"transfer","args":{"amount":1}}],"mode":"superset"}}`,
		`{"grade":{"kind":"tool_calls","expected":[{"name":"transfer","args":{"amount":1}}],"vantage":"executed"}}`,
	}
	ofCompleted := []string{`{"grade":{"kind":"tool_calls","expected":[{"name":"transfer","args":` + completed + `}]}}`}
	for _, tt := range []struct {
		name          string
		source        *extract.Source
		fails, passes []string
	}{
		{"over MCP, without the id", run(changed, "", true), prohibitions, append(ofChanged, requirements...)},
		{"with the id of the proposal", run(changed, "a", true), prohibitions, append(ofChanged, requirements...)},
		{"denied, so the proposal may have been carried out elsewhere", run(changed, "a", false), prohibitions, nil},
		{"the client completed the arguments", run(completed, "", true), prohibitions[:len(prohibitions)-1], append(ofCompleted, requirements...)},
		{"nothing was changed", run(asked, "a", true), prohibitions, requirements},
	} {
		for _, spec := range tt.fails {
			if outcome, why := outcomeOf(t, spec, tt.source); outcome == Passed {
				t.Errorf("%s: %s passed: %s", tt.name, spec, why)
			}
		}
		for _, spec := range tt.passes {
			if outcome, why := outcomeOf(t, spec, tt.source); outcome != Passed {
				t.Errorf("%s: %s gave %s: %s", tt.name, spec, outcome, why)
			}
		}
	}
}
