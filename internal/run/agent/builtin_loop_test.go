package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/session"
	"tallystick/internal/run/wire"
)

func TestRequestsAreTheWireFormatOfEachAPI(t *testing.T) {
	golden := map[wire.API]string{
		wire.OpenAIChat: `{"messages":[{"content":"Be brief.","role":"system"},{"content":"Where?","role":"user"},` +
			`{"role":"assistant","tool_calls":[{"function":{"arguments":"{\"q\":\"x\"}","name":"look"},"id":"call_1abcdefgh0","type":"function"}]},` +
			`{"content":"\"Oslo\"","role":"tool","tool_call_id":"call_1abcdefgh0"}],"model":"m","temperature":0.5,` +
			`"tools":[{"function":{"description":"Looks something up.","name":"look","parameters":{"type":"object"}},"type":"function"}]}`,
		wire.OpenAIResponses: `{"input":[{"content":"Where?","role":"user"},` +
			`{"arguments":"{\"q\":\"x\"}","call_id":"call_1abcdefgh0","name":"look","type":"function_call"},` +
			`{"call_id":"call_1abcdefgh0","output":"\"Oslo\"","type":"function_call_output"}],"instructions":"Be brief.","model":"m","store":false,"temperature":0.5,` +
			`"tools":[{"description":"Looks something up.","name":"look","parameters":{"type":"object"},"strict":false,"type":"function"}]}`,
		wire.AnthropicMessages: `{"max_tokens":4096,"messages":[{"content":"Where?","role":"user"},` +
			`{"content":[{"id":"toolu_call_1abcdefgh0","input":{"q":"x"},"name":"look","type":"tool_use"}],"role":"assistant"},` +
			`{"content":[{"content":"\"Oslo\"","tool_use_id":"toolu_call_1abcdefgh0","type":"tool_result"}],"role":"user"}],"model":"m","system":"Be brief.","temperature":0.5,` +
			`"tools":[{"description":"Looks something up.","input_schema":{"type":"object"},"name":"look"}]}`,
	}
	temperature := 0.5
	for _, api := range apis {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s stream %v", api, stream), func(t *testing.T) {
				b := &box{}
				b.add(look, `"Oslo"`)
				r := trial{target: Builtin{API: api, System: "Be brief.", Temperature: &temperature}, box: b, stream: stream,
					turns: []string{"Where?"}, say: []said{want("look", `{"q":"x"}`), text("In Oslo.")}}.must(t)
				if r.outcome.Answer != "In Oslo." || r.outcome.Refused {
					t.Errorf("outcome %+v", r.outcome)
				}
				if got := r.last(t); got != golden[api] {
					t.Errorf("request\n%s\nexpected\n%s", got, golden[api])
				}
			})
		}
	}
}

func TestLaterTurnsSeeEarlierOnes(t *testing.T) {
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) {
			b := &box{}
			b.add(look, `"blue"`)
			r := trial{target: Builtin{API: api}, box: b, turns: []string{"first question", "second question"},
				say: []said{{text: "let me see", calls: []wire.Call{{Name: "look", Args: []byte(`{}`)}}}, text("first answer"), text("second answer")}}.must(t)
			for _, part := range []string{"first question", "let me see", "blue", "first answer", "second question"} {
				has(t, r.last(t), part)
			}
			if r.outcome.Answer != "second answer" || r.state.Turn != 2 {
				t.Errorf("outcome %+v after turn %d", r.outcome, r.state.Turn)
			}
		})
	}
}

func TestParallelCallsAreMadeInTheirOrder(t *testing.T) {
	for _, api := range apis {
		b := &box{}
		b.add(look, `1`)
		r := trial{target: Builtin{API: api}, box: b, say: []said{{calls: []wire.Call{{Name: "look", Args: []byte(`{"n":1}`)}, {Name: "look", Args: []byte(`{"n":2}`)}, {Name: "nosuch", Args: []byte(`{"n":3}`)}}}, text("done")}}.must(t)
		if want := []string{`look {"n":1}`, `look {"n":2}`, `nosuch {"n":3}`}; !slices.Equal(r.called, want) {
			t.Errorf("%s: called %q, expected %q", api, r.called, want)
		}
		has(t, r.last(t), "there is no tool nosuch")
	}
}

func TestMalformedArgumentsAreToldToTheModel(t *testing.T) {
	for _, api := range []wire.API{wire.OpenAIChat, wire.OpenAIResponses} {
		for _, args := range []string{`{"text":`, `[]`, `{"text":1}`, `{"text":"a","text":"b"}`, `{"other":"a"}`, "\x00"} {
			r := trial{target: Builtin{API: api, Abilities: allAbilities}, say: []said{want("plan", args), text("done")}}.must(t)
			if r.count("error:malformed_arguments") != 1 || r.count("plan") != 0 {
				t.Errorf("%s %q: events %v", api, args, r.types())
			}
			has(t, r.last(t), "the arguments of plan are not as they should be")
		}
	}
}

func TestRefusalsAreNotAnswers(t *testing.T) {
	for _, api := range apis {
		r := trial{target: Builtin{API: api}, say: []said{{refusal: "I will not."}}}.must(t)
		if !r.outcome.Refused || r.outcome.Answer != "I will not." {
			t.Errorf("%s: outcome %+v", api, r.outcome)
		}
	}
	r := trial{say: []said{{text: "partly", finish: "content_filter"}}}.must(t)
	if !r.outcome.Refused {
		t.Error("a filtered reply is an answer")
	}
	r = trial{turns: []string{"a", "b"}, say: []said{{refusal: "no"}, text("yes")}}.must(t)
	if r.outcome.Refused || r.outcome.Answer != "yes" {
		t.Errorf("the refusal of an earlier turn stands: %+v", r.outcome)
	}
	r = trial{say: []said{{refusal: "no", calls: []wire.Call{{Name: "look", Args: []byte(`{}`)}}}}}.must(t)
	if len(r.called) != 0 {
		t.Errorf("the calls of a refusal were made: %q", r.called)
	}
}

func TestAReplyCutOffIsKeptAndItsCallsAreNotMade(t *testing.T) {
	for _, api := range apis {
		r := trial{target: Builtin{API: api}, say: []said{{text: "half an ans", finish: "length"}}}.must(t)
		if r.outcome.Answer != "half an ans" || r.count("error:reply_cut") != 1 {
			t.Errorf("%s: outcome %+v, events %v", api, r.outcome, r.types())
		}
		b := &box{}
		b.add(look, `1`)
		r = trial{target: Builtin{API: api}, box: b, say: []said{{finish: "length", calls: []wire.Call{{Name: "look", Args: []byte(`{}`)}}}, text("sorry")}}.must(t)
		if len(r.called) != 0 {
			t.Errorf("%s: called %q", api, r.called)
		}
		has(t, r.last(t), "your reply was cut off")
	}
}

func TestAnEmptyReplyIsRecorded(t *testing.T) {
	for _, api := range apis {
		r := trial{target: Builtin{API: api}, turns: []string{"a", "b"}, say: []said{{}, text("here")}}.must(t)
		if r.count("error:reply_empty") != 1 || r.outcome.Answer != "here" {
			t.Errorf("%s: outcome %+v, events %v", api, r.outcome, r.types())
		}
	}
}

func TestModelErrorsAreTriedAgainSoOftenAndNoMore(t *testing.T) {
	two, none := 2, 0
	for _, tt := range []struct {
		name    string
		say     []said
		retries *int
		calls   int
		fails   string
		tried   int
	}{
		{"one rate limit", []said{status(429), text("ok")}, nil, 2, "", 1},
		{"two server errors", []said{status(500), status(529), text("ok")}, &two, 3, "", 2},
		{"three server errors", []said{status(500), status(503), status(500), text("ok")}, &two, 3, "error:model_status_500", 2},
		{"a bad request is not repeated", []said{status(400), text("ok")}, nil, 1, "error:model_status_400", 0},
		{"no retries", []said{status(429), text("ok")}, &none, 1, "error:model_status_429", 0},
		{"not JSON", []said{{body: "<html>"}, text("ok")}, nil, 2, "", 1},
		{"no choices", []said{{body: `{"choices":[]}`}, {body: `{}`}, {body: `[]`}}, nil, 3, "error:reply_malformed", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := trial{target: Builtin{Retries: tt.retries}, say: tt.say}.drive(t)
			if len(r.requests) != tt.calls || r.count("error:model_retry") != tt.tried {
				t.Errorf("%d calls, %d retries, expected %d and %d", len(r.requests), r.count("error:model_retry"), tt.calls, tt.tried)
			}
			if tt.fails == "" {
				if r.err != nil {
					t.Error(r.err)
				}
				return
			}
			if !refusal.Is(r.err, refusal.AgentFailed) || r.count(tt.fails) != 1 || r.count("run_failed") != 1 {
				t.Errorf("err %v, events %v", r.err, r.types())
			}
		})
	}
}

func TestAFailedResponseIsNoAnswer(t *testing.T) {
	r := trial{target: Builtin{API: wire.OpenAIResponses}, say: []said{{body: `{"status":"failed","error":{"message":"oops"},"output":[]}`}, text("ok")}}.must(t)
	if r.count("error:model_retry") != 1 {
		t.Errorf("events %v", r.types())
	}
}

func TestStepsAreBounded(t *testing.T) {
	b := &box{}
	b.add(look, `1`)
	r := trial{target: Builtin{MaxSteps: 3}, box: b, say: []said{want("look", `{}`), want("look", `{}`), want("look", `{}`), text("too late")}}.drive(t)
	if !refusal.Is(r.err, refusal.AgentFailed) || len(r.requests) != 3 || r.count("error:step_limit") != 1 {
		t.Errorf("err %v after %d calls, events %v", r.err, len(r.requests), r.types())
	}
}

func TestAStopIsReturnedUnchanged(t *testing.T) {
	r := trial{turns: []string{"a", "b"}, limits: session.Limits{Turns: 1}, say: []said{text("x")}}.drive(t)
	if !isStop(r.err, session.Truncated) {
		t.Errorf("err %v, expected a stop", r.err)
	}
	r = trial{say: nil}.drive(t) // no recording
	if !isStop(r.err, session.Failed) {
		t.Errorf("err %v, expected a stop", r.err)
	}
}

func TestApprovalsSuspendAndDrivingAgainResumes(t *testing.T) {
	tr := trial{target: Builtin{Abilities: allAbilities}, say: []said{want("ask_approval", `{"question":"Pay?"}`), text("paid")}}
	first := tr.drive(t)
	if !isStop(first.err, session.Suspended) {
		t.Fatalf("err %v, expected suspension", first.err)
	}
	tr.approvals = []scenario.Approval{{Action: policy.Approval, Name: "Pay?", Approve: true}}
	second := tr.must(t)
	has(t, second.last(t), `"content":"approved"`)
	// Up to the question both runs are the same run.
	head := string(first.log[:strings.Index(string(first.log), `"type":"approval_requested"`)])
	if !strings.HasPrefix(string(second.log), head) {
		t.Error("driving again did not do the same")
	}
	tr.approvals[0].Approve = false
	has(t, tr.must(t).last(t), `"content":"refused"`)
}

func TestPlansAreRecorded(t *testing.T) {
	r := trial{target: Builtin{Abilities: []Ability{PlanAbility}}, say: []said{want("plan", `{"text":"1. look"}`), text("ok")}}.must(t)
	if r.count("plan") != 1 {
		t.Errorf("events %v", r.types())
	}
}

func TestAbilitiesThatTheTargetDoesNotGiveAreNotThere(t *testing.T) {
	r := trial{say: []said{want("memory_write", `{"tier":"semantic","key":"a","value":"b"}`), text("ok")}}.must(t)
	if r.count("memory_written") != 0 || r.count("tool_executed:memory_write") != 1 {
		t.Errorf("events %v", r.types())
	}
	lacks(t, r.requests[0], "memory_write")
}

func TestAToolOfTheCaseCannotTakeTheNameOfAnAbility(t *testing.T) {
	b := &box{}
	d := look
	d.Name = "plan"
	b.add(d, `1`)
	r := trial{target: Builtin{Abilities: []Ability{PlanAbility}}, box: b, say: []said{text("x")}}.drive(t)
	if !refusal.Is(r.err, refusal.AgentFailed) {
		t.Errorf("err %v", r.err)
	}
}

func TestToolsOutsideTheTargetsListAreNotOfferedAndNotCalled(t *testing.T) {
	b := &box{}
	b.add(look, `1`)
	b.add(transfer, `1`)
	r := trial{target: Builtin{Tools: []string{"look"}}, box: b, say: []said{want("transfer", `{}`), text("ok")}}.must(t)
	if len(r.called) != 0 || r.count("security_event:tool_not_offered") != 1 {
		t.Errorf("called %q, events %v", r.called, r.types())
	}
	lacks(t, r.requests[0], "transfer")
}

// everything is a case that uses all that the loop has.
func everything(api wire.API) trial {
	b := &box{}
	b.add(look, `{"z":1,"a":[true]}`)
	b.add(fetch, `"a page"`)
	b.add(transfer, `{"ok":true}`)
	return trial{
		target: Builtin{API: api, System: "Be good.", Abilities: allAbilities, Context: &ContextSize{Window: 9000, Budget: 3000},
			Agents: []Helper{{Name: "payments", Description: "Pays.", Abilities: []Ability{MemoryAbility}}, {Name: "research", Description: "Reads."}}},
		box:       b,
		memory:    []scenario.Memory{{Tier: "semantic", Key: "city", Value: "Oslo"}, {Tier: "procedural", Key: "tone", Value: "polite"}, {Tier: "working", Key: "todo", Value: "all"}},
		approvals: []scenario.Approval{{Action: policy.Approval, Name: "*", Approve: true}},
		turns:     []string{"Begin with Oslo", "Then pay", "And forget Oslo"},
		say: []said{
			want("plan", `{"text":"look, pay"}`), {text: "hm", calls: []wire.Call{{Name: "look", Args: []byte(`{"b":1,"a":2}`)}, {Name: "fetch", Args: []byte(`{}`)}}}, status(429), text("begun"),
			want("handoff", `{"agent":"payments","input":"pay 5"}`), want("memory_write", `{"tier":"episodic","key":"paid","value":"5","confidence":0.9}`),
			want("transfer", `{"to":"a","amount":5}`), text("paid 5"), want("transfer", `{"to":"a","amount":5}`), text("all paid"),
			want("memory_write", `{"tier":"semantic","key":"city","value":"Bergen","supersedes":"case-1"}`), want("memory_search", `{"query":"city paid"}`), want("ask_approval", `{"question":"ok?"}`), text("moved"),
		},
	}
}

func TestTheSameRepliesGiveTheSameBytes(t *testing.T) {
	for _, api := range apis {
		first := everything(api).must(t)
		for range 5 {
			again := everything(api).must(t)
			if !sameBytes(first.log, again.log) {
				t.Fatalf("%s: two runs differ", api)
			}
			if !slices.Equal(first.requests, again.requests) {
				t.Fatalf("%s: the requests of two runs differ", api)
			}
		}
	}
}
