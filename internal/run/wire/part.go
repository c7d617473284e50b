package wire

import (
	"fmt"
	"strings"
)

// A Kind is what a [Part] is.
type Kind int

// The kinds.
const (
	Other      Kind = iota // something of which no more is known than its type
	Text                   // words
	Refusal                // words that decline
	Reasoning              // what a model thinks before it speaks
	ToolCall               // a tool that the model wants called
	ToolResult             // what came of it
)

// A Part is one piece of what is said in a message or a reply.
type Part struct {
	Kind Kind
	Type string // the API's own word for it
	Text string // of Text, Refusal, and of others where the API has it in the open

	Call   *Call   // of a ToolCall
	Result *Result // of a ToolResult
}

// A Call is a tool that a model wants called. Its arguments are as the model
// wrote them, which need not be JSON.
type Call struct {
	ID, Name string
	Args     []byte
}

// A Result is what an agent tells a model about one of its calls.
type Result struct {
	ID      string
	Text    string // the words of it
	Sent    string // all of it: a text as it is, other content as JSON
	IsError bool   // where the API can say so

	// Of the call with this id, as far as the conversation shows it.
	Name string
	Args []byte
}

// textOf gives a string as its text, nothing as "", and any other value as its
// JSON.
func textOf(n *Node) string {
	switch {
	case n == nil || n.Kind == 'n':
		return ""
	case n.Kind == '"':
		return n.Text
	}
	return string(n.AppendJSON(nil))
}

// partOf reads a part whose type says text in some way, or is not known. Words
// stand in the member text, or in content.
func partOf(n *Node) Part {
	p := Part{Type: n.Str("type")}
	switch p.Type {
	case "", "text", "input_text", "output_text":
		p.Kind, p.Text = Text, textOf(firstOf(n, "content", "text"))
	case "refusal":
		p.Kind, p.Text = Refusal, n.Str("refusal")
	default:
		p.Text = textOf(firstOf(n, "content", "text"))
	}
	return p
}

// firstOf is the first of some members that is there.
func firstOf(n *Node, names ...string) *Node {
	for _, name := range names {
		if m := n.Get(name); m != nil && m.Kind != 'n' {
			return m
		}
	}
	return nil
}

// contentParts reads content that is a text or a list of parts.
func contentParts(content *Node, part func(*Node) Part) []Part {
	switch {
	case content == nil || content.Kind == 'n':
		return nil
	case content.Kind == '[':
		parts := make([]Part, 0, len(content.List))
		for i := range content.List {
			parts = append(parts, part(&content.List[i]))
		}
		return parts
	}
	if text := textOf(content); text != "" {
		return []Part{{Kind: Text, Type: "text", Text: text}}
	}
	return nil
}

// roleOf begins a message of the speaker; that is the user unless it says
// otherwise.
func roleOf(n *Node) Message {
	if role := n.Str("role"); role != "" {
		return Message{Role: role}
	}
	return Message{Role: "user"}
}

// resultOf is a result whose content is a text or a list of parts.
func resultOf(id string, content *Node) *Result {
	r := &Result{ID: id, Sent: textOf(content)}
	r.Text = r.Sent
	if content != nil && content.Kind == '[' {
		r.Text = joinTexts(contentParts(content, partOf))
	}
	return r
}

// joinTexts joins the words of parts.
func joinTexts(parts []Part) string {
	var b strings.Builder
	for i := range parts {
		if k := parts[i].Kind; k == Text || k == Refusal {
			b.WriteString(parts[i].Text)
		}
	}
	return b.String()
}

// A reader takes members out of a reply and remembers the first that is of
// another kind than the API gives it. What is absent or null is empty.
type reader struct{ err error }

func (r *reader) member(n *Node, name string, kind byte, want string) *Node {
	m := n.Get(name)
	if m == nil || m.Kind == 'n' || m.Kind == kind {
		return m
	}
	if r.err == nil {
		r.err = fmt.Errorf("%s is %s, expected %s", name, Head(string(m.AppendJSON(nil))), want)
	}
	return nil
}

func (r *reader) text(n *Node, name string) string {
	if m := r.member(n, name, '"', "text"); m != nil {
		return m.Text
	}
	return ""
}

// content reads content that is a text or a list of objects. What is said in a
// way that is not known is not text.
func (r *reader) content(n *Node, part func(*Node) Part) []Part {
	c := n.Get("content")
	switch {
	case c != nil && c.Kind == '[':
		r.objects(n, "content")
	case c != nil:
		r.text(n, "content")
	}
	parts := contentParts(c, part)
	for i := range parts {
		if parts[i].Kind == Other {
			parts[i].Text = ""
		}
	}
	return parts
}

var nothing = ObjectNode()

func (r *reader) object(n *Node, name string) *Node {
	if m := r.member(n, name, '{', "an object"); m != nil {
		return m
	}
	return &nothing
}

// objects reads a list of objects.
func (r *reader) objects(n *Node, name string) []Node {
	m := r.member(n, name, '[', "a list")
	if m == nil {
		return nil
	}
	for i := range m.List {
		if item := &m.List[i]; item.Kind != '{' && r.err == nil {
			r.err = fmt.Errorf("%s[%d] is %s, expected an object", name, i, Head(string(item.AppendJSON(nil))))
		}
	}
	return m.List
}
