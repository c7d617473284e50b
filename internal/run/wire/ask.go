package wire

import (
	"strings"

	"tallystick/internal/record/canon"
)

// Requests are written straight into canonical JSON, names in order, because a
// cassette matches the canonical request: it finds nothing to rearrange. Each
// message is encoded once and joined into every request that has it.

// A Tool is a tool as a model is told about it. The schema is a JSON object in
// canonical spelling.
type Tool struct {
	Name, Description string
	Schema            []byte
}

// Options are what stays the same in all requests of one caller.
type Options struct {
	Model       string
	MaxOutput   int64  // tokens; 0 leaves it to the server, see [API.WantsMaxOutput]
	Temperature []byte // canonical JSON, or nothing

	// Shape asks for a reply in the shape of a schema, by the means that the
	// API has for it; see [API.ShapedByTool].
	Shape *Tool
}

// An Envelope is everything of a request but system text, messages and tools:
// the bytes that stand around them.
type Envelope struct {
	api API

	// The request is head, [system,] messages, middle, [system,] tail, tools, }.
	head, middle, tail []byte
	systemInList       bool // system text is the first message
}

// NewEnvelope encodes what stays the same. The API must be known.
func NewEnvelope(api API, o Options) Envelope {
	e := api.must().envelope(o)
	e.api = api
	return e
}

// WantsMaxOutput reports whether a request must say how long the reply may be.
func (a API) WantsMaxOutput() bool { return a.must().wantsMaxOutput }

// ShapedByTool reports whether [Options.Shape] is asked for as the one tool
// that the model may call, and the reply is that call.
func (a API) ShapedByTool() bool { return a.must().shapedByTool }

// System encodes the system text where the API has it. No text is nothing.
func (e *Envelope) System(text string) []byte {
	if text == "" {
		return nil
	}
	return e.api.must().system(text)
}

// Size is how many bytes the envelope itself takes of a request.
func (e *Envelope) Size() int { return len(e.head) + len(e.middle) + len(e.tail) + 1 }

// Request joins a request. System comes from [Envelope.System]; messages are
// encoded lists of messages, of which none is empty; tools come from
// [API.Tools].
func (e *Envelope) Request(system []byte, messages [][]byte, tools []byte) []byte {
	size := e.Size() + len(system) + len(tools) + len(messages)
	for _, m := range messages {
		size += len(m)
	}
	b := append(make([]byte, 0, size+1), e.head...)
	if e.systemInList && system != nil {
		b = append(append(b, system...), ',')
	}
	for i, m := range messages {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, m...)
	}
	b = append(b, e.middle...)
	if !e.systemInList {
		b = append(b, system...)
	}
	b = append(append(b, e.tail...), tools...)
	return append(b, '}')
}

// User encodes what the user says.
func (a API) User(text string) []byte { return a.must().user(text) }

// roleMessage encodes a message as most APIs have it.
func roleMessage(role, text string) []byte {
	b := appendMember([]byte("{"), "content", text)
	return append(appendMember(b, "role", role), '}')
}

// Say encodes a reply of the model for the requests that follow it, as one or
// more elements of the list of messages. An empty text adds no element.
func (a API) Say(text string, calls []Call) []byte {
	if text == "" && len(calls) == 0 {
		return nil
	}
	return a.must().say(text, calls)
}

// Results encodes the results of one reply's calls, in their order: of each its
// ID, Name, Text and IsError.
func (a API) Results(results []Result) []byte { return a.must().results(results) }

// Tools encodes the member of the request that lists the tools, with the comma
// before it; nothing, if there are none.
func (a API) Tools(tools []Tool) []byte {
	if len(tools) == 0 {
		return nil
	}
	d := a.must()
	open, end := `,"tools":[`, `]`
	if d.toolOwner != "" {
		open, end = `,"`+d.toolOwner+`":{"tools":[`, `]}`
	}
	if d.toolGroup != "" {
		open, end = open+`{"`+d.toolGroup+`":[`, `]}]`
	}
	var b []byte
	for i, t := range tools {
		b = d.tool(append(b, separator(i, open)...), t)
	}
	return append(b, end...)
}

// separator is what stands before element i of a list that opens so.
func separator(i int, open string) string {
	if i == 0 {
		return open
	}
	return ","
}

// appendMember writes "name":"text", with a comma before it unless one is
// there or the object has just been opened.
func appendMember(b []byte, name, text string) []byte {
	return canon.AppendString(appendName(b, name), text)
}

// appendRaw is appendMember for a value in canonical JSON.
func appendRaw(b []byte, name string, value []byte) []byte {
	return append(appendName(b, name), value...)
}

func appendName(b []byte, name string) []byte {
	if len(b) > 0 {
		if last := b[len(b)-1]; last != '{' && last != ',' {
			b = append(b, ',')
		}
	}
	return append(append(append(b, '"'), name...), '"', ':')
}

// ArgumentsObject returns the canonical form of arguments that are a JSON
// object. Nothing at all is the empty object, as models write it.
func ArgumentsObject(args []byte) ([]byte, bool) {
	if len(strings.TrimSpace(string(args))) == 0 {
		return []byte("{}"), true
	}
	text, err := canon.Canonicalize(args)
	if err != nil || text[0] != '{' {
		return nil, false
	}
	return text, true
}

func appendTemperature(b []byte, o Options) []byte {
	if o.Temperature == nil {
		return b
	}
	return append(append(b, `,"temperature":`...), o.Temperature...)
}
