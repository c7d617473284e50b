package wire

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// anthropic has one API, anthropic.messages.
var anthropic = Provider{
	Name:      "anthropic",
	BaseURL:   "https://api.anthropic.com",
	BaseEnv:   []string{"ANTHROPIC_BASE_URL"},
	KeyEnv:    "ANTHROPIC_API_KEY",
	Version:   [2]string{"anthropic-version", "2023-06-01"},
	KeyHeader: "x-api-key",

	failure: func(kind, message, _ string) Node {
		return ObjectNode("type", StringNode("error"), "error", ObjectNode("type", StringNode(kind), "message", StringNode(message)))
	},
	// The time is not known, and would differ from run to run.
	model: func(name string) Node {
		return ObjectNode("type", StringNode("model"), "id", StringNode(name), "display_name", StringNode(name), "created_at", StringNode("1970-01-01T00:00:00Z"))
	},
	modelList: func(models []Node, names []string) Node {
		first, last := NullNode, NullNode
		if n := len(names); n > 0 {
			first, last = StringNode(names[0]), StringNode(names[n-1])
		}
		return ObjectNode("data", ArrayNode(models...), "first_id", first, "has_more", Node{Kind: 'f'}, "last_id", last)
	},
}

var messagesRow = row{api: AnthropicMessages, path: "/v1/messages", countPath: "/v1/messages/count_tokens", countName: "input_tokens", provider: &anthropic, list: "messages",
	irrelevant: []string{"cache_control", "metadata", "service_tier", "stream"}, strip: dropCacheControl,
	words: commonWords, elsewhere: namesElsewhere, idPrefixes: drawnPrefixes, callPrefix: "toolu_", wantsMaxOutput: true, shapedByTool: true, parallel: messagesParallel,
	inName: "input_tokens", outName: "output_tokens", dialect: messages{}}

// messagesParallel finds the blocks of calls and of results that stand side by
// side in a message.
func messagesParallel(n *Node) (calls, results []parallel) {
	for i := range n.Items("messages") {
		blocks := n.Items("messages")[i].Items("content")
		calls = append(calls, runsOf(blocks, "id", typed("tool_use"))...)
		results = append(results, runsOf(blocks, "tool_use_id", typed("tool_result"))...)
	}
	return calls, results
}

// messages is how anthropic.messages says things.
type messages struct{}

func (messages) recognises(n *Node) bool { return n.Get("messages") != nil }

// dropCacheControl removes the marks that place a prompt cache: clients move
// them from turn to turn. Only blocks and tools have them; a member of this
// name in a tool's input or schema is the user's data.
func dropCacheControl(n *Node) {
	mark := func(name string, _ *Node) bool { return name == "cache_control" }
	blocks := func(list []Node) {
		for i := range list {
			list[i].Drop(mark)
		}
	}
	blocks(n.Items("system"))
	blocks(n.Items("tools"))
	for i := range n.Items("messages") {
		content := n.Items("messages")[i].Items("content")
		blocks(content)
		for j := range content {
			blocks(content[j].Items("content"))
		}
	}
}

func (messages) ids(n *Node) (ids []*Node) {
	for i := range n.Items("messages") {
		m := &n.Items("messages")[i]
		for j := range m.Items("content") {
			ids = appendMembers(ids, &m.Items("content")[j], "id", "tool_use_id")
		}
	}
	return ids
}

func (messages) delivery(body []byte) (Delivery, error) {
	var asked struct {
		Stream bool `json:"stream"`
	}
	err := json.Unmarshal(body, &asked)
	return Delivery{Stream: asked.Stream}, err
}

func (messages) request(n *Node) Request {
	r := Request{MaxOutput: outputLimit(n, "max_tokens"), Choices: 1, System: contentParts(n.Get("system"), messagePart)}
	for i := range n.Items("messages") {
		m := roleOf(&n.Items("messages")[i])
		m.Parts = contentParts(n.Items("messages")[i].Get("content"), messagePart)
		r.Messages = append(r.Messages, m)
	}
	return r
}

// messagePart reads a block of content.
func messagePart(n *Node) Part {
	switch t := n.Str("type"); t {
	case "tool_use":
		c := &Call{ID: n.Str("id"), Name: n.Str("name")}
		if input := n.Get("input"); input != nil {
			c.Args = input.AppendJSON(nil)
		}
		return Part{Kind: ToolCall, Type: t, Call: c}
	case "tool_result":
		r := resultOf(n.Str("tool_use_id"), n.Get("content"))
		if e := n.Get("is_error"); e != nil {
			r.IsError = e.Kind == 't'
		}
		return Part{Kind: ToolResult, Type: t, Result: r}
	}
	return partOf(n)
}

func (messages) envelope(o Options) Envelope {
	e := Envelope{head: []byte(`{"max_tokens":` + strconv.FormatInt(o.MaxOutput, 10) + `,"messages":[`)}
	e.middle = appendMember([]byte(`],`), "model", o.Model)
	e.tail = appendTemperature(e.tail, o)
	if o.Shape != nil {
		e.tail = append(appendMember(append(e.tail, `,"tool_choice":{`...), "name", o.Shape.Name), `,"type":"tool"}`...)
		e.tail = append(messages{}.tool(append(e.tail, `,"tools":[`...), *o.Shape), ']')
	}
	return e
}

func (messages) system(text string) []byte { return appendMember([]byte(`,`), "system", text) }
func (messages) user(text string) []byte   { return roleMessage("user", text) }

func (messages) say(text string, calls []Call) []byte {
	b := []byte(`{"content":[`)
	if text != "" {
		b = appendMember(append(b, '{'), "text", text)
		b = append(b, `,"type":"text"}`...)
	}
	for _, c := range calls {
		if b[len(b)-1] != '[' {
			b = append(b, ',')
		}
		b = appendMember(append(b, '{'), "id", c.ID)
		// What is not an object cannot be said in this API; the error that
		// answers the call quotes it.
		input, ok := ArgumentsObject(c.Args)
		if !ok {
			input = []byte("{}")
		}
		b = appendMember(appendRaw(b, "input", input), "name", c.Name)
		b = append(b, `,"type":"tool_use"}`...)
	}
	return append(b, `],"role":"assistant"}`...)
}

func (messages) results(results []Result) []byte {
	b := []byte(`{"content":[`)
	for i, r := range results {
		b = appendMember(append(b, separator(i, "")+"{"...), "content", r.Text)
		if r.IsError {
			b = append(b, `,"is_error":true`...)
		}
		b = appendMember(b, "tool_use_id", r.ID)
		b = append(b, `,"type":"tool_result"}`...)
	}
	return append(b, `],"role":"user"}`...)
}

func (messages) tool(b []byte, t Tool) []byte {
	b = appendMember(append(b, '{'), "description", t.Description)
	b = appendRaw(b, "input_schema", t.Schema)
	return append(appendMember(b, "name", t.Name), '}')
}

func (messages) reply(body *Node) (Reply, error) {
	var r reader
	out := Reply{Model: body.Str("model"), Stop: r.text(body, "stop_reason"), Choices: 1}
	switch out.Stop {
	case "end_turn", "stop_sequence", "tool_use":
	case "max_tokens", "model_context_window_exceeded":
		out.End = Cut
	case "refusal":
		out.End = Refused
	default:
		out.End = Stopped
	}
	content := r.objects(body, "content")
	for i := range content {
		switch p := messagePart(&content[i]); p.Type {
		case "text", "tool_use":
			out.Parts = append(out.Parts, p)
		case "thinking", "redacted_thinking":
			out.Parts = append(out.Parts, Part{Kind: Reasoning, Type: p.Type})
		case "server_tool_use", "mcp_tool_use":
			out.Parts = append(out.Parts, Part{Type: p.Type})
			out.served = append(out.served, servedBlock(&content[i], content))
		default:
			out.Parts = append(out.Parts, Part{Type: p.Type})
		}
	}
	// Some servers leave the type out of a message, and none out of an error.
	if t := body.Str("type"); r.err == nil && t != "message" && (t != "" || body.Get("content") == nil) {
		r.err = fmt.Errorf("its type is %.40q, expected message", t)
	}
	return out, r.err
}

// servedBlock is a call that the provider made, with the block that answers it.
func servedBlock(n *Node, content []Node) Result {
	r := Result{ID: n.Str("id"), Name: n.Str("name"), Args: []byte(textOf(n.Get("input")))}
	for i := range content {
		if b := &content[i]; b.Str("tool_use_id") == r.ID && r.ID != "" {
			r.Sent = textOf(b.Get("content"))
			e := b.Get("is_error")
			r.IsError = e != nil && e.Kind == 't'
		}
	}
	return r
}

func (messages) answer(a *Answer) (Node, error) {
	content := []Node{}
	reason := "end_turn"
	if text := a.Text + a.Refusal; text != "" {
		content = append(content, ObjectNode("type", StringNode("text"), "text", StringNode(text)))
	}
	if a.Refusal != "" {
		reason = "refusal"
	}
	for _, c := range a.Calls {
		reason = "tool_use"
		input, err := ParseNode(c.Args)
		if err != nil {
			return Node{}, malformed("the arguments of a call: %w", err)
		}
		content = append(content, ObjectNode("type", StringNode("tool_use"), "id", StringNode(c.ID), "name", StringNode(c.Name), "input", input))
	}
	return ObjectNode("id", StringNode("msg_"+a.ID), "type", StringNode("message"), "role", StringNode("assistant"), "model", StringNode(a.Model),
		"content", ArrayNode(content...), "stop_reason", StringNode(reason), "stop_sequence", NullNode,
		"usage", ObjectNode("input_tokens", numberNode(a.InputTokens), "output_tokens", numberNode(a.OutputTokens))), nil
}

func (messages) usage(c *counter, usage *Node) Usage {
	u := Usage{
		OutputTokens:         c.at(usage, "output_tokens"),
		InputTokens:          c.at(usage, "input_tokens"),
		CacheReadTokens:      c.at(usage, "cache_read_input_tokens"),
		CacheWriteLongTokens: c.at(usage, "cache_creation", "ephemeral_1h_input_tokens"),
	}
	u.CacheWriteTokens = c.at(usage, "cache_creation_input_tokens") - u.CacheWriteLongTokens
	return u
}

func (messages) ends(chunk string) bool { return strings.Contains(chunk, "message_stop") }

// assemble puts the events together.
func (messages) assemble(events []Event, _ bool) (*Node, error) {
	var message *Node
	var blocks []messageBlock
	for i := range events {
		data := &events[i].Data
		kind := data.Str("type")
		if message == nil && kind != "message_start" && kind != "ping" && kind != "error" {
			return nil, brokenStream(AnthropicMessages, "it begins with %s, expected message_start", Head(kind))
		}
		switch kind {
		case "message_start":
			m := data.Get("message")
			if message != nil || m == nil || m.Kind != '{' {
				return nil, brokenStream(AnthropicMessages, "message_start comes twice or has no message")
			}
			message = m
		case "content_block_start":
			b := data.Get("content_block")
			index := data.Get("index")
			if b == nil || b.Kind != '{' || index == nil || index.Text != strconv.Itoa(len(blocks)) {
				return nil, brokenStream(AnthropicMessages, "content_block_start does not begin block %d", len(blocks))
			}
			blocks = append(blocks, messageBlock{block: *b})
		case "content_block_delta":
			index, delta := data.Get("index"), data.Get("delta")
			if len(blocks) == 0 || delta == nil || index == nil || index.Text != strconv.Itoa(len(blocks)-1) {
				return nil, brokenStream(AnthropicMessages, "content_block_delta does not belong to the open block")
			}
			blocks[len(blocks)-1].add(delta)
		case "message_delta":
			if d := data.Get("delta"); d != nil {
				override(message, d)
			}
			mergeUsage(message, "usage", data.Get("usage"))
		case "message_stop":
			return finishMessage(message, blocks)
		case "error":
			return nil, brokenStream(AnthropicMessages, "it reports an error: %s", Head(string(data.AppendJSON(nil))))
		}
	}
	return nil, brokenStream(AnthropicMessages, "it ends before message_stop")
}

// A messageBlock is a block of content with the JSON of its input so far.
type messageBlock struct {
	block Node
	input string
}

func (b *messageBlock) add(delta *Node) {
	grow := func(name string) {
		b.block.Set(name, StringNode(b.block.Str(name)+delta.Str(name)))
	}
	switch delta.Str("type") {
	case "text_delta":
		grow("text")
	case "thinking_delta":
		grow("thinking")
	case "signature_delta":
		grow("signature")
	case "input_json_delta":
		b.input += delta.Str("partial_json")
	case "citations_delta":
		if c := delta.Get("citation"); c != nil {
			b.block.Set("citations", ArrayNode(append(b.block.Items("citations"), *c)...))
		}
	}
}

func finishMessage(message *Node, blocks []messageBlock) (*Node, error) {
	content := ArrayNode()
	for i, b := range blocks {
		if b.input != "" {
			input, err := ParseNode([]byte(b.input))
			if err != nil {
				return nil, brokenStream(AnthropicMessages, "the input of block %d is not JSON: %w", i, err)
			}
			b.block.Set("input", input)
		}
		content.List = append(content.List, b.block)
	}
	message.Set("content", content)
	return message, nil
}

func override(have, with *Node) {
	for _, m := range with.Members() {
		have.Set(m.Name, m)
	}
}

// mergeUsage takes over the counts that are told; later ones are cumulative.
func mergeUsage(message *Node, name string, usage *Node) {
	have := message.Get(name)
	switch {
	case usage == nil || usage.Kind != '{':
	case have == nil || have.Kind != '{':
		message.Set(name, *usage)
	default:
		for _, m := range usage.Members() {
			if m.Kind != 'n' {
				have.Set(m.Name, m)
			}
		}
	}
}

// stream writes a body as events.
func (messages) stream(w *eventWriter, body *Node, _ bool) {
	start := body.Clone()
	start.Set("content", ArrayNode())
	end := ObjectNode()
	for _, name := range []string{"stop_reason", "stop_sequence"} {
		if v := body.Get(name); v != nil {
			end.Set(name, *v)
			start.Set(name, NullNode)
		}
	}
	w.event("message_start", "message", start)

	for i, block := range body.Items("content") {
		index := numberNode(int64(i))
		opened, deltas := splitBlock(block)
		w.event("content_block_start", "index", index, "content_block", opened)
		for _, d := range deltas {
			w.event("content_block_delta", "index", index, "delta", d)
		}
		w.event("content_block_stop", "index", index)
	}

	last := []any{"delta", end}
	if usage := body.Get("usage"); usage != nil && usage.Kind == '{' {
		told := ObjectNode()
		if out := usage.Get("output_tokens"); out != nil {
			told.Set("output_tokens", *out)
		}
		last = append(last, "usage", told)
	}
	w.event("message_delta", last...)
	w.event("message_stop")
}

// event writes an event whose data repeats its name as the type.
func (w *eventWriter) event(name string, members ...any) {
	w.write(name, ObjectNode(append([]any{"type", StringNode(name)}, members...)...))
}

// splitBlock gives a block as it looks when it is opened and the deltas that
// complete it.
func splitBlock(block Node) (opened Node, deltas []Node) {
	opened = block.Clone()
	move := func(name, kind string) {
		if v := block.Get(name); v != nil && v.Kind == '"' {
			opened.Set(name, StringNode(""))
			deltas = append(deltas, ObjectNode("type", StringNode(kind), name, *v))
		}
	}
	switch block.Str("type") {
	case "text":
		if c := block.Get("citations"); c != nil && c.Kind == '[' {
			opened.Set("citations", ArrayNode())
			for _, citation := range c.List {
				deltas = append(deltas, ObjectNode("type", StringNode("citations_delta"), "citation", citation))
			}
		}
		move("text", "text_delta")
	case "thinking":
		move("thinking", "thinking_delta")
		move("signature", "signature_delta")
	case "tool_use", "server_tool_use", "mcp_tool_use":
		if v := block.Get("input"); v != nil {
			opened.Set("input", ObjectNode())
			deltas = append(deltas, ObjectNode("type", StringNode("input_json_delta"), "partial_json", StringNode(string(v.AppendJSON(nil)))))
		}
	}
	return opened, deltas
}
