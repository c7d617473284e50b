package session

import (
	"context"
	"strconv"
	"strings"
	"sync"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/wire"
)

// A Script answers model calls with replies that a person wrote into the case.
// It is how a case shows what an agent does with a model that was talked into
// something: the reply is chosen by what the model is asked. Nothing that it
// answers says anything about a real model.
type Script struct {
	replies scenario.Authored

	mu    sync.Mutex
	used  []bool
	calls int
	turn  int
}

// AtTurn says which turn the session is in.
func (s *Script) AtTurn(turn int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn = turn
}

// NewScript returns the authored model of a case, for the party whose replies
// these are.
func NewScript(replies scenario.Authored) *Script {
	return &Script{replies: replies, used: make([]bool, replies.Len())}
}

// JudgeScript is the authored side of a model that judges a case or gives vectors
// for it, nil if the case has none.
func JudgeScript(s *scenario.Scenario, model string) *Script {
	its := s.RepliesFor(cassette.ForJudge).To(model)
	if its.Len() == 0 {
		return nil
	}
	return NewScript(its)
}

// Call answers with the first reply that fits and is not used up.
func (s *Script) Call(_ context.Context, api wire.API, body []byte, onChunk func(string) error) (*cassette.Interaction, error) {
	request, err := cassette.ModelRequest(api, body, nil)
	if err != nil {
		return nil, err
	}
	return s.next(api, request, body, onChunk)
}

// next is Call for a request that is canonical already.
func (s *Script) next(api wire.API, request cassette.Request, body []byte, onChunk func(string) error) (*cassette.Interaction, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reply, err := s.choose(api, body)
	if err != nil {
		return nil, err
	}
	s.calls++
	it, err := compose(api, request, body, reply, s.calls)
	if err != nil {
		return nil, err
	}
	return it, GiveChunks(it, onChunk)
}

func (s *Script) choose(api wire.API, body []byte) (*scenario.Reply, error) {
	var asked *wire.Words
	for i := range s.replies.Len() {
		r := s.replies.At(i)
		if s.used[i] && !r.Repeat {
			continue
		}
		if r.When != nil {
			if asked == nil {
				words := wire.WordsOf(api, body)
				asked = &words
			}
			if !fits(r.When, asked, s.turn) {
				continue
			}
		}
		s.used[i] = true
		return r, nil
	}
	return nil, refusal.Newf(refusal.CassetteMiss, "model call %d: none of the %d replies that the case has for its model fits, or all that fit are used up", s.calls+1, s.replies.Len()).
		WithHint("add a reply to the scenario, or let one answer again with repeat: true; a reply that names a model in when.agent is the judge's in a class that models grade, unless it says for: agent")
}

// fits reports whether a request, in a turn, is one that a reply is for.
func fits(w *scenario.When, q *wire.Words, turn int) bool {
	all := q.Tools + "\n" + strings.Join(q.Texts, "\n")
	last := ""
	if len(q.Texts) > 0 {
		last = q.Texts[len(q.Texts)-1]
	}
	switch {
	case w.Agent != "" && w.Agent != q.Model,
		w.Turn > 0 && w.Turn != turn,
		w.Contains != "" && !strings.Contains(all, w.Contains),
		w.Lacks != "" && strings.Contains(all, w.Lacks),
		w.Last != "" && !strings.Contains(last, w.Last):
		return false
	}
	return true
}

// compose writes a reply in the form of its API.
func compose(api wire.API, request cassette.Request, body []byte, r *scenario.Reply, n int) (*cassette.Interaction, error) {
	usage := wire.Usage{InputTokens: r.TokensIn, OutputTokens: r.TokensOut}
	if usage.InputTokens == 0 {
		usage.InputTokens = int64(len(body)+3) / 4
	}
	if usage.OutputTokens == 0 {
		usage.OutputTokens = int64(len(r.Text)+len(r.Refusal)+3) / 4
	}
	call := &cassette.ModelCall{API: api, Request: request.Canonical(), Usage: usage}
	if !r.Unpriced {
		call.CostMicrodollars = &r.CostMicroUSD
	}
	call.Response.Status = 200
	var err error
	if r.Status != 0 {
		call.Response.Status = int64(r.Status)
		call.Response.Body, err = canon.Marshal(map[string]any{"error": map[string]any{"type": "authored_error", "message": "the case answers this call with status " + strconv.Itoa(r.Status)}})
	} else {
		call.Response.Body, err = wire.Body(api, answer(r, n, usage))
	}
	if err != nil && !api.Converses() {
		// A reply of words is no answer to a request for vectors. The agent that sent
		// one is told so and may go on, as by a provider that does not have the model.
		call.Response.Status = 400
		call.Response.Body, err = canon.Marshal(map[string]any{"error": map[string]any{"type": "authored_error", "message": "the case has no vectors for this request"}})
	}
	if err != nil {
		return nil, err
	}
	return &cassette.Interaction{Key: request.Key, LatencyMS: r.LatencyMS, Model: call}, nil
}

// answer is a reply of the case, the n-th of its model.
func answer(r *scenario.Reply, n int, u wire.Usage) *wire.Answer {
	a := &wire.Answer{ID: strconv.Itoa(n), Model: "authored", Text: r.Text, Refusal: r.Refusal, InputTokens: u.InputTokens, OutputTokens: u.OutputTokens}
	for i, c := range r.ToolCalls {
		id := "call_" + strconv.Itoa(n) + "_" + strconv.Itoa(i+1)
		a.Calls = append(a.Calls, wire.AnswerCall{Call: wire.Call{ID: id, Name: c.Name, Args: argumentsOf(c)}, Item: id})
	}
	return a
}

func argumentsOf(c scenario.Call) []byte {
	given := c.Given()
	if given == nil {
		return []byte("{}")
	}
	b, err := canon.Marshal(given)
	if err != nil {
		return []byte("{}")
	}
	return b
}
