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
			if got := strings.Join(c.For(ForAgent).Models(), " "); got != "m" {
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

// A person who writes a cassette, or edits one, may mark one call of the judge and
// forget another. What looks like the judge's is then given to neither, so that it
// cannot be read by asking for it.
func TestAForgottenMarkDoesNotGiveTheJudgesCallAway(t *testing.T) {
	judges := `{"model":"judge-1","messages":[{"role":"user","content":"gold 4711 ` + JudgeMark + `claims:0:begin====="}]}`
	vectors := `{"model":"emb-1","input":["gold 4711"]}`
	for _, provenance := range []Provenance{Authored, Edited} {
		var list []Interaction
		for _, x := range []struct {
			api  wire.API
			body string
			for_ Purpose
		}{{wire.OpenAIChat, `{"model":"m","messages":[]}`, ""}, {wire.OpenAIChat, `{"model":"judge-1","messages":[]}`, ForJudge}, {wire.OpenAIChat, judges, ""}, {wire.Embeddings, vectors, ""}} {
			list = append(list, Interaction{Purpose: x.for_, Model: &ModelCall{API: x.api, Request: mustModel(t, x.api, x.body).Canonical(), Response: Response{Status: 200, Body: []byte(`{}`)}}})
		}
		c, err := New(provenance, nil, 0, list)
		if err != nil {
			t.Fatal(err)
		}
		agent := NewPlayer(c)
		for api, body := range map[wire.API]string{wire.OpenAIChat: judges, wire.Embeddings: vectors} {
			_, err := agent.Next(mustModel(t, api, body))
			var miss *Miss
			if !errors.As(err, &miss) || agent.Has(mustModel(t, api, body)) {
				t.Errorf("%s: the agent got it, or %v", provenance, err)
			}
		}
		if got := strings.Join(c.For(ForAgent).Models(), " "); got != "m" {
			t.Errorf("%s: the agent is told of %s", provenance, got)
		}
		if _, err := agent.Next(mustModel(t, wire.OpenAIChat, `{"model":"m","messages":[]}`)); err != nil {
			t.Error(err)
		}
	}
}

// The part of a party is all that its player has: nothing of the other's is in it.
func TestAPartHoldsOneParty(t *testing.T) {
	c := record(t, `{"model":"m","messages":[{"role":"user","content":"hello"}]}`, `{"model":"judge-1","messages":[{"role":"user","content":"gold 4711 `+JudgeMark+`answer:0:begin====="}]}`)
	data, err := c.For(ForAgent).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(data, Limits{})
	if err != nil || len(again.Interactions) != 1 || strings.Contains(string(again.Interactions[0].Model.Request), "4711") {
		t.Errorf("the agent's part is %+v, %v", again, err)
	}
	for _, it := range NewPlayer(c).own.interactions {
		if strings.Contains(string(it.Model.Request), "4711") {
			t.Errorf("the agent's player holds %s", it.Model.Request)
		}
	}
	if empty, err := again.For(ForJudge).Marshal(); err != nil || empty != nil {
		t.Errorf("a part with nothing in it is %q, %v", empty, err)
	}
}

// An agent may ask for vectors. Its calls are its own, in a replay too, and those of
// a judge stay out of its reach, in a recording of an older program that the agent's
// are added to as well.
func TestVectorsOfTheAgentAreTheAgents(t *testing.T) {
	mine, gold := `{"model":"emb-1","input":["my text"]}`, `{"model":"emb-1","input":["gold 4711"]}`
	old := Interaction{Model: &ModelCall{API: wire.OpenAIChat, Request: mustModel(t, wire.OpenAIChat, `{"model":"j","messages":[{"role":"user","content":"`+JudgeMark+`"}]}`).Canonical(), Response: Response{Status: 200, Body: []byte(`{}`)}}}
	for name, tt := range map[string]struct {
		base    *Cassette
		purpose Purpose
	}{"a recording of now": {nil, ForJudge}, "added to an old one": {mustNew(t, old), ""}} {
		t.Run(name, func(t *testing.T) {
			o := RecorderOptions{}
			if tt.base != nil {
				o.Base = mustNew(t, old, Interaction{Model: &ModelCall{API: wire.Embeddings, Request: mustModel(t, wire.Embeddings, gold).Canonical(), Response: Response{Status: 200, Body: []byte(`{}`)}}})
			}
			r := mustRecorder(t, o)
			for _, x := range []ModelTraffic{{Request: []byte(mine)}, {Request: []byte(gold), Purpose: ForJudge}} {
				if tt.base != nil && x.Purpose == ForJudge {
					continue // it is in the old one, without a mark
				}
				x.API, x.Status, x.Body = wire.Embeddings, 200, []byte(`{"n":1}`)
				if _, err := r.Model(x); err != nil {
					t.Fatal(err)
				}
			}
			c, err := Parse(mustMarshal(t, mustCassette(t, r)), Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := NewPlayer(c).Next(mustModel(t, wire.Embeddings, mine)); err != nil {
				t.Errorf("the agent's own: %v", err)
			}
			if _, err := NewPlayer(c).Next(mustModel(t, wire.Embeddings, gold)); err == nil {
				t.Error("the agent was given what the judge compares with")
			}
			if _, err := NewJudgePlayer(c).Next(mustModel(t, wire.Embeddings, mine)); err == nil {
				t.Error("the judge was given the agent's")
			}
			if _, err := NewJudgePlayer(c).Next(mustModel(t, wire.Embeddings, gold)); err != nil {
				t.Errorf("the judge's own: %v", err)
			}
			part, err := c.For(ForAgent).Marshal()
			if err != nil {
				t.Fatal(err)
			}
			if again, err := Parse(part, Limits{}); err != nil || len(again.Interactions) != 1 {
				t.Errorf("the agent's part is %+v, %v", again, err)
			}
		})
	}
}

func mustNew(t *testing.T, list ...Interaction) *Cassette {
	t.Helper()
	c, err := New(Recorded, nil, 0, list)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
