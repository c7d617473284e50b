package cassette

import (
	"crypto/sha256"

	"tallystick/internal/canon"
	"tallystick/internal/digest"
)

// A Request is a request in canonical form, ready to be looked up. Make one
// with [ModelRequest], [ToolRequest] or [MCPRequest].
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
	}
	return nil
}

// Fields of a model request that do not change what a model answers, or say
// only how the answer is delivered. Everything else counts for the match, a
// field that this list has never heard of included.
var irrelevant = map[API][]string{
	OpenAIChat: {"metadata", "prompt_cache_key", "prompt_cache_retention", "safety_identifier",
		"service_tier", "store", "stream", "stream_options", "user"},
	OpenAIResponses: {"metadata", "prompt_cache_key", "prompt_cache_retention", "safety_identifier",
		"service_tier", "store", "stream", "stream_options", "user"},
	AnthropicMessages: {"cache_control", "metadata", "service_tier", "stream"},
}

// ModelRequest brings the JSON body of a model call into canonical form:
// secrets removed, irrelevant fields and nulls dropped, ids renumbered,
// canonical spelling. Applying it to its own result changes nothing.
//
// R knows secrets that cannot be told by their shape; it may be nil. A replay
// must be given the same secrets as the recording if they occur in requests.
func ModelRequest(api API, body []byte, r *Redactor) (Request, error) {
	if !api.known() {
		return Request{}, malformed("the API %.40q is unknown, expected %s, %s or %s", api, OpenAIChat, OpenAIResponses, AnthropicMessages)
	}
	n, err := parseNode(body)
	if err != nil {
		return Request{}, requestError("the request to "+string(api), err)
	}
	if n.kind != '{' {
		return Request{}, malformed("the request to %s is not a JSON object", api)
	}
	redactions, renamed := r.tree(&n)
	canonicalizeModel(api, &n)

	if renamed { // and no longer in order
		text, err := n.canonical()
		if err != nil {
			return Request{}, requestError("the request to "+string(api), err)
		}
		n = parseCanonical(string(text))
	}
	// The request is written where its key is computed: one copy for both.
	hashed := beginModelKey(make([]byte, 0, len(body)+64), api)
	start := len(hashed)
	hashed = n.appendJSON(hashed)
	end := len(hashed)
	return Request{
		Key:        sha256.Sum256(append(hashed, '}')),
		Model:      n.str("model"),
		Messages:   countMessages(&n),
		it:         Interaction{Model: &ModelCall{API: api, Request: hashed[start:end:end]}},
		redactions: redactions,
	}, nil
}

// countMessages counts the messages of a request, which the responses API calls
// input and takes as one text too.
func countMessages(n *node) int {
	if list := n.items("messages"); len(list) > 0 {
		return len(list)
	}
	input := n.get("input")
	switch {
	case input == nil:
		return 0
	case input.kind == '[':
		return len(input.list)
	}
	return 1
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
		n, err := parseNode(params)
		if err != nil {
			return Request{}, requestError("the params of "+head(method), err)
		}
		n.drop(func(name string, _ *node) bool {
			return name == "_meta" || method == "initialize" && name == "clientInfo"
		})
		count, _ = r.tree(&n)
		if text, err = n.canonical(); err != nil {
			return Request{}, requestError("the params of "+head(method), err)
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

func modelKey(api API, request []byte) digest.ID {
	h := beginModelKey(make([]byte, 0, len(request)+64), api)
	return sha256.Sum256(append(append(h, request...), '}'))
}

func beginModelKey(h []byte, api API) []byte {
	h = append(h, `{"api":"`...)
	h = append(h, api...) // one of three known words, or the key does not matter
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

// canonicalizeModel drops what does not count and renumbers ids, in place.
func canonicalizeModel(api API, n *node) {
	list := irrelevant[api]
	n.drop(func(name string, value *node) bool {
		if value.kind == 'n' {
			return true // an SDK spells "not set" either way
		}
		for _, unwanted := range list {
			if name == unwanted {
				return true
			}
		}
		return false
	})
	for _, list := range []string{"messages", "input"} {
		for i := range n.items(list) {
			n.items(list)[i].drop(isNull)
		}
	}
	if api == AnthropicMessages {
		dropCacheControl(n)
	}
	renumber(api, n)
}

func isNull(_ string, value *node) bool { return value.kind == 'n' }

// dropCacheControl removes the marks that place a prompt cache: clients move
// them from turn to turn. Only blocks and tools have them; a member of this
// name in a tool's input or schema is somebody's data.
func dropCacheControl(n *node) {
	mark := func(name string, _ *node) bool { return name == "cache_control" }
	blocks := func(list []node) {
		for i := range list {
			list[i].drop(mark)
		}
	}
	blocks(n.items("system"))
	blocks(n.items("tools"))
	for i := range n.items("messages") {
		content := n.items("messages")[i].items("content")
		blocks(content)
		for j := range content {
			blocks(content[j].items("content"))
		}
	}
}
