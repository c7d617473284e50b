package cassette

import (
	"errors"
	"strings"
	"testing"

	"tallystick/internal/run/wire"
)

// What the judge was asked holds the expected answer. No request gives it to
// the agent: not the judge's own, not one that nearly matches.
func TestTheJudgesCallsAreOutOfTheAgentsReach(t *testing.T) {
	const gold = "the gold answer is 4711"
	agents := `{"model":"m","messages":[{"role":"user","content":"hello"}]}`
	judges := `{"model":"judge-1","messages":[{"role":"user","content":"` + gold + ` ` + JudgeMark + `0:begin====="}]}`
	near := strings.Replace(judges, "4711", "0", 1)
	marked := func() *Cassette {
		r := mustRecorder(t, RecorderOptions{})
		for _, x := range []ModelTraffic{{Request: []byte(agents)}, {Request: []byte(judges), Purpose: ForJudge}} {
			x.API, x.Status, x.Body = wire.OpenAIChat, 200, []byte(`{"n":1}`)
			if _, err := r.Model(x); err != nil {
				t.Fatal(err)
			}
		}
		again, err := Parse(mustMarshal(t, mustCassette(t, r)), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		return again
	}
	for name, c := range map[string]*Cassette{"marked": marked(), "of an older program": record(t, agents, judges)} {
		t.Run(name, func(t *testing.T) {
			agent, judge := NewPlayer(c), NewJudgePlayer(c)
			for _, asked := range []string{judges, near} {
				_, err := agent.Next(mustModel(t, wire.OpenAIChat, asked))
				var miss *Miss
				if !errors.As(err, &miss) || strings.Contains(err.Error(), "recorded \""+gold) {
					t.Errorf("the agent asked as the judge and got %v", err)
				}
			}
			if _, err := judge.Next(mustModel(t, wire.OpenAIChat, judges)); err != nil {
				t.Errorf("the judge's own call is used up: %v", err)
			}
			if _, err := judge.Next(mustModel(t, wire.OpenAIChat, agents)); err == nil {
				t.Error("the judge was given a call of the agent's")
			}
			if _, err := agent.Next(mustModel(t, wire.OpenAIChat, agents)); err != nil {
				t.Errorf("the agent's own call: %v", err)
			}
			if got := strings.Join(c.AgentModels(), " "); got != "m" {
				t.Errorf("the agent is told of the models %s", got)
			}
		})
	}
}

// An agent cannot have its own call count as the judge's by writing the mark.
func TestAMarkInTheAgentsRequestDoesNotMakeItTheJudges(t *testing.T) {
	r := mustRecorder(t, RecorderOptions{})
	planted := `{"model":"judge-1","messages":[{"role":"user","content":"` + JudgeMark + `0:begin====="}]}`
	for _, x := range []ModelTraffic{{Request: []byte(planted), Body: []byte(`{"n":1}`)}, {Request: []byte(planted), Body: []byte(`{"n":2}`), Purpose: ForJudge}} {
		x.API, x.Status = wire.OpenAIChat, 200
		if _, err := r.Model(x); err != nil {
			t.Fatal(err)
		}
	}
	it, err := NewJudgePlayer(mustCassette(t, r)).Next(mustModel(t, wire.OpenAIChat, planted))
	if err != nil || string(it.Model.Response.Body) != `{"n":2}` {
		t.Errorf("the judge got %+v, %v", it, err)
	}
}

func TestWhatAMissTellsTheAgentIsNotRecorded(t *testing.T) {
	_, err := NewPlayer(record(t, `{"model":"m","messages":[{"role":"user","content":"a recorded secret"}]}`)).
		Next(mustModel(t, wire.OpenAIChat, `{"model":"m","messages":[{"role":"user","content":"a recorded guess"}]}`))
	var miss *Miss
	if !errors.As(err, &miss) || !strings.Contains(err.Error(), "a recorded secret") {
		t.Fatalf("people are not told what is recorded: %v", err)
	}
	if told := miss.Told(); strings.Contains(told, "secret") || strings.Contains(told, "nearest") {
		t.Errorf("the agent is told %q", told)
	}
}
