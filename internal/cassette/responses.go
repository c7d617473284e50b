package cassette

import "strconv"

// assembleResponses takes the body from the event that ends a stream of
// openai.responses: it repeats the whole response.
func assembleResponses(events []streamEvent) (*node, error) {
	for i := range events {
		data := &events[i].data
		switch kind := data.str("type"); kind {
		case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
			if r := data.get("response"); r != nil && r.kind == '{' {
				return r, nil
			}
			return nil, brokenStream(OpenAIResponses, "%s has no response", kind)
		case "error":
			return nil, brokenStream(OpenAIResponses, "it reports an error: %s", head(string(data.appendJSON(nil))))
		}
	}
	return nil, brokenStream(OpenAIResponses, "it ends before response.completed")
}

// A responseWriter numbers the events of openai.responses.
type responseWriter struct {
	*eventWriter
	sequence int
}

func number(i int) node { return node{kind: '0', text: strconv.Itoa(i)} }

func (w *responseWriter) event(name string, members ...any) {
	w.eventWriter.event(name, append(members, "sequence_number", number(w.sequence))...)
	w.sequence++
}

// responses writes a body of openai.responses as events.
func (ew *eventWriter) responses(body *node) {
	w := &responseWriter{eventWriter: ew}
	begun := body.clone()
	begun.set("status", stringNode("in_progress"))
	begun.set("output", arrayNode())
	if begun.get("usage") != nil {
		begun.set("usage", nullNode)
	}
	w.event("response.created", "response", begun)
	w.event("response.in_progress", "response", begun)

	for i, item := range body.items("output") {
		w.item(i, item)
	}

	name := "response.completed"
	switch body.str("status") {
	case "incomplete", "failed", "cancelled":
		name = "response." + body.str("status")
	}
	w.event(name, "response", *body)
}

// item writes one item of the output: opened, filled, done.
func (w *responseWriter) item(at int, item node) {
	opened := item.clone()
	if opened.get("status") != nil {
		opened.set("status", stringNode("in_progress"))
	}
	place := []any{"output_index", number(at), "item_id", stringNode(item.str("id"))}
	switch item.str("type") {
	case "message":
		opened.set("content", arrayNode())
		w.event("response.output_item.added", "output_index", number(at), "item", opened)
		for i, part := range item.items("content") {
			w.part(append(place[:4:4], "content_index", number(i)), part)
		}
	case "function_call", "mcp_call":
		opened.set("arguments", stringNode(""))
		w.event("response.output_item.added", "output_index", number(at), "item", opened)
		prefix := "response." + item.str("type") + "_arguments"
		w.event(prefix+".delta", append(place[:4:4], "delta", stringNode(item.str("arguments")))...)
		w.event(prefix+".done", append(place[:4:4], "arguments", stringNode(item.str("arguments")), "name", stringNode(item.str("name")))...)
	case "reasoning":
		opened.set("summary", arrayNode())
		w.event("response.output_item.added", "output_index", number(at), "item", opened)
		for i, part := range item.items("summary") {
			w.summary(append(place[:4:4], "summary_index", number(i)), part)
		}
	default:
		w.event("response.output_item.added", "output_index", number(at), "item", opened)
	}
	w.event("response.output_item.done", "output_index", number(at), "item", item)
}

// part writes one part of a message's content.
func (w *responseWriter) part(place []any, part node) {
	field, prefix := "text", "response.output_text"
	if part.str("type") == "refusal" {
		field, prefix = "refusal", "response.refusal"
	}
	with := func(more ...any) []any { return append(place[:len(place):len(place)], more...) }

	opened := part.clone()
	if opened.get(field) != nil {
		opened.set(field, stringNode(""))
	}
	w.event("response.content_part.added", with("part", opened)...)
	if text := part.get(field); text != nil && text.kind == '"' {
		w.event(prefix+".delta", with("delta", *text)...)
		w.event(prefix+".done", with(field, *text)...)
	}
	w.event("response.content_part.done", with("part", part)...)
}

// summary writes one part of a summary of reasoning.
func (w *responseWriter) summary(place []any, part node) {
	with := func(more ...any) []any { return append(place[:len(place):len(place)], more...) }
	opened := part.clone()
	opened.set("text", stringNode(""))
	w.event("response.reasoning_summary_part.added", with("part", opened)...)
	w.event("response.reasoning_summary_text.delta", with("delta", stringNode(part.str("text")))...)
	w.event("response.reasoning_summary_text.done", with("text", stringNode(part.str("text")))...)
	w.event("response.reasoning_summary_part.done", with("part", part)...)
}
