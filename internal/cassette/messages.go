package cassette

import "strconv"

// assembleMessages puts the events of anthropic.messages together.
func assembleMessages(events []streamEvent) (*node, error) {
	var message *node
	var blocks []messageBlock
	for i := range events {
		data := &events[i].data
		kind := data.str("type")
		if message == nil && kind != "message_start" && kind != "ping" && kind != "error" {
			return nil, brokenStream(AnthropicMessages, "it begins with %s, expected message_start", head(kind))
		}
		switch kind {
		case "message_start":
			m := data.get("message")
			if message != nil || m == nil || m.kind != '{' {
				return nil, brokenStream(AnthropicMessages, "message_start comes twice or has no message")
			}
			message = m
		case "content_block_start":
			b := data.get("content_block")
			index := data.get("index")
			if b == nil || b.kind != '{' || index == nil || index.text != strconv.Itoa(len(blocks)) {
				return nil, brokenStream(AnthropicMessages, "content_block_start does not begin block %d", len(blocks))
			}
			blocks = append(blocks, messageBlock{block: *b})
		case "content_block_delta":
			index, delta := data.get("index"), data.get("delta")
			if len(blocks) == 0 || delta == nil || index == nil || index.text != strconv.Itoa(len(blocks)-1) {
				return nil, brokenStream(AnthropicMessages, "content_block_delta does not belong to the open block")
			}
			blocks[len(blocks)-1].add(delta)
		case "message_delta":
			if d := data.get("delta"); d != nil {
				override(message, d)
			}
			mergeUsage(message, data.get("usage"))
		case "message_stop":
			return finishMessage(message, blocks)
		case "error":
			return nil, brokenStream(AnthropicMessages, "it reports an error: %s", head(string(data.appendJSON(nil))))
		}
	}
	return nil, brokenStream(AnthropicMessages, "it ends before message_stop")
}

// A messageBlock is a block of content with the JSON of its input so far.
type messageBlock struct {
	block node
	input string
}

func (b *messageBlock) add(delta *node) {
	grow := func(name string) {
		b.block.set(name, stringNode(b.block.str(name)+delta.str(name)))
	}
	switch delta.str("type") {
	case "text_delta":
		grow("text")
	case "thinking_delta":
		grow("thinking")
	case "signature_delta":
		grow("signature")
	case "input_json_delta":
		b.input += delta.str("partial_json")
	case "citations_delta":
		if c := delta.get("citation"); c != nil {
			b.block.set("citations", arrayNode(append(b.block.items("citations"), *c)...))
		}
	}
}

func finishMessage(message *node, blocks []messageBlock) (*node, error) {
	content := arrayNode()
	for i, b := range blocks {
		if b.input != "" {
			input, err := parseNode([]byte(b.input))
			if err != nil {
				return nil, brokenStream(AnthropicMessages, "the input of block %d is not JSON: %w", i, err)
			}
			b.block.set("input", input)
		}
		content.list = append(content.list, b.block)
	}
	message.set("content", content)
	return message, nil
}

func override(have, with *node) {
	for _, m := range with.members() {
		have.set(m.name, m)
	}
}

// mergeUsage takes over the counts that are told; later ones are cumulative.
func mergeUsage(message, usage *node) {
	have := message.get("usage")
	switch {
	case usage == nil || usage.kind != '{':
	case have == nil || have.kind != '{':
		message.set("usage", *usage)
	default:
		for _, m := range usage.members() {
			if m.kind != 'n' {
				have.set(m.name, m)
			}
		}
	}
}

// messages writes a body of anthropic.messages as events.
func (w *eventWriter) messages(body *node) {
	start := body.clone()
	start.set("content", arrayNode())
	end := objectNode()
	for _, name := range []string{"stop_reason", "stop_sequence"} {
		if v := body.get(name); v != nil {
			end.set(name, *v)
			start.set(name, nullNode)
		}
	}
	w.event("message_start", "message", start)

	for i, block := range body.items("content") {
		index := node{kind: '0', text: strconv.Itoa(i)}
		opened, deltas := splitBlock(block)
		w.event("content_block_start", "index", index, "content_block", opened)
		for _, d := range deltas {
			w.event("content_block_delta", "index", index, "delta", d)
		}
		w.event("content_block_stop", "index", index)
	}

	last := []any{"delta", end}
	if usage := body.get("usage"); usage != nil && usage.kind == '{' {
		told := objectNode()
		if out := usage.get("output_tokens"); out != nil {
			told.set("output_tokens", *out)
		}
		last = append(last, "usage", told)
	}
	w.event("message_delta", last...)
	w.event("message_stop")
}

// event writes an event whose data repeats its name as the type.
func (w *eventWriter) event(name string, members ...any) {
	w.write(name, objectNode(append([]any{"type", stringNode(name)}, members...)...))
}

// splitBlock gives a block as it looks when it is opened and the deltas that
// complete it.
func splitBlock(block node) (opened node, deltas []node) {
	opened = block.clone()
	move := func(name, kind string) {
		if v := block.get(name); v != nil && v.kind == '"' {
			opened.set(name, stringNode(""))
			deltas = append(deltas, objectNode("type", stringNode(kind), name, *v))
		}
	}
	switch block.str("type") {
	case "text":
		if c := block.get("citations"); c != nil && c.kind == '[' {
			opened.set("citations", arrayNode())
			for _, citation := range c.list {
				deltas = append(deltas, objectNode("type", stringNode("citations_delta"), "citation", citation))
			}
		}
		move("text", "text_delta")
	case "thinking":
		move("thinking", "thinking_delta")
		move("signature", "signature_delta")
	case "tool_use", "server_tool_use", "mcp_tool_use":
		if v := block.get("input"); v != nil {
			opened.set("input", objectNode())
			deltas = append(deltas, objectNode("type", stringNode("input_json_delta"), "partial_json", stringNode(string(v.appendJSON(nil)))))
		}
	}
	return opened, deltas
}
