package trajectory

import (
	"fmt"
	"strings"

	"tallystick/internal/record/digest"
)

// A Speaker says who plays a simulated user.
type Speaker string

// The speakers.
const (
	ByModel  Speaker = "model"
	ByScript Speaker = "script"
)

// UserMovedType is the type of [UserMoved].
const UserMovedType Type = "user_moved"

// UserMoved is one move of a simulated user: what it says next, the tools of its own
// that it calls, or that it ends the conversation. What it costs is its own and no
// part of what the agent spends, so this is not a [Spender]. A move that broke a rule
// is told too, and the agent is not given it.
type UserMoved struct {
	By           Speaker         `json:"by"`
	CostMicroUSD int64           `json:"cost_microdollars"`
	End          bool            `json:"end"`
	LatencyMS    int64           `json:"latency_ms"`
	Model        string          `json:"model,omitempty"`
	Reached      *bool           `json:"reached,omitempty"` // the goal, as the user says at the end
	Request      *digest.Content `json:"request,omitempty"` // of the model, canonical
	Say          *Content        `json:"say,omitempty"`
	Source       string          `json:"source"`
	TokensIn     int64           `json:"tokens_in"`
	TokensOut    int64           `json:"tokens_out"`
	Tools        []string        `json:"tools,omitempty"` // that it calls
	Unpriced     bool            `json:"unpriced,omitempty"`
}

// Type is user_moved.
func (*UserMoved) Type() Type { return UserMovedType }

// Summary tells it in a line.
func (p *UserMoved) Summary() string {
	switch {
	case len(p.Tools) > 0:
		return fmt.Sprintf("simulated user (%s) uses %s", p.By, strings.Join(p.Tools, ", "))
	case p.End && p.Reached != nil && *p.Reached:
		return fmt.Sprintf("simulated user (%s) ends, and says that the goal is reached", p.By)
	case p.End:
		return fmt.Sprintf("simulated user (%s) ends without the goal", p.By)
	case p.Say != nil:
		return fmt.Sprintf("simulated user (%s): %s", p.By, p.Say.Head)
	}
	return fmt.Sprintf("simulated user (%s) said nothing that could be read", p.By)
}

// Subject reports that there is none.
func (*UserMoved) Subject() (string, bool) { return "", false }

func (*UserMoved) golden() golden {
	return golden{line: []string{"by", "end", "reached"}, without: []string{"request", "source", "tokens_in", "tokens_out", "unpriced"}, changes: []change{{ChangedUser, anything}}}
}

// UserToolCalledType is the type of [UserToolCalled].
const UserToolCalledType Type = "user_tool_called"

// UserToolCalled is a call of a tool that is the simulated user's own, such as a phone
// in its hand. No policy is asked: it is not an action of the agent.
type UserToolCalled struct {
	Args      Args    `json:"args"`
	By        Speaker `json:"by"`
	Error     string  `json:"error,omitempty"`
	LatencyMS int64   `json:"latency_ms"`
	Name      string  `json:"name"`
	Result    Content `json:"result"`
	Source    string  `json:"source"`
}

// Type is user_tool_called.
func (*UserToolCalled) Type() Type { return UserToolCalledType }

// Summary tells it in a line.
func (p *UserToolCalled) Summary() string {
	if p.Error != "" {
		return "simulated user: " + p.Name + " failed: " + p.Error
	}
	return "simulated user: " + p.Name + " gave " + p.Result.Head
}

// Subject is the tool.
func (p *UserToolCalled) Subject() (string, bool) { return p.Name, true }

func (*UserToolCalled) golden() golden {
	return golden{line: []string{"name", "by"}, without: []string{"source"}, of: "name", changes: []change{{ChangedUser, anything}}}
}

// UserBrokeRuleType is the type of [UserBrokeRule].
const UserBrokeRuleType Type = "user_broke_rule"

// UserBrokeRule says which rule of its own a simulated user broke. The case is then
// unscored: what came of it says nothing about the agent.
type UserBrokeRule struct {
	By   Speaker `json:"by"`
	Fact string  `json:"fact,omitempty"` // the name of what was given away
	Rule string  `json:"rule"`
	Text string  `json:"text"`
}

// Type is user_broke_rule.
func (*UserBrokeRule) Type() Type { return UserBrokeRuleType }

// Summary tells it in a line.
func (p *UserBrokeRule) Summary() string {
	return "the simulated user broke the rule " + p.Rule + ": " + p.Text
}

// Subject is the rule.
func (p *UserBrokeRule) Subject() (string, bool) { return p.Rule, true }

func (*UserBrokeRule) golden() golden {
	return golden{line: []string{"rule", "by"}, of: "rule", changes: []change{{ChangedUser, anything}}}
}

// UserEndedType is the type of [UserEnded].
const UserEndedType Type = "user_ended"

// UserEnded ends the conversation with a simulated user. Why is reached or gave_up as
// the user says, stopped if the case's condition holds, or broke_rule. State is what
// the user's own tools remember, and Prompt the template that a model was given.
type UserEnded struct {
	By     Speaker         `json:"by"`
	Prompt *digest.Content `json:"prompt,omitempty"`
	State  *Content        `json:"state,omitempty"` // JSON
	Turns  int64           `json:"turns"`
	Why    string          `json:"why"`
}

// Type is user_ended.
func (*UserEnded) Type() Type { return UserEndedType }

// Summary tells it in a line.
func (p *UserEnded) Summary() string {
	return fmt.Sprintf("the conversation with the simulated user ended after %d turns: %s", p.Turns, p.Why)
}

// Subject reports that there is none.
func (*UserEnded) Subject() (string, bool) { return "", false }

func (*UserEnded) golden() golden {
	return golden{line: []string{"why", "by"}, changes: []change{{ChangedUser, anything}}}
}
