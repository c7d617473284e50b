package telemetry

import (
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tallystick/internal/canon"
	"tallystick/internal/trajectory"
)

func sortedKeys(m map[string]canon.RawMessage) []string { return slices.Sorted(maps.Keys(m)) }

// requestMessages reads the messages of a model request of one of the APIs that
// our gateway speaks: OpenAI chat and responses, Anthropic messages. System
// is what the last two have apart from the messages.
func requestMessages(request string) (system, list []message, ok bool) {
	var r struct {
		Messages     jsontext.Value `json:"messages"`
		System       jsontext.Value `json:"system"`       // messages
		Instructions jsontext.Value `json:"instructions"` // responses
		Input        jsontext.Value `json:"input"`        // responses
	}
	if json.Unmarshal([]byte(request), &r) != nil {
		return nil, nil, false
	}
	b := &budget{left: maxParts}
	var err error
	for _, v := range []jsontext.Value{r.System, r.Instructions} {
		if len(v) > 0 && err == nil {
			system, err = partsOf(b, valueOf(v))
		}
	}
	switch {
	case err != nil:
		return nil, nil, false
	case len(r.Messages) > 0:
		list, err = messagesOf(b, valueOf(r.Messages), "user")
		return system, list, err == nil
	case r.Input.Kind() == '[':
		list, ok = responseItems(b, r.Input)
		return system, list, ok
	}
	list, err = messagesOf(b, valueOf(r.Input), "user")
	return system, list, err == nil
}

// valueOf makes a JSON string the text that it stands for.
func valueOf(v jsontext.Value) value {
	if v.Kind() == '"' {
		if t, ok := textOf(v); ok {
			return value{text: t, isText: true}
		}
	}
	return value{json: v}
}

// responseItems reads the input of the responses API, in which calls and
// their outputs stand beside messages.
func responseItems(b *budget, input jsontext.Value) ([]message, bool) {
	var items []struct {
		wireMessage
		Type      jsontext.Value `json:"type"`
		CallID    jsontext.Value `json:"call_id"`
		Name      jsontext.Value `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
		Output    jsontext.Value `json:"output"`
	}
	if b.decode(input, &items) != nil {
		return nil, false
	}
	var out []message
	for i := range items {
		it := &items[i]
		switch first(it.Type) {
		case "function_call":
			out = append(out, message{role: "assistant", parts: []part{{kind: "tool_call", id: first(it.CallID), name: first(it.Name), args: []byte(first(it.Arguments))}}})
		case "function_call_output":
			out = append(out, message{role: "tool", parts: []part{{kind: "tool_call_response", id: first(it.CallID), text: first(it.Output)}}})
		default:
			out = append(out, it.message(b, "user"))
		}
	}
	return out, true
}

// A reply with tool calls is an object in our trajectories; see package
// session.
type sessionReply struct {
	Text  string `json:"text"`
	Calls []struct {
		Args string `json:"args"`
		Name string `json:"name"`
	} `json:"tool_calls"`
}

func parseReply(text string) (sessionReply, bool) {
	var r sessionReply
	ok := len(text) > 0 && text[0] == '{' && json.Unmarshal([]byte(text), &r, json.RejectUnknownMembers(true)) == nil && len(r.Calls) > 0
	return r, ok
}

// replyMessage is what a model said, with the ids of the calls it led to.
func replyMessage(text string, ids []string) message {
	m := message{role: "assistant"}
	r, ok := parseReply(text)
	if !ok {
		if text != "" {
			m.parts = []part{{kind: "text", text: text}}
		}
		return m
	}
	if r.Text != "" {
		m.parts = append(m.parts, part{kind: "text", text: r.Text})
	}
	for i, c := range r.Calls {
		p := part{kind: "tool_call", name: c.Name, args: []byte(c.Args)}
		if i < len(ids) {
			p.id = ids[i]
		}
		m.parts = append(m.parts, p)
	}
	return m
}

// matchWishes finds out which proposals each reply of a model led to. Replies
// do not keep the model's own ids of its calls, so it is the next proposal of
// the same tool with the same arguments.
func (e *exporter) matchWishes() {
	type wish struct {
		model string
		at    int
		name  string
		args  trajectory.Args
	}
	e.wishes = map[string][]string{}
	var open []wish
	for ev := range e.c.Trajectory.Events() {
		switch p := ev.Payload.(type) {
		case *trajectory.ModelCallCompleted:
			s := &outSpan{}
			r, ok := parseReply(e.whole(s, &p.Output))
			if !ok {
				continue
			}
			open = open[:0] // what the reply before asked for is done or forgotten
			e.wishes[p.Call] = make([]string, len(r.Calls))
			for i, c := range r.Calls {
				open = append(open, wish{p.Call, i, c.Name, trajectory.NewArgs([]byte(c.Args))})
			}
		case *trajectory.ToolProposed:
			i := slices.IndexFunc(open, func(w wish) bool { return w.name == p.Name && w.args.Digest == p.Args.Digest })
			if i >= 0 {
				e.wishes[open[i].model][open[i].at] = p.Call
				open = slices.Delete(open, i, i+1)
			}
		}
	}
}
