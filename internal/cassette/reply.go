package cassette

import (
	"maps"

	"tallystick/internal/refusal"
)

// A Reply is what goes back to the client of a model call.
type Reply struct {
	Status  int
	Headers map[string]string
	Body    []byte   // unless the reply is a stream
	Stream  []string // server-sent events to be written and flushed one by one
}

// StreamOptions say how a client wants its reply.
type StreamOptions struct {
	Stream bool

	// IncludeUsage asks for the last chunk of openai.chat that carries the
	// usage. It matters only when a recorded body is made into a stream.
	IncludeUsage bool
}

// Reply gives the recorded response in the form that the client asked for. A
// response in that form already is exactly what was recorded: chunks byte for
// byte, a body in canonical spelling. Otherwise it is converted: see
// [BodyOfStream] and [StreamOfBody]. An error response, or one that is neither
// JSON nor a stream, is never converted.
func (m *ModelCall) Reply(o StreamOptions) (Reply, error) {
	r := &m.Response
	reply := Reply{Status: int(r.Status), Headers: maps.Clone(r.Headers)}
	if reply.Headers == nil {
		reply.Headers = map[string]string{}
	}
	switch {
	case r.Stream != nil && o.Stream:
		reply.Stream = r.Stream
		return reply, nil
	case r.Stream != nil:
		body, err := BodyOfStream(m.API, r.Stream)
		reply.Body = body
		reply.Headers["content-type"] = "application/json"
		return reply, err
	case r.Body != nil && o.Stream && r.Status >= 200 && r.Status < 300:
		chunks, err := StreamOfBody(m.API, r.Body, o.IncludeUsage)
		reply.Stream = chunks
		reply.Headers["content-type"] = "text/event-stream; charset=utf-8"
		return reply, err
	case r.Body != nil:
		reply.Body = r.Body
		return reply, nil
	}
	reply.Body = []byte(r.Text)
	return reply, nil
}

// BodyOfStream puts a complete stream together into the body that the same
// call would have had without streaming, in canonical spelling.
//
// It is exact for all three APIs, up to fields that only streams have
// (obfuscation, sequence numbers). A stream that ends early or reports an
// error has no body and is refused.
func BodyOfStream(api API, chunks []string) ([]byte, error) {
	body, err := assemble(api, chunks)
	if err != nil {
		return nil, err
	}
	return body.canonical()
}

// StreamOfBody makes a stream that says the same as a body.
//
// It is exact in one direction: [BodyOfStream] of the result is the body
// again, for every body that has the form of its API. The chunks are not those
// that the provider would have sent: text comes in one piece.
func StreamOfBody(api API, body []byte, includeUsage bool) ([]string, error) {
	n, err := parseNode(body)
	if err != nil {
		return nil, malformed("converting a body of %s into a stream: %w", api, err)
	}
	if n.kind != '{' {
		return nil, malformed("converting a body of %s into a stream: it is not an object", api)
	}
	w := &eventWriter{}
	switch api {
	case OpenAIChat:
		w.chat(&n, includeUsage)
	case OpenAIResponses:
		w.responses(&n)
	case AnthropicMessages:
		w.messages(&n)
	default:
		return nil, malformed("the API %.40q is unknown", api)
	}
	return w.chunks, w.err
}

func assemble(api API, chunks []string) (*node, error) {
	events, done := jsonEvents(chunks)
	switch api {
	case OpenAIChat:
		return assembleChat(events, done)
	case OpenAIResponses:
		return assembleResponses(events)
	case AnthropicMessages:
		return assembleMessages(events)
	}
	return nil, malformed("the API %.40q is unknown", api)
}

func brokenStream(api API, format string, args ...any) error {
	return refusal.Newf(refusal.Malformed, "putting together a stream of "+string(api)+": "+format, args...).
		WithHint("only a client that asks for a stream can be answered with this recording; record the call again for others")
}
