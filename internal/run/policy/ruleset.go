package policy

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/expression"
)

// maxConditionCost is some hundredths of a second at most: a condition is asked before
// every action, and the agent chooses the arguments that it walks over. A pattern of
// twenty instructions can read 160 kB.
const maxConditionCost = 200_000

// conditionVariables are what the expression of a condition rule sees.
var conditionVariables = []expression.Variable{
	{Name: "action", Kind: expression.Text}, // tool, memory_write, handoff, approval
	{Name: "name", Kind: expression.Text},   // of the tool, memory key, agent
	{Name: "class", Kind: expression.Text},  // safety class, empty if none
	{Name: "args", Kind: expression.Object}, // the arguments
	{Name: "turn", Kind: expression.Number},
	{Name: "cost_microdollars", Kind: expression.Number},  // of this call, as far as known
	{Name: "spent_microdollars", Kind: expression.Number}, // by the calls recorded so far
	{Name: "tokens_used", Kind: expression.Number},        // by the calls recorded so far
	{Name: "tool_calls", Kind: expression.Number},         // recorded so far
}

// ConditionVariables lists what the expression of a condition rule can ask for.
func ConditionVariables() []string {
	var names []string
	for _, v := range conditionVariables {
		names = append(names, v.Name)
	}
	return names
}

var conditions = expression.NewLanguage(maxConditionCost, conditionVariables...)

// A Ruleset is a policy ready to decide. It never changes and may be used by
// many cases at once.
type Ruleset struct {
	policy     Policy
	rules      []Rule                         // by ascending priority
	conditions map[string]*expression.Program // by rule
	needsStart bool
	short      ShortHash
	digest     digest.ID
}

// Compile validates a policy and compiles its conditions.
func Compile(p Policy) (*Ruleset, error) {
	if err := p.Validate(); err != nil {
		return nil, refusal.Newf(refusal.Malformed, "policy: %w", err).WithHint(policyHint)
	}
	s := &Ruleset{policy: p, rules: sortedRules(p.Rules), conditions: map[string]*expression.Program{}, short: p.ShortHash()}
	var err error
	if s.digest, err = p.Digest(); err != nil {
		return nil, err
	}
	for _, r := range s.rules {
		s.needsStart = s.needsStart || r.Kind == TimeWindow
		if r.Kind != ConditionKind {
			continue
		}
		c, err := conditions.CompileCondition(r.When)
		if err != nil {
			return nil, refusal.Newf(refusal.Malformed, "policy: rule %s: when: %w", r.ID, err).WithHint(policyHint)
		}
		s.conditions[r.ID] = c
	}
	return s, nil
}

// Policy returns the policy that was compiled.
func (s *Ruleset) Policy() Policy { return s.policy }

// Hashes returns the policy's short hash and its digest, which every case names.
func (s *Ruleset) Hashes() (ShortHash, digest.ID) { return s.short, s.digest }

// Enforcer begins a case. Start is the logical date and time at which the case
// begins, which the bench gives and time windows need; without such rules it
// may be zero.
func (s *Ruleset) Enforcer(start time.Time) (*Enforcer, error) {
	if s.needsStart && start.IsZero() {
		return nil, errors.New("the policy has a time_window rule and the case gives no start time")
	}
	return &Enforcer{set: s, start: start.UTC(), calls: map[string]*decided{}, rates: map[string][]time.Duration{}}, nil
}

// evaluate walks deny list, mode and rules. It changes nothing.
func (e *Enforcer) evaluate(c *Call) Decision {
	d := e.set.modeDecision(c)
	if d.Verdict == Deny {
		return d
	}
	// The first rule that does not allow wins, but a later deny is stronger
	// than an escalation: no person can approve what is forbidden.
	for i := range e.set.rules {
		r := &e.set.rules[i]
		if !r.inScope(c) {
			continue
		}
		applies, why := e.applies(r, c)
		switch {
		case why.err != nil:
			return deny(r.ID, "%s could not be evaluated for %s: %v", r.Kind, c, why.err)
		case applies && r.effect() == Deny:
			return deny(r.ID, "%s: %s", c, why.text)
		case applies && d.Verdict == Allow:
			d = escalate(r.ID, "%s: %s", c, why.text)
		}
	}
	return d
}

// modeDecision is what RVF decides by list and mode, but for one thing: in
// approved mode the answer is an escalation until a person approved.
func (s *Ruleset) modeDecision(c *Call) Decision {
	if c.isListed(s.policy.Deny) {
		return deny(RuleDenyList, "%s is on the deny list", c)
	}
	var d Decision
	switch s.policy.Mode {
	case Approved:
		return escalate(RuleApproved, "%s needs an approval, as everything does in approved mode", c)
	case Autonomous:
		d = allow(RuleAutonomous, "%s is allowed in autonomous mode", c)
	default:
		if !c.isAllowed(s.policy.Allow) {
			return deny(RuleAllowList, "%s is not on the allow list, and the mode is restricted", c)
		}
		d = allow(RuleRestricted, "%s is on the allow list", c)
	}
	if c.Action == Approval {
		return escalate(RuleApproval, "%s asks a person", c)
	}
	return d
}

// inScope reports whether the rule looks at the call. A tool without a class
// could be of any class, so it is in every scope of classes.
func (r *Rule) inScope(c *Call) bool {
	if !r.actsOn(c.Action) {
		return false
	}
	if c.Action != Tool {
		return true
	}
	if len(r.Classes) > 0 && c.Class != "" && !slices.Contains(r.Classes, c.Class) {
		return false
	}
	return len(r.Tools) == 0 || isListed(r.Tools, c.Name)
}

// A because says why a rule applies, or that it could not be evaluated.
type because struct {
	text string
	err  error
}

func (e *Enforcer) applies(r *Rule, c *Call) (bool, because) {
	switch r.Kind {
	case BlockClass:
		if c.Action != Tool {
			return true, because{text: "actions of this kind are blocked"}
		}
		if c.Class == "" {
			return true, because{text: "the tool has no safety class, and some are blocked"}
		}
		return true, because{text: fmt.Sprintf("safety class %s is blocked", c.Class)}
	case RequireApproval:
		return true, because{text: "an approval is required"}
	case CapSpend:
		total := add(e.totals.CostMicroUSD, c.CostMicroUSD)
		if n := e.totals.Unpriced; n > 0 { // the cap cannot be shown to hold
			return true, because{text: fmt.Sprintf("spend would be at least %d with %d calls unpriced, the cap is %d micro-dollars", total, n, *r.MaxCostMicroUSD)}
		}
		return total > *r.MaxCostMicroUSD, because{text: fmt.Sprintf("spend would be %d, the cap is %d micro-dollars", total, *r.MaxCostMicroUSD)}
	case CapTokens:
		total := add(e.totals.Tokens, c.Tokens)
		return total > *r.MaxTokens, because{text: fmt.Sprintf("tokens would be %d, the cap is %d", total, *r.MaxTokens)}
	case RateLimit:
		n := int64(len(e.recent(r, c.At)))
		return n >= *r.MaxCalls, because{text: fmt.Sprintf("%d calls in the last %d ms, the limit is %d", n, *r.WindowMS, *r.MaxCalls)}
	case TimeWindow:
		return !r.isOpen(e.start.Add(c.At)), because{text: fmt.Sprintf("%s is outside %s to %s UTC%s", e.start.Add(c.At).Format("Mon 15:04:05"), r.From, r.To, r.dayText())}
	case AllowList:
		return !c.isNamed(r.Names, isAllowed), because{text: "not on the rule's list of names"}
	case DenyList:
		return c.isNamed(r.Names, isListed), because{text: "on the rule's list of names"}
	case ConditionKind:
		hit, err := e.holds(r, c)
		return hit, because{text: "the condition holds: " + cut(r.When), err: err}
	}
	return true, because{err: fmt.Errorf("no rule kind is called %q", r.Kind)}
}

// holds evaluates a condition over the call.
func (e *Enforcer) holds(r *Rule, c *Call) (bool, error) {
	args := map[string]any{}
	if len(c.Args) > 0 {
		if err := canon.Unmarshal(c.Args, &args); err != nil {
			return false, fmt.Errorf("arguments: %w", err)
		}
		if args == nil {
			return false, errors.New("arguments are null, expected an object")
		}
	}
	var spent any = float64(e.totals.CostMicroUSD)
	if n := e.totals.Unpriced; n > 0 {
		spent = expression.Unknown(fmt.Sprintf("spent_microdollars is not known: %d calls are unpriced", n))
	}
	return e.set.conditions[r.ID].Holds(map[string]any{
		"action":             string(c.Action),
		"name":               c.Name,
		"class":              string(c.Class),
		"args":               args,
		"turn":               float64(c.Turn),
		"cost_microdollars":  float64(c.CostMicroUSD),
		"spent_microdollars": spent,
		"tokens_used":        float64(e.totals.Tokens),
		"tool_calls":         float64(e.totals.ToolCalls),
	})
}

// recent lists the calls that a rate limit counts: those after now minus the
// window.
func (e *Enforcer) recent(r *Rule, now time.Duration) []time.Duration {
	stamps := e.rates[r.ID]
	begin := now - time.Duration(*r.WindowMS)*time.Millisecond
	first := 0
	for first < len(stamps) && stamps[first] <= begin {
		first++
	}
	return stamps[first:]
}

// isOpen reports whether t lies in the window. The end does not belong to it.
func (r *Rule) isOpen(t time.Time) bool {
	from, _ := parseClock(r.From) // both were validated
	to, _ := parseClock(r.To)
	day := t.Sub(time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC))
	return day >= from && day < to && (len(r.Days) == 0 || slices.Contains(r.Days, dayNames[t.Weekday()]))
}

func (r *Rule) dayText() string {
	if len(r.Days) == 0 {
		return ""
	}
	return plain.Line(fmt.Sprintf(" on %v", r.Days))
}
