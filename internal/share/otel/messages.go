package otel

import (
	"errors"
	"maps"
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
	Type         jsontext.Value `json:"type"` // human, ai: the roles of LangChain
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

// speakers are roles by the names that LangChain has for them.
var speakers = map[string]string{"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}

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
		if spoke, ok := speakers[first(w.Type)]; ok {
			m.Role = spoke
		}
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
// text: an answer may well be JSON. Strict is for a value that holds messages and nothing
// else: then a name that is there twice is an error, like an exhausted budget.
func messagesOf(b *foreign.Budget, v value, role string, strict bool) ([]foreign.Message, error) {
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
	if refusal.Is(err, refusal.TooLarge) || strict && errors.Is(err, jsontext.ErrDuplicateName) {
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
		if err := b.Decode(text, &list); refusal.Is(err, refusal.TooLarge) || errors.Is(err, jsontext.ErrDuplicateName) {
			return nil, err
		} else if err != nil {
			list = nil
		}
	}
	if len(list) == 0 {
		return messagesOf(b, v, "system", true)
	}
	m := foreign.Message{Role: "system"}
	for i := range list {
		m.Parts = append(m.Parts, list[i].part())
	}
	return []foreign.Message{m}, nil
}

// A gathered message is one whose parts are spread over attributes.
type gathered struct {
	foreign.Message
	content  string
	callID   string
	toolName string
	contents map[int]*foreign.Part
	calls    map[int]*foreign.Part
}

// indexed reads messages that are spread over attributes, as in
// gen_ai.prompt.0.role and gen_ai.prompt.0.tool_calls.1.name, or as OpenInference has
// them, llm.input_messages.0.message.role.
func (n *node) indexed(prefix string) []foreign.Message {
	byIndex := map[int]*gathered{}
	for _, a := range n.attrs {
		rest, ok := strings.CutPrefix(a.key, prefix)
		if !ok {
			continue
		}
		i, rest, ok := cutIndex(rest)
		if !ok || n.used[a.key] {
			continue
		}
		g := byIndex[i]
		if g == nil {
			g = &gathered{contents: map[int]*foreign.Part{}, calls: map[int]*foreign.Part{}}
		}
		if g.put(strings.TrimPrefix(rest, "message."), a.string()) {
			byIndex[i] = g
			n.use(a.key)
		}
	}
	var out []foreign.Message
	for _, i := range slices.Sorted(maps.Keys(byIndex)) {
		out = append(out, byIndex[i].message())
	}
	return out
}

// cutIndex takes a number and a dot off the beginning.
func cutIndex(s string) (int, string, bool) {
	index, rest, _ := strings.Cut(s, ".")
	n, err := strconv.Atoi(index)
	return n, rest, err == nil && n >= 0
}

// put takes one attribute of a message, and reports whether there is a place for it.
func (g *gathered) put(name, text string) bool {
	switch name {
	case "role":
		g.Role = text
	case "content", "prompt.text", "completion.text":
		g.content = text
	case "finish_reason":
		g.Finish = text
	case "tool_call_id":
		g.callID = text
	case "name":
		g.toolName = text
	case "function_call_name": // one call, before there were several
		partAt(g.calls, 0, "tool_call").Name = text
	case "function_call_arguments_json":
		partAt(g.calls, 0, "tool_call").Args = []byte(text)
	default:
		if rest, ok := strings.CutPrefix(name, "tool_calls."); ok {
			i, rest, ok := cutIndex(rest)
			return ok && putCall(partAt(g.calls, i, "tool_call"), rest, text)
		}
		if rest, ok := strings.CutPrefix(name, "contents."); ok {
			i, rest, ok := cutIndex(rest)
			return ok && putContent(partAt(g.contents, i, "text"), strings.TrimPrefix(rest, "message_content."), text)
		}
		return false
	}
	return true
}

func partAt(parts map[int]*foreign.Part, i int, kind string) *foreign.Part {
	if parts[i] == nil {
		parts[i] = &foreign.Part{Kind: kind}
	}
	return parts[i]
}

func putCall(p *foreign.Part, name, text string) bool {
	switch strings.TrimPrefix(name, "tool_call.") {
	case "id":
		p.ID = text
	case "name", "function.name":
		p.Name = text
	case "arguments", "function.arguments":
		p.Args = []byte(text)
	default:
		return false
	}
	return true
}

func putContent(p *foreign.Part, name, text string) bool {
	switch name {
	case "type":
		if p.Kind = text; text == "tool_use" {
			p.Kind = "tool_call"
		}
	case "text":
		p.Text = text
	default:
		return strings.HasPrefix(name, "tool_call.") && putCall(p, name, text)
	}
	return true
}

// message puts the parts together. A tool call that stands among the contents and among
// the calls is one.
func (g *gathered) message() foreign.Message {
	m := g.Message
	isResult := g.callID != "" || g.Role == "tool" || g.Role == "function"
	for _, i := range slices.Sorted(maps.Keys(g.contents)) {
		p := *g.contents[i]
		if p.Kind == "tool_call" && len(g.calls) > 0 {
			continue
		}
		if isResult && p.Kind == "text" {
			g.content = strings.TrimPrefix(g.content+"\n"+p.Text, "\n")
			continue
		}
		m.Parts = append(m.Parts, p)
	}
	switch {
	case isResult:
		m.Parts = append(m.Parts, foreign.Part{Kind: "tool_call_response", ID: g.callID, Name: g.toolName, Text: g.content})
	case g.content != "":
		m.Parts = append([]foreign.Part{{Kind: "text", Text: g.content}}, m.Parts...)
	}
	for _, i := range slices.Sorted(maps.Keys(g.calls)) {
		m.Parts = append(m.Parts, *g.calls[i])
	}
	return m
}
