package cassette

import (
	"maps"

	"tallystick/internal/run/wire"
)

// A Reply is what goes back to the client of a model call.
type Reply struct {
	Status  int
	Headers map[string]string
	Body    []byte   // unless the reply is a stream
	Stream  []string // server-sent events to be written and flushed one by one
}

// Answered reports whether the reply is one that a client could use: it is not an error
// of the provider, and not a stream that broke off.
func (m *ModelCall) Answered() bool {
	if m.Response.Status >= 400 {
		return false
	}
	if m.Response.Stream == nil {
		return m.Response.Body != nil
	}
	_, err := wire.BodyOfStream(m.API, m.Response.Stream)
	return err == nil
}

// Reply gives the recorded response in the form that the client asked for. A
// response in that form already is exactly what was recorded: chunks byte for
// byte, a body in canonical spelling. Otherwise it is converted: see
// [wire.BodyOfStream] and
// [wire.StreamOfBody]. An error response, or one that is neither
// JSON nor a stream, is never converted.
func (m *ModelCall) Reply(o wire.Delivery) (Reply, error) {
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
		body, err := wire.BodyOfStream(m.API, r.Stream)
		reply.Body = body
		reply.Headers["content-type"] = "application/json"
		return reply, err
	case r.Body != nil && o.Stream && r.Status >= 200 && r.Status < 300:
		chunks, err := wire.StreamOfBody(m.API, r.Body, o.IncludeUsage)
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
