// Package wire knows the model APIs: how a request, a reply, a stream and an
// error look in each of them, and how they are told apart.
//
// One file holds one API ([OpenAIChat], [OpenAIResponses],
// [AnthropicMessages], [GeminiGenerate], [BedrockConverse], those of Azure), and
// one row of the table below names it; the APIs that give vectors ([Embeddings],
// [GeminiEmbed]) stand apart, because they are not conversations. Everything
// else in this program works with what an API says, not with how it says it: a
// [Reply] has texts and calls, a [Request] has messages, an [Envelope] makes a
// request, an [Answer] makes a reply, and [BodyOfStream] and [StreamOfBody]
// turn streams into bodies and back. [ToolsOf] lists the tools that a
// conversation has called and what came of them.
//
// Bodies are trees of [Node] and not Go structs: a provider adds fields at any
// time, and an unknown one must survive, and must count for
// the match key of a recording.
//
// The package is pure: bytes in, bytes out. It believes nothing that it reads:
// whatever the bytes are, it returns what they say or an error. It does not
// decide what is recorded, allowed or true.
//
// Adding an API takes one file with a type that implements dialect, and one
// row. The table is closed: what can be recorded, replayed and judged is part
// of what a ledger attests. What the APIs have in common is not in the table:
// a call is JSON in a POST, and streams are server-sent events inside this
// program; [Framing] has the other forms in which they come and go. A request inside
// this program names its model in "model": where an API has the model in the
// path, [Route.Request] writes it there on the way in, and [API.Outgoing] takes
// it out again before a request is sent to a provider.
package wire

import (
	"slices"
	"strings"

	"tallystick/internal/record/refusal"
)

// An API is the wire protocol of a model call.
type API string

// The APIs that this program speaks.
const (
	OpenAIChat        API = "openai.chat"
	OpenAIResponses   API = "openai.responses"
	AnthropicMessages API = "anthropic.messages"
	GeminiGenerate    API = "gemini.generate"
	AzureChat         API = "azure.chat"
	AzureResponses    API = "azure.responses"
	BedrockConverse   API = "bedrock.converse"
)

// A row is one API: what is the same for all of its messages, and its dialect.
type row struct {
	api      API
	provider *Provider

	// Where calls go, with the version in front. {model} stands for the name of
	// the model, in an API that has it in the path and not in the body. Such an
	// API has streams at a path of their own; others have one path for both.
	path       string
	streamPath string // "" if the request says whether the reply is streamed
	streamArgs string // the query with which streamPath gives server-sent events
	countPath  string // where tokens are counted; "" if the API has none
	countName  string // the member of a reply that is their number

	batchPath      string  // where a request goes that has batchName; "" if there is none
	batchName      string  // the member that only such a request has
	deploymentPath string  // an older place of the same calls, most often with the name of a deployment in it
	barePath       string  // deploymentPath as a client has it whose base URL is that of another provider
	onDeployments  API     // the API that a request means which names a version in its query; "" for none
	modelBytes     string  // what a model's name in the path may hold besides letters, digits, dots, dashes and underscores
	framing        Framing // of the streams

	usageName string // the member of a reply that has the counts of tokens; "" is usage
	modelName string // the member of a reply that names the model; "" is model

	// The members of the counts without which what a call cost is not known: the
	// tokens that went in, and those that came out.
	inName, outName string

	list         string      // the member of a request that holds its messages
	instructions []string    // members that hold the system text, besides system and instructions
	notTexts     []string    // members of messages, besides the usual, that hold names or bytes and not words
	irrelevant   []string    // members that do not change what a model answers
	strip        func(*Node) // takes out of a request what else does not; may be nil
	// parallel finds the calls and results of a request that stand side by side;
	// nil if an order of them always means something.
	parallel       func(*Node) (calls, results []parallel)
	words          []string           // members, at any depth of the messages, that hold what is said
	elsewhere      func(m *Node) bool // a member names content that is not in the request; nil: anything may
	idPrefixes     []string           // of ids that are drawn at random
	callPrefix     string             // of the ids of calls
	wantsMaxOutput bool               // a request without a limit of output tokens is refused
	shapedByTool   bool               // a reply of a fixed shape is the call of a tool
	toolGroup      string             // the member that holds the definitions inside each element of tools; "" if they are the elements
	toolOwner      string             // the member that has tools in it; "" if the request has

	dialect
}

// table has the APIs in the order in which messages list them. The first is
// what is taken for granted where nothing tells.
var table = []*row{&chatRow, &responsesRow, &messagesRow, &geminiRow, &azureChatRow, &azureResponsesRow, &bedrockRow}

// A dialect is how one API says things. Trees that it is given are its own to
// change.
type dialect interface {
	// Requests, as clients send them.
	recognises(request *Node) bool
	ids(request *Node) []*Node // every string that stands where an id stands
	request(n *Node) Request
	delivery(body []byte) (Delivery, error)

	// Requests, as we make them.
	envelope(Options) Envelope
	system(text string) []byte
	user(text string) []byte
	say(text string, calls []Call) []byte
	results([]Result) []byte
	tool(b []byte, t Tool) []byte

	// Replies.
	reply(body *Node) (Reply, error)
	answer(*Answer) (Node, error)
	usage(c *counter, usage *Node) Usage

	// Streams.
	assemble(events []Event, done bool) (*Node, error)
	stream(w *eventWriter, body *Node, includeUsage bool)
	ends(chunk string) bool // a client may take this event for the end
}

// rows are all APIs: those of conversations, then the others.
func rows() []*row { return slices.Concat(table, silent) }

// row finds an API in the table. The error lists those that are there.
func (a API) row() (*row, error) {
	for _, list := range [][]*row{table, silent} {
		for _, r := range list {
			if r.api == a {
				return r, nil
			}
		}
	}
	return nil, malformed("the API %.40q is unknown, expected %s", a, Expected())
}

// must is for callers that have checked [API.Known].
func (a API) must() *row {
	r, err := a.row()
	if err != nil {
		panic("wire: " + err.Error())
	}
	return r
}

// Known reports whether this program speaks the API.
func (a API) Known() bool {
	_, err := a.row()
	return err == nil
}

// APIs lists the APIs in which one converses.
func APIs() []API {
	list := make([]API, len(table))
	for i, r := range table {
		list[i] = r.api
	}
	return list
}

// Expected names the APIs for a message, as in "a, b or c".
func Expected() string {
	names := make([]string, len(table))
	for i, r := range table {
		names[i] = string(r.api)
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// Provider is whose API it is. The API must be known.
func (a API) Provider() *Provider { return a.must().provider }

// Recognise finds the API of a request in canonical JSON by its shape, among
// those of a provider if its name is known. What has the shape of none is taken
// for the first.
func Recognise(provider string, request []byte) (API, error) {
	n, err := ParseNode(request)
	if err != nil {
		return "", err
	}
	rows := slices.DeleteFunc(slices.Clone(table), func(r *row) bool { return r.provider.Name != provider })
	if len(rows) == 0 {
		rows = table
	}
	for _, r := range rows {
		if r.recognises(&n) {
			return r.api, nil
		}
	}
	return rows[0].api, nil
}

// malformed refuses what is not in the form of its API.
func malformed(format string, args ...any) *refusal.Error {
	return refusal.Newf(refusal.Malformed, format, args...).
		WithHint("the sender did not keep to the form of the API; docs/formats/cassette.md says what is read")
}
