package extract_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/extract"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/vantage"
)

// A step is an event to be written.
type step struct {
	turn    int
	payload trajectory.Payload
}

func content(s string) trajectory.Content {
	return trajectory.NewContent([]byte(s), trajectory.ArgumentHead)
}

func said(s string) *trajectory.Content { c := content(s); return &c }

func started() *trajectory.RunStarted {
	p := policy.ForMode(policy.Autonomous)
	return &trajectory.RunStarted{Attempt: "a", Case: "c", Class: "k", Execution: 1, Format: trajectory.Format, Governance: p.Mode,
		Policy: p.SerialisedDigest(), PolicyShort: p.ShortHash(), Repeat: 1, Target: "t", Vantage: vantage.Inside}
}

func verified(t testing.TB, steps ...step) *trajectory.Verified {
	t.Helper()
	l := trajectory.NewLog()
	for i, s := range append([]step{{0, started()}}, steps...) {
		if _, err := l.Append(s.turn, s.payload, time.Duration(i)*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	v, err := trajectory.Verify(l.Bytes(), trajectory.HeadIs(l.Head()))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func decided(call, name string, verdict policy.Verdict) *trajectory.PolicyDecision {
	check := policy.Denied
	if verdict == policy.Allow {
		check = policy.Allowed
	}
	return &trajectory.PolicyDecision{Action: policy.Tool, Call: call, Check: check, Name: name, Reason: "r", Rule: "rule", Verdict: verdict}
}

func executed(call, name, args string) *trajectory.ToolExecuted {
	return &trajectory.ToolExecuted{Args: trajectory.NewArgs([]byte(args)), Call: call, CostMicroUSD: 5, Name: name, Result: content("{}"), Source: "fixture", Tokens: 7}
}

func wrote(call, entry, key, value, supersedes string) *trajectory.MemoryWritten {
	return &trajectory.MemoryWritten{Call: call, Confidence: 1, Entry: entry, Key: key, Source: "user", Supersedes: supersedes, Tier: trajectory.Semantic, Value: content(value)}
}

func compiled(used, budget int64) *trajectory.ContextCompiled {
	return &trajectory.ContextCompiled{Admitted: []string{}, Budget: budget, Compression: []string{}, Sections: map[string]int{"history": int(used)}, Used: used, Window: 10000}
}

// run is a run of three turns.
func run() []step {
	return []step{
		{0, wrote("seed", "m0", "city", "Oslo", "")},
		{1, &trajectory.TurnStarted{}},
		{1, compiled(100, 400)},
		{1, &trajectory.ModelCallCompleted{Call: "c1", CostMicroUSD: 10, FinishReason: "stop", Output: content("ok"), Source: "cassette", TokensIn: 100, TokensOut: 9}},
		{1, &trajectory.ToolProposed{Args: trajectory.NewArgs([]byte(`{"amount":100,"to":"alice"}`)), Call: "c2", Name: "transfer"}},
		{1, decided("c2", "transfer", policy.Escalate)},
		{1, decided("c2", "transfer", policy.Allow)},
		{1, executed("c2", "transfer", `{"amount":100,"to":"alice"}`)},
		{1, &trajectory.TurnCompleted{Answer: said("paid")}},
		{2, &trajectory.TurnStarted{}},
		{2, compiled(500, 400)},
		{2, decided("c3", "city", policy.Allow)},
		{2, wrote("c3", "m1", "city", "Bergen", "m0")},
		{2, &trajectory.ToolProposed{Args: trajectory.NewArgs([]byte(`{"cmd":"rm"}`)), Call: "c4", Name: "Bash"}},
		{2, decided("c4", "Bash", policy.Deny)},
		{2, &trajectory.PolicyViolation{Call: "c4", Rule: "rule", Text: "denied tool: Bash"}},
		{2, &trajectory.TurnCompleted{}},
		{3, &trajectory.TurnStarted{}},
		{3, compiled(300, 400)},
		{3, executed("c5", "lookup", `{}`)},
		{3, executed("c6", "lookup", `not json`)},
		{3, &trajectory.TurnCompleted{Answer: said("  \n")}},
		{3, &trajectory.TestRun{Command: []string{"true"}, Output: content("ok"), Passed: true}},
		{3, &trajectory.RunCompleted{Answer: said(`{"total":{"amount":100.50,"note":"","none":null,"list":[1,2]},"ok":true,"city":"Bergen"}`), Status: "completed"}},
	}
}

func source(t testing.TB) *extract.Source {
	files := map[string]string{"out/report.txt": "line\nTOTAL: 42 EUR\n", "empty.txt": "", "binary": "\xff\xfe"}
	return &extract.Source{Trajectory: verified(t, run()...), File: func(p string) ([]byte, bool, error) {
		text, ok := files[p]
		return []byte(text), ok, nil
	}}
}

// parse reads a spec as strictly as a grading document is read.
func parse(t testing.TB, text string) extract.Spec {
	t.Helper()
	var s extract.Spec
	if err := canon.Unmarshal([]byte(text), &s); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s
}

func compile(t testing.TB, text string) *extract.Extractor {
	t.Helper()
	e, err := extract.Compile(parse(t, text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return e
}

func TestEveryKindFindsItsValueOrSaysWhyNot(t *testing.T) {
	for _, tt := range []struct {
		spec    string
		kind    extract.ValueKind // "" for nothing found
		want    string            // canonical JSON, or part of why nothing was found
		comment string
	}{
		{spec: `{"kind":"answer","pointer":"/city"}`, kind: "text", want: `"Bergen"`},
		{spec: `{"kind":"answer","pointer":"/total/amount"}`, kind: "number", want: `100.5`},
		{spec: `{"kind":"answer","pointer":"/total/list/1"}`, kind: "number", want: `2`},
		{spec: `{"kind":"answer","pointer":"/ok"}`, kind: "bool", want: `true`},
		{spec: `{"kind":"answer","pointer":"/total/list"}`, kind: "json", want: `[1,2]`},
		{spec: `{"kind":"answer","pointer":""}`, kind: "json", want: `{"city":"Bergen","ok":true,"total":{"amount":100.5,"list":[1,2],"none":null,"note":""}}`},
		{spec: `{"kind":"answer","pointer":"/total/note"}`, want: "empty", comment: "an empty text is nothing"},
		{spec: `{"kind":"answer","pointer":"/total/none"}`, want: "null"},
		{spec: `{"kind":"answer","pointer":"/total/gone"}`, want: `nothing at "/total/gone"`},
		{spec: `{"kind":"answer","pointer":"/total/list/01"}`, want: "nothing at"},
		{spec: `{"kind":"answer","pointer":"/total/list/-1"}`, want: "nothing at"},
		{spec: `{"kind":"answer","pattern":"city\":\"([a-zA-Z]+)"}`, kind: "text", want: `"Bergen"`},
		{spec: `{"kind":"answer","pattern":"total"}`, kind: "text", want: `"total"`},
		{spec: `{"kind":"answer","pattern":"x(y)"}`, want: "matches nowhere"},
		{spec: `{"kind":"answer","pattern":"(z*)$"}`, want: "white space"},

		{spec: `{"kind":"turn_answer","turn":1}`, kind: "text", want: `"paid"`},
		{spec: `{"kind":"turn_answer","turn":1,"pointer":""}`, want: "no JSON"},
		{spec: `{"kind":"turn_answer","turn":2}`, want: "without an answer"},
		{spec: `{"kind":"turn_answer","turn":3}`, want: "is empty"},
		{spec: `{"kind":"turn_answer","turn":4}`, want: "the run has 3 turns"},

		{spec: `{"kind":"memory","tier":"semantic","key":"city"}`, kind: "text", want: `"Bergen"`},
		{spec: `{"kind":"memory","tier":"semantic","key":"city","turn":1}`, kind: "text", want: `"Oslo"`},
		{spec: `{"kind":"memory","tier":"semantic","key":"city","turn":0}`, kind: "text", want: `"Oslo"`},
		{spec: `{"kind":"memory","tier":"semantic","key":"city","turn":9}`, want: "the run has 3 turns"},
		{spec: `{"kind":"memory","tier":"working","key":"city"}`, want: "does not exist"},
		{spec: `{"kind":"memory","tier":"semantic","key":"City"}`, want: "does not exist"},

		{spec: `{"kind":"tools"}`, kind: "calls", want: `[{"args":{"amount":100,"to":"alice"},"name":"transfer","turn":1},{"args":{},"name":"lookup","turn":3},{"name":"lookup","raw":"not json","turn":3}]`},
		{spec: `{"kind":"tools","event":"tool_proposed"}`, kind: "calls", want: `[{"args":{"amount":100,"to":"alice"},"name":"transfer","turn":1},{"args":{"cmd":"rm"},"name":"Bash","turn":2}]`},
		{spec: `{"kind":"tools","name":"transfer"}`, kind: "calls", want: `[{"args":{"amount":100,"to":"alice"},"name":"transfer","turn":1}]`},
		{spec: `{"kind":"tools","turn":2}`, kind: "calls", want: `[]`},
		{spec: `{"kind":"tools","turn":4}`, want: "the run has 3 turns"},

		{spec: `{"kind":"verdict","turn":2,"name":"Bash"}`, kind: "text", want: `"deny"`},
		{spec: `{"kind":"verdict","turn":2,"call":"c3"}`, kind: "text", want: `"allow"`},
		{spec: `{"kind":"verdict","turn":1,"which":"first"}`, kind: "text", want: `"escalate"`},
		{spec: `{"kind":"verdict","turn":1,"which":"last"}`, kind: "text", want: `"allow"`},
		{spec: `{"kind":"verdict","turn":1}`, want: "2 decisions that differ"},
		{spec: `{"kind":"verdict","turn":3}`, want: "decided nothing"},
		{spec: `{"kind":"verdict","turn":1,"name":"Bash"}`, want: "decided nothing"},
		{spec: `{"kind":"verdict","turn":5}`, want: "the run has 3 turns"},

		{spec: `{"kind":"count","event":"tool_executed"}`, kind: "number", want: `3`},
		{spec: `{"kind":"count","event":"tool_executed","name":"lookup"}`, kind: "number", want: `2`},
		{spec: `{"kind":"count","event":"tool_executed","turn":1}`, kind: "number", want: `1`},
		{spec: `{"kind":"count","event":"policy_decision","verdict":"deny"}`, kind: "number", want: `1`},
		{spec: `{"kind":"count","event":"policy_decision","verdict":"deny","name":"transfer"}`, kind: "number", want: `0`},
		{spec: `{"kind":"count","event":"rollback"}`, kind: "number", want: `0`},
		{spec: `{"kind":"count","event":"memory_written","turn":0}`, kind: "number", want: `1`},
		{spec: `{"kind":"count","event":"rollback","turn":9}`, want: "the run has 3 turns"},

		{spec: `{"kind":"tokens"}`, kind: "number", want: `130`},
		{spec: `{"kind":"cost"}`, kind: "number", want: `25`},
		{spec: `{"kind":"turns"}`, kind: "number", want: `3`},
		{spec: `{"kind":"status"}`, kind: "text", want: `"completed"`},
		{spec: `{"kind":"test"}`, kind: "bool", want: `true`},

		{spec: `{"kind":"file","path":"out/report.txt"}`, kind: "text", want: `"line\nTOTAL: 42 EUR\n"`},
		{spec: `{"kind":"file","path":"out/report.txt","pattern":"TOTAL: (\\d+)"}`, kind: "text", want: `"42"`},
		{spec: `{"kind":"file","path":"gone.txt"}`, want: "does not exist"},
		{spec: `{"kind":"file","path":"empty.txt"}`, want: "is empty"},
		{spec: `{"kind":"file","path":"binary"}`, want: "not UTF-8"},

		{spec: `{"kind":"cel","expression":"memory.semantic.city"}`, kind: "text", want: `"Bergen"`},
		{spec: `{"kind":"cel","expression":"events.filter(e, e.type == 'tool_executed').map(e, e.payload.name)"}`, kind: "json", want: `["transfer","lookup","lookup"]`},
		{spec: `{"kind":"cel","expression":"events.exists(e, e.type == 'tool_executed' && e.payload.args.values.amount > 50)"}`, kind: "bool", want: `true`},
		{spec: `{"kind":"cel","expression":"run.tokens + run.tool_calls"}`, kind: "number", want: `133`},
		{spec: `{"kind":"cel","expression":"size(events)"}`, kind: "number", want: `25`},
		{spec: `{"kind":"cel","expression":"{'a': run.denials, 'b': [context.peak], 'c': context.over_budget, 'd': run.status}"}`, kind: "json", want: `{"a":1,"b":[500],"c":[2],"d":"completed"}`},
		{spec: `{"kind":"cel","expression":"run.escalations == 1 && run.violations == 1 && run.model_calls == 1 && run.turn == 3 && run.cost_microdollars == 25"}`, kind: "bool", want: `true`},
		{spec: `{"kind":"cel","expression":"run.answer.startsWith('{')"}`, kind: "bool", want: `true`},
		{spec: `{"kind":"cel","expression":"memory.semantic.gone"}`, want: "no such key: gone"},
		{spec: `{"kind":"cel","expression":"has(memory.semantic.gone)"}`, kind: "bool", want: `false`},
		{spec: `{"kind":"cel","expression":"''"}`, want: "empty text"},
		{spec: `{"kind":"cel","expression":"null"}`, want: "null"},
		{spec: `{"kind":"cel","expression":"1.0 / 0.0"}`, want: "no number"},
		{spec: `{"kind":"cel","expression":"1 / 0"}`, want: "division by zero"},
		{spec: `{"kind":"cel","expression":"9007199254740993"}`, want: "no form for"},
		{spec: `{"kind":"cel","expression":"b'abc'"}`, want: "bytes"},
		{spec: `{"kind":"cel","expression":"{1: 2}"}`, want: "key of type int"},
		{spec: `{"kind":"cel","expression":"events.map(a, events.map(b, events))"}`, want: "more than 1048576 bytes", comment: "cheap to make, dear to write"},
		{spec: `{"kind":"cel","expression":"` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `"}`, want: "more than 32 deep"},
	} {
		t.Run(tt.spec, func(t *testing.T) {
			v, err := compile(t, tt.spec).Extract(source(t))
			if err != nil {
				t.Fatal(err)
			}
			if tt.kind == "" {
				if v.Found || !strings.Contains(v.Missing, tt.want) {
					t.Errorf("got %v %.200s %q, want nothing with %q", v.Found, v.Shown(), v.Missing, tt.want)
				}
				if data, err := v.Canonical(); err != nil || string(data) != "null" {
					t.Errorf("nothing is %s, %v in JSON, want null", data, err)
				}
				return
			}
			data, err := v.Canonical()
			if err != nil {
				t.Fatal(err)
			}
			if !v.Found || v.Kind != tt.kind || string(data) != tt.want || v.Missing != "" {
				t.Errorf("got %s %s (%s), want %s %s", v.Kind, data, v.Missing, tt.kind, tt.want)
			}
		})
	}
}

func TestCompileRefusesWithTheField(t *testing.T) {
	for _, tt := range []struct{ spec, want string }{
		{`{"kind":"guess"}`, `kind: is "guess", expected one of answer, turn_answer`},
		{`{"kind":"answer","turn":1}`, "turn: an extractor of kind answer has none"},
		{`{"kind":"answer","pattern":"("}`, "pattern: the pattern \"(\" is not RE2: error parsing regexp"},
		{`{"kind":"answer","pattern":"(a)(b)"}`, "pattern: has 2 groups"},
		{`{"kind":"answer","pattern":"a","pointer":""}`, "pattern: there is a pointer too"},
		{`{"kind":"answer","pointer":"a"}`, "pointer: is"},
		{`{"kind":"answer","pointer":"/a~2"}`, "pointer: is"},
		{`{"kind":"turn_answer"}`, "needs turn"},
		{`{"kind":"turn_answer","turn":0}`, "turn: is 0, expected 1 or more"},
		{`{"kind":"memory","tier":"semantic"}`, "needs key"},
		{`{"kind":"memory","key":"k"}`, "needs tier"},
		{`{"kind":"memory","tier":"eternal","key":"k"}`, `tier: is "eternal"`},
		{`{"kind":"memory","tier":"semantic","key":"k","turn":-1}`, "turn: is -1"},
		{`{"kind":"tools","event":"rollback"}`, "event: is rollback, expected tool_proposed or tool_executed"},
		{`{"kind":"tools","pattern":"a"}`, "pattern: an extractor of kind tools has none"},
		{`{"kind":"verdict"}`, "needs turn"},
		{`{"kind":"verdict","turn":1,"which":"worst"}`, `which: is "worst"`},
		{`{"kind":"count"}`, "needs event"},
		{`{"kind":"count","event":"tool_called"}`, `event: is "tool_called"`},
		{`{"kind":"count","event":"rollback","name":"x"}`, "name: events of type rollback have none"},
		{`{"kind":"count","event":"rollback","verdict":"deny"}`, "verdict: only a policy_decision"},
		{`{"kind":"count","event":"policy_decision","verdict":"no"}`, `verdict: is "no"`},
		{`{"kind":"tokens","turn":1}`, "turn: an extractor of kind tokens has none"},
		{`{"kind":"file"}`, "needs path"},
		{`{"kind":"file","path":"../expected/answer.txt"}`, "path: is"},
		{`{"kind":"file","path":"a/../../b"}`, "path: is"},
		{`{"kind":"file","path":"/etc/passwd"}`, "path: is"},
		{`{"kind":"file","path":"a\\..\\b"}`, "path: is"},
		{`{"kind":"file","path":"."}`, "path: is"},
		{`{"kind":"file","path":"a\u0000"}`, "path: is"},
		{`{"kind":"file","path":"` + strings.Repeat("a", 2000) + `"}`, "path: has 2000 bytes"},
		{`{"kind":"cel"}`, "needs expression"},
		{`{"kind":"cel","expression":" "}`, "expression: the expression is empty"},
		{`{"kind":"cel","expression":"score > 1"}`, "expression: 1:1: undeclared reference to 'score'"},
		{`{"kind":"cel","expression":"timestamp('2026-01-01T00:00:00Z')"}`, "undeclared reference to 'timestamp'"},
		{`{"kind":"cel","expression":"events.all(a, events.all(b, events.all(c, true)))"}`, "nest"},
	} {
		_, err := extract.Compile(parse(t, tt.spec))
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want one line with %q", tt.spec, err, tt.want)
		}
	}
}

// TestRunsWithoutAnAnswerHaveNone: what was said on the way is not the answer
// of a run that broke, and a run without an end has none.
func TestRunsWithoutAnAnswerHaveNone(t *testing.T) {
	turn := []step{{1, &trajectory.TurnStarted{}}, {1, &trajectory.TurnCompleted{Answer: said("42")}}}
	answer := compile(t, `{"kind":"answer"}`)
	for _, tt := range []struct {
		name  string
		steps []step
		want  string
		found bool
	}{
		{"the last turn's answer", append(turn, step{1, &trajectory.RunCompleted{Status: "completed"}}), "42", true},
		{"a run that broke", append(turn, step{1, &trajectory.RunFailed{Name: "CassetteMiss", Detail: "d"}}), "the run failed: CassetteMiss", false},
		{"a crash", turn, "the run has no end", false},
		{"nothing said", []step{{1, &trajectory.TurnStarted{}}, {1, &trajectory.RunCompleted{Status: "refused"}}}, "without an answer", false},
		{"a turn without an answer after one with", append(turn, step{2, &trajectory.TurnStarted{}}, step{2, &trajectory.RunCompleted{Status: "completed"}}), "without an answer", false},
		{"white space", []step{{1, &trajectory.RunCompleted{Answer: said("\n "), Status: "completed"}}}, "is empty", false},
		{"an empty answer", []step{{1, &trajectory.RunCompleted{Answer: said(""), Status: "completed"}}}, "is empty", false},
	} {
		steps := tt.steps
		if steps[0].turn == 1 {
			if _, ok := steps[0].payload.(*trajectory.TurnStarted); !ok {
				steps = append([]step{{1, &trajectory.TurnStarted{}}}, steps...)
			}
		}
		v, err := answer.Extract(&extract.Source{Trajectory: verified(t, steps...)})
		if err != nil || v.Found != tt.found || !strings.Contains(v.Text+v.Missing, tt.want) {
			t.Errorf("%s: got %+v, %v, want %q", tt.name, v, err, tt.want)
		}
		if status, _ := compile(t, `{"kind":"cel","expression":"has(run.answer)"}`).Extract(&extract.Source{Trajectory: verified(t, steps...)}); status.Bool != tt.found && tt.name != "a crash" {
			t.Errorf("%s: an expression sees an answer: %v", tt.name, status.Bool)
		}
	}
}

// TestLongTextsComeFromTheEvidence: whole, with the right digest, or not at
// all. Not having them is the evidence's fault and not the agent's.
func TestLongTextsComeFromTheEvidence(t *testing.T) {
	long := strings.Repeat("0123456789", 2000) + "END"
	steps := []step{
		{1, &trajectory.TurnStarted{}},
		{1, decided("c1", "t", policy.Allow)},
		{1, executed("c1", "t", `{"body":"`+long+`"}`)},
		{1, &trajectory.RunCompleted{Answer: said(long), Status: "completed"}},
	}
	v := verified(t, steps...)
	answer := compile(t, `{"kind":"answer","pattern":"END$"}`)
	args, err := canon.Canonicalize([]byte(`{"body":"` + long + `"}`))
	if err != nil {
		t.Fatal(err)
	}
	kept := map[digest.Content][]byte{digest.ContentOf([]byte(long)): []byte(long), digest.ContentOf(args): args}
	content := func(d digest.Content) ([]byte, bool) { data, ok := kept[d]; return data, ok }

	got, err := answer.Extract(&extract.Source{Trajectory: v, Content: content})
	if err != nil || got.Text != "END" {
		t.Errorf("kept: got %+v, %v", got, err)
	}
	got, err = answer.Extract(&extract.Source{Trajectory: v, Answer: long, HasAnswer: true})
	if err != nil || got.Text != "END" {
		t.Errorf("given: got %+v, %v", got, err)
	}
	if _, err = answer.Extract(&extract.Source{Trajectory: v}); !refusal.Is(err, refusal.NotFound) {
		t.Errorf("not kept: got %v, want NotFound", err)
	}
	if _, err = answer.Extract(&extract.Source{Trajectory: v, Answer: "other", HasAnswer: true}); !refusal.Is(err, refusal.DigestMismatch) {
		t.Errorf("another answer: got %v, want DigestMismatch", err)
	}
	forged := func(digest.Content) ([]byte, bool) { return []byte("END"), true }
	if _, err = answer.Extract(&extract.Source{Trajectory: v, Content: forged}); !refusal.Is(err, refusal.DigestMismatch) {
		t.Errorf("forged: got %v, want DigestMismatch", err)
	}

	tools := compile(t, `{"kind":"tools"}`)
	got, err = tools.Extract(&extract.Source{Trajectory: v, Content: content})
	if err != nil || string(got.Calls[0].Args) != string(args) || got.Calls[0].Problem != nil {
		t.Errorf("arguments kept: got %d calls, %v, %v", len(got.Calls), got.Calls[0].Problem, err)
	}
	// Who does not look at arguments can go on without them.
	got, err = tools.Extract(&extract.Source{Trajectory: v})
	if err != nil || got.Calls[0].Name != "t" || !refusal.Is(got.Calls[0].Problem, refusal.NotFound) {
		t.Errorf("arguments not kept: got %+v, %v", got.Calls, err)
	}
}

// TestAgentCannotMakeACaseUnscored: secrets, bytes that are not text and too
// many events are the agent's doing, so they are values that were not found and
// never errors.
func TestAgentCannotMakeACaseUnscored(t *testing.T) {
	secret, long := "key sk-12345", strings.Repeat("x", 20_000)
	answerOf := func(c trajectory.Content) *extract.Source {
		return &extract.Source{Trajectory: verified(t, step{1, &trajectory.TurnStarted{}}, step{1, &trajectory.RunCompleted{Answer: &c, Status: "completed"}})}
	}
	answer := compile(t, `{"kind":"answer"}`)

	v, err := answer.Extract(answerOf(trajectory.NewRedacted([]byte(secret), []byte("key [gone]"), 8192)))
	if err != nil || !v.Found || v.Text != "key [gone]" || !v.Redacted {
		t.Errorf("a secret: got %+v, %v", v, err)
	}
	v, err = answer.Extract(answerOf(trajectory.NewRedacted([]byte(secret+long), []byte("key [gone]"+long), 8192)))
	if err != nil || v.Found || !strings.Contains(v.Missing, "held secrets") {
		t.Errorf("a long text with a secret: got found=%v %s, %v", v.Found, v.Missing, err)
	}
	v, err = answer.Extract(answerOf(trajectory.NewContent([]byte("\xff\xfe"), 8192)))
	if err != nil || v.Found || !strings.Contains(v.Missing, "not UTF-8") {
		t.Errorf("bytes: got %+v, %v", v, err)
	}

	steps := []step{{1, &trajectory.TurnStarted{}}}
	for i := range 51_000 {
		steps = append(steps, step{1, &trajectory.Failure{Name: "Failed", Detail: fmt.Sprint(i)}})
	}
	v, err = compile(t, `{"kind":"cel","expression":"true"}`).Extract(&extract.Source{Trajectory: verified(t, steps...)})
	if err != nil || v.Found || !strings.Contains(v.Missing, "expressions see at most 50000") {
		t.Errorf("many events: got %+v, %v", v, err)
	}
}

func TestExpressionsStopAtTheCostLimit(t *testing.T) {
	steps := []step{{1, &trajectory.TurnStarted{}}}
	for i := range 3000 {
		steps = append(steps, step{1, &trajectory.Failure{Name: "Failed", Detail: fmt.Sprint(i)}})
	}
	s := &extract.Source{Trajectory: verified(t, steps...)}
	v, err := compile(t, `{"kind":"cel","expression":"events.all(a, events.all(b, a.seq + b.seq > 0.0))"}`).Extract(s)
	if err != nil || v.Found || !strings.Contains(v.Missing, "would have spent") {
		t.Errorf("got %+v, %v, want the cost limit", v, err)
	}
	v, err = compile(t, `{"kind":"cel","expression":"events.all(a, a.seq > 0.0)"}`).Extract(s)
	if err != nil || !v.Bool {
		t.Errorf("one walk over 3,000 events: got %+v, %v", v, err)
	}
}

// TestContradictoryEventsAreRefused: an entry written twice says that the
// recorder is broken, and nothing may be graded with it.
func TestContradictoryEventsAreRefused(t *testing.T) {
	s := func() *extract.Source {
		return &extract.Source{Trajectory: verified(t, step{0, wrote("a", "m0", "k", "1", "")}, step{0, wrote("b", "m0", "k", "2", "")})}
	}
	for _, spec := range []string{`{"kind":"memory","tier":"semantic","key":"k"}`, `{"kind":"tokens"}`, `{"kind":"cel","expression":"memory.semantic.k"}`} {
		if v, err := compile(t, spec).Extract(s()); !refusal.Is(err, refusal.EntryInvalid) {
			t.Errorf("%s: got %+v, %v, want EntryInvalid", spec, v, err)
		}
	}
	if _, err := s().EachTurn(func(int, map[string]any) bool { return true }); !refusal.Is(err, refusal.EntryInvalid) {
		t.Errorf("each turn: got %v", err)
	}
}

func TestFilesNeedTheWorkingFolder(t *testing.T) {
	_, err := compile(t, `{"kind":"file","path":"a"}`).Extract(&extract.Source{Trajectory: verified(t, run()...)})
	if !refusal.Is(err, refusal.NotFound) {
		t.Errorf("got %v, want NotFound", err)
	}
}

// TestEachTurnSeesWhatReplaySees compares the two at the end of every turn.
func TestEachTurnSeesWhatReplaySees(t *testing.T) {
	s := source(t)
	var turns []int
	events := 0
	problem, err := s.EachTurn(func(turn int, vars map[string]any) bool {
		turns = append(turns, turn)
		state, err := trajectory.Replay(s.Trajectory, turn)
		if err != nil {
			t.Fatal(err)
		}
		semantic := vars["memory"].(map[string]any)["semantic"].(map[string]any)
		want := map[string]string{}
		for _, e := range state.Live(trajectory.Semantic) {
			want[e.Key] = e.Value.Head
		}
		if fmt.Sprint(semantic) != fmt.Sprint(want) {
			t.Errorf("turn %d: memory %v, want %v", turn, semantic, want)
		}
		run, context := vars["run"].(map[string]any), vars["context"].(map[string]any)
		tokens, _ := state.Spending.Tokens()
		if run["tokens"] != float64(tokens) || run["cost_microdollars"] != float64(state.Spending.Cost().MicroUSD) || run["violations"] != float64(len(state.Violations)) || run["turn"] != float64(turn) {
			t.Errorf("turn %d: run %v, want %+v", turn, run, state)
		}
		if context["used"] != float64(state.Context.Used) || context["peak"] != float64(state.Peak) || len(context["over_budget"].([]any)) != len(state.OverBudget) {
			t.Errorf("turn %d: context %v, want %+v", turn, context, state)
		}
		for _, e := range vars["events"].([]any) {
			events++
			if at := e.(map[string]any)["turn"]; at != float64(turn) {
				t.Errorf("turn %d has an event of turn %v", turn, at)
			}
		}
		_, ended := run["status"]
		if ended != (turn == 3) {
			t.Errorf("turn %d: status is there: %v", turn, ended)
		}
		return true
	})
	if err != nil || problem != "" || fmt.Sprint(turns) != "[1 2 3]" {
		t.Errorf("got turns %v, %q, %v", turns, problem, err)
	}
	if want := s.Trajectory.Len() - 2; events != want { // all but those before the first turn
		t.Errorf("saw %d events, want %d", events, want)
	}
	seen := 0
	if _, err := s.EachTurn(func(int, map[string]any) bool { seen++; return false }); err != nil || seen != 1 {
		t.Errorf("went on after false: %d, %v", seen, err)
	}
}

// TestMapsAreWalkedInOrder: Go walks maps in random order, and an expression
// must not show it.
func TestMapsAreWalkedInOrder(t *testing.T) {
	var steps []step
	for i := range 40 {
		steps = append(steps, step{0, wrote(fmt.Sprint("c", i), fmt.Sprint("m", i), fmt.Sprintf("k%02d", 39-i), "v", "")})
	}
	e := compile(t, `{"kind":"cel","expression":"memory.semantic.map(k, k)"}`)
	for range 20 {
		v, err := e.Extract(&extract.Source{Trajectory: verified(t, steps...)})
		if err != nil || !strings.HasPrefix(string(v.JSON), `["k00","k01","k02"`) {
			t.Fatalf("got %s, %v", v.JSON, err)
		}
	}
}

// FuzzExtract: whatever a spec and an answer hold, extracting never panics, a
// value that was found is never blank, and asking twice gives the same.
func FuzzExtract(f *testing.F) {
	f.Add(`{"kind":"answer","pointer":"/a/0"}`, `{"a":[1]}`)
	f.Add(`{"kind":"answer","pattern":"a(b*)"}`, "abb")
	f.Add(`{"kind":"cel","expression":"run.answer"}`, "x")
	f.Add(`{"kind":"file","path":"a/b"}`, "\xff")
	f.Fuzz(func(t *testing.T, text, answer string) {
		var spec extract.Spec
		if canon.Unmarshal([]byte(text), &spec) != nil {
			return
		}
		e, err := extract.Compile(spec)
		if err != nil {
			return
		}
		c := content(answer)
		s := &extract.Source{Trajectory: verified(t, step{1, &trajectory.TurnStarted{}}, step{1, &trajectory.RunCompleted{Answer: &c, Status: "completed"}}),
			Answer: answer, HasAnswer: true, File: func(string) ([]byte, bool, error) { return []byte(answer), true, nil }}
		v, err := e.Extract(s)
		if err != nil {
			t.Fatalf("%s on %q: %v", text, answer, err)
		}
		again, _ := e.Extract(s)
		if fmt.Sprintf("%+v", v) != fmt.Sprintf("%+v", again) {
			t.Errorf("%s on %q: two values", text, answer)
		}
		if v.Found && v.Kind == extract.TextValue && strings.TrimSpace(v.Text) == "" || !v.Found && v.Missing == "" {
			t.Errorf("%s on %q: found %v, %q, %q", text, answer, v.Found, v.Text, v.Missing)
		}
		if _, err := v.Canonical(); err != nil {
			t.Errorf("%s on %q: %v", text, answer, err)
		}
	})
}
