package wire

import (
	"encoding/base64"
	"errors"
	"strconv"

	"github.com/go-json-experiment/json"
)

// bedrock is Amazon Bedrock with one API here, bedrock.converse: Converse and
// ConverseStream of its runtime.
var bedrock = Provider{
	Name:    "bedrock",
	BaseURL: "https://bedrock-runtime.{region}.amazonaws.com",
	BaseEnv: []string{"AWS_ENDPOINT_URL_BEDROCK_RUNTIME"},
	// Clients sign with a secret and send the name of the key in the open. So the
	// token is that name, and any secret will do.
	KeyEnv:     "AWS_ACCESS_KEY_ID",
	MoreKeyEnv: []string{"AWS_SECRET_ACCESS_KEY"},
	// Of the endpoint above the region says nothing; SDKs do not start without one.
	FixedEnv:  [][2]string{{"AWS_REGION", "us-east-1"}, {"AWS_DEFAULT_REGION", "us-east-1"}},
	KeyHeader: "Authorization",
	KeyScheme: "Bearer ",
	Signed:    true,

	failure: func(kind, message, _ string) Node {
		return ObjectNode("__type", StringNode(bedrockFailures[kind]), "message", StringNode(message))
	},
	model: func(name string) Node { return ObjectNode("modelId", StringNode(name), "modelName", StringNode(name)) },
	modelList: func(models []Node, _ []string) Node {
		return ObjectNode("modelSummaries", ArrayNode(models...))
	},
}

// bedrockFailures are its words for those that the other providers use.
var bedrockFailures = map[string]string{
	"invalid_request_error": "ValidationException",
	"authentication_error":  "AccessDeniedException",
	"not_found_error":       "ResourceNotFoundException",
	"request_too_large":     "ValidationException",
	"api_error":             "InternalServerException",
}

// A model's name may be an ARN, with colons and slashes in it.
var bedrockRow = row{api: BedrockConverse, provider: &bedrock, path: "/model/{model}/converse", streamPath: "/model/{model}/converse-stream",
	countPath: "/model/{model}/count-tokens", countName: "inputTokens", modelBytes: ":/", framing: AWSFrames,
	list: "messages", notTexts: []string{"toolUseId", "format", "bytes", "uri", "bucketOwner", "signature", "redactedContent"},
	irrelevant: []string{"requestMetadata", "stream"}, strip: dropCachePoints, parallel: bedrockParallel,
	words: []string{"content", "text", "toolUse", "input", "toolResult", "json"}, elsewhere: bedrockElsewhere,
	idPrefixes: []string{"tooluse_"}, callPrefix: "tooluse_", toolOwner: "toolConfig", shapedByTool: true,
	inName: "inputTokens", outName: "outputTokens", dialect: converse{}}

// bedrockElsewhere knows what brings content that is not in the request: files in
// a bucket and prompts that Amazon keeps.
func bedrockElsewhere(m *Node) bool {
	switch m.Name {
	case "s3Location", "promptVariables":
		return m.Kind != 'n'
	}
	return false
}

// dropCachePoints removes the marks that place a prompt cache.
func dropCachePoints(n *Node) {
	drop := func(owner *Node, name string) {
		list := owner.Get(name)
		if list == nil || list.Kind != '[' {
			return
		}
		kept := list.List[:0]
		for i := range list.List {
			if list.List[i].Get("cachePoint") == nil {
				kept = append(kept, list.List[i])
			}
		}
		list.List = kept
	}
	drop(n, "system")
	for i := range n.Items("messages") {
		drop(&n.Items("messages")[i], "content")
	}
	if config := n.Get("toolConfig"); config != nil {
		drop(config, "tools")
	}
}

// bedrockParallel finds the blocks of calls and of results that stand side by
// side in a message. Their ids are one level deeper than the block, so the lists
// are of what the blocks hold.
func bedrockParallel(n *Node) (calls, results []parallel) {
	has := func(name string) func(*Node) bool { return func(b *Node) bool { return b.Get(name) != nil } }
	for i := range n.Items("messages") {
		blocks := n.Items("messages")[i].Items("content")
		for _, run := range runsOf(blocks, "", has("toolUse")) {
			calls = append(calls, parallel{items: run.items, id: "toolUseId", inside: "toolUse"})
		}
		for _, run := range runsOf(blocks, "", has("toolResult")) {
			results = append(results, parallel{items: run.items, id: "toolUseId", inside: "toolResult"})
		}
	}
	return calls, results
}

// converse is how bedrock.converse says things.
type converse struct{}

func (converse) recognises(n *Node) bool {
	if n.Get("inferenceConfig") != nil || n.Get("toolConfig") != nil {
		return true
	}
	for _, m := range n.Items("messages") {
		for _, b := range m.Items("content") {
			if b.Get("type") == nil {
				return true
			}
		}
	}
	return false
}

func (converse) ids(n *Node) (ids []*Node) {
	for i := range n.Items("messages") {
		blocks := n.Items("messages")[i].Items("content")
		for j := range blocks {
			for _, name := range []string{"toolUse", "toolResult"} {
				if m := blocks[j].Get(name); m != nil {
					ids = appendMembers(ids, m, "toolUseId")
				}
			}
		}
	}
	return ids
}

// delivery reads what [Route.Request] wrote: the path says whether to stream.
func (converse) delivery(body []byte) (Delivery, error) {
	var asked struct {
		Stream bool `json:"stream"`
	}
	err := json.Unmarshal(body, &asked)
	return Delivery{Stream: asked.Stream}, err
}

func (converse) request(n *Node) Request {
	r := Request{MaxOutput: -1, Choices: 1, System: contentParts(n.Get("system"), conversePart)}
	if config := n.Get("inferenceConfig"); config != nil {
		r.MaxOutput = outputLimit(config, "maxTokens")
	}
	for i := range n.Items("messages") {
		m := roleOf(&n.Items("messages")[i])
		m.Parts = contentParts(n.Items("messages")[i].Get("content"), conversePart)
		r.Messages = append(r.Messages, m)
	}
	return r
}

// conversePart reads a block. Its type is the name of the member that it has.
func conversePart(n *Node) Part {
	if text := n.Get("text"); text != nil {
		return Part{Kind: Text, Type: "text", Text: textOf(text)}
	}
	if use := n.Get("toolUse"); use != nil {
		c := &Call{ID: use.Str("toolUseId"), Name: use.Str("name"), Args: []byte("{}")}
		if input := use.Get("input"); input != nil {
			c.Args = input.AppendJSON(nil)
		}
		return Part{Kind: ToolCall, Type: "toolUse", Call: c}
	}
	if result := n.Get("toolResult"); result != nil {
		r := &Result{ID: result.Str("toolUseId"), Sent: textOf(result.Get("content")), IsError: result.Str("status") == "error"}
		for _, b := range result.Items("content") {
			r.Text += textOf(firstOf(&b, "text", "json"))
		}
		return Part{Kind: ToolResult, Type: "toolResult", Result: r}
	}
	if reasoning := n.Get("reasoningContent"); reasoning != nil {
		p := Part{Kind: Reasoning, Type: "reasoningContent"}
		if text := reasoning.Get("reasoningText"); text != nil {
			p.Text = text.Str("text")
		}
		return p
	}
	for _, m := range n.Members() {
		return Part{Type: m.Name}
	}
	return Part{}
}

func (converse) envelope(o Options) Envelope {
	config := []byte{}
	if o.MaxOutput > 0 {
		config = appendRaw(config, "maxTokens", []byte(strconv.FormatInt(o.MaxOutput, 10)))
	}
	if o.Temperature != nil {
		config = appendRaw(config, "temperature", o.Temperature)
	}
	e := Envelope{head: []byte(`{`)}
	if len(config) > 0 {
		e.head = append(append(append(e.head, `"inferenceConfig":{`...), config...), `},`...)
	}
	e.head = append(e.head, `"messages":[`...)
	e.middle = appendMember([]byte(`]`), "model", o.Model)
	if o.Shape != nil {
		e.tail = append(appendMember(append(e.tail, `,"toolConfig":{"toolChoice":{"tool":{`...), "name", o.Shape.Name), `}},"tools":[`...)
		e.tail = append(converse{}.tool(e.tail, *o.Shape), `]}`...)
	}
	return e
}

func (converse) system(text string) []byte {
	return append(appendMember([]byte(`,"system":[{`), "text", text), `}]`...)
}

func (converse) user(text string) []byte {
	return append(appendMember([]byte(`{"content":[{`), "text", text), `}],"role":"user"}`...)
}

func (converse) say(text string, calls []Call) []byte {
	b := []byte(`{"content":[`)
	if text != "" {
		b = append(appendMember(append(b, '{'), "text", text), '}')
	}
	for _, c := range calls {
		if b[len(b)-1] != '[' {
			b = append(b, ',')
		}
		input, ok := ArgumentsObject(c.Args)
		if !ok { // as in anthropic.messages, the error that answers the call quotes it
			input = []byte("{}")
		}
		b = appendRaw(append(b, `{"toolUse":{`...), "input", input)
		b = append(appendMember(appendMember(b, "name", c.Name), "toolUseId", c.ID), `}}`...)
	}
	return append(b, `],"role":"assistant"}`...)
}

func (converse) results(results []Result) []byte {
	b := []byte(`{"content":[`)
	for i, r := range results {
		b = append(b, separator(i, "")+`{"toolResult":{"content":[{`...)
		b = append(appendMember(b, "text", r.Text), `}]`...)
		if r.IsError {
			b = appendMember(b, "status", "error")
		}
		b = append(appendMember(b, "toolUseId", r.ID), `}}`...)
	}
	return append(b, `],"role":"user"}`...)
}

func (converse) tool(b []byte, t Tool) []byte {
	b = appendMember(append(b, `{"toolSpec":{`...), "description", t.Description)
	b = append(appendRaw(append(b, `,"inputSchema":{`...), "json", t.Schema), '}')
	return append(appendMember(b, "name", t.Name), `}}`...)
}

func (converse) reply(body *Node) (Reply, error) {
	var r reader
	out := Reply{Choices: 1, Stop: r.text(body, "stopReason")}
	switch out.Stop {
	case "end_turn", "stop_sequence", "tool_use":
	case "max_tokens", "model_context_window_exceeded":
		out.End = Cut
	case "guardrail_intervened", "content_filtered":
		out.End = Refused
	case "malformed_model_output", "malformed_tool_use":
		out.End, out.Detail = Failed, out.Stop
	default:
		out.End = Stopped
	}
	if body.Get("output") == nil {
		return out, errors.Join(r.err, errors.New("it has no output"))
	}
	message := r.object(r.object(body, "output"), "message")
	blocks := r.objects(message, "content")
	for i := range blocks {
		p := conversePart(&blocks[i])
		if p.Kind == ToolResult { // which only a request has
			p = Part{Type: p.Type}
		}
		out.Parts = append(out.Parts, p)
	}
	return out, r.err
}

func (converse) answer(a *Answer) (Node, error) {
	content := []Node{}
	reason := "end_turn"
	if text := a.Text + a.Refusal; text != "" {
		content = append(content, ObjectNode("text", StringNode(text)))
	}
	if a.Refusal != "" {
		reason = "content_filtered"
	}
	for _, c := range a.Calls {
		reason = "tool_use"
		input, err := ParseNode(c.Args)
		if err != nil {
			return Node{}, malformed("the arguments of a call: %w", err)
		}
		content = append(content, ObjectNode("toolUse", ObjectNode("toolUseId", StringNode(c.ID), "name", StringNode(c.Name), "input", input)))
	}
	return ObjectNode("metrics", ObjectNode("latencyMs", numberNode(0)),
		"output", ObjectNode("message", ObjectNode("content", ArrayNode(content...), "role", StringNode("assistant"))),
		"stopReason", StringNode(reason),
		"usage", ObjectNode("inputTokens", numberNode(a.InputTokens), "outputTokens", numberNode(a.OutputTokens), "totalTokens", numberNode(a.InputTokens+a.OutputTokens))), nil
}

// usage: what is read from a cache or written to one is not in the input tokens.
func (converse) usage(c *counter, usage *Node) Usage {
	return Usage{
		InputTokens:      c.at(usage, "inputTokens"),
		OutputTokens:     c.at(usage, "outputTokens"),
		CacheReadTokens:  c.at(usage, "cacheReadInputTokens"),
		CacheWriteTokens: c.at(usage, "cacheWriteInputTokens"),
	}
}

// ends: clients act on the reason why it ended; what comes behind is counts.
func (converse) ends(chunk string) bool {
	name, _, _ := eventData(chunk)
	return name == "messageStop"
}

// assemble puts the events together. Their names are those of the frames.
func (converse) assemble(events []Event, _ bool) (*Node, error) {
	body, message := ObjectNode(), ObjectNode()
	var blocks []converseBlock
	stopped, told := false, false
	for i := range events {
		data := &events[i].Data
		switch name := events[i].Name; name {
		case "messageStart":
			message.Set("role", StringNode(data.Str("role")))
		case "contentBlockStart":
			b := blockAt(&blocks, data)
			if b == nil {
				return nil, brokenStream(BedrockConverse, "contentBlockStart does not begin block %d", len(blocks))
			}
			if start := data.Get("start"); start != nil {
				b.open(start)
			}
		case "contentBlockDelta":
			b, delta := blockAt(&blocks, data), data.Get("delta")
			if b == nil || delta == nil {
				return nil, brokenStream(BedrockConverse, "contentBlockDelta does not belong to a block")
			}
			b.add(delta)
		case "messageStop":
			stopped = true
			for _, m := range data.Members() {
				if m.Name == "stopReason" || m.Name == "additionalModelResponseFields" {
					body.Set(m.Name, m)
				}
			}
		case "metadata":
			told = true
			for _, m := range data.Members() {
				if m.Name != "p" { // filling of random length
					body.Set(m.Name, m)
				}
			}
		case "contentBlockStop":
		default:
			if name == "error" || len(name) > 9 && name[len(name)-9:] == "Exception" {
				return nil, brokenStream(BedrockConverse, "it reports an error: %s", Head(string(data.AppendJSON(nil))))
			}
		}
	}
	if !stopped || !told {
		return nil, brokenStream(BedrockConverse, "it ends before messageStop and metadata")
	}
	content := ArrayNode()
	for i := range blocks {
		block, err := blocks[i].finish()
		if err != nil {
			return nil, brokenStream(BedrockConverse, "the input of block %d is not JSON: %w", i, err)
		}
		content.List = append(content.List, block)
	}
	message.Set("content", content)
	body.Set("output", ObjectNode("message", message))
	return &body, nil
}

// A converseBlock is a block of content that grows. What it is shows in its
// deltas: only that of a tool has a beginning.
type converseBlock struct {
	toolUse         *Node
	input           string
	text            *string
	thought         *Node
	other           *Node // of a kind that is not known
	redacted        []byte
	thinks, blacked bool
}

// blockAt is the block that an event is about: the last one, or a new one behind
// it; nil for another.
func blockAt(blocks *[]converseBlock, data *Node) *converseBlock {
	index, ok := wholeOf(data.Get("contentBlockIndex"))
	switch n := int64(len(*blocks)); {
	case !ok || index < 0 || index > n:
		return nil
	case index == n:
		*blocks = append(*blocks, converseBlock{})
	}
	return &(*blocks)[index]
}

func (b *converseBlock) open(start *Node) {
	if use := start.Get("toolUse"); use != nil {
		c := use.Clone()
		b.toolUse = &c
	}
}

func (b *converseBlock) add(delta *Node) {
	if text := delta.Get("text"); text != nil {
		grown := text.Text
		if b.text != nil {
			grown = *b.text + grown
		}
		b.text = &grown
	}
	if use := delta.Get("toolUse"); use != nil {
		b.input += use.Str("input")
	}
	r := delta.Get("reasoningContent")
	if r == nil {
		if delta.Get("text") == nil && delta.Get("toolUse") == nil {
			c := delta.Clone()
			b.other = &c
		}
		return
	}
	if r.Get("redactedContent") != nil {
		piece, _ := base64.StdEncoding.DecodeString(r.Str("redactedContent"))
		b.blacked, b.redacted = true, append(b.redacted, piece...)
		return
	}
	if b.thought == nil {
		n := ObjectNode()
		b.thinks, b.thought = true, &n
	}
	for _, name := range []string{"text", "signature"} {
		if piece := r.Get(name); piece != nil {
			b.thought.Set(name, StringNode(b.thought.Str(name)+piece.Text))
		}
	}
}

func (b *converseBlock) finish() (Node, error) {
	switch {
	case b.toolUse != nil:
		input := ObjectNode()
		if b.input != "" {
			var err error
			if input, err = ParseNode([]byte(b.input)); err != nil {
				return Node{}, err
			}
		}
		b.toolUse.Set("input", input)
		return ObjectNode("toolUse", *b.toolUse), nil
	case b.thinks:
		return ObjectNode("reasoningContent", ObjectNode("reasoningText", *b.thought)), nil
	case b.blacked:
		return ObjectNode("reasoningContent", ObjectNode("redactedContent", StringNode(base64.StdEncoding.EncodeToString(b.redacted)))), nil
	case b.text != nil:
		return ObjectNode("text", StringNode(*b.text)), nil
	case b.other != nil:
		return *b.other, nil
	}
	return ObjectNode("text", StringNode("")), nil
}

// stream writes a body as events.
func (converse) stream(w *eventWriter, body *Node, _ bool) {
	message := &nothing
	if out := body.Get("output"); out != nil && out.Get("message") != nil {
		message = out.Get("message")
	}
	w.write("messageStart", ObjectNode("role", StringNode(message.Str("role"))))
	for i, block := range message.Items("content") {
		index := numberNode(int64(i))
		start, deltas := splitConverseBlock(&block)
		if start != nil {
			w.write("contentBlockStart", ObjectNode("contentBlockIndex", index, "start", *start))
		}
		for _, d := range deltas {
			w.write("contentBlockDelta", ObjectNode("contentBlockIndex", index, "delta", d))
		}
		w.write("contentBlockStop", ObjectNode("contentBlockIndex", index))
	}
	stop, last := ObjectNode(), ObjectNode()
	for _, m := range body.Members() {
		switch m.Name {
		case "output":
		case "stopReason", "additionalModelResponseFields":
			stop.Set(m.Name, m)
		default:
			last.Set(m.Name, m)
		}
	}
	w.write("messageStop", stop)
	w.write("metadata", last)
}

// splitConverseBlock gives what opens a block, if anything does, and the deltas
// that complete it.
func splitConverseBlock(block *Node) (start *Node, deltas []Node) {
	if use := block.Get("toolUse"); use != nil {
		opened := use.Clone()
		opened.Drop(func(name string, _ *Node) bool { return name == "input" })
		s := ObjectNode("toolUse", opened)
		if input := use.Get("input"); input != nil {
			deltas = append(deltas, ObjectNode("toolUse", ObjectNode("input", StringNode(string(input.AppendJSON(nil))))))
		}
		return &s, deltas
	}
	if r := block.Get("reasoningContent"); r != nil {
		if text := r.Get("reasoningText"); text != nil {
			for _, m := range text.Members() {
				deltas = append(deltas, ObjectNode("reasoningContent", ObjectNode(m.Name, m)))
			}
			return nil, deltas
		}
		return nil, []Node{ObjectNode("reasoningContent", *r)}
	}
	return nil, []Node{*block}
}
