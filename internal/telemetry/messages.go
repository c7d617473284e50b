package telemetry

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"tallystick/internal/canon"
	"tallystick/internal/refusal"
)

// A message is one message to or from a model, in whatever way it was written.
type message struct {
	role   string
	parts  []part
	finish string
}

// A part is a text, a tool call, a tool's result, or something else that is
// only counted.
type part struct {
	kind string // text, tool_call, tool_call_response, or as the file says
	text string // of a text or a result
	id   string
	name string
	args []byte // of a tool call, as it was written
}

// text joins the texts of a message.
func (m *message) text() string {
	var texts []string
	for _, p := range m.parts {
		if p.kind == "text" {
			texts = append(texts, p.text)
		}
	}
	return strings.Join(texts, "\n")
}

// lastUser gives the text of the last message of a user, and how many there
// are. A message of a user without text carries tool results.
func lastUser(list []message) (text string, count int) {
	for i := range list {
		if t := list[i].text(); list[i].role == "user" && t != "" {
			text, count = t, count+1
		}
	}
	return text, count
}

// saidOf gives the text of some output messages and the tool calls in them.
func saidOf(list []message) (text string, calls []part, finish string) {
	var texts []string
	for i := range list {
		if t := list[i].text(); t != "" {
			texts = append(texts, t)
		}
		for _, p := range list[i].parts {
			if p.kind == "tool_call" {
				calls = append(calls, p)
			}
		}
		if finish == "" {
			finish = list[i].finish
		}
	}
	return strings.Join(texts, "\n"), calls, finish
}

// replyText writes what a model said as our own sessions do: the text alone,
// or a JSON object with the tool calls.
func replyText(text string, calls []part) string {
	if len(calls) == 0 {
		return text
	}
	type call struct {
		Args string `json:"args"`
		Name string `json:"name"`
	}
	doc := struct {
		Text  string `json:"text,omitempty"`
		Calls []call `json:"tool_calls"`
	}{Text: text}
	for _, c := range calls {
		args := clean(string(c.args))
		if args == "" {
			args = "{}"
		}
		doc.Calls = append(doc.Calls, call{args, clean(c.name)})
	}
	out, err := canon.Marshal(doc)
	if err != nil {
		return text
	}
	return string(out)
}

// promptText writes messages in one form, that of gen_ai.input.messages, for a
// person to read.
func promptText(list []message) string {
	if len(list) == 0 {
		return "" // nothing was captured
	}
	out := []byte{'['}
	for i := range list {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendMessage(out, &list[i])
	}
	return string(append(out, ']'))
}

// partsText writes the parts of messages, as in gen_ai.system_instructions.
func partsText(list []message) string {
	var all []part
	for i := range list {
		all = append(all, list[i].parts...)
	}
	return string(appendParts(nil, all))
}

func appendMessage(out []byte, m *message) []byte {
	out = append(appendText(append(out, `{"role":`...), m.role), `,"parts":`...)
	out = appendParts(out, m.parts)
	if m.finish != "" {
		out = appendText(append(out, `,"finish_reason":`...), m.finish)
	}
	return append(out, '}')
}

func appendParts(out []byte, parts []part) []byte {
	out = append(out, '[')
	for i, p := range parts {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendText(append(out, `{"type":`...), p.kind)
		if p.id != "" {
			out = appendText(append(out, `,"id":`...), p.id)
		}
		if p.name != "" {
			out = appendText(append(out, `,"name":`...), p.name)
		}
		switch p.kind {
		case "tool_call":
			out = append(out, `,"arguments":`...)
			if isObject(p.args) {
				out = append(out, p.args...)
			} else {
				out = appendText(out, string(p.args))
			}
		case "tool_call_response":
			out = appendText(append(out, `,"response":`...), p.text)
		default:
			out = appendText(append(out, `,"content":`...), p.text)
		}
		out = append(out, '}')
	}
	return append(out, ']')
}

func isObject(args []byte) bool {
	v := jsontext.Value(args)
	return v.Kind() == '{' && v.IsValid()
}

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
		if t, ok := textOf(v); ok {
			return t
		}
	}
	return ""
}

func (w *wireMessage) message(b *budget, role string) message {
	if w.Message != nil {
		m := w.Message.message(b, role)
		if f := first(w.FinishReason); f != "" {
			m.finish = f
		}
		return m
	}
	m := message{role: first(w.Role), finish: first(w.FinishReason)}
	if m.role == "" {
		m.role = role
	}
	for i := range w.Parts {
		m.parts = append(m.parts, w.Parts[i].part())
	}
	result := first(w.ToolCallID)
	if result == "" && m.role == "tool" {
		result = first(w.ID)
	}
	switch {
	case w.Content.Kind() == '[' && result == "":
		var parts []wirePart
		if b.decode(w.Content, &parts) == nil {
			for i := range parts {
				m.parts = append(m.parts, parts[i].part())
			}
			break
		}
		fallthrough
	default:
		if text, ok := textOf(w.Content); ok && (text != "" || result != "") {
			p := part{kind: "text", text: text}
			if result != "" {
				p = part{kind: "tool_call_response", id: result, text: text}
			}
			m.parts = append(m.parts, p)
		}
	}
	for i := range w.ToolCalls {
		p := w.ToolCalls[i].part()
		p.kind = "tool_call"
		m.parts = append(m.parts, p)
	}
	return m
}

func (w *wirePart) part() part {
	p := part{kind: first(w.Type), id: first(w.ID, w.CallID), name: first(w.Name)}
	switch p.kind {
	case "", "text", "input_text", "output_text":
		p.kind, p.text = "text", first(w.Content, w.Text)
	case "tool_call", "tool_use", "function", "function_call":
		p.kind = "tool_call"
		args := first(w.Arguments, w.Input)
		if w.Function != nil {
			args, p.name = first(w.Function.Arguments), first(w.Function.Name)
		}
		p.args = []byte(args)
	case "tool_call_response", "tool_result":
		p.kind, p.text = "tool_call_response", first(w.Response, w.Result, w.Content)
		if use := first(w.ToolUseID); use != "" {
			p.id = use
		}
	default:
		p.text = first(w.Content, w.Text)
	}
	return p
}

// messagesOf reads messages from a value that may be a list, one message, or
// a plain text; as JSON, or as a text that holds JSON. What is no message is a
// text: an answer may well be JSON. The only error is an exhausted budget.
func messagesOf(b *budget, v value, role string) ([]message, error) {
	text := v.bytes()
	var list []wireMessage
	var err error
	switch jsontext.Value(text).Kind() {
	case '[':
		err = b.decode(text, &list)
	case '{':
		list = make([]wireMessage, 1)
		err = b.decode(text, &list[0])
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
		return []message{{role: role, parts: []part{{kind: "text", text: v.string()}}}}, nil
	}
	out := make([]message, 0, len(list))
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
func partsOf(b *budget, v value) ([]message, error) {
	text := v.bytes()
	var list []wirePart
	if jsontext.Value(text).Kind() == '[' {
		if err := b.decode(text, &list); refusal.Is(err, refusal.TooLarge) {
			return nil, err
		} else if err != nil {
			list = nil
		}
	}
	if len(list) == 0 {
		return messagesOf(b, v, "system")
	}
	m := message{role: "system"}
	for i := range list {
		m.parts = append(m.parts, list[i].part())
	}
	return []message{m}, nil
}

// indexed reads messages that are spread over attributes, as in
// gen_ai.prompt.0.role and gen_ai.prompt.0.tool_calls.1.name. Used says which
// attributes it has read.
func indexed(attrs attributes, prefix string, used map[string]bool) []message {
	type call struct {
		at int
		part
	}
	type gathered struct {
		message
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
			g.role = a.string()
		case rest == "content":
			g.content = a.string()
		case rest == "finish_reason":
			g.finish = a.string()
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
				g.calls = append(g.calls, call{k, part{kind: "tool_call"}})
			}
			switch name {
			case "id":
				g.calls[i].id = a.string()
			case "name", "function.name":
				g.calls[i].name = a.string()
			case "arguments", "function.arguments":
				g.calls[i].args = []byte(a.string())
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
	var out []message
	for _, n := range order {
		g := byIndex[n]
		switch {
		case g.callID != "":
			g.parts = append(g.parts, part{kind: "tool_call_response", id: g.callID, text: g.content})
		case g.content != "":
			g.parts = append(g.parts, part{kind: "text", text: g.content})
		}
		slices.SortFunc(g.calls, func(a, b call) int { return a.at - b.at })
		for _, c := range g.calls {
			g.parts = append(g.parts, c.part)
		}
		out = append(out, g.message)
	}
	return out
}
