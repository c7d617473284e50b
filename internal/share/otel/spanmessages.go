package otel

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"tallystick/internal/share/foreign"
)

// readMessages reads what was said, by the newest convention that is there.
func (t *story) readMessages(n *node) error {
	var err error
	if v, ok := n.takeOf("gen_ai.system_instructions"); ok {
		if n.system, err = partsOf(t.budget, v); err != nil {
			return err
		}
	}
	if n.input, err = t.firstMessages(n, "user", "gen_ai.input.messages", "gen_ai.prompt", "llm.input_messages.", "llm.prompts.", names[factAgentInput]); err != nil {
		return err
	}
	if n.output, err = t.firstMessages(n, "assistant", "gen_ai.output.messages", "gen_ai.completion", "llm.output_messages.", "llm.choices.", names[factAgentOutput]); err != nil {
		return err
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

// firstMessages reads the messages of one side of a call, where they are first found:
// an attribute with all of them, events, attributes for each, and what the conventions of
// Traceloop and OpenInference have of the whole span.
func (t *story) firstMessages(n *node, role, whole, older, messages, texts string, values []string) ([]foreign.Message, error) {
	attribute := func(key string, strict bool) ([]foreign.Message, error) {
		v, ok := n.takeOf(key)
		if !ok {
			return nil, nil
		}
		list, err := messagesOf(t.budget, v, role, strict)
		if err != nil {
			err = fmt.Errorf("attribute %s: %w", key, err)
		}
		return list, err
	}
	sources := []func() ([]foreign.Message, error){
		func() ([]foreign.Message, error) { return attribute(whole, true) },
		func() ([]foreign.Message, error) { return t.eventMessages(n, role == "assistant") },
		func() ([]foreign.Message, error) { return n.indexed(older + "."), nil },
		func() ([]foreign.Message, error) { return attribute(older, false) },
		func() ([]foreign.Message, error) { return n.indexed(messages), nil },
		func() ([]foreign.Message, error) { return n.indexed(texts), nil },
	}
	for _, key := range values {
		if n.role == agentSpan || key == "input.value" || key == "output.value" {
			sources = append(sources, func() ([]foreign.Message, error) { return t.valueMessages(n, key, role) })
		}
	}
	for _, read := range sources {
		list, err := read()
		if err != nil || len(list) == 0 {
			if err != nil {
				return nil, err
			}
			continue
		}
		for i := range list {
			if list[i].Role == "" {
				list[i].Role = role
			}
		}
		return list, nil
	}
	return nil, nil
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

// eventMessages reads messages that are events: what a model said, or what it was told.
func (t *story) eventMessages(n *node, said bool) ([]foreign.Message, error) {
	if n.role != modelSpan {
		return nil, nil
	}
	var all []foreign.Message
	for _, e := range n.events {
		role := eventRole(e.name)
		out := e.name == "gen_ai.choice" || e.name == "gen_ai.content.completion"
		if role == "" || out != said {
			continue
		}
		list, err := messagesOf(t.budget, e.message(), role, false)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
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
func (t *story) readEvents(n *node) {
	t.evaluated = append(t.evaluated, n.evaluations...)
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
}
