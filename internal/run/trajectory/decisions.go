package trajectory

import (
	"fmt"

	"tallystick/internal/run/policy"
)

// PolicyDecisionType is the type of [PolicyDecision].
const PolicyDecisionType Type = "policy_decision"

// PolicyDecision is what the policy said about a proposal, and why. Verdict and
// check agree: a log in which they do not would read one way to us and another way
// to readers of the RVF format.
type PolicyDecision struct {
	Action  policy.Action  `json:"action"`
	Call    string         `json:"call"`
	Check   policy.Check   `json:"check"` // 0 allowed, 1 denied, 2 confirmed
	Name    string         `json:"name"`
	Reason  string         `json:"reason"`
	Rule    string         `json:"rule"`
	Verdict policy.Verdict `json:"verdict"`
}

// Type is policy_decision.
func (*PolicyDecision) Type() Type { return PolicyDecisionType }

// Decided makes the event of a decision.
func Decided(c policy.Call, d policy.Decision) *PolicyDecision {
	return &PolicyDecision{c.Action, c.ID, d.Check, c.Name, d.Reason, d.Rule, d.Verdict}
}

// Summary tells it in a line.
func (p *PolicyDecision) Summary() string {
	return fmt.Sprintf("%s %s: %s by %s", p.Action, p.Name, p.Verdict, p.Rule)
}

// Subject is the name.
func (p *PolicyDecision) Subject() (string, bool) { return p.Name, true }

func (*PolicyDecision) golden() golden {
	return golden{
		line:    []string{"call", "verdict", "name"},
		changes: []change{{ChangedVerdict, []string{"verdict", "check"}}},
	}
}

// PolicyViolationType is the type of [PolicyViolation].
const PolicyViolationType Type = "policy_violation"

// PolicyViolation is something that the policy did not permit and that was
// tried or happened. Unprevented says that it was seen and not prevented: the
// agent did it in its own process, where the policy is not asked.
type PolicyViolation struct {
	Call        string `json:"call"`
	Rule        string `json:"rule"`
	Text        string `json:"text"`
	Unprevented bool   `json:"unprevented,omitempty"`
}

// Type is policy_violation.
func (*PolicyViolation) Type() Type { return PolicyViolationType }

// Summary tells it in a line.
func (p *PolicyViolation) Summary() string { return p.Text }

// Subject is the rule.
func (p *PolicyViolation) Subject() (string, bool) { return p.Rule, true }

func (*PolicyViolation) golden() golden {
	return golden{line: []string{"call", "text"}}
}

// ApprovalRequestedType is the type of [ApprovalRequested].
const ApprovalRequestedType Type = "approval_requested"

// ApprovalRequested is a question to a person. The run may be suspended on it.
type ApprovalRequested struct {
	Action policy.Action `json:"action"`
	Call   string        `json:"call"`
	Name   string        `json:"name"`
	Reason string        `json:"reason"`
	Rule   string        `json:"rule"`
}

// Type is approval_requested.
func (*ApprovalRequested) Type() Type { return ApprovalRequestedType }

// Summary tells it in a line.
func (p *ApprovalRequested) Summary() string { return "asks for an approval of " + p.Name }

// Subject is the name.
func (p *ApprovalRequested) Subject() (string, bool) { return p.Name, true }

func (*ApprovalRequested) golden() golden {
	return golden{line: []string{"call", "name"}}
}

// ApprovalResolvedType is the type of [ApprovalResolved].
const ApprovalResolvedType Type = "approval_resolved"

// ApprovalResolved is the answer. By says who gave it: case, person, timeout.
type ApprovalResolved struct {
	Approved bool   `json:"approved"`
	By       string `json:"by"`
	Call     string `json:"call"`
	Note     string `json:"note,omitempty"`
}

// Type is approval_resolved.
func (*ApprovalResolved) Type() Type { return ApprovalResolvedType }

// Summary tells it in a line.
func (p *ApprovalResolved) Summary() string {
	return fmt.Sprintf("approved %v by %s", p.Approved, p.By)
}

// Subject reports that there is none.
func (*ApprovalResolved) Subject() (string, bool) { return "", false }

func (*ApprovalResolved) golden() golden {
	return golden{line: []string{"call", "approved"}, changes: []change{{ChangedVerdict, []string{"approved"}}}}
}
