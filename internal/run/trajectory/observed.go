package trajectory

// A Vantage says how much is known of a tool call.
type Vantage string

// The vantages, from the strongest to the weakest.
const (
	Executed Vantage = "executed" // it went through us
	Reported Vantage = "reported" // the agent sent its result back to the model
	Proposed Vantage = "proposed" // the model asked for it
)

// CallsUnread is the name of a [Failure] that says: a request or a reply could
// not be read, so tools may have been called there that were not seen.
const CallsUnread = "tool_calls_unread"

// ToolObservedType is the type of [ToolObserved].
const ToolObservedType Type = "tool_observed"

// ToolObserved is a tool call that was seen in what an agent and its model say
// to each other: the model asked for it in a reply, or the agent sent a result
// back in a request. Agents that run tools in their own process show them in no
// other way.
//
// ID is the provider's, as it was sent; nothing makes it unique. A call may be
// without a name. Judged names the decision of the policy about a call that the
// agent made itself: the policy_decision with this call follows.
type ToolObserved struct {
	Args    Args     `json:"args"`
	Call    string   `json:"call"` // the model call in which it was seen
	Error   bool     `json:"error,omitempty"`
	ID      string   `json:"id,omitempty"`
	Judged  string   `json:"judged,omitempty"`
	Name    string   `json:"name,omitempty"`
	Result  *Content `json:"result,omitempty"`
	Vantage Vantage  `json:"vantage"`
}

// Type is tool_observed.
func (*ToolObserved) Type() Type { return ToolObservedType }

// Summary tells it in a line.
func (p *ToolObserved) Summary() string {
	name := p.Name
	if name == "" {
		name = "a tool without a name"
	}
	if p.Vantage == Proposed {
		return "the model asks for " + name
	}
	return "the agent says that " + name + " gave " + p.Result.Head
}

// Subject is the name. A call may be without one.
func (p *ToolObserved) Subject() (string, bool) { return p.Name, p.Name != "" || p.Vantage == "" }

func (*ToolObserved) golden() golden {
	return golden{
		line:    []string{"call", "vantage", "name", "id"},
		of:      "name",
		changes: []change{{ChangedArguments, []string{"args"}}, {ChangedResult, []string{"result", "error"}}},
	}
}
