package wire

import (
	"cmp"

	"tallystick/internal/record/refusal"
)

// BodyOfStream puts a complete stream together into the body that the same
// call would have had without streaming, in canonical spelling.
//
// It is exact for all APIs, up to fields that only streams have
// (obfuscation, sequence numbers). A stream that ends early or reports an
// error has no body and is refused.
func BodyOfStream(api API, chunks []string) ([]byte, error) {
	body, err := Assemble(api, chunks)
	if err != nil {
		return nil, err
	}
	return body.Canonical()
}

// StreamOfBody makes a stream that says the same as a body.
//
// It is exact in one direction: [BodyOfStream] of the result is the body
// again, for every body that has the form of its API. The chunks are not those
// that the provider would have sent: text comes in one piece.
func StreamOfBody(api API, body []byte, includeUsage bool) ([]string, error) {
	n, err := ParseNode(body)
	if err != nil {
		return nil, malformed("converting a body of %s into a stream: %w", api, err)
	}
	if n.Kind != '{' {
		return nil, malformed("converting a body of %s into a stream: it is not an object", api)
	}
	r, err := api.row()
	if err != nil {
		return nil, err
	}
	w := &eventWriter{}
	r.stream(w, &n, includeUsage)
	return w.chunks, w.err
}

// Assemble is [BodyOfStream] before it is spelled.
func Assemble(api API, chunks []string) (*Node, error) {
	r, err := api.row()
	if err != nil {
		return nil, err
	}
	return r.assemble(JSONEvents(chunks))
}

// EndsStream reports whether a client may take an event for the end of its
// stream. The API must be known.
func EndsStream(api API, chunk string) bool { return api.must().ends(chunk) }

func brokenStream(api API, format string, args ...any) error {
	return refusal.Newf(refusal.Malformed, "putting together a stream of "+string(api)+": "+format, args...).
		WithHint("only a client that asks for a stream can be answered with this recording; record the call again for others")
}

// PartialUsage finds what a broken stream told about usage before it broke: it
// was paid for. The API must be known.
func PartialUsage(api API, chunks []string) *Node {
	r := api.must()
	usage, model := cmp.Or(r.usageName, "usage"), cmp.Or(r.modelName, "model")
	events, _ := JSONEvents(chunks)
	found := ObjectNode()
	for i := range events {
		data := &events[i].Data
		for _, owner := range []*Node{data, data.Get("message"), data.Get("response")} {
			if owner == nil || owner.Kind != '{' {
				continue
			}
			mergeUsage(&found, usage, owner.Get(usage))
			if name := owner.Str(model); name != "" {
				found.Set(model, StringNode(name))
			}
		}
	}
	return &found
}
