// Package cassette keeps recorded replies of models, tools and MCP servers,
// and finds the one that answers a request.
//
// A [Recorder] takes live traffic, removes secrets, and makes a [Cassette]. A
// [Player] answers requests from one: a request is brought into a canonical
// form ([ModelRequest], [ToolRequest], [MCPRequest]), and the SHA-256 of that,
// with the ordinal among equals, names the recording. No recording means a
// [Miss], which is an error that shows the nearest recording and where it
// differs; nothing here knows of a network to fall back to.
//
// The file is JSON lines in one zstd frame; docs/formats/cassette.md states it
// and lists which fields of a request do not count for the match.
//
// The package is pure: bytes in, bytes out, the same bytes each time. It does
// not say where a cassette comes from. Its provenance is a claim of its header;
// what makes the claim hold is the digest that people signed in the case, and
// the ledger entry of the recording. Secrets are found by their shape, by the
// name of their field, and by being told to the [Redactor]; a secret of no
// known shape in plain prose stays.
package cassette

import (
	"fmt"
	"slices"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/wire"
)

// Format names the format of a cassette.
const Format = "tallystick-cassette/" + format.Version

// A Provenance says how the interactions came to be.
type Provenance string

// The provenances. Only recorded ones say something about a model's ability.
const (
	Recorded Provenance = "recorded" // as a live model and live tools answered
	Edited   Provenance = "edited"   // recorded, then changed by a person
	Authored Provenance = "authored" // written by hand
)

// A Cassette is a header and the interactions in the order of recording. It is
// read only once made: players share it.
type Cassette struct {
	Header       Header
	Interactions []Interaction
}

// A Header is the first line of a cassette. Endpoints, models and totals follow from
// the interactions, and a file in which they do not is refused.
type Header struct {
	Endpoints  []evidence.EndpointUse `json:"endpoints,omitempty"` // that answered model calls
	Format     string                 `json:"format"`
	Models     []string               `json:"models"` // of the requests, sorted
	Provenance Provenance             `json:"provenance"`
	Reached    []evidence.EndpointUse `json:"reached,omitempty"` // that answered HTTP requests of the agent's program
	RecordedAt *evidence.Time         `json:"recorded_at,omitempty"`
	Redactions int64                  `json:"redactions"` // how many markers recording has put in
	Totals     Totals                 `json:"totals"`
}

// Totals sums up the interactions.
type Totals struct {
	CostMicrodollars int64 `json:"cost_microdollars"`
	HTTPExchanges    int64 `json:"http_exchanges,omitempty"`
	MCPExchanges     int64 `json:"mcp_exchanges"`
	ModelCalls       int64 `json:"model_calls"`
	Tokens           int64 `json:"tokens"`
	ToolCalls        int64 `json:"tool_calls"`
	UnpricedCalls    int64 `json:"unpriced_calls"` // model calls whose price or usage was unknown; their cost is not in the sum
}

// An Interaction is one request and its reply. Exactly one of HTTP, MCP, Model and
// Tool is set.
type Interaction struct {
	HTTP      *HTTPExchange `json:"http,omitempty"`
	Key       digest.ID     `json:"key"`
	LatencyMS int64         `json:"latency_ms"`
	MCP       *Exchange     `json:"mcp,omitempty"`
	Model     *ModelCall    `json:"model,omitempty"`
	Ordinal   int64         `json:"ordinal"`           // 0 for the first of those with this key
	Purpose   Purpose       `json:"purpose,omitempty"` // of a model call: judge or user; agent where it looks like a judge's; absent for the agent's
	Tool      *ToolCall     `json:"tool,omitempty"`

	// FromLibrary says that the reply was found in the library of replies, for the
	// event that tells of it. It is in no file.
	FromLibrary bool `json:"-"`
}

// A ModelCall is one call of a model.
type ModelCall struct {
	API wire.API `json:"api"`

	// CostMicrodollars is nil when the price or the usage was not known.
	CostMicrodollars *int64 `json:"cost_microdollars,omitempty"`

	// From is who answered, as the machine that recorded saw the connection. It
	// is nil if no endpoint did, as in a cassette that was written by hand, and
	// in recordings from before endpoints were kept.
	From *evidence.Endpoint `json:"from,omitempty"`

	Request  canon.RawMessage `json:"request"` // canonical, see [ModelRequest]
	Response Response         `json:"response"`
	Said     *Said            `json:"said,omitempty"`
	Usage    wire.Usage       `json:"usage"`
}

// Said is what a provider says of itself in a reply. Nothing here believes it.
type Said struct {
	Model     string `json:"model,omitempty"`      // that answered
	RequestID string `json:"request_id,omitempty"` // by which the provider finds the call again
}

// A Response is a reply over HTTP. Exactly one of Body, Stream and Text is
// set; Text may be empty, and is if nothing else is set.
type Response struct {
	Body    canon.RawMessage  `json:"body,omitempty"`    // a JSON reply, in canonical spelling
	Headers map[string]string `json:"headers,omitempty"` // lower-case names from [KeptHeaders]
	Status  int64             `json:"status"`
	Stream  []string          `json:"stream,omitempty"` // server-sent events, each with the bytes it had, blank line included
	Text    string            `json:"text,omitempty"`   // a reply that is neither
}

// A ToolCall is one call of a tool. Exactly one of Error and Result is set.
type ToolCall struct {
	Arguments canon.RawMessage `json:"arguments"`
	Error     string           `json:"error,omitempty"`
	Name      string           `json:"name"`
	Result    canon.RawMessage `json:"result,omitempty"`
}

// An Exchange is one MCP request and what the server sent for it. Exactly one
// of Error and Result is set, except for a notification of the client (its
// method begins with "notifications/"), which has neither.
type Exchange struct {
	Error         canon.RawMessage   `json:"error,omitempty"` // a JSON-RPC error object
	Method        string             `json:"method"`
	Notifications []canon.RawMessage `json:"notifications,omitempty"` // of the server, before the result, whole messages
	Params        canon.RawMessage   `json:"params,omitempty"`
	Result        canon.RawMessage   `json:"result,omitempty"`
	Server        string             `json:"server"`
}

// New makes a cassette of interactions: it computes keys, ordinals, models and
// totals, and refuses interactions that no file could hold. Interactions is
// changed and kept. A nil recordedAt leaves the time out.
func New(p Provenance, recordedAt *evidence.Time, redactions int64, interactions []Interaction) (*Cassette, error) {
	c := &Cassette{
		Header:       Header{Format: Format, Provenance: p, RecordedAt: recordedAt, Redactions: redactions},
		Interactions: interactions,
	}
	count := map[digest.ID]int64{}
	for i := range interactions {
		it := &interactions[i]
		key, err := it.computeKey()
		if err != nil {
			return nil, fmt.Errorf("interaction %d: %w", i+1, err)
		}
		it.Key, it.Ordinal = key, count[key]
		count[key]++
	}
	var err error
	if c.Header.Models, c.Header.Totals, err = summarize(interactions); err != nil {
		return nil, err
	}
	c.Header.Endpoints, c.Header.Reached = endpointsOf(interactions), reachedBy(interactions)
	return c, c.validate(Limits{}.withDefaults())
}

// Describe names an interaction for a message, as in "model call openai.chat
// gpt-4o". The parts that come from the file are not escaped.
func (it *Interaction) Describe() string {
	switch {
	case it.Model != nil:
		return "model call " + string(it.Model.API) + " " + it.Model.ModelName()
	case it.Tool != nil:
		return "tool call " + it.Tool.Name
	case it.MCP != nil:
		return "MCP " + it.MCP.Server + " " + it.MCP.Method
	case it.HTTP != nil:
		return "HTTP " + it.HTTP.Target()
	}
	return "an empty interaction"
}

// ModelName is the model that the request asks for.
func (m *ModelCall) ModelName() string {
	n := wire.ParseCanonical(string(m.Request))
	return n.Str("model")
}

// computeKey is the match key of what the interaction holds. The request of an
// interaction is canonical already, so that a reader can check a key with
// SHA-256 alone, without the rules that made the request canonical.
func (it *Interaction) computeKey() (digest.ID, error) {
	switch {
	case it.Model != nil:
		return modelKey(it.Model.API, it.Model.Request), nil
	case it.Tool != nil:
		return toolKey(it.Tool.Name, it.Tool.Arguments), nil
	case it.MCP != nil:
		return mcpKey(it.MCP.Server, it.MCP.Method, it.MCP.Params), nil
	case it.HTTP != nil:
		return httpKey(it.HTTP.Request), nil
	}
	return digest.ID{}, malformed("it is not one of a model call, a tool call, an MCP exchange and an HTTP exchange")
}

// summarize computes what the header says about the interactions.
func summarize(interactions []Interaction) (models []string, t Totals, err error) {
	seen := map[string]bool{}
	models = []string{}
	for i := range interactions {
		switch it := &interactions[i]; {
		case it.Model != nil:
			t.ModelCalls++
			t.Tokens += it.Model.Usage.Total()
			if it.Model.CostMicrodollars != nil {
				t.CostMicrodollars += *it.Model.CostMicrodollars
			} else {
				t.UnpricedCalls++
			}
			if t.Tokens > maxTotal || t.CostMicrodollars > maxTotal {
				return nil, t, malformed("interaction %d: tokens or cost add up to more than %d", i+1, int64(maxTotal))
			}
			if name := it.Model.ModelName(); name != "" && !seen[name] {
				seen[name] = true
				models = append(models, name)
			}
		case it.Tool != nil:
			t.ToolCalls++
		case it.MCP != nil:
			t.MCPExchanges++
		case it.HTTP != nil:
			t.HTTPExchanges++
		}
	}
	slices.Sort(models)
	return models, t, nil
}

const formatHint = "restore the file as it was written, or record it again; the format is described in docs/formats/cassette.md"

func malformed(format string, args ...any) *refusal.Error {
	return refusal.Newf(refusal.Malformed, format, args...).WithHint(formatHint)
}

func tooLarge(format string, args ...any) *refusal.Error {
	return refusal.Newf(refusal.TooLarge, format, args...).
		WithHint("a cassette holds the traffic of one case; split the case, or raise the limit if this size is meant")
}
