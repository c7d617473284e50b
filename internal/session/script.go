package session

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"

	"tallystick/internal/canon"
	"tallystick/internal/cassette"
	"tallystick/internal/refusal"
	"tallystick/internal/scenario"
)

// A Script answers model calls with replies that somebody wrote into the case.
// It is how a case shows what an agent does with a model that was talked into
// something: the reply is chosen by what the model is asked. Nothing that it
// answers says anything about a real model.
type Script struct {
	replies []scenario.Reply

	mu    sync.Mutex
	used  []bool
	calls int
	turn  int
}

// at says which turn the session is in.
func (s *Script) at(turn int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn = turn
}

// NewScript returns the authored model of a case.
func NewScript(replies []scenario.Reply) *Script {
	return &Script{replies: replies, used: make([]bool, len(replies))}
}

// Call answers with the first reply that fits and is not used up.
func (s *Script) Call(_ context.Context, api cassette.API, body []byte, onChunk func(string) error) (*cassette.Interaction, error) {
	request, err := cassette.ModelRequest(api, body, nil)
	if err != nil {
		return nil, err
	}
	return s.next(api, request, body, onChunk)
}

// next is Call for a request that is canonical already.
func (s *Script) next(api cassette.API, request cassette.Request, body []byte, onChunk func(string) error) (*cassette.Interaction, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reply, err := s.choose(body)
	if err != nil {
		return nil, err
	}
	s.calls++
	it, err := compose(api, request, body, reply, s.calls)
	if err != nil {
		return nil, err
	}
	return it, giveChunks(it, onChunk)
}

func (s *Script) choose(body []byte) (*scenario.Reply, error) {
	var asked *question
	for i := range s.replies {
		r := &s.replies[i]
		if s.used[i] && !r.Repeat {
			continue
		}
		if r.When != nil {
			if asked == nil {
				asked = ask(body)
				asked.turn = s.turn
			}
			if !asked.fits(r.When) {
				continue
			}
		}
		s.used[i] = true
		return r, nil
	}
	return nil, refusal.Newf(refusal.CassetteMiss, "model call %d: none of the %d replies that the case has for its model fits, or all that fit are used up", s.calls+1, len(s.replies)).
		WithHint("add a reply to the scenario, or let one answer again with repeat: true")
}

// A question is what a request says, for choosing a reply.
type question struct {
	model string
	tools string // as JSON
	texts []string
	turn  int
}

// ask collects the texts of a request in the order in which they stand, and
// apart from them its tool definitions.
func ask(body []byte) *question {
	var r map[string]json.RawMessage
	q := &question{}
	if json.Unmarshal(body, &r) != nil {
		return q
	}
	_ = json.Unmarshal(r["model"], &q.model)
	q.tools = string(r["tools"])
	for _, name := range []string{"system", "instructions", "messages", "input"} {
		var v any
		if json.Unmarshal(r[name], &v) == nil {
			q.collect(v)
		}
	}
	return q
}

func (q *question) collect(v any) {
	switch v := v.(type) {
	case string:
		q.texts = append(q.texts, v)
	case []any:
		for _, x := range v {
			q.collect(x)
		}
	case map[string]any:
		for _, name := range []string{"content", "text", "arguments", "input", "output", "tool_calls", "function"} {
			if x, ok := v[name]; ok {
				q.collect(x)
			}
		}
	}
}

func (q *question) fits(w *scenario.When) bool {
	all := q.tools + "\n" + strings.Join(q.texts, "\n")
	last := ""
	if len(q.texts) > 0 {
		last = q.texts[len(q.texts)-1]
	}
	switch {
	case w.Agent != "" && w.Agent != q.model,
		w.Turn > 0 && w.Turn != q.turn,
		w.Contains != "" && !strings.Contains(all, w.Contains),
		w.Lacks != "" && strings.Contains(all, w.Lacks),
		w.Last != "" && !strings.Contains(last, w.Last):
		return false
	}
	return true
}

// compose writes a reply in the form of its API.
func compose(api cassette.API, request cassette.Request, body []byte, r *scenario.Reply, n int) (*cassette.Interaction, error) {
	usage := cassette.Usage{InputTokens: r.TokensIn, OutputTokens: r.TokensOut}
	if usage.InputTokens == 0 {
		usage.InputTokens = int64(len(body)+3) / 4
	}
	if usage.OutputTokens == 0 {
		usage.OutputTokens = int64(len(r.Text)+len(r.Refusal)+3) / 4
	}
	cost := r.CostMicroUSD
	call := &cassette.ModelCall{API: api, CostMicrodollars: &cost, Request: request.Canonical(), Usage: usage}
	call.Response.Status = 200
	var doc any
	switch {
	case r.Status != 0:
		call.Response.Status = int64(r.Status)
		doc = map[string]any{"error": map[string]any{"type": "authored_error", "message": "the case answers this call with status " + strconv.Itoa(r.Status)}}
	case api == cassette.OpenAIChat:
		doc = chatBody(r, n, usage)
	case api == cassette.OpenAIResponses:
		doc = responsesBody(r, n, usage)
	default:
		doc = messagesBody(r, n, usage)
	}
	var err error
	if call.Response.Body, err = canon.Marshal(doc); err != nil {
		return nil, err
	}
	return &cassette.Interaction{Key: request.Key, LatencyMS: r.LatencyMS, Model: call}, nil
}

func callID(n, i int) string { return "call_" + strconv.Itoa(n) + "_" + strconv.Itoa(i+1) }

func argumentsOf(c scenario.Call) string {
	if c.Args == nil {
		return "{}"
	}
	b, err := canon.Marshal(c.Args)
	if err != nil {
		return "{}"
	}
	return string(b)
}

func chatBody(r *scenario.Reply, n int, u cassette.Usage) any {
	message := map[string]any{"role": "assistant", "content": nil, "refusal": nil}
	finish := "stop"
	if r.Text != "" {
		message["content"] = r.Text
	}
	if r.Refusal != "" {
		message["refusal"] = r.Refusal
	}
	if len(r.ToolCalls) > 0 {
		finish = "tool_calls"
		calls := []any{}
		for i, c := range r.ToolCalls {
			calls = append(calls, map[string]any{"id": callID(n, i), "type": "function", "function": map[string]any{"name": c.Name, "arguments": argumentsOf(c)}})
		}
		message["tool_calls"] = calls
	}
	return map[string]any{"id": "chatcmpl-" + strconv.Itoa(n), "object": "chat.completion", "created": 0, "model": "authored",
		"choices": []any{map[string]any{"index": 0, "finish_reason": finish, "logprobs": nil, "message": message}},
		"usage":   map[string]any{"prompt_tokens": u.InputTokens, "completion_tokens": u.OutputTokens, "total_tokens": u.Total()}}
}

func responsesBody(r *scenario.Reply, n int, u cassette.Usage) any {
	output := []any{}
	content := []any{}
	if r.Text != "" {
		content = append(content, map[string]any{"type": "output_text", "text": r.Text, "annotations": []any{}})
	}
	if r.Refusal != "" {
		content = append(content, map[string]any{"type": "refusal", "refusal": r.Refusal})
	}
	if len(content) > 0 {
		output = append(output, map[string]any{"type": "message", "id": "msg_" + strconv.Itoa(n), "role": "assistant", "status": "completed", "content": content})
	}
	for i, c := range r.ToolCalls {
		id := callID(n, i)
		output = append(output, map[string]any{"type": "function_call", "id": "fc_" + id, "call_id": id, "name": c.Name, "arguments": argumentsOf(c), "status": "completed"})
	}
	return map[string]any{"id": "resp_" + strconv.Itoa(n), "object": "response", "created_at": 0, "model": "authored", "status": "completed", "output": output,
		"usage": map[string]any{"input_tokens": u.InputTokens, "output_tokens": u.OutputTokens, "total_tokens": u.Total()}}
}

func messagesBody(r *scenario.Reply, n int, u cassette.Usage) any {
	content := []any{}
	stop := "end_turn"
	if text := r.Text + r.Refusal; text != "" {
		content = append(content, map[string]any{"type": "text", "text": text})
	}
	if r.Refusal != "" {
		stop = "refusal"
	}
	for i, c := range r.ToolCalls {
		stop = "tool_use"
		args := c.Args
		if args == nil {
			args = map[string]any{}
		}
		content = append(content, map[string]any{"type": "tool_use", "id": callID(n, i), "name": c.Name, "input": args})
	}
	return map[string]any{"id": "msg_" + strconv.Itoa(n), "type": "message", "role": "assistant", "model": "authored", "content": content,
		"stop_reason": stop, "stop_sequence": nil, "usage": map[string]any{"input_tokens": u.InputTokens, "output_tokens": u.OutputTokens}}
}
