package policy

import (
	"fmt"
	"math"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

// An Enforcer is the policy of one case while it runs: what was decided, what
// waits for an approval, what has been spent. It is not safe for use by
// several goroutines; a case has one order of events.
//
// The same calls in the same order give the same decisions, so the state of a
// suspended case is rebuilt by giving them again.
type Enforcer struct {
	set    *Ruleset
	start  time.Time
	now    time.Duration // of the last decision
	calls  map[string]*decided
	rates  map[string][]time.Duration // by rule id
	totals Totals
}

// decided is what became of one call id.
type decided struct {
	content  digest.ID
	decision Decision
	recorded bool
}

// Totals is what a case used so far.
type Totals struct {
	CostMicroUSD int64
	Unpriced     int64 // model calls whose cost is not known
	Tokens       int64
	ToolCalls    int64 // recorded tool calls, denied ones included
	Latency      time.Duration
}

// Usage is what one recorded call took.
type Usage struct {
	Executed     bool
	CostMicroUSD int64
	Unpriced     bool // what the call cost is not known
	Tokens       int64
	Latency      time.Duration
}

// A Violation is something that the policy did not permit and that was tried
// or happened anyway.
type Violation struct {
	CallID string
	Rule   string
	Text   string
	// Unprevented says that it was seen when it had happened already.
	Unprevented bool
}

func (v Violation) String() string { return v.Text }

// The budgets, as violations name them.
const (
	RuleCostBudget = "budget:cost"
	RuleCallBudget = "budget:calls"
)

// Mode returns the governance mode. It is the bench's; nothing that a target
// says can reach it.
func (e *Enforcer) Mode() Mode { return e.set.policy.Mode }

// Totals returns what was used so far.
func (e *Enforcer) Totals() Totals { return e.totals }

// Decide answers whether the call may be made. Asked again about the same
// call, it gives the same answer, or what an approval has made of it. A call
// id stands for one call only: the same id with other contents, or after it
// was recorded, is denied.
func (e *Enforcer) Decide(c Call) Decision {
	if err := c.validate(); err != nil {
		return deny(RuleCall, "%v", err)
	}
	content := c.content()
	if seen := e.calls[c.ID]; seen != nil {
		switch {
		case seen.recorded:
			return deny(RuleCall, "%s: the call id %q was used before", &c, cut(c.ID))
		case seen.content != content:
			// An agent that changes a decided call loses the decision.
			seen.decision = deny(RuleCall, "%s: not the call that was decided under the id %q", &c, cut(c.ID))
		}
		return seen.decision
	}
	d := e.decideNew(&c)
	e.calls[c.ID] = &decided{content: content, decision: d}
	return d
}

// Would says what the policy would decide about a call now. It keeps nothing of it.
func (e *Enforcer) Would(c Call) Decision {
	if err := c.validate(); err != nil {
		return deny(RuleCall, "%v", err)
	}
	return e.evaluate(&c)
}

func (e *Enforcer) decideNew(c *Call) Decision {
	if c.At < e.now {
		return deny(RuleCall, "%s: logical time went back from %v to %v", c, e.now, c.At)
	}
	e.now = c.At
	d := e.evaluate(c)
	if d.Verdict == Deny {
		return d
	}
	// Count now and not when the call is recorded, or a burst of calls that
	// are decided together would all find the window empty.
	for i := range e.set.rules {
		if r := &e.set.rules[i]; r.Kind == RateLimit && r.inScope(c) {
			e.rates[r.ID] = append(e.recent(r, c.At), c.At)
		}
	}
	return d
}

// Approve answers an escalation with yes. Only a call that waits for it can be
// approved.
func (e *Enforcer) Approve(callID string) (Decision, error) {
	return e.resolve(callID, func(d Decision) Decision {
		return Decision{Confirmed, Allow, RuleApproval, "approved; it was escalated by " + d.Rule}
	})
}

// Refuse answers an escalation with no.
func (e *Enforcer) Refuse(callID string) (Decision, error) {
	return e.resolve(callID, func(d Decision) Decision {
		return deny(RuleApproval, "refused; it was escalated by %s", d.Rule)
	})
}

func (e *Enforcer) resolve(callID string, answer func(Decision) Decision) (Decision, error) {
	if !e.Pending(callID) {
		return deny(RuleApproval, "no call %q waits for an approval", cut(callID)),
			refusal.Newf(refusal.NotFound, "no call %q waits for an approval", cut(callID))
	}
	c := e.calls[callID]
	c.decision = answer(c.decision)
	return c.decision, nil
}

// Record notes that a call is over, executed or not, and returns the
// violations: those of the call itself first, then the budgets that are
// exceeded now, which are violated again by every call from then on. The texts
// of the first three kinds are those of RVF's implementation.
func (e *Enforcer) Record(c Call, use Usage) ([]Violation, error) {
	if use.CostMicroUSD < 0 || use.Tokens < 0 || use.Latency < 0 {
		return nil, fmt.Errorf("recording %s: cost %d, tokens %d or latency %v is negative", &c, use.CostMicroUSD, use.Tokens, use.Latency)
	}
	found := e.recordCall(&c, use.Executed)
	e.totals.Latency += use.Latency
	if c.Action == Tool {
		e.totals.ToolCalls++
	}
	found = append(found, e.charge(c.ID, use.CostMicroUSD, use.Tokens)...)
	if c.Action == Tool {
		found = append(found, e.overCalls(c.ID, false)...)
	}
	return found, nil
}

// Observe judges a tool call that the agent made without asking, in its own
// process or by its provider, when it is seen. It counts as every call does.
// What was not permitted is a violation that was seen and not prevented; no
// person is asked to approve what has happened.
func (e *Enforcer) Observe(c Call) (Decision, []Violation) {
	d := e.Decide(c)
	e.calls[c.ID] = &decided{content: c.content(), decision: d, recorded: true}
	var found []Violation
	switch {
	case d.Permits():
	case d.Verdict == Escalate:
		found = []Violation{e.unprevented(c.ID, d.Rule, "unapproved", c.Name)}
	default:
		found = []Violation{e.unprevented(c.ID, d.Rule, "denied", c.Name)}
	}
	e.totals.ToolCalls++
	return d, append(found, e.overCalls(c.ID, true)...)
}

// Defied is the violation of an agent that tells of a result of a call that was
// denied here. The call was counted when it was denied.
func (e *Enforcer) Defied(callID, name string) Violation {
	rule := RuleCall
	if seen := e.calls[callID]; seen != nil {
		rule = seen.decision.Rule
	}
	return e.unprevented(callID, rule, "denied here and made all the same,", name)
}

func (e *Enforcer) unprevented(callID, rule, what, name string) Violation {
	return Violation{CallID: callID, Rule: rule, Text: fmt.Sprintf("seen, not prevented: %s tool: %s", what, cut(name)), Unprevented: true}
}

// overCalls is the violation of the budget for tool calls, if it is exceeded.
func (e *Enforcer) overCalls(callID string, unprevented bool) []Violation {
	if e.totals.ToolCalls <= e.set.policy.MaxToolCalls {
		return nil
	}
	return []Violation{{callID, RuleCallBudget, fmt.Sprintf("tool call budget exceeded: %d > %d", e.totals.ToolCalls, e.set.policy.MaxToolCalls), unprevented}}
}

// Charge adds what a model call cost, which no decision precedes. The budget
// for cost is checked as after every call.
func (e *Enforcer) Charge(callID string, use Usage) ([]Violation, error) {
	if use.CostMicroUSD < 0 || use.Tokens < 0 || use.Latency < 0 {
		return nil, fmt.Errorf("charging %q: cost %d, tokens %d or latency %v is negative", cut(callID), use.CostMicroUSD, use.Tokens, use.Latency)
	}
	e.totals.Latency += use.Latency
	if use.Unpriced {
		e.totals.Unpriced++
	}
	return e.charge(callID, use.CostMicroUSD, use.Tokens), nil
}

func (e *Enforcer) charge(callID string, cost, tokens int64) []Violation {
	e.totals.CostMicroUSD = add(e.totals.CostMicroUSD, cost)
	e.totals.Tokens = add(e.totals.Tokens, tokens)
	if e.totals.CostMicroUSD <= e.set.policy.MaxCostMicroUSD {
		return nil
	}
	return []Violation{{callID, RuleCostBudget,
		fmt.Sprintf("cost budget exceeded: %d > %d", e.totals.CostMicroUSD, e.set.policy.MaxCostMicroUSD), false}}
}

// recordCall marks the call id as used up and finds what is wrong with the
// call itself.
func (e *Enforcer) recordCall(c *Call, executed bool) []Violation {
	violation := func(rule, what string) []Violation {
		return []Violation{{c.ID, rule, fmt.Sprintf("%s %s: %s", what, c.Action.noun(), cut(c.Name)), false}}
	}
	seen := e.calls[c.ID]
	if seen == nil {
		// Also a call that Decide found unacceptable: it kept nothing of it.
		e.calls[c.ID] = &decided{content: c.content(), decision: deny(RuleCall, "never decided"), recorded: true}
		if err := c.validate(); err != nil && !executed {
			return violation(RuleCall, "denied")
		}
		return violation(RuleCall, "undecided")
	}
	again := seen.recorded
	seen.recorded = true
	d := seen.decision
	var found []Violation
	switch {
	case again:
		return violation(RuleCall, "repeated")
	case seen.content != c.content():
		return violation(RuleCall, "changed")
	case d.Permits():
		return nil
	case d.Verdict == Escalate:
		found = violation(d.Rule, "unapproved")
	default:
		found = violation(d.Rule, "denied")
	}
	if executed {
		found = append(found, violation(d.Rule, "executed without permission,")...)
	}
	return found
}

// noun is the action in a violation's text.
func (a Action) noun() string {
	switch a {
	case Tool:
		return "tool"
	case MemoryWrite:
		return "memory write"
	case Handoff:
		return "handoff"
	case Approval:
		return "approval"
	}
	return "action"
}

// Pending reports whether a call waits for an approval.
func (e *Enforcer) Pending(callID string) bool {
	c := e.calls[callID]
	return c != nil && c.decision.Verdict == Escalate && !c.recorded
}

// add adds without wrapping around: a sum that wrapped would be within budget
// again.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
