package wire

import (
	"fmt"
	"strconv"
	"strings"
)

var responsesRow = row{api: OpenAIResponses, path: "/v1/responses", onDeployments: AzureResponses, provider: &openAI, list: "input",
	irrelevant: openAIIrrelevant, words: commonWords, elsewhere: namesElsewhere, idPrefixes: drawnPrefixes, callPrefix: "call_", parallel: responsesParallel,
	inName: "input_tokens", outName: "output_tokens", dialect: responses{}}

// responsesParallel finds the calls and the results that stand side by side.
func responsesParallel(n *Node) (calls, results []parallel) {
	return runsOf(n.Items("input"), "call_id", typed("function_call", "custom_tool_call")),
		runsOf(n.Items("input"), "call_id", typed("function_call_output", "custom_tool_call_output"))
}

// responses is how openai.responses says things.
type responses struct{}

func (responses) recognises(n *Node) bool {
	return n.Get("messages") == nil && (n.Get("input") != nil || n.Get("instructions") != nil)
}

func (responses) ids(n *Node) (ids []*Node) {
	for i := range n.Items("input") {
		ids = appendMembers(ids, &n.Items("input")[i], "id", "call_id", "approval_request_id")
	}
	return appendMembers(ids, n, "previous_response_id")
}

func (responses) delivery(body []byte) (Delivery, error) { return chat{}.delivery(body) }

func (responses) request(n *Node) Request {
	r := Request{MaxOutput: outputLimit(n, "max_output_tokens"), Choices: 1}
	r.System = contentParts(n.Get("instructions"), partOf)
	input := n.Get("input")
	if input == nil || input.Kind != '[' {
		if parts := contentParts(input, partOf); parts != nil {
			r.Messages = []Message{{Role: "user", Parts: parts}}
		}
		return r
	}
	for i := range input.List {
		r.Messages = append(r.Messages, responseItem(&input.List[i]))
	}
	return r
}

// responseItem reads an item of the input: calls and their outputs stand beside
// messages.
func responseItem(n *Node) Message {
	switch t := n.Str("type"); {
	case t == "function_call":
		return Message{Role: "assistant", Parts: []Part{responseCall(n)}}
	case t == "function_call_output":
		return Message{Role: "tool", Parts: []Part{{Kind: ToolResult, Type: t, Result: resultOf(n.Str("call_id"), n.Get("output"))}}}
	case strings.HasSuffix(t, "_call_output"):
		return Message{Role: "user", Parts: []Part{{Type: t, Result: resultOf(n.Str("call_id"), n.Get("output"))}}}
	case strings.HasSuffix(t, "_call") && n.Get("call_id") != nil:
		return Message{Role: "user", Parts: []Part{responseCall(n)}}
	}
	m := roleOf(n)
	m.Parts = contentParts(n.Get("content"), partOf)
	return m
}

// responseCall reads a call of a function, or of a tool of another kind that
// the client carries out: a shell, a patch, a computer. That one is called by
// its type if it has no name.
func responseCall(n *Node) Part {
	p := Part{Type: n.Str("type"), Call: &Call{ID: n.Str("call_id"), Name: n.Str("name"), Args: []byte(textOf(firstOf(n, "arguments", "input", "action", "operation")))}}
	if p.Type == "function_call" {
		p.Kind = ToolCall
	} else if p.Call.Name == "" {
		p.Call.Name = strings.TrimSuffix(p.Type, "_call")
	}
	return p
}

func (responses) envelope(o Options) Envelope {
	e := Envelope{head: []byte(`{"input":[`), middle: []byte(`]`)}
	if o.MaxOutput > 0 {
		e.tail = append(e.tail, `,"max_output_tokens":`+strconv.FormatInt(o.MaxOutput, 10)...)
	}
	e.tail = append(appendMember(append(e.tail, ','), "model", o.Model), `,"store":false`...)
	e.tail = appendTemperature(e.tail, o)
	if o.Shape != nil {
		e.tail = append(e.tail, `,"text":{"format":{`...)
		e.tail = appendRaw(appendMember(e.tail, "name", o.Shape.Name), "schema", o.Shape.Schema)
		e.tail = append(e.tail, `,"strict":true,"type":"json_schema"}}`...)
	}
	return e
}

func (responses) system(text string) []byte { return appendMember([]byte(`,`), "instructions", text) }
func (responses) user(text string) []byte   { return roleMessage("user", text) }

func (responses) say(text string, calls []Call) (b []byte) {
	if text != "" {
		b = roleMessage("assistant", text)
	}
	for _, c := range calls {
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = appendMember(append(b, '{'), "arguments", string(c.Args))
		b = appendMember(b, "call_id", c.ID)
		b = appendMember(b, "name", c.Name)
		b = append(b, `,"type":"function_call"}`...)
	}
	return b
}

func (responses) results(results []Result) (b []byte) {
	for i, r := range results {
		b = appendMember(append(b, separator(i, "")+"{"...), "call_id", r.ID)
		b = appendMember(b, "output", r.Text)
		b = append(b, `,"type":"function_call_output"}`...)
	}
	return b
}

func (responses) tool(b []byte, t Tool) []byte {
	b = appendMember(append(b, '{'), "description", t.Description)
	b = appendRaw(appendMember(b, "name", t.Name), "parameters", t.Schema)
	return append(b, `,"strict":false,"type":"function"}`...)
}

func (responses) reply(body *Node) (Reply, error) {
	var r reader
	out := Reply{Model: body.Str("model"), Stop: r.text(body, "status"), Choices: 1}
	switch out.Stop {
	case "completed":
	case "failed", "cancelled":
		out.End, out.Detail = Failed, r.text(r.object(body, "error"), "message")
		out.others = startedCalls(body) // a client that was streamed them may have acted on them
		return out, r.err
	case "queued", "in_progress":
		return out, fmt.Errorf("its status is %s", out.Stop)
	default:
		out.End = Stopped
	}
	switch r.text(r.object(body, "incomplete_details"), "reason") {
	case "max_output_tokens":
		out.End = Cut
	case "content_filter":
		out.End = Refused
	}
	output := r.objects(body, "output")
	for i := range output {
		item := &output[i]
		switch t := item.Str("type"); {
		case t == "message":
			out.Parts = append(out.Parts, r.content(item, partOf)...)
		case strings.HasSuffix(t, "_call") && item.Get("call_id") != nil:
			out.Parts = append(out.Parts, responseCall(item))
		case t == "reasoning":
			out.Parts = append(out.Parts, Part{Kind: Reasoning, Type: t, Text: openText(item)})
		case strings.HasSuffix(t, "_call"): // without an id for the client to answer to
			out.Parts = append(out.Parts, Part{Type: t, Text: openText(item)})
			c := responseCall(item).Call
			e := item.Get("error")
			out.served = append(out.served, Result{ID: item.Str("id"), Name: c.Name, Args: c.Args, Sent: textOf(firstOf(item, "output", "results", "outputs")),
				IsError: item.Str("status") == "failed" || e != nil && e.Kind != 'n'})
		default:
			out.Parts = append(out.Parts, Part{Type: t, Text: openText(item)})
		}
	}
	return out, r.err
}

// startedCalls are the calls of a reply that broke off.
func startedCalls(body *Node) (parts []Part) {
	for _, item := range body.Items("output") {
		if item.Get("call_id") != nil {
			parts = append(parts, responseCall(&item))
		}
	}
	return parts
}

// openText is the text that an item has in its content, as the reasoning of
// models that hide nothing.
func openText(item *Node) string {
	var b strings.Builder
	for _, c := range item.Items("content") {
		b.WriteString(c.Str("text") + c.Str("refusal"))
	}
	return b.String()
}

func (responses) answer(a *Answer) (Node, error) {
	content := []Node{}
	if a.Text != "" {
		content = append(content, ObjectNode("type", StringNode("output_text"), "text", StringNode(a.Text), "annotations", ArrayNode()))
	}
	if a.Refusal != "" {
		content = append(content, ObjectNode("type", StringNode("refusal"), "refusal", StringNode(a.Refusal)))
	}
	var output []Node
	if len(content) > 0 {
		output = append(output, ObjectNode("type", StringNode("message"), "id", StringNode("msg_"+a.ID), "status", StringNode("completed"),
			"role", StringNode("assistant"), "content", ArrayNode(content...)))
	}
	for _, c := range a.Calls {
		output = append(output, ObjectNode("type", StringNode("function_call"), "id", StringNode("fc_"+c.Item), "call_id", StringNode(c.ID),
			"status", StringNode("completed"), "name", StringNode(c.Name), "arguments", StringNode(string(c.Args))))
	}
	usage := ObjectNode("input_tokens", numberNode(a.InputTokens), "output_tokens", numberNode(a.OutputTokens), "total_tokens", numberNode(a.InputTokens+a.OutputTokens))
	body := ObjectNode("id", StringNode("resp_"+a.ID), "object", StringNode("response"), "created_at", numberNode(0), "status", StringNode("completed"),
		"model", StringNode(a.Model), "output", ArrayNode(output...))
	if a.Echo {
		usage.Set("input_tokens_details", ObjectNode("cached_tokens", numberNode(0)))
		usage.Set("output_tokens_details", ObjectNode("reasoning_tokens", numberNode(0)))
		for _, name := range []string{"error", "incomplete_details", "instructions"} {
			body.Set(name, NullNode)
		}
		body.Set("metadata", ObjectNode())
		body.Set("parallel_tool_calls", Node{Kind: 't'})
		body.Set("tool_choice", StringNode("auto"))
		body.Set("tools", ArrayNode())
	}
	body.Set("usage", usage)
	return body, nil
}

func (responses) usage(c *counter, usage *Node) Usage {
	cached := c.at(usage, "input_tokens_details", "cached_tokens")
	return Usage{
		OutputTokens:    c.at(usage, "output_tokens"),
		InputTokens:     c.at(usage, "input_tokens") - cached,
		CacheReadTokens: cached,
		ReasoningTokens: c.at(usage, "output_tokens_details", "reasoning_tokens"),
	}
}

func (responses) ends(chunk string) bool {
	return strings.Contains(chunk, "response.completed") || strings.Contains(chunk, "response.incomplete") || strings.Contains(chunk, "response.failed")
}

// assemble takes the body from the event that ends a stream: it repeats the
// whole response.
func (responses) assemble(events []Event, _ bool) (*Node, error) {
	for i := range events {
		data := &events[i].Data
		switch kind := data.Str("type"); kind {
		case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
			if r := data.Get("response"); r != nil && r.Kind == '{' {
				return r, nil
			}
			return nil, brokenStream(OpenAIResponses, "%s has no response", kind)
		case "error":
			return nil, brokenStream(OpenAIResponses, "it reports an error: %s", Head(string(data.AppendJSON(nil))))
		}
	}
	return nil, brokenStream(OpenAIResponses, "it ends before response.completed")
}

// A responseWriter numbers the events of openai.responses.
type responseWriter struct {
	*eventWriter
	sequence int
}

func number(i int) Node { return numberNode(int64(i)) }

func (w *responseWriter) event(name string, members ...any) {
	w.eventWriter.event(name, append(members, "sequence_number", number(w.sequence))...)
	w.sequence++
}

// stream writes a body as events.
func (responses) stream(events *eventWriter, body *Node, _ bool) {
	w := &responseWriter{eventWriter: events}
	begun := body.Clone()
	begun.Set("status", StringNode("in_progress"))
	begun.Set("output", ArrayNode())
	if begun.Get("usage") != nil {
		begun.Set("usage", NullNode)
	}
	w.event("response.created", "response", begun)
	w.event("response.in_progress", "response", begun)

	for i, item := range body.Items("output") {
		w.item(i, item)
	}

	name := "response.completed"
	switch body.Str("status") {
	case "incomplete", "failed", "cancelled":
		name = "response." + body.Str("status")
	}
	w.event(name, "response", *body)
}

// item writes one item of the output: opened, filled, done.
func (w *responseWriter) item(at int, item Node) {
	opened := item.Clone()
	if opened.Get("status") != nil {
		opened.Set("status", StringNode("in_progress"))
	}
	place := []any{"output_index", number(at), "item_id", StringNode(item.Str("id"))}
	switch item.Str("type") {
	case "message":
		opened.Set("content", ArrayNode())
		w.event("response.output_item.added", "output_index", number(at), "item", opened)
		for i, part := range item.Items("content") {
			w.part(append(place[:4:4], "content_index", number(i)), part)
		}
	case "function_call", "mcp_call":
		opened.Set("arguments", StringNode(""))
		w.event("response.output_item.added", "output_index", number(at), "item", opened)
		prefix := "response." + item.Str("type") + "_arguments"
		w.event(prefix+".delta", append(place[:4:4], "delta", StringNode(item.Str("arguments")))...)
		w.event(prefix+".done", append(place[:4:4], "arguments", StringNode(item.Str("arguments")), "name", StringNode(item.Str("name")))...)
	case "reasoning":
		opened.Set("summary", ArrayNode())
		w.event("response.output_item.added", "output_index", number(at), "item", opened)
		for i, part := range item.Items("summary") {
			w.summary(append(place[:4:4], "summary_index", number(i)), part)
		}
	default:
		w.event("response.output_item.added", "output_index", number(at), "item", opened)
	}
	w.event("response.output_item.done", "output_index", number(at), "item", item)
}

// part writes one part of a message's content.
func (w *responseWriter) part(place []any, part Node) {
	field, prefix := "text", "response.output_text"
	if part.Str("type") == "refusal" {
		field, prefix = "refusal", "response.refusal"
	}
	with := func(more ...any) []any { return append(place[:len(place):len(place)], more...) }

	opened := part.Clone()
	if opened.Get(field) != nil {
		opened.Set(field, StringNode(""))
	}
	w.event("response.content_part.added", with("part", opened)...)
	if text := part.Get(field); text != nil && text.Kind == '"' {
		w.event(prefix+".delta", with("delta", *text)...)
		w.event(prefix+".done", with(field, *text)...)
	}
	w.event("response.content_part.done", with("part", part)...)
}

// summary writes one part of a summary of reasoning.
func (w *responseWriter) summary(place []any, part Node) {
	with := func(more ...any) []any { return append(place[:len(place):len(place)], more...) }
	opened := part.Clone()
	opened.Set("text", StringNode(""))
	w.event("response.reasoning_summary_part.added", with("part", opened)...)
	w.event("response.reasoning_summary_text.delta", with("delta", StringNode(part.Str("text")))...)
	w.event("response.reasoning_summary_text.done", with("text", StringNode(part.Str("text")))...)
	w.event("response.reasoning_summary_part.done", with("part", part)...)
}
