package grade

import (
	"fmt"
	"testing"

	"tallystick/internal/run/extract"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/vantage"
)

// quietRun is a run in which nothing happened but an answer: whatever else there was
// is for the vantage to show.
func quietRun(t testing.TB, at vantage.Vantage) *extract.Source {
	t.Helper()
	answer := text("done")
	v := runAt(t, at, step{1, &trajectory.TurnStarted{}}, step{1, &trajectory.TurnCompleted{Answer: &answer}},
		step{1, &trajectory.RunCompleted{Status: "completed", Answer: &answer}})
	return &extract.Source{Trajectory: v, File: func(string) ([]byte, bool, error) { return nil, false, nil }, Names: func() ([]string, error) { return nil, nil }}
}

// TestNoExpectationPassesOnWhatCannotBeSeen walks over every expectation, in every
// spelling of "nothing happened", on every vantage.
func TestNoExpectationPassesOnWhatCannotBeSeen(t *testing.T) {
	for name, spec := range Expectations() {
		spellings := []string{`0`, `"<=0"`, `"<1"`, `"==0"`, `"!=1"`, `"<=1000000"`, `"!=7"`}
		switch spec.Kind {
		case extract.Status, extract.Answer:
			spellings = []string{`"!=x"`}
		case extract.Test:
			spellings = []string{`false`, `true`, `"!=true"`}
		}
		for _, at := range vantage.All() {
			sight := at.SeesName(vantage.Expect, name)
			for _, want := range spellings {
				got, why := outcomeOf(t, fmt.Sprintf(`{"expect":{%q:%s}}`, name, want), quietRun(t, at))
				if (sight.Sight == vantage.Seen) == (got == Unscored) && spec.Kind != extract.Test {
					t.Errorf("%s: %s: %s is %s (%s), and it is %s", at, name, want, got, why, sight.Sight)
				}
				if sight.Sight != vantage.Seen && got != Unscored {
					t.Errorf("%s: %s: %s is %s (%s), and it is %s", at, name, want, got, why, sight.Sight)
				}
			}
		}
	}
}

// TestNoExtractorAnswersForWhatCannotBeSeen: every kind of extractor and every type
// of events, asked whether there is nothing.
func TestNoExtractorAnswersForWhatCannotBeSeen(t *testing.T) {
	type ask struct {
		kind vantage.Kind
		name string
		spec string
	}
	asks := []ask{
		{vantage.Extract, "memory", `{"extract":{"kind":"memory","tier":"semantic","key":"k"},"grade":{"kind":"absent"}}`},
		{vantage.Extract, "memory", `{"grade":{"kind":"not","checks":[{"name":"x","extract":{"kind":"memory","tier":"semantic","key":"k"},"grade":{"kind":"exact","expected":"v"}}]}}`},
		{vantage.Extract, "file", `{"extract":{"kind":"file","path":"a.txt"},"grade":{"kind":"absent"}}`},
		{vantage.Extract, "test", `{"extract":{"kind":"test"},"grade":{"kind":"absent"}}`},
		{vantage.Extract, "tools", `{"extract":{"kind":"tools"},"grade":{"kind":"tool_calls","expected":[]}}`},
		{vantage.Extract, "tools", `{"grade":{"kind":"tool_calls","expected":[],"mode":"subset"}}`},
		{vantage.Extract, "verdict", `{"extract":{"kind":"verdict","turn":1},"grade":{"kind":"absent"}}`},
		{vantage.Extract, "tokens", `{"extract":{"kind":"tokens"},"grade":{"kind":"number","expected":0}}`},
		{vantage.Extract, "cost", `{"extract":{"kind":"cost"},"grade":{"kind":"exact","expected":0}}`},
	}
	for _, e := range trajectory.Types() {
		asks = append(asks, ask{vantage.Event, string(e), fmt.Sprintf(`{"extract":{"kind":"count","event":%q},"grade":{"kind":"compare","expect":"<99"}}`, e)})
	}
	for _, at := range vantage.All() {
		for _, a := range asks {
			sight := at.SeesName(a.kind, a.name)
			got, why := outcomeOf(t, a.spec, quietRun(t, at))
			if sight.Sight != vantage.Seen && got != Unscored {
				t.Errorf("%s: %s gives %s (%s), and %s is %s", at, a.spec, got, why, a.name, sight.Sight)
			}
			if sight.Sight == vantage.Seen && got == Unscored {
				t.Errorf("%s: %s is unscored (%s), and %s is seen", at, a.spec, why, a.name)
			}
		}
	}
}

// TestNoExpressionHoldsBecauseOfWhatCannotBeSeen: the same questions as expressions,
// however they are spelled.
func TestNoExpressionHoldsBecauseOfWhatCannotBeSeen(t *testing.T) {
	for _, tt := range []struct {
		expression string
		of         vantage.Matter // "" for what holds whatever happened unseen
	}{
		{`run.tokens <= 10.0`, vantage.Tokens},
		{`run["tok" + "ens"] <= 10.0`, vantage.Tokens},
		{`!(run.tokens > 10.0)`, vantage.Tokens},
		{`[run.tokens][0] < 1.0`, vantage.Tokens},
		{`[run.tokens, 0.0].all(n, n == 0.0)`, vantage.Tokens},
		{`run.cost_microdollars == 0.0`, vantage.Cost},
		{`run.model_calls == 0.0`, vantage.ModelCalls},
		{`run.tool_calls_reported == 0.0`, vantage.ToolCalls},
		{`run.violations == 0.0 && run.denials == 0.0`, vantage.Policy},
		{`run.escalations != 3.0`, vantage.Policy},
		{`run.all(k, k == "answer" || k == "status" || k == "turn" || run[k] == 0.0)`, vantage.Tokens},
		{`!has(memory.semantic.k)`, vantage.Memory},
		{`size(memory["semantic"]) == 0`, vantage.Memory},
		{`memory.all(tier, size(memory[tier]) == 0)`, vantage.Memory},
		{`!("k" in memory.semantic)`, vantage.Memory},
		{`context.peak <= 100.0`, vantage.Context},
		{`size(context.over_budget) == 0`, vantage.Context},
		{`events.all(e, e.type != "memory_written")`, vantage.Memory},
		{`!events.exists(e, e.type.startsWith("memory_"))`, vantage.Memory},
		{`!events.exists(e, e.type.matches("^mem.ry_written$"))`, vantage.Memory},
		{`!events.exists(e, e.type == "memory" + "_written")`, vantage.Memory},
		{`!events.exists(e, e.type in ["handoff", "nothing"])`, vantage.Handoffs},
		{`size(events.filter(e, e["type"] == "memory_written")) <= 5`, vantage.Memory},
		{`size(events.filter(e, e.type == "handoff")) != 7`, vantage.Handoffs},
		{`size(events.map(e, e.type == "plan", e.payload)) == 0`, vantage.Plans},
		{`!events.exists_one(e, e.type == "context_compiled")`, vantage.Context},
		{`!events.exists(e, has(e.payload.tier))`, vantage.Memory},
		{`events.all(e, !has(e.payload.name) || e.payload.name != "issue_refund")`, vantage.ToolCalls},
		{`size(events) < 100`, vantage.Memory},
		{`events.all(e, e.t < 1000.0)`, vantage.Time},
		{`events.filter(e, e.type == "turn_completed")[0].t < 5.0`, vantage.Time},

		{`run.answer == "done" && run.turn == 1.0`, ""},
		{`run.answer == "done" || run.tokens > 10.0`, ""},
		{`events.exists(e, e.type == "turn_completed")`, ""},
		{`events.filter(e, e.type == "turn_started").size() == 1`, ""},
	} {
		spec := fmt.Sprintf(`{"grade":{"kind":"cel","expression":%q,"at_turn":1}}`, tt.expression)
		extracted := fmt.Sprintf(`{"extract":{"kind":"cel","expression":%q},"grade":{"kind":"exact","expected":true}}`, tt.expression)
		for _, at := range vantage.All() {
			want := Passed
			if tt.of != "" && at.Sees(tt.of).Sight != vantage.Seen {
				want = Unscored
			}
			for _, s := range []string{spec, extracted} {
				if got, why := outcomeOf(t, s, quietRun(t, at)); got != want && !(want == Passed && got == Unscored && tt.of != "") {
					t.Errorf("%s: %s: %s (%s), want %s", at, s, got, why, want)
				}
			}
		}
	}
}

// TestWhatWasSeenInPartStillFails: more than was seen cannot undo what was.
func TestWhatWasSeenInPartStillFails(t *testing.T) {
	run := runAt(t, vantage.Imported, step{1, &trajectory.TurnStarted{}}, step{1, &trajectory.Failure{Name: "x", Detail: "y"}})
	for spec, want := range map[string]Outcome{
		`{"expect":{"errors":0}}`:     Mismatch,
		`{"expect":{"errors":">=1"}}`: Passed,
		`{"expect":{"errors":1}}`:     Unscored,
		`{"expect":{"errors":"<=5"}}`: Unscored,
	} {
		if got, why := outcomeOf(t, spec, &extract.Source{Trajectory: run}); got != want {
			t.Errorf("%s: %s (%s), want %s", spec, got, why, want)
		}
	}
}

// TestWhatIsNotTheAgentsIsNotGraded: of an agent elsewhere the working folder and the
// test that ran on it say nothing, though they are there.
func TestWhatIsNotTheAgentsIsNotGraded(t *testing.T) {
	run := runAt(t, vantage.Answers, step{1, &trajectory.TurnStarted{}}, step{1, &trajectory.TestRun{Command: []string{"true"}, Output: text("ok"), Passed: true}})
	s := &extract.Source{Trajectory: run, File: func(string) ([]byte, bool, error) { return []byte("right"), true, nil }}
	for _, spec := range []string{
		`{"expect":{"test_passed":true}}`,
		`{"extract":{"kind":"test"},"grade":{"kind":"exact","expected":true}}`,
		`{"extract":{"kind":"file","path":"a.txt"},"grade":{"kind":"exact","expected":"right"}}`,
	} {
		if got, why := outcomeOf(t, spec, s); got != Unscored {
			t.Errorf("%s: %s (%s), want unscored", spec, got, why)
		}
	}
}
