// Package wire knows the model APIs: how a request, a reply, a stream and an
// error look in each of them, and how they are told apart.
//
// One file holds one API ([OpenAIChat], [OpenAIResponses],
// [AnthropicMessages]), and one row of the table below names it. Everything
// else in this program works with what an API says, not with how it says it: a
// [Reply] has texts and calls, a [Request] has messages, an [Envelope] makes a
// request, an [Answer] makes a reply, and [BodyOfStream] and [StreamOfBody]
// turn streams into bodies and back. [ToolsOf] lists the tools that a
// conversation has called and what came of them.
//
// Bodies are trees of [Node] and not Go structs: a provider adds fields at any
// time, and one that nobody here has heard of must survive, and must count for
// the match key of a recording.
//
// The package is pure: bytes in, bytes out. It believes nothing that it reads:
// whatever the bytes are, it returns what they say or an error. It does not
// decide what is recorded, allowed or true.
//
// Adding an API takes one file with a type that implements dialect, and one
// row. The table is closed: what can be recorded, replayed and judged is part
// of what a ledger attests.
package wire

import (
	"strings"

	"tallystick/internal/refusal"
)

// An API is the wire protocol of a model call.
type API string

// The APIs that this program speaks.
const (
	OpenAIChat        API = "openai.chat"
	OpenAIResponses   API = "openai.responses"
	AnthropicMessages API = "anthropic.messages"
)

// A row is one API.
type row struct {
	api       API
	path      string // of a call, with the version in front
	countPath string // where tokens are counted; "" if the API has none
	provider  *Provider
	dialect   dialect

	wantsMaxOutput bool // a request without a limit of output tokens is refused
	shapedByTool   bool // a reply of a fixed shape is the call of a tool
}

// table has the APIs in the order in which messages list them. The first is
// what is taken for granted where nothing tells.
var table = []row{
	{api: OpenAIChat, path: "/v1/chat/completions", provider: &openAI, dialect: chat{}},
	{api: OpenAIResponses, path: "/v1/responses", provider: &openAI, dialect: responses{}},
	{api: AnthropicMessages, path: "/v1/messages", countPath: "/v1/messages/count_tokens", provider: &anthropic, dialect: messages{},
		wantsMaxOutput: true, shapedByTool: true},
}

// A dialect is how one API says things. Trees that it is given are its own to
// change.
type dialect interface {
	// Requests, as clients send them.
	recognises(request *Node) bool
	irrelevant() []string               // members that do not change what a model answers
	strip(request *Node)                // what else does not, deeper inside
	visitIDs(n *Node, f func(id *Node)) // of every string that stands where an id stands
	idPrefixes() []string               // of ids that are drawn at random
	request(n *Node) Request
	delivery(body []byte) (Delivery, error)

	// Requests, as we make them.
	envelope(Options) Envelope
	system(text string) []byte
	say(text string, calls []Call) []byte
	results([]Result) []byte
	tool(b []byte, t Tool) []byte

	// Replies.
	reply(body *Node) (Reply, error)
	answer(*Answer) (Node, error)
	callPrefix() string
	usage(c *counter, usage *Node) Usage

	// Streams.
	assemble(events []Event, done bool) (*Node, error)
	stream(w *eventWriter, body *Node, includeUsage bool)
	ends(chunk string) bool // a client may take this event for the end
}

func (a API) row() *row {
	for i := range table {
		if table[i].api == a {
			return &table[i]
		}
	}
	return nil
}

// dialect returns how an API says things, or an error that lists those that are
// known.
func (a API) dialect() (dialect, error) {
	if r := a.row(); r != nil {
		return r.dialect, nil
	}
	return nil, malformed("the API %.40q is unknown, expected %s", a, Expected())
}

// must is for callers that have checked [API.Known].
func (a API) must() dialect {
	d, err := a.dialect()
	if err != nil {
		panic("wire: " + err.Error())
	}
	return d
}

// Known reports whether this program speaks the API.
func (a API) Known() bool { return a.row() != nil }

// APIs lists the APIs that this program speaks.
func APIs() []API {
	list := make([]API, len(table))
	for i := range table {
		list[i] = table[i].api
	}
	return list
}

// Expected names the APIs for a message, as in "a, b or c".
func Expected() string {
	names := make([]string, len(table))
	for i := range table {
		names[i] = string(table[i].api)
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// Provider is whose API it is. The API must be known.
func (a API) Provider() *Provider { return a.row().provider }

// URL is where a call goes at a base URL, such as that of [Provider.BaseURL].
// The API must be known.
func (a API) URL(base string) string {
	r := a.row()
	return base + strings.TrimPrefix(r.path, r.provider.BasePath)
}

// A Route is what a path stands for.
type Route struct {
	API         API
	CountTokens bool // not a call: the tokens of one are to be counted
}

// RouteOf finds the API that has a path, as in /v1/messages.
func RouteOf(path string) (Route, bool) {
	for i := range table {
		switch r := &table[i]; path {
		case r.path:
			return Route{API: r.api}, true
		case r.countPath:
			return Route{API: r.api, CountTokens: true}, true
		}
	}
	return Route{}, false
}

// Paths lists where calls go.
func Paths() []string {
	list := make([]string, len(table))
	for i := range table {
		list[i] = table[i].path
	}
	return list
}

// Recognise finds the API of a request in canonical JSON by its shape, among
// those of a provider if its name is known. What has the shape of none is taken
// for the first.
func Recognise(provider string, request []byte) (API, error) {
	n, err := ParseNode(request)
	if err != nil {
		return "", err
	}
	first := API("")
	for _, known := range []bool{true, false} {
		for i := range table {
			r := &table[i]
			if known && r.provider.Name != provider {
				continue
			}
			if first == "" {
				first = r.api
			}
			if r.dialect.recognises(&n) {
				return r.api, nil
			}
		}
		if known && first != "" {
			break
		}
	}
	return first, nil
}

// malformed refuses what is not in the form of its API.
func malformed(format string, args ...any) *refusal.Error {
	return refusal.Newf(refusal.Malformed, format, args...).
		WithHint("whoever wrote this did not keep to the form of the API; docs/formats/cassette.md says what is read")
}
