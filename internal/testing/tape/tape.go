// Package tape makes cassettes of YAML that tests write: a request, and the reply
// that no model would give.
//
// A model's reply is one of message, which is short and compiled into a body of its
// API, and body, stream and raw, which say exactly what goes over the wire. Requests
// become canonical as in a recording; replies stay as they are written.
package tape

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/strictyaml"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/wire"
)

type file struct {
	Format       string        `json:"format"`
	Interactions []interaction `json:"interactions"`
}

type interaction struct {
	Model     *model             `json:"model,omitempty"`
	Tool      *tool              `json:"tool,omitempty"`
	MCP       *cassette.Exchange `json:"mcp,omitempty"`
	LatencyMS int64              `json:"latency_ms,omitempty"`
}

type model struct {
	API              wire.API         `json:"api"`
	Request          canon.RawMessage `json:"request"`
	Reply            reply            `json:"reply"`
	CostMicrodollars *int64           `json:"cost_microdollars,omitempty"`
}

type reply struct {
	Status  int64             `json:"status,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Message *message          `json:"message,omitempty"`
	Usage   *wire.Usage       `json:"usage,omitempty"` // of a message
	Body    canon.RawMessage  `json:"body,omitempty"`
	Stream  []string          `json:"stream,omitempty"` // the blank line that ends an event may be left out
	Raw     string            `json:"raw,omitempty"`
}

type tool struct {
	Name      string            `json:"name"`
	Arguments canon.RawMessage  `json:"arguments,omitempty"`
	Result    *canon.RawMessage `json:"result,omitempty"` // a pointer, since {} is a result
	Error     string            `json:"error,omitempty"`
}

type message struct {
	Text      string `json:"text,omitempty"`
	ToolCalls []struct {
		Name      string           `json:"name"`
		Arguments canon.RawMessage `json:"arguments,omitempty"`
	} `json:"tool_calls,omitempty"`
}

// FromYAML compiles a tape. Its provenance is authored.
func FromYAML(name string, text []byte) (*cassette.Cassette, error) {
	var f file
	rules := strictyaml.Rules{MaxMarks: 1 << 20, PlainDigits: true}
	if _, err := strictyaml.Decode(name, text, rules, &f); err != nil {
		return nil, err
	}
	if f.Format != cassette.Format {
		return nil, fmt.Errorf("%s: found the format %q, expected %s", name, f.Format, cassette.Format)
	}
	interactions := make([]cassette.Interaction, len(f.Interactions))
	for i, it := range f.Interactions {
		compiled, err := it.compile(i + 1)
		if err != nil {
			return nil, fmt.Errorf("%s: interaction %d: %w", name, i+1, err)
		}
		interactions[i] = compiled
	}
	return cassette.New(cassette.Authored, nil, 0, interactions)
}

// compile makes the interaction; number is unique in the file and makes the ids of
// short replies so.
func (it *interaction) compile(number int) (out cassette.Interaction, err error) {
	out = cassette.Interaction{LatencyMS: it.LatencyMS, MCP: it.MCP}
	var request cassette.Request
	switch {
	case it.Model != nil:
		out.Model, err = it.Model.compile(number)
	case it.Tool != nil:
		request, err = cassette.ToolRequest(it.Tool.Name, it.Tool.Arguments, nil)
		out.Tool = &cassette.ToolCall{Name: it.Tool.Name, Arguments: request.Canonical(), Error: it.Tool.Error}
		if it.Tool.Result != nil {
			out.Tool.Result = *it.Tool.Result
		}
	case it.MCP != nil:
		request, err = cassette.MCPRequest(it.MCP.Server, it.MCP.Method, it.MCP.Params, nil)
		out.MCP.Params = request.Canonical()
	default:
		err = errors.New("found none of model, tool and mcp")
	}
	return out, err
}

func (m *model) compile(number int) (*cassette.ModelCall, error) {
	if !m.API.Known() {
		return nil, fmt.Errorf("found the API %q, expected %s", m.API, wire.Expected())
	}
	request, err := cassette.ModelRequest(m.API, m.Request, nil)
	if err != nil {
		return nil, err
	}
	r := m.Reply
	response := cassette.Response{Status: r.Status, Headers: r.Headers, Body: r.Body, Text: r.Raw}
	if response.Status == 0 {
		response.Status = 200
	}
	for _, event := range r.Stream {
		response.Stream = append(response.Stream, strings.TrimRight(event, "\n")+"\n\n")
	}
	if r.Message != nil {
		if response.Body, err = r.body(m.API, request.Model, number); err != nil {
			return nil, err
		}
	}
	usage, err := usageOf(m.API, &response)
	if err != nil {
		return nil, err
	}
	return &cassette.ModelCall{API: m.API, CostMicrodollars: m.CostMicrodollars, Request: request.Canonical(), Response: response, Usage: usage}, nil
}

// body compiles a short reply.
func (r *reply) body(api wire.API, model string, number int) ([]byte, error) {
	a := wire.Answer{ID: "authored" + strconv.Itoa(number), Model: model, Text: r.Message.Text, Echo: true}
	if r.Usage != nil {
		a.InputTokens, a.OutputTokens = r.Usage.InputTokens, r.Usage.OutputTokens
	}
	for i, c := range r.Message.ToolCalls {
		id := fmt.Sprintf("%s%c", a.ID, 'a'+rune(i))
		call := wire.AnswerCall{Call: wire.Call{ID: api.CallID(id), Name: c.Name, Args: []byte("{}")}, Item: id}
		if c.Arguments != nil {
			call.Args = c.Arguments
		}
		a.Calls = append(a.Calls, call)
	}
	return wire.Body(api, &a)
}

// usageOf takes the tokens from the reply as it will go over the wire.
func usageOf(api wire.API, r *cassette.Response) (wire.Usage, error) {
	switch {
	case r.Stream != nil:
		whole, err := wire.Assemble(api, r.Stream)
		if err != nil {
			whole = wire.PartialUsage(api, r.Stream) // a broken stream is a fair thing to write
		}
		return wire.UsageOf(api, whole)
	case r.Body != nil:
		body := wire.ParseCanonical(string(r.Body))
		return wire.UsageOf(api, &body)
	}
	return wire.Usage{}, nil
}
