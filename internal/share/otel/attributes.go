package otel

import "strings"

// A fact is something that an attribute tells about a span. Each convention has
// names of its own for it.
type fact int

const (
	factProvider fact = iota
	factModel
	factTokensIn
	factTokensOut
	factCost // in dollars
	factFinish
	factFailure
	factToolName
	factCallID
	factArguments
	factResult
	factAgent
	factAgentInput
	factAgentOutput
)

// names are the attributes that tell a fact; the first that is there counts. A span
// may carry several conventions: those of OpenTelemetry stand first, then those of
// its older versions and of Traceloop, then those of OpenInference.
// docs/formats/telemetry.md has the same table.
var names = [...][]string{
	factProvider:    {"gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system"},
	factModel:       {"gen_ai.request.model", "gen_ai.response.model", "llm.request.model_name", "llm.model_name", "llm.response.model_name"},
	factTokensIn:    {"gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"},
	factTokensOut:   {"gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion"},
	factCost:        {"gen_ai.usage.cost", "llm.cost.total"},
	factFinish:      {"gen_ai.response.finish_reasons", "llm.finish_reason"},
	factFailure:     {"error.type"},
	factToolName:    {"gen_ai.tool.name", "traceloop.entity.name", "tool.name", "tool_call.function.name"},
	factCallID:      {"gen_ai.tool.call.id", "tool_call.id", "tool.id"},
	factArguments:   {"gen_ai.tool.call.arguments", "tool_call.function.arguments", "traceloop.entity.input", "input.value", "tool.parameters"},
	factResult:      {"gen_ai.tool.call.result", "traceloop.entity.output", "output.value"},
	factAgent:       {"gen_ai.agent.name", "traceloop.entity.name", "gen_ai.agent.id", "agent.name", "graph.node.name"},
	factAgentInput:  {"traceloop.entity.input", "input.value"},
	factAgentOutput: {"traceloop.entity.output", "output.value"},
}

// openInferenceKind says what a span of OpenInference is.
const openInferenceKind = "openinference.span.kind"

// operations are the operations of OpenTelemetry that the kinds of OpenInference
// stand for. What only holds others together stands for none of them.
var operations = map[string]string{"LLM": "chat", "TOOL": "execute_tool", "AGENT": "invoke_agent", "RETRIEVER": retrieval, "CHAIN": chain}

const (
	retrieval = "retrieval" // a search, which is told as a call of a tool
	chain     = "chain"
)

// use notes that the value of an attribute is in an event, so that it is not
// among what was left out.
func (n *node) use(key string) {
	if n.used == nil {
		n.used = map[string]bool{}
	}
	n.used[key] = true
}

// take gives the first attribute that tells a fact and is not empty.
func (n *node) take(f fact) (value, bool) { return n.takeOf(names[f]...) }

func (n *node) takeOf(keys ...string) (value, bool) {
	for _, k := range keys {
		if v, ok := n.attrs.get(k); ok && v.string() != "" {
			n.use(k)
			return v, true
		}
	}
	return value{}, false
}

// text is take for a text, "" for nothing.
func (n *node) text(f fact) string {
	v, ok := n.take(f)
	if !ok {
		return ""
	}
	return v.string()
}

// told are attributes that say what a span is, where it belongs or how another
// attribute is to be read. The events of a span say the same.
var told = map[string]bool{
	"gen_ai.operation.name": true, "traceloop.span.kind": true, "llm.request.type": true, openInferenceKind: true, "gen_ai.workflow.name": true,
	"gen_ai.agent.name": true, "gen_ai.agent.id": true, "gen_ai.conversation.id": true, "session.id": true, "input.mime_type": true, "output.mime_type": true,
	attrStatus: true, attrExecuted: true, attrCost: true,
}

// isCarried reports whether events say what an attribute says: it was used, or another
// name of the same fact was, with the same value.
func (n *node) isCarried(a attribute) bool {
	if n.used[a.key] || told[a.key] || a.string() == "" {
		return true
	}
	for _, keys := range names {
		for _, k := range keys {
			if k != a.key {
				continue
			}
			for _, other := range keys {
				if v, ok := n.attrs.get(other); ok && n.used[other] && v.string() == a.string() {
					return true
				}
			}
		}
	}
	return false
}

// withoutNumbers gives the name of an attribute with N for each number in it, so
// that the members of a list are counted together.
func withoutNumbers(key string) string {
	if !strings.ContainsAny(key, "0123456789") {
		return key
	}
	parts := strings.Split(key, ".")
	for i, p := range parts {
		if p != "" && strings.Trim(p, "0123456789") == "" {
			parts[i] = "N"
		}
	}
	return strings.Join(parts, ".")
}

// Attributes of our own, in what [Export] writes. Import reads the first three,
// so that what it makes of an export has the same calls, costs and end.
const (
	attrStatus   = "tallystick.run.status"
	attrExecuted = "tallystick.tool.executed" // false: the policy refused the call
	attrCost     = "tallystick.cost_microdollars"

	attrAttempt   = "tallystick.attempt"
	attrCase      = "tallystick.case"
	attrClass     = "tallystick.class"
	attrTarget    = "tallystick.target"
	attrRepeat    = "tallystick.repeat"
	attrExecution = "tallystick.execution"
	attrLevel     = "tallystick.level"
	attrGate      = "tallystick.gate" // of the resource: met, not met or not decided, and why
	attrOutcome   = "tallystick.outcome"
	// attrCorrection and a number: what stands beside the outcome and the score, which
	// are as recorded, in one line.
	attrCorrection = "tallystick.correction"
	attrHead       = "tallystick.trajectory.head"
	attrCut        = "tallystick.texts_cut" // texts of the span of which only the beginning is known
	attrToolClass  = "tallystick.tool.class"
	attrVantage    = "tallystick.tool.vantage" // reported, proposed: of a call that the policy never saw
	attrTrust      = "tallystick.tool.trust"
	attrSource     = "tallystick.source"
	attrTokens     = "tallystick.tool.tokens"
	attrSeq        = "tallystick.seq"
	attrPayload    = "tallystick.payload"
)
