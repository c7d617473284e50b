package cassette

import "strconv"

// assembleChat merges the chunks of openai.chat. Members of chunks are taken
// from the first chunk that has them; deltas are merged choice by choice.
func assembleChat(events []streamEvent, done bool) (*node, error) {
	if len(events) == 0 {
		return nil, brokenStream(OpenAIChat, "it has no chunk")
	}
	if !done {
		return nil, brokenStream(OpenAIChat, "it ends before [DONE]")
	}
	body := objectNode()
	var choices []node
	for _, e := range events {
		if problem := e.data.get("error"); problem != nil {
			return nil, brokenStream(OpenAIChat, "it reports an error: %s", head(string(problem.appendJSON(nil))))
		}
		for _, value := range e.data.members() {
			switch name := value.name; {
			case name == "choices":
				for _, c := range value.list {
					choices = mergeIndexed(choices, c)
				}
			case name == "object", name == "obfuscation":
			case name == "usage" && value.kind == 'n':
				// A null announces the chunk with the usage at the end.
			case body.get(name) == nil, name == "usage":
				body.set(name, value)
			}
		}
	}
	for i := range choices {
		choices[i] = choiceOf(choices[i])
	}
	body.set("object", stringNode("chat.completion"))
	body.set("choices", arrayNode(choices...))
	return &body, nil
}

// choiceOf turns a merged delta into the message of a body.
func choiceOf(c node) node {
	message := node{kind: '{'}
	if d := c.get("delta"); d != nil && d.kind == '{' {
		message = *d
	}
	calls := message.items("tool_calls")
	for i := range calls {
		calls[i].drop(func(name string, _ *node) bool { return name == "index" })
	}
	c.drop(func(name string, _ *node) bool { return name == "delta" })
	c.set("message", message)
	return c
}

// mergeIndexed merges an element into the one with the same index.
func mergeIndexed(list []node, add node) []node {
	index := add.get("index")
	for i := range list {
		if have := list[i].get("index"); index != nil && have != nil && have.text == index.text {
			mergeDelta(&list[i], &add)
			return list
		}
	}
	return append(list, add.clone())
}

// mergeDelta adds what a delta holds. Text grows, except for members that name
// something; lists of indexed things merge element by element, other lists
// grow; a null changes nothing.
func mergeDelta(have, add *node) {
	for i := range add.members() {
		value := &add.list[i]
		name := value.name
		old := have.get(name)
		switch {
		case old == nil || old.kind == 'n':
			have.set(name, value.clone())
		case value.kind == 'n':
		case value.kind == '"' && old.kind == '"':
			if !isNaming(name) {
				old.text += value.text
			}
		case value.kind == '{' && old.kind == '{':
			mergeDelta(old, value)
		case value.kind == '[' && old.kind == '[':
			for _, item := range value.list {
				if item.get("index") != nil {
					old.list = mergeIndexed(old.list, item)
				} else {
					old.list = append(old.list, item.clone())
				}
			}
		default:
			*old = value.clone()
		}
	}
}

// isNaming tells members that some servers repeat in every chunk from those
// that grow.
func isNaming(name string) bool {
	switch name {
	case "role", "id", "type", "name", "finish_reason":
		return true
	}
	return false
}

// chat writes a body of openai.chat as chunks: for each choice one with the
// message and one with the reason why it ended, then one with the usage.
func (w *eventWriter) chat(body *node, includeUsage bool) {
	chunk := func(choices ...node) node {
		c := body.clone()
		c.drop(func(name string, _ *node) bool { return name == "usage" })
		c.set("object", stringNode("chat.completion.chunk"))
		c.set("choices", arrayNode(choices...))
		return c
	}
	for _, c := range body.items("choices") {
		first := c.clone()
		delta := node{kind: '{'}
		if m := c.get("message"); m != nil {
			delta = m.clone()
		}
		calls := delta.items("tool_calls")
		for i := range calls {
			calls[i].set("index", node{kind: '0', text: strconv.Itoa(i)})
		}
		first.drop(func(name string, _ *node) bool { return name == "message" })
		first.set("delta", delta)
		last := objectNode("delta", objectNode())
		for _, name := range []string{"index", "finish_reason"} {
			if v := c.get(name); v != nil {
				last.set(name, *v)
			}
		}
		if first.get("finish_reason") != nil {
			first.set("finish_reason", nullNode)
		}
		w.write("", chunk(first))
		w.write("", chunk(last))
	}
	if usage := body.get("usage"); usage != nil && includeUsage {
		last := chunk()
		last.set("usage", *usage)
		w.write("", last)
	}
	w.chunks = append(w.chunks, "data: [DONE]\n\n")
}
