package wire

import (
	"errors"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// openAI has two APIs, openai.chat and openai.responses.
var openAI = Provider{
	Name:      "openai",
	BaseURL:   "https://api.openai.com/v1",
	BasePath:  "/v1",
	BaseEnv:   []string{"OPENAI_BASE_URL", "OPENAI_API_BASE"}, // the second is the name before 2023, which LangChain and LiteLLM still read
	KeyEnv:    "OPENAI_API_KEY",
	KeyHeader: "Authorization",
	KeyScheme: "Bearer ",

	failure: func(kind, message, code string) Node {
		return ObjectNode("error", ObjectNode("message", StringNode(message), "type", StringNode(kind), "param", NullNode, "code", StringNode(code)))
	},
	model: func(name string) Node {
		return ObjectNode("id", StringNode(name), "object", StringNode("model"), "created", numberNode(0), "owned_by", StringNode("tallystick"))
	},
	modelList: func(models []Node, _ []string) Node {
		return ObjectNode("object", StringNode("list"), "data", ArrayNode(models...))
	},
}

// openAIIrrelevant do not change what a model answers, or say only how the
// answer is delivered.
var openAIIrrelevant = []string{"metadata", "prompt_cache_key", "prompt_cache_retention", "safety_identifier",
	"service_tier", "store", "stream", "stream_options", "user"}

var chatRow = row{api: OpenAIChat, path: "/v1/chat/completions", provider: &openAI, list: "messages",
	irrelevant: openAIIrrelevant, words: commonWords, elsewhere: namesElsewhere, idPrefixes: drawnPrefixes, callPrefix: "call_", parallel: chatParallel,
	inName: "prompt_tokens", outName: "completion_tokens", dialect: chat{}}

// chatParallel finds the calls of each message and the results behind it.
func chatParallel(n *Node) (calls, results []parallel) {
	for i := range n.Items("messages") {
		if list := n.Items("messages")[i].Items("tool_calls"); len(list) > 0 {
			calls = append(calls, parallel{items: list, id: "id"})
		}
	}
	return calls, runsOf(n.Items("messages"), "tool_call_id", func(m *Node) bool { return m.Str("role") == "tool" })
}

// chat is how openai.chat says things.
type chat struct{}

func (chat) recognises(n *Node) bool {
	for _, m := range n.Items("messages") {
		for _, b := range m.Items("content") {
			if t := b.Str("type"); t == "tool_use" || t == "tool_result" {
				return false
			}
		}
	}
	return n.Get("messages") != nil && n.Get("system") == nil
}

func (chat) ids(n *Node) (ids []*Node) {
	for i := range n.Items("messages") {
		m := &n.Items("messages")[i]
		ids = appendMembers(ids, m, "id")
		for j := range m.Items("tool_calls") {
			ids = appendMembers(ids, &m.Items("tool_calls")[j], "id")
		}
		ids = appendMembers(ids, m, "tool_call_id")
	}
	return ids
}

func (chat) delivery(body []byte) (Delivery, error) {
	var asked struct {
		Stream        bool `json:"stream"`
		StreamOptions struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	err := json.Unmarshal(body, &asked)
	return Delivery{asked.Stream, asked.StreamOptions.IncludeUsage}, err
}

func (chat) request(n *Node) Request {
	r := Request{MaxOutput: outputLimit(n, "max_completion_tokens", "max_tokens"), Choices: 1}
	if many, ok := wholeOf(n.Get("n")); ok {
		r.Choices = many
	}
	for i := range n.Items("messages") {
		r.Messages = append(r.Messages, chatMessage(&n.Items("messages")[i]))
	}
	return r
}

func chatMessage(n *Node) Message {
	m := roleOf(n)
	if m.Role == "tool" || m.Role == "function" { // the second, without ids, is the oldest form
		result := resultOf(n.Str("tool_call_id"), n.Get("content"))
		result.Name = n.Str("name")
		m.Parts = []Part{{Kind: ToolResult, Type: m.Role, Result: result}}
		return m
	}
	m.Parts = contentParts(n.Get("content"), partOf)
	if text := n.Str("refusal"); text != "" {
		m.Parts = append(m.Parts, Part{Kind: Refusal, Type: "refusal", Text: text})
	}
	for i := range n.Items("tool_calls") {
		m.Parts = append(m.Parts, chatCall(&n.Items("tool_calls")[i]))
	}
	if p, ok := functionCall(n); ok {
		m.Parts = append(m.Parts, p)
	}
	return m
}

// chatCall reads a call of a function, or of a tool that takes any text.
// Arguments are JSON inside a text; some servers write the object itself.
func chatCall(n *Node) Part {
	f, args := n.Get("function"), "arguments"
	if f == nil {
		f, args = n.Get("custom"), "input"
	}
	c := &Call{ID: n.Str("id")}
	if f != nil {
		c.Name, c.Args = f.Str("name"), []byte(textOf(f.Get(args)))
	}
	return Part{Kind: ToolCall, Type: n.Str("type"), Call: c}
}

func (chat) envelope(o Options) Envelope {
	e := Envelope{systemInList: true, head: []byte{'{'}}
	if o.MaxOutput > 0 {
		e.head = append(e.head, `"max_completion_tokens":`+strconv.FormatInt(o.MaxOutput, 10)+`,`...)
	}
	e.head = append(e.head, `"messages":[`...)
	e.middle = appendMember([]byte(`],`), "model", o.Model)
	if o.Shape != nil {
		e.tail = append(e.tail, `,"response_format":{"json_schema":{`...)
		e.tail = appendRaw(appendMember(e.tail, "name", o.Shape.Name), "schema", o.Shape.Schema)
		e.tail = append(e.tail, `,"strict":true},"type":"json_schema"}`...)
	}
	e.tail = appendTemperature(e.tail, o)
	return e
}

func (chat) system(text string) []byte { return roleMessage("system", text) }
func (chat) user(text string) []byte   { return roleMessage("user", text) }

func (chat) say(text string, calls []Call) []byte {
	b := []byte("{")
	if text != "" {
		b = appendMember(b, "content", text)
	}
	b = appendMember(b, "role", "assistant")
	for i, c := range calls {
		b = append(b, separator(i, `,"tool_calls":[`)...)
		b = append(b, `{"function":{`...)
		b = appendMember(b, "arguments", string(c.Args))
		b = append(appendMember(b, "name", c.Name), '}')
		b = appendMember(b, "id", c.ID)
		b = append(b, `,"type":"function"}`...)
	}
	if len(calls) > 0 {
		b = append(b, ']')
	}
	return append(b, '}')
}

func (chat) results(results []Result) (b []byte) {
	for i, r := range results {
		b = appendMember(append(b, separator(i, "")+"{"...), "content", r.Text)
		b = appendMember(b, "role", "tool")
		b = append(appendMember(b, "tool_call_id", r.ID), '}')
	}
	return b
}

func (chat) tool(b []byte, t Tool) []byte {
	b = appendMember(append(b, `{"function":{`...), "description", t.Description)
	b = appendRaw(appendMember(b, "name", t.Name), "parameters", t.Schema)
	return append(b, `},"type":"function"}`...)
}

func (chat) reply(body *Node) (Reply, error) {
	var r reader
	out := Reply{Model: body.Str("model")}
	choices := r.objects(body, "choices")
	out.Choices = len(choices)
	if len(choices) == 0 {
		return out, errors.Join(r.err, errors.New("it has no choices"))
	}
	choice := &choices[0]
	switch out.Stop = r.text(choice, "finish_reason"); out.Stop {
	case "length":
		out.End = Cut
	case "content_filter":
		out.End = Refused
	}
	message := r.object(choice, "message")
	out.Parts = r.content(message, partOf)
	if text := r.text(message, "refusal"); text != "" {
		out.Parts = append(out.Parts, Part{Kind: Refusal, Type: "refusal", Text: text})
	}
	calls := r.objects(message, "tool_calls")
	for i := range calls {
		out.Parts = append(out.Parts, chatCall(&calls[i]))
	}
	if p, ok := functionCall(message); ok {
		p.Kind = Other // an agent that offers tools is not answered in the oldest form
		out.Parts = append(out.Parts, p)
	}
	for i := range choices[1:] {
		if m := choices[i+1].Get("message"); m != nil {
			out.others = append(out.others, chatMessage(m).Parts...)
		}
	}
	return out, r.err
}

// functionCall reads a call in the oldest form, which has no id.
func functionCall(message *Node) (Part, bool) {
	f := message.Get("function_call")
	if f == nil || f.Kind != '{' {
		return Part{}, false
	}
	return Part{Kind: ToolCall, Type: "function_call", Call: &Call{Name: f.Str("name"), Args: []byte(textOf(f.Get("arguments")))}}, true
}

func (chat) answer(a *Answer) (Node, error) {
	message := ObjectNode("role", StringNode("assistant"), "content", NullNode, "refusal", NullNode)
	reason := "stop"
	if a.Text != "" {
		message.Set("content", StringNode(a.Text))
	}
	if a.Refusal != "" {
		message.Set("refusal", StringNode(a.Refusal))
	}
	var calls []Node
	for _, c := range a.Calls {
		reason = "tool_calls"
		calls = append(calls, ObjectNode("id", StringNode(c.ID), "type", StringNode("function"),
			"function", ObjectNode("name", StringNode(c.Name), "arguments", StringNode(string(c.Args)))))
	}
	if calls != nil {
		message.Set("tool_calls", ArrayNode(calls...))
	}
	return ObjectNode("id", StringNode("chatcmpl-"+a.ID), "object", StringNode("chat.completion"), "created", numberNode(0),
		"model", StringNode(a.Model),
		"choices", ArrayNode(ObjectNode("index", numberNode(0), "message", message, "logprobs", NullNode, "finish_reason", StringNode(reason))),
		"usage", ObjectNode("prompt_tokens", numberNode(a.InputTokens), "completion_tokens", numberNode(a.OutputTokens), "total_tokens", numberNode(a.InputTokens+a.OutputTokens))), nil
}

// usage takes off the input what came from the cache, which OpenAI counts as
// both.
func (chat) usage(c *counter, usage *Node) Usage {
	cached := c.at(usage, "prompt_tokens_details", "cached_tokens")
	return Usage{
		OutputTokens:    c.at(usage, "completion_tokens"),
		InputTokens:     c.at(usage, "prompt_tokens") - cached,
		CacheReadTokens: cached,
		ReasoningTokens: c.at(usage, "completion_tokens_details", "reasoning_tokens"),
	}
}

func (chat) ends(chunk string) bool { return strings.Contains(chunk, "[DONE]") }

// assemble merges the chunks. Members of chunks are taken from the first chunk
// that has them; deltas are merged choice by choice.
func (chat) assemble(events []Event, done bool) (*Node, error) {
	if len(events) == 0 {
		return nil, brokenStream(OpenAIChat, "it has no chunk")
	}
	if !done {
		return nil, brokenStream(OpenAIChat, "it ends before [DONE]")
	}
	body := ObjectNode()
	var choices []Node
	for _, e := range events {
		if problem := e.Data.Get("error"); problem != nil {
			return nil, brokenStream(OpenAIChat, "it reports an error: %s", Head(string(problem.AppendJSON(nil))))
		}
		for _, value := range e.Data.Members() {
			switch name := value.Name; {
			case name == "choices":
				for _, c := range value.List {
					choices = mergeIndexed(choices, c)
				}
			case name == "object", name == "obfuscation":
			case name == "usage" && value.Kind == 'n':
				// A null announces the chunk with the usage at the end.
			case body.Get(name) == nil, name == "usage":
				body.Set(name, value)
			}
		}
	}
	for i := range choices {
		choices[i] = choiceOf(choices[i])
	}
	body.Set("object", StringNode("chat.completion"))
	body.Set("choices", ArrayNode(choices...))
	return &body, nil
}

// choiceOf turns a merged delta into the message of a body.
func choiceOf(c Node) Node {
	message := Node{Kind: '{'}
	if d := c.Get("delta"); d != nil && d.Kind == '{' {
		message = *d
	}
	calls := message.Items("tool_calls")
	for i := range calls {
		calls[i].Drop(func(name string, _ *Node) bool { return name == "index" })
	}
	c.Drop(func(name string, _ *Node) bool { return name == "delta" })
	c.Set("message", message)
	return c
}

// mergeIndexed merges an element into the one with the same index.
func mergeIndexed(list []Node, add Node) []Node {
	index := add.Get("index")
	for i := range list {
		if have := list[i].Get("index"); index != nil && have != nil && have.Text == index.Text {
			mergeDelta(&list[i], &add)
			return list
		}
	}
	return append(list, add.Clone())
}

// mergeDelta adds what a delta holds. Text grows, except for members that name
// something; lists of indexed things merge element by element, other lists
// grow; a null changes nothing.
func mergeDelta(have, add *Node) {
	for i := range add.Members() {
		value := &add.List[i]
		name := value.Name
		old := have.Get(name)
		switch {
		case old == nil || old.Kind == 'n':
			have.Set(name, value.Clone())
		case value.Kind == 'n':
		case value.Kind == '"' && old.Kind == '"':
			if !isNaming(name) {
				old.Text += value.Text
			}
		case value.Kind == '{' && old.Kind == '{':
			mergeDelta(old, value)
		case value.Kind == '[' && old.Kind == '[':
			for _, item := range value.List {
				if item.Get("index") != nil {
					old.List = mergeIndexed(old.List, item)
				} else {
					old.List = append(old.List, item.Clone())
				}
			}
		default:
			*old = value.Clone()
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

// stream writes a body as chunks: for each choice one with the message and one
// with the reason why it ended, then one with the usage.
func (chat) stream(w *eventWriter, body *Node, includeUsage bool) {
	chunk := func(choices ...Node) Node {
		c := body.Clone()
		c.Drop(func(name string, _ *Node) bool { return name == "usage" })
		c.Set("object", StringNode("chat.completion.chunk"))
		c.Set("choices", ArrayNode(choices...))
		return c
	}
	for _, c := range body.Items("choices") {
		first := c.Clone()
		delta := Node{Kind: '{'}
		if m := c.Get("message"); m != nil {
			delta = m.Clone()
		}
		calls := delta.Items("tool_calls")
		for i := range calls {
			calls[i].Set("index", numberNode(int64(i)))
		}
		first.Drop(func(name string, _ *Node) bool { return name == "message" })
		first.Set("delta", delta)
		last := ObjectNode("delta", ObjectNode())
		for _, name := range []string{"index", "finish_reason"} {
			if v := c.Get(name); v != nil {
				last.Set(name, *v)
			}
		}
		if first.Get("finish_reason") != nil {
			first.Set("finish_reason", NullNode)
		}
		w.write("", chunk(first))
		w.write("", chunk(last))
	}
	if usage := body.Get("usage"); usage != nil && includeUsage {
		last := chunk()
		last.Set("usage", *usage)
		w.write("", last)
	}
	w.chunks = append(w.chunks, "data: [DONE]\n\n")
}
