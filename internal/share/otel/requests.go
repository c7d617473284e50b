package otel

import (
	"maps"
	"slices"

	"tallystick/internal/record/canon"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/wire"
	"tallystick/internal/share/foreign"
)

func sortedKeys(m map[string]canon.RawMessage) []string { return slices.Sorted(maps.Keys(m)) }

// requestMessages reads the messages of a model request. System is what some
// APIs have apart from them.
func requestMessages(provider, request string) (system, list []foreign.Message, ok bool) {
	api, err := wire.Recognise(provider, []byte(request))
	if err != nil {
		return nil, nil, false
	}
	r, err := wire.ReadRequest(api, []byte(request))
	if err != nil {
		return nil, nil, false
	}
	if len(r.System) > 0 {
		system = []foreign.Message{{Role: "system", Parts: partsOfRequest(r.System)}}
	}
	for _, m := range r.Messages {
		list = append(list, foreign.Message{Role: m.Role, Parts: partsOfRequest(m.Parts)})
	}
	return system, list, true
}

func partsOfRequest(parts []wire.Part) []foreign.Part {
	var out []foreign.Part
	for _, p := range parts {
		switch {
		case p.Kind == wire.Text:
			out = append(out, foreign.Part{Kind: "text", Text: p.Text})
		case p.Kind == wire.ToolCall:
			out = append(out, foreign.Part{Kind: "tool_call", ID: p.Call.ID, Name: p.Call.Name, Args: p.Call.Args})
		case p.Kind == wire.ToolResult:
			out = append(out, foreign.Part{Kind: "tool_call_response", ID: p.Result.ID, Text: p.Result.Sent})
		case p.Call == nil && p.Result == nil:
			out = append(out, foreign.Part{Kind: p.Type, Text: p.Text})
		}
	}
	return out
}

// replyMessage is what a model said, with the ids of the calls it led to.
func replyMessage(text string, ids []string) foreign.Message {
	m := foreign.Message{Role: "assistant"}
	r := trajectory.ParseSaid(text)
	if r.Text != "" {
		m.Parts = append(m.Parts, foreign.Part{Kind: "text", Text: r.Text})
	}
	for i, c := range r.Calls {
		p := foreign.Part{Kind: "tool_call", Name: c.Name, Args: []byte(c.Args)}
		if i < len(ids) {
			p.ID = ids[i]
		}
		m.Parts = append(m.Parts, p)
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
			r := trajectory.ParseSaid(e.whole(s, &p.Output))
			if len(r.Calls) == 0 {
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
