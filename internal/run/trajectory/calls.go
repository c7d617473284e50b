package trajectory

import (
	"fmt"
	"strconv"

	"tallystick/internal/record/cost"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/plain"
	"tallystick/internal/run/policy"
)

// ModelCallStartedType is the type of [ModelCallStarted].
const ModelCallStartedType Type = "model_call_started"

// ModelCallStarted is a request to a model. Request is the digest of the
// canonical request by which a cassette matches it.
type ModelCallStarted struct {
	Call string `json:"call"`
	// Definitions are what the request says of tools, where no request before it said
	// the same: a poisoned description is one of them. The prompt has the whole.
	Definitions map[string]Content `json:"definitions,omitempty"`
	// Files are the images and documents that the request holds and none before it did.
	// The evidence has each by its digest, as the bytes that they are.
	Files    []SentFile     `json:"files,omitempty"`
	Messages int            `json:"messages"`
	Model    string         `json:"model"`
	Prompt   Content        `json:"prompt"`
	Provider string         `json:"provider"`
	Request  digest.Content `json:"request"`
	Tools    []string       `json:"tools,omitempty"` // offered to the model for the first time; not in v1
}

// A SentFile is a file in a message to a model. Type is what the request calls it.
type SentFile struct {
	Bytes  int64          `json:"bytes"`
	Digest digest.Content `json:"digest"`
	Type   string         `json:"type"`
}

// Type is model_call_started.
func (*ModelCallStarted) Type() Type { return ModelCallStartedType }

// Summary tells it in a line.
func (p *ModelCallStarted) Summary() string {
	text := fmt.Sprintf("asks %s, %d messages", p.Model, p.Messages)
	if len(p.Files) > 0 {
		text += ", with " + plain.Plural(len(p.Files), "new file")
	}
	return text
}

// Subject is the model.
func (p *ModelCallStarted) Subject() (string, bool) { return p.Model, true }

func (*ModelCallStarted) golden() golden {
	return golden{
		line:    []string{"call", "model"},
		without: []string{"definitions", "files"}, // they are in the request, whose digest stays
		changes: []change{{ChangedArguments, []string{"prompt", "request", "messages"}}},
	}
}

// ModelCallCompletedType is the type of [ModelCallCompleted].
const ModelCallCompletedType Type = "model_call_completed"

// ModelCallCompleted is the model's reply, from a cassette or live.
type ModelCallCompleted struct {
	Call         string  `json:"call"`
	CostMicroUSD int64   `json:"cost_microdollars"`
	Error        string  `json:"error,omitempty"`
	FinishReason string  `json:"finish_reason"`
	LatencyMS    int64   `json:"latency_ms"`
	Output       Content `json:"output"`
	Source       string  `json:"source"`
	TokensIn     int64   `json:"tokens_in"`
	TokensOut    int64   `json:"tokens_out"`
	// Unpriced says that CostMicroUSD is not what the call cost: the price of the
	// model or the usage of the call is not known.
	Unpriced bool `json:"unpriced,omitempty"`
}

// Type is model_call_completed.
func (*ModelCallCompleted) Type() Type { return ModelCallCompletedType }

// Summary tells it in a line.
func (p *ModelCallCompleted) Summary() string { return "model: " + p.Output.Head }

// Subject reports that there is none.
func (*ModelCallCompleted) Subject() (string, bool) { return "", false }

// Spent is what the call cost.
func (p *ModelCallCompleted) Spent() (tokens int64, of cost.Cost) {
	return p.TokensIn + p.TokensOut, costOf(p.CostMicroUSD, p.Unpriced)
}

func costOf(microUSD int64, unpriced bool) cost.Cost {
	if unpriced {
		return cost.Of(microUSD, 1)
	}
	return cost.Of(microUSD, 0)
}

func (*ModelCallCompleted) golden() golden {
	return golden{
		line:    []string{"call", "finish_reason"},
		without: []string{"source", "unpriced"},
		changes: []change{{ChangedOutput, []string{"output", "finish_reason", "error"}}},
	}
}

// ToolProposedType is the type of [ToolProposed].
const ToolProposedType Type = "tool_proposed"

// ToolProposed is a tool call that the agent wants. Nothing has happened yet.
type ToolProposed struct {
	Args  Args         `json:"args"`
	Call  string       `json:"call"`
	Class policy.Class `json:"class,omitempty"`
	ID    string       `json:"id,omitempty"` // the provider's, if the agent gave it; not in v1
	Name  string       `json:"name"`
	Trust string       `json:"trust,omitempty"` // of the tool's description
}

// Type is tool_proposed.
func (*ToolProposed) Type() Type { return ToolProposedType }

// Summary tells it in a line.
func (p *ToolProposed) Summary() string { return "wants " + p.Name }

// Subject is the name.
func (p *ToolProposed) Subject() (string, bool) { return p.Name, true }

func (*ToolProposed) golden() golden {
	return golden{line: []string{"call", "name"}, of: "name", changes: []change{{ChangedArguments, []string{"args"}}}}
}

// ToolExecutedType is the type of [ToolExecuted].
const ToolExecutedType Type = "tool_executed"

// ToolExecuted is a tool call that was made, with what came back.
type ToolExecuted struct {
	Args         Args    `json:"args"`
	Call         string  `json:"call"`
	CostMicroUSD int64   `json:"cost_microdollars"`
	Error        string  `json:"error,omitempty"`
	LatencyMS    int64   `json:"latency_ms"`
	Name         string  `json:"name"`
	Result       Content `json:"result"`
	Source       string  `json:"source"` // fixture, cassette, live
	Tokens       int64   `json:"tokens"`
	Trust        string  `json:"trust,omitempty"` // of the result
}

// Type is tool_executed.
func (*ToolExecuted) Type() Type { return ToolExecutedType }

// Summary tells it in a line.
func (p *ToolExecuted) Summary() string { return p.Name + " gave " + p.Result.Head }

// Subject is the name.
func (p *ToolExecuted) Subject() (string, bool) { return p.Name, true }

// Spent is what the call cost.
func (p *ToolExecuted) Spent() (tokens int64, of cost.Cost) {
	return p.Tokens, costOf(p.CostMicroUSD, false)
}

func (*ToolExecuted) golden() golden {
	return golden{
		line:    []string{"call", "name"},
		without: []string{"source"},
		of:      "name",
		changes: []change{{ChangedArguments, []string{"args"}}, {ChangedResult, []string{"result", "error"}}},
	}
}

// HandoffType is the type of [HandedOff].
const HandoffType Type = "handoff"

// HandedOff is control that passed from one agent to another.
type HandedOff struct {
	Call  string   `json:"call"`
	From  string   `json:"from"`
	Input *Content `json:"input,omitempty"`
	To    string   `json:"to"`
}

// Type is handoff.
func (*HandedOff) Type() Type { return HandoffType }

// Summary tells it in a line.
func (p *HandedOff) Summary() string { return fmt.Sprintf("%s hands over to %s", p.From, p.To) }

// Subject is the agent that it goes to.
func (p *HandedOff) Subject() (string, bool) { return p.To, true }

func (*HandedOff) golden() golden {
	return golden{
		line:    []string{"call", "from", "to"},
		of:      "to",
		changes: []change{{ChangedArguments, []string{"input"}}},
	}
}

// TransportRequestType is the type of [TransportRequest].
const TransportRequestType Type = "transport_request"

// TransportRequest is a crossing of the gateway: what was asked of whom.
type TransportRequest struct {
	BytesIn   int64  `json:"bytes_in"`
	BytesOut  int64  `json:"bytes_out"`
	Error     string `json:"error,omitempty"`
	Host      string `json:"host"` // without port
	LatencyMS int64  `json:"latency_ms"`
	Method    string `json:"method"`
	Path      string `json:"path"`
	Protocol  string `json:"protocol"` // a provider of model APIs, mcp, http
	Status    int    `json:"status"`   // 0 if there was no answer
}

// Type is transport_request.
func (*TransportRequest) Type() Type { return TransportRequestType }

// Summary tells it in a line.
func (p *TransportRequest) Summary() string {
	answer := "no answer"
	if p.Status != 0 {
		answer = strconv.Itoa(p.Status)
	}
	if p.Error != "" {
		answer += ": " + p.Error
	}
	return fmt.Sprintf("%s %s%s: %s", p.Method, p.Host, p.Path, answer)
}

// Subject reports that there is none.
func (*TransportRequest) Subject() (string, bool) { return "", false }

func (*TransportRequest) golden() golden {
	return golden{line: []string{"method", "host"}, without: []string{"bytes_in", "bytes_out"}}
}
