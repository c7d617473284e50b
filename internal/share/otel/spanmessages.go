package otel

import (
	"github.com/go-json-experiment/json/jsontext"

	"tallystick/internal/share/foreign"
)

// readMessages reads what was said, by the newest convention that is there.
func (t *trace) readMessages(n *node) error {
	used := map[string]bool{}
	read := func(key string, into *[]foreign.Message, parse func(*foreign.Budget, value) ([]foreign.Message, error)) error {
		v, ok := n.attrs.get(key)
		if !ok {
			return nil
		}
		list, err := parse(t.budget, v)
		*into = append(*into, list...)
		return err
	}
	as := func(role string) func(*foreign.Budget, value) ([]foreign.Message, error) {
		return func(b *foreign.Budget, v value) ([]foreign.Message, error) { return messagesOf(b, v, role) }
	}
	if err := read("gen_ai.system_instructions", &n.system, partsOf); err != nil {
		return err
	}
	if err := read("gen_ai.input.messages", &n.input, as("user")); err != nil {
		return err
	}
	if err := read("gen_ai.output.messages", &n.output, as("assistant")); err != nil {
		return err
	}
	if n.role == modelSpan {
		if err := t.readEventMessages(n); err != nil {
			return err
		}
	}
	if len(n.input) == 0 {
		if n.input = indexed(n.attrs, "gen_ai.prompt.", used); len(n.input) == 0 {
			if err := read("gen_ai.prompt", &n.input, as("user")); err != nil {
				return err
			}
		}
	}
	if len(n.output) == 0 {
		if n.output = indexed(n.attrs, "gen_ai.completion.", used); len(n.output) == 0 {
			if err := read("gen_ai.completion", &n.output, as("assistant")); err != nil {
				return err
			}
		}
	}
	if n.role == agentSpan && len(n.input)+len(n.output) == 0 {
		if err := read("traceloop.entity.input", &n.input, as("user")); err != nil {
			return err
		}
		if err := read("traceloop.entity.output", &n.output, as("assistant")); err != nil {
			return err
		}
	}
	for _, a := range n.attrs {
		if !used[a.key] && !known(a.key) {
			t.early.Add("attribute "+a.key, a.string())
		}
	}
	for _, list := range [][]foreign.Message{n.system, n.input, n.output} {
		for i := range list {
			for _, p := range list[i].Parts {
				if p.Kind != "text" && p.Kind != "tool_call" && p.Kind != "tool_call_response" {
					t.early.Add("message part "+p.Kind, p.Text)
				}
			}
		}
	}
	return nil
}

// eventRoles are the events before 1.37 that carry one message each.
func eventRole(name string) string {
	switch name {
	case "gen_ai.system.message":
		return "system"
	case "gen_ai.user.message", "gen_ai.content.prompt":
		return "user"
	case "gen_ai.assistant.message", "gen_ai.choice", "gen_ai.content.completion":
		return "assistant"
	case "gen_ai.tool.message":
		return "tool"
	}
	return ""
}

// readEventMessages reads messages that are events, if no attribute has them.
func (t *trace) readEventMessages(n *node) error {
	haveInput, haveOutput := len(n.input) > 0, len(n.output) > 0
	for _, e := range n.events {
		role := eventRole(e.name)
		out := e.name == "gen_ai.choice" || e.name == "gen_ai.content.completion"
		if role == "" || out && haveOutput || !out && haveInput {
			continue
		}
		list, err := messagesOf(t.budget, e.message(), role)
		if err != nil {
			return err
		}
		if out {
			n.output = append(n.output, list...)
		} else {
			n.input = append(n.input, list...)
		}
	}
	return nil
}

// message gives the message of an event: its body, an attribute that holds
// all of it, or its attributes.
func (e *spanEvent) message() value {
	if k := e.body.Kind(); k == '{' || k == '"' {
		return value{json: e.body}
	}
	for _, key := range []string{"gen_ai.event.content", "gen_ai.prompt", "gen_ai.completion"} {
		if v, ok := e.attrs.get(key); ok {
			return v
		}
	}
	doc := []byte{'{'}
	for _, key := range []string{"role", "content", "tool_calls", "id", "tool_call_id", "finish_reason", "message"} {
		v, ok := e.attrs.get(key)
		if !ok {
			continue
		}
		if len(doc) > 1 {
			doc = append(doc, ',')
		}
		doc = append(foreign.AppendText(doc, key), ':')
		// Span attributes are flat, so what has parts is in them as text.
		if text := v.bytes(); v.isText && (key == "tool_calls" || key == "message") && jsontext.Value(text).IsValid() {
			doc = append(doc, text...)
		} else {
			doc = append(doc, v.raw()...)
		}
	}
	return value{json: append(doc, '}')}
}

// readEvents keeps scores and counts what is not read elsewhere.
func (t *trace) readEvents(n *node) {
	for _, e := range n.events {
		switch {
		case e.name == "gen_ai.evaluation.result":
			v := foreign.Evaluation{Name: e.attrs.text("gen_ai.evaluation.name"), Label: e.attrs.text("gen_ai.evaluation.score.label"), Explanation: e.attrs.text("gen_ai.evaluation.explanation")}
			if s, ok := e.attrs.get("gen_ai.evaluation.score.value"); ok {
				if f, ok := foreign.NumberOf(s.raw()); ok {
					v.Score = &f
				}
			}
			t.evaluated = append(t.evaluated, v)
		case e.name == "exception", e.name == "gen_ai.client.inference.operation.details":
		case eventRole(e.name) != "" && n.role == modelSpan:
		default:
			t.early.Add("span event "+e.name, "")
		}
	}
	if n.role == otherSpan || n.role == toolSpan {
		for _, a := range n.attrs {
			if !known(a.key) {
				t.early.Add("attribute "+a.key, a.string())
			}
		}
	}
}
