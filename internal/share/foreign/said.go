package foreign

import (
	"cmp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"tallystick/internal/run/trajectory"
)

// A Message is one message to or from a model, in whatever way it was written.
type Message struct {
	Role   string
	Parts  []Part
	Finish string
}

// A Part is a text, a tool call, a tool's result, or something else that is
// only counted.
type Part struct {
	Kind string // text, tool_call, tool_call_response, or as the file says
	Text string // of a text or a result
	ID   string
	Name string
	Args []byte // of a tool call, as it was written
}

// Text joins the texts of a message.
func (m *Message) Text() string {
	var texts []string
	for _, p := range m.Parts {
		if p.Kind == "text" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// LastUser gives the text of the last message of a user, and how many there
// are. A message of a user without text carries tool results.
func LastUser(list []Message) (text string, count int) {
	for i := range list {
		if t := list[i].Text(); list[i].Role == "user" && t != "" {
			text, count = t, count+1
		}
	}
	return text, count
}

// SaidOf gives the text of some output messages and the tool calls in them.
func SaidOf(list []Message) (text string, calls []Part, finish string) {
	var texts []string
	for i := range list {
		if t := list[i].Text(); t != "" {
			texts = append(texts, t)
		}
		for _, p := range list[i].Parts {
			if p.Kind == "tool_call" {
				calls = append(calls, p)
			}
		}
		if finish == "" {
			finish = list[i].Finish
		}
	}
	return strings.Join(texts, "\n"), calls, finish
}

// ReplyText writes what a model said as our own sessions do: the text alone,
// or a JSON object with the tool calls.
func ReplyText(text string, calls []Part) string {
	s := trajectory.Said{Text: text}
	for _, c := range calls {
		s.Calls = append(s.Calls, trajectory.SaidCall{Args: cmp.Or(Clean(string(c.Args)), "{}"), Name: Clean(c.Name)})
	}
	out, err := s.Output()
	if err != nil {
		return text
	}
	return out
}

// PromptText writes messages in one form, that of gen_ai.input.messages, for a
// person to read.
func PromptText(list []Message) string {
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

// PartsText writes the parts of messages, as in gen_ai.system_instructions.
func PartsText(list []Message) string {
	var all []Part
	for i := range list {
		all = append(all, list[i].Parts...)
	}
	return string(appendParts(nil, all))
}

func appendMessage(out []byte, m *Message) []byte {
	out = append(AppendText(append(out, `{"role":`...), m.Role), `,"parts":`...)
	out = appendParts(out, m.Parts)
	if m.Finish != "" {
		out = AppendText(append(out, `,"finish_reason":`...), m.Finish)
	}
	return append(out, '}')
}

func appendParts(out []byte, parts []Part) []byte {
	out = append(out, '[')
	for i, p := range parts {
		if i > 0 {
			out = append(out, ',')
		}
		out = AppendText(append(out, `{"type":`...), p.Kind)
		if p.ID != "" {
			out = AppendText(append(out, `,"id":`...), p.ID)
		}
		if p.Name != "" {
			out = AppendText(append(out, `,"name":`...), p.Name)
		}
		switch p.Kind {
		case "tool_call":
			out = append(out, `,"arguments":`...)
			if IsObject(p.Args) {
				out = append(out, p.Args...)
			} else {
				out = AppendText(out, string(p.Args))
			}
		case "tool_call_response":
			out = AppendText(append(out, `,"response":`...), p.Text)
		default:
			out = AppendText(append(out, `,"content":`...), p.Text)
		}
		out = append(out, '}')
	}
	return append(out, ']')
}

// IsObject reports whether the arguments of a call are a JSON object.
func IsObject(args []byte) bool {
	v := jsontext.Value(args)
	return v.Kind() == '{' && v.IsValid()
}

// AppendText writes a text as a JSON string.
func AppendText(dst []byte, s string) []byte {
	out, err := jsontext.AppendQuote(dst, Clean(s))
	if err != nil {
		return append(dst, `""`...)
	}
	return out
}
