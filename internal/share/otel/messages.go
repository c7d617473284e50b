package otel

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"tallystick/internal/record/refusal"
	"tallystick/internal/share/foreign"
)

// A wireMessage is a message as JSON has it: in parts (OpenTelemetry since
// 1.37), or with content and tool_calls (before, and OpenAI).
type wireMessage struct {
	Role         jsontext.Value `json:"role"`
	Parts        []wirePart     `json:"parts"`
	Content      jsontext.Value `json:"content"`
	ToolCalls    []wirePart     `json:"tool_calls"`
	ToolCallID   jsontext.Value `json:"tool_call_id"`
	ID           jsontext.Value `json:"id"`
	FinishReason jsontext.Value `json:"finish_reason"`
	Message      *wireMessage   `json:"message"` // of a choice
}

type wirePart struct {
	Type      jsontext.Value `json:"type"`
	Content   jsontext.Value `json:"content"`
	Text      jsontext.Value `json:"text"`
	ID        jsontext.Value `json:"id"`
	CallID    jsontext.Value `json:"call_id"`
	ToolUseID jsontext.Value `json:"tool_use_id"`
	Name      jsontext.Value `json:"name"`
	Arguments jsontext.Value `json:"arguments"`
	Input     jsontext.Value `json:"input"`
	Result    jsontext.Value `json:"result"`
	Response  jsontext.Value `json:"response"`
	Function  *wirePart      `json:"function"`
}

// first gives the text of the first value that is there.
func first(values ...jsontext.Value) string {
	for _, v := range values {
		if t, ok := foreign.TextOf(v); ok {
			return t
		}
	}
	return ""
}

func (w *wireMessage) message(b *foreign.Budget, role string) foreign.Message {
	if w.Message != nil {
		m := w.Message.message(b, role)
		if f := first(w.FinishReason); f != "" {
			m.Finish = f
		}
		return m
	}
	m := foreign.Message{Role: first(w.Role), Finish: first(w.FinishReason)}
	if m.Role == "" {
		m.Role = role
	}
	for i := range w.Parts {
		m.Parts = append(m.Parts, w.Parts[i].part())
	}
	result := first(w.ToolCallID)
	if result == "" && m.Role == "tool" {
		result = first(w.ID)
	}
	switch {
	case w.Content.Kind() == '[' && result == "":
		var parts []wirePart
		if b.Decode(w.Content, &parts) == nil {
			for i := range parts {
				m.Parts = append(m.Parts, parts[i].part())
			}
			break
		}
		fallthrough
	default:
		if text, ok := foreign.TextOf(w.Content); ok && (text != "" || result != "") {
			p := foreign.Part{Kind: "text", Text: text}
			if result != "" {
				p = foreign.Part{Kind: "tool_call_response", ID: result, Text: text}
			}
			m.Parts = append(m.Parts, p)
		}
	}
	for i := range w.ToolCalls {
		p := w.ToolCalls[i].part()
		p.Kind = "tool_call"
		m.Parts = append(m.Parts, p)
	}
	return m
}

func (w *wirePart) part() foreign.Part {
	p := foreign.Part{Kind: first(w.Type), ID: first(w.ID, w.CallID), Name: first(w.Name)}
	switch p.Kind {
	case "", "text", "input_text", "output_text":
		p.Kind, p.Text = "text", first(w.Content, w.Text)
	case "tool_call", "tool_use", "function", "function_call":
		p.Kind = "tool_call"
		args := first(w.Arguments, w.Input)
		if w.Function != nil {
			args, p.Name = first(w.Function.Arguments), first(w.Function.Name)
		}
		p.Args = []byte(args)
	case "tool_call_response", "tool_result":
		p.Kind, p.Text = "tool_call_response", first(w.Response, w.Result, w.Content)
		if use := first(w.ToolUseID); use != "" {
			p.ID = use
		}
	default:
		p.Text = first(w.Content, w.Text)
	}
	return p
}

// messagesOf reads messages from a value that may be a list, one message, or
// a plain text; as JSON, or as a text that holds JSON. What is not a message is a
// text: an answer may well be JSON. The only error is an exhausted budget.
func messagesOf(b *foreign.Budget, v value, role string) ([]foreign.Message, error) {
	text := v.bytes()
	var list []wireMessage
	var err error
	switch jsontext.Value(text).Kind() {
	case '[':
		err = b.Decode(text, &list)
	case '{':
		list = make([]wireMessage, 1)
		err = b.Decode(text, &list[0])
	case 'n':
		return nil, nil
	}
	if refusal.Is(err, refusal.TooLarge) {
		return nil, err
	}
	if err != nil || slices.ContainsFunc(list, func(w wireMessage) bool { return w.isEmpty() }) {
		list = nil
	}
	if len(list) == 0 && len(text) > 0 && string(text) != "[]" {
		return []foreign.Message{{Role: role, Parts: []foreign.Part{{Kind: "text", Text: v.string()}}}}, nil
	}
	out := make([]foreign.Message, 0, len(list))
	for i := range list {
		out = append(out, list[i].message(b, role))
	}
	return out, nil
}

// isEmpty reports whether nothing in an object is that of a message.
func (w *wireMessage) isEmpty() bool {
	return len(w.Role)+len(w.Content)+len(w.Parts)+len(w.ToolCalls) == 0 && w.Message == nil
}

// partsOf reads gen_ai.system_instructions: a list of parts without roles.
func partsOf(b *foreign.Budget, v value) ([]foreign.Message, error) {
	text := v.bytes()
	var list []wirePart
	if jsontext.Value(text).Kind() == '[' {
		if err := b.Decode(text, &list); refusal.Is(err, refusal.TooLarge) {
			return nil, err
		} else if err != nil {
			list = nil
		}
	}
	if len(list) == 0 {
		return messagesOf(b, v, "system")
	}
	m := foreign.Message{Role: "system"}
	for i := range list {
		m.Parts = append(m.Parts, list[i].part())
	}
	return []foreign.Message{m}, nil
}

// indexed reads messages that are spread over attributes, as in
// gen_ai.prompt.0.role and gen_ai.prompt.0.tool_calls.1.name. Used says which
// attributes it has read.
func indexed(attrs attributes, prefix string, used map[string]bool) []foreign.Message {
	type call struct {
		at int
		foreign.Part
	}
	type gathered struct {
		foreign.Message
		content string
		callID  string
		calls   []call
		at      map[int]int // by the index in the file, in calls
	}
	byIndex := map[int]*gathered{}
	for _, a := range attrs {
		rest, ok := strings.CutPrefix(a.key, prefix)
		if !ok {
			continue
		}
		index, rest, _ := strings.Cut(rest, ".")
		n, err := strconv.Atoi(index)
		if err != nil || n < 0 || used[a.key] {
			continue
		}
		g := byIndex[n]
		if g == nil {
			g = &gathered{at: map[int]int{}}
			byIndex[n] = g
		}
		switch {
		case rest == "role":
			g.Role = a.string()
		case rest == "content":
			g.content = a.string()
		case rest == "finish_reason":
			g.Finish = a.string()
		case rest == "tool_call_id":
			g.callID = a.string()
		case strings.HasPrefix(rest, "tool_calls."):
			at, name, _ := strings.Cut(rest[len("tool_calls."):], ".")
			k, err := strconv.Atoi(at)
			if err != nil || k < 0 {
				continue
			}
			i, ok := g.at[k]
			if !ok {
				i = len(g.calls)
				g.at[k] = i
				g.calls = append(g.calls, call{k, foreign.Part{Kind: "tool_call"}})
			}
			switch name {
			case "id":
				g.calls[i].ID = a.string()
			case "name", "function.name":
				g.calls[i].Name = a.string()
			case "arguments", "function.arguments":
				g.calls[i].Args = []byte(a.string())
			default:
				continue
			}
		default:
			continue
		}
		used[a.key] = true
	}
	var order []int
	for n := range byIndex {
		order = append(order, n)
	}
	slices.Sort(order)
	var out []foreign.Message
	for _, n := range order {
		g := byIndex[n]
		switch {
		case g.callID != "":
			g.Parts = append(g.Parts, foreign.Part{Kind: "tool_call_response", ID: g.callID, Text: g.content})
		case g.content != "":
			g.Parts = append(g.Parts, foreign.Part{Kind: "text", Text: g.content})
		}
		slices.SortFunc(g.calls, func(a, b call) int { return a.at - b.at })
		for _, c := range g.calls {
			g.Parts = append(g.Parts, c.Part)
		}
		out = append(out, g.Message)
	}
	return out
}
