package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/plain"
)

// A Call is one thing that an agent proposes to do.
type Call struct {
	ID     string // names the call within its case
	Action Action
	Name   string // of the tool, memory key, agent or question
	Class  Class  // of a tool, from the bench's definition of it
	Known  bool   // the tool is one that the case defines, under this very name

	// Args is a JSON object or nothing. Rules see it decoded, with every
	// number a double.
	Args canon.RawMessage

	Turn int

	// At is the logical time since the case began: in a replay the sum of
	// recorded latencies, never a clock of this machine.
	At time.Duration

	// What the call is known to cost before it is made; 0 if unknown.
	CostMicroUSD int64
	Tokens       int64
}

// actionPrefix is how a list names a whole action. No tool may be called so.
const actionPrefix = "action:"

// listed is how lists name the call.
func (c *Call) listed() string {
	if c.Action == Tool {
		return c.Name
	}
	return actionPrefix + string(c.Action)
}

// isListed and isAllowed look the call up in a list of the policy.
func (c *Call) isListed(list []string) bool {
	if c.Action != Tool {
		return slices.Contains(list, c.listed())
	}
	return isListed(list, c.Name)
}

func (c *Call) isAllowed(list []string) bool {
	if c.Action != Tool {
		return slices.Contains(list, c.listed())
	}
	return isAllowed(list, c.Name)
}

// isNamed looks the call up in the list of a rule: memory keys and agents by their
// very names, tools as the policy's own lists do.
func (c *Call) isNamed(list []string, tool func([]string, string) bool) bool {
	if c.Action != Tool {
		return slices.Contains(list, c.Name)
	}
	return tool(list, c.Name)
}

// validate refuses a call that rules could misread.
func (c *Call) validate() error {
	switch {
	case c.ID == "" || len(c.ID) > maxNameBytes || !utf8.ValidString(c.ID):
		return fmt.Errorf("the call's id has %d bytes, expected 1 to %d of UTF-8", len(c.ID), maxNameBytes)
	case !c.Action.Known():
		return fmt.Errorf("no action is called %q", cut(string(c.Action)))
	case c.Action == Tool && strings.HasPrefix(c.Name, actionPrefix):
		return fmt.Errorf("a tool is called %q, as only actions are in a list", cut(c.Name))
	case c.Action == Tool && !c.Known && isForeign(c.Name):
		return fmt.Errorf("the case has no tool called %q, and its letters can be taken for others, so no list can be compared with it", cut(c.Name))
	case c.Class != "" && !c.Class.Known():
		return fmt.Errorf("no safety class is called %q", cut(string(c.Class)))
	case c.Turn < 0 || c.CostMicroUSD < 0 || c.Tokens < 0:
		return fmt.Errorf("turn %d, cost %d or tokens %d is negative", c.Turn, c.CostMicroUSD, c.Tokens)
	}
	return checkName(c.Name)
}

// content names what the decision is about. An approval holds for this and
// nothing else, so that a call cannot be changed while a person thinks it over.
func (c *Call) content() digest.ID {
	return digest.IDOf(fmt.Appendf(nil, "%q %q %q %s %d %d", c.Action, c.Name, c.Class, digest.ContentOf(c.Args), c.CostMicroUSD, c.Tokens))
}

func (c *Call) String() string {
	return plain.Line(fmt.Sprintf("%s %s", strings.ReplaceAll(string(c.Action), "_", " "), cut(c.Name)))
}

// cut bounds text of an agent in a message.
func cut(s string) string {
	if len(s) <= maxNameBytes {
		return s
	}
	n := maxNameBytes
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// A Decision is the policy's answer about one call.
type Decision struct {
	Check   Check
	Verdict Verdict
	Rule    string // the id of a rule, or a built-in one such as mode:approved
	Reason  string // one line
}

// Permits reports whether the call may be executed. Nothing else may be used
// to find that out: the zero Check means allowed.
func (d Decision) Permits() bool { return d.Verdict == Allow && d.Check != Denied }

// String explains the decision in one line.
func (d Decision) String() string {
	return fmt.Sprintf("%s by %s: %s", d.Verdict, d.Rule, d.Reason)
}

// The built-in rules, as decisions name them.
const (
	RuleCall       = "policy:call"     // the call itself is unacceptable
	RuleDenyList   = "policy:deny"     // the policy's deny list
	RuleAllowList  = "policy:allow"    // the policy's allow list, in restricted mode
	RuleApproval   = "policy:approval" // an answer to an escalation
	RuleRestricted = "mode:restricted" // in restricted mode, on the allow list
	RuleApproved   = "mode:approved"
	RuleAutonomous = "mode:autonomous"
)

func allow(rule, format string, args ...any) Decision {
	return Decision{Allowed, Allow, rule, plain.Line(fmt.Sprintf(format, args...))}
}

func deny(rule, format string, args ...any) Decision {
	return Decision{Denied, Deny, rule, plain.Line(fmt.Sprintf(format, args...))}
}

func escalate(rule, format string, args ...any) Decision {
	return Decision{Denied, Escalate, rule, plain.Line(fmt.Sprintf(format, args...))}
}
