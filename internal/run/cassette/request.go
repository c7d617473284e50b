package cassette

import (
	"crypto/sha256"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/plain"
	"tallystick/internal/run/wire"
)

// A Request is a request in canonical form, ready to be looked up. Make one
// with [ModelRequest], [ToolRequest], [MCPRequest] or [HTTPRequest].
type Request struct {
	// Key is the SHA-256 that recordings of this request have.
	Key digest.ID
	// Model and Messages describe a model request: its name, and how many
	// messages it has.
	Model    string
	Messages int

	it         Interaction // holds the canonical request and no reply
	redactions int64
}

// Canonical returns the canonical JSON of a model request, of the arguments of
// a tool, or of the params of an MCP request, nil if it has none. It must not
// be changed.
func (r Request) Canonical() []byte {
	switch {
	case r.it.Model != nil:
		return r.it.Model.Request
	case r.it.Tool != nil:
		return r.it.Tool.Arguments
	case r.it.MCP != nil:
		return r.it.MCP.Params
	case r.it.HTTP != nil:
		return r.it.HTTP.Request
	}
	return nil
}

// Call is a model request as a call without its reply, nil if it is another request. It
// must not be changed.
func (r Request) Call() *ModelCall { return r.it.Model }

// Describe names the request for a message, safe to print.
func (r Request) Describe() string { return plain.Line(r.it.Describe()) }

// ModelRequest brings the JSON body of a model call into canonical form:
// secrets removed, irrelevant fields and nulls dropped, ids renumbered,
// canonical spelling. Applying it to its own result changes nothing.
//
// R knows secrets that cannot be told by their shape; it may be nil. A replay
// must be given the same secrets as the recording if they occur in requests.
func ModelRequest(api wire.API, body []byte, r *Redactor) (Request, error) {
	if !api.Known() {
		return Request{}, malformed("the API %.40q is unknown, expected %s", api, wire.Expected())
	}
	n, err := wire.ParseNode(body)
	if err != nil {
		return Request{}, requestError("the request to "+string(api), err)
	}
	if n.Kind != '{' {
		return Request{}, malformed("the request to %s is not a JSON object", api)
	}
	redactions, renamed := r.tree(&n)
	wire.Canonicalize(api, &n)

	if renamed { // and no longer in order
		text, err := n.Canonical()
		if err != nil {
			return Request{}, requestError("the request to "+string(api), err)
		}
		n = wire.ParseCanonical(string(text))
	}
	// The request is written where its key is computed: one copy for both.
	hashed := beginModelKey(make([]byte, 0, len(body)+64), api)
	start := len(hashed)
	hashed = n.AppendJSON(hashed)
	end := len(hashed)
	return Request{
		Key:        sha256.Sum256(append(hashed, '}')),
		Model:      n.Str("model"),
		Messages:   wire.CountMessages(api, &n),
		it:         Interaction{Model: &ModelCall{API: api, Request: hashed[start:end:end]}},
		redactions: redactions,
	}, nil
}

// ToolRequest brings a tool call into canonical form. No arguments at all are
// the same as an empty object.
func ToolRequest(name string, arguments []byte, r *Redactor) (Request, error) {
	if err := validateName("the tool's name", name); err != nil {
		return Request{}, err
	}
	if len(arguments) == 0 {
		arguments = []byte("{}")
	}
	text, count, err := r.document(arguments)
	if err != nil {
		return Request{}, requestError("the arguments of the tool", err)
	}
	name, n := r.Text(name)
	return Request{
		Key:        toolKey(name, text),
		it:         Interaction{Tool: &ToolCall{Name: name, Arguments: text}},
		redactions: count + int64(n),
	}, nil
}

// MCPRequest brings an MCP request, or a notification of the client, into
// canonical form. Its id does not count, nor does params._meta, nor the
// clientInfo of initialize. Params may be nil.
func MCPRequest(server, method string, params []byte, r *Redactor) (Request, error) {
	if err := validateName("the server's name", server); err != nil {
		return Request{}, err
	}
	if err := validateName("the method", method); err != nil {
		return Request{}, err
	}
	var text []byte
	var count int64
	if len(params) > 0 {
		n, err := wire.ParseNode(params)
		if err != nil {
			return Request{}, requestError("the params of "+wire.Head(method), err)
		}
		n.Drop(func(name string, _ *wire.Node) bool {
			return name == "_meta" || method == "initialize" && name == "clientInfo"
		})
		count, _ = r.tree(&n)
		if text, err = n.Canonical(); err != nil {
			return Request{}, requestError("the params of "+wire.Head(method), err)
		}
		if string(text) == "{}" { // the same as none
			text = nil
		}
	}
	server, inServer := r.Text(server)
	method, inMethod := r.Text(method)
	return Request{
		Key:        mcpKey(server, method, text),
		it:         Interaction{MCP: &Exchange{Server: server, Method: method, Params: text}},
		redactions: count + int64(inServer) + int64(inMethod),
	}, nil
}

func requestError(what string, err error) error {
	return malformed("%s: %w", what, err).WithHint("the caller sent something that is not JSON as this program accepts it; see docs/formats/canonical-json.md")
}

// The keys hash canonical JSON that also names the kind and the API, so that
// no two kinds of request share a key.

func modelKey(api wire.API, request []byte) digest.ID {
	h := beginModelKey(make([]byte, 0, len(request)+64), api)
	return sha256.Sum256(append(append(h, request...), '}'))
}

func beginModelKey(h []byte, api wire.API) []byte {
	h = append(h, `{"api":"`...)
	h = append(h, api...) // a known word, or the key does not matter
	return append(h, `","kind":"model","request":`...)
}

func toolKey(name string, arguments []byte) digest.ID {
	h := append([]byte(`{"arguments":`), arguments...)
	h = append(h, `,"kind":"tool","name":`...)
	return sha256.Sum256(append(canon.AppendString(h, name), '}'))
}

func mcpKey(server, method string, params []byte) digest.ID {
	h := canon.AppendString([]byte(`{"kind":"mcp","method":`), method)
	if len(params) > 0 {
		h = append(append(h, `,"params":`...), params...)
	}
	return sha256.Sum256(append(canon.AppendString(append(h, `,"server":`...), server), '}'))
}
