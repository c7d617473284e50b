package policy

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"
)

// A Kind is what a rule looks at.
type Kind string

// The kinds of rules. Only require_approval and
// condition can escalate; all others deny.
const (
	BlockClass      Kind = "block_class"      // the call's safety class is in classes
	RequireApproval Kind = "require_approval" // every call in scope
	CapSpend        Kind = "cap_spend"        // the run's cost with this call would pass max_cost_microdollars
	CapTokens       Kind = "cap_tokens"       // the run's tokens with this call would pass max_tokens
	RateLimit       Kind = "rate_limit"       // more than max_calls calls in scope within window_ms
	TimeWindow      Kind = "time_window"      // outside from..to (UTC) or on another day
	AllowList       Kind = "allow_list"       // the name is not in names
	DenyList        Kind = "deny_list"        // the name is in names
	ConditionKind   Kind = "condition"        // the CEL expression when is true
)

// A Rule is one ordered rule. ID, Priority and Kind are always there; which of
// the other fields must be there and which must not depends on the kind.
type Rule struct {
	ID       string `json:"id"`
	Priority int64  `json:"priority"`
	Kind     Kind   `json:"kind"`

	// The scope: a rule looks only at calls with one of these actions (tools,
	// if none is given), classes and tools.
	Actions []Action `json:"actions,omitempty"`
	Classes []Class  `json:"classes,omitempty"`
	Tools   []string `json:"tools,omitempty"`

	Names           []string `json:"names,omitempty"`
	MaxCostMicroUSD *int64   `json:"max_cost_microdollars,omitempty"`
	MaxTokens       *int64   `json:"max_tokens,omitempty"`
	MaxCalls        *int64   `json:"max_calls,omitempty"`
	WindowMS        *int64   `json:"window_ms,omitempty"`
	From            string   `json:"from,omitempty"` // 15:04
	To              string   `json:"to,omitempty"`
	Days            []string `json:"days,omitempty"` // mon to sun
	When            string   `json:"when,omitempty"`
	Then            Verdict  `json:"then,omitempty"`
}

// ruleID keeps rule names apart from the built-in ones, which have a colon. It
// is compiled when the first rule is read, not at every start of the program.
var ruleID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`) })

const maxWindowMS = 365 * 24 * 3600 * 1000

var dayNames = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"} // as time.Weekday counts

func checkRules(rules []Rule) error {
	if len(rules) > maxRules {
		return fmt.Errorf("%d rules, expected at most %d", len(rules), maxRules)
	}
	ids, priorities := map[string]bool{}, map[int64]string{}
	for i := range rules {
		r := &rules[i]
		if !ruleID().MatchString(r.ID) {
			return fmt.Errorf("rules[%d]: id is %.80q, expected a-z 0-9 _ - and at most 64 of them", i, r.ID)
		}
		if ids[r.ID] {
			return fmt.Errorf("rule %s: there are two rules with this id", r.ID)
		}
		// With equal priorities the order would depend on who sorts.
		if other, taken := priorities[r.Priority]; taken {
			return fmt.Errorf("rule %s: priority %d is also that of rule %s; the order must be clear", r.ID, r.Priority, other)
		}
		ids[r.ID], priorities[r.Priority] = true, r.ID
		if err := r.validate(); err != nil {
			return fmt.Errorf("rule %s: %w", r.ID, err)
		}
	}
	return nil
}

// A ruleField is one optional field of a rule: whether it is set, and which
// kinds need it. No other kind may have it.
type ruleField struct {
	name    string
	set     bool
	kinds   []Kind
	allowed []Kind // kinds that may have it
}

func (r *Rule) validate() error {
	for _, f := range []ruleField{
		{"classes", len(r.Classes) > 0, []Kind{BlockClass}, []Kind{RequireApproval, CapSpend, CapTokens, RateLimit, TimeWindow, ConditionKind}},
		{"tools", len(r.Tools) > 0, nil, []Kind{BlockClass, RequireApproval, CapSpend, CapTokens, RateLimit, TimeWindow, ConditionKind}},
		{"names", len(r.Names) > 0, []Kind{AllowList, DenyList}, nil},
		{"max_cost_microdollars", r.MaxCostMicroUSD != nil, []Kind{CapSpend}, nil},
		{"max_tokens", r.MaxTokens != nil, []Kind{CapTokens}, nil},
		{"max_calls", r.MaxCalls != nil, []Kind{RateLimit}, nil},
		{"window_ms", r.WindowMS != nil, []Kind{RateLimit}, nil},
		{"from", r.From != "", []Kind{TimeWindow}, nil},
		{"to", r.To != "", []Kind{TimeWindow}, nil},
		{"days", len(r.Days) > 0, nil, []Kind{TimeWindow}},
		{"when", r.When != "", []Kind{ConditionKind}, nil},
		{"then", r.Then != "", []Kind{ConditionKind}, nil},
	} {
		needed := slices.Contains(f.kinds, r.Kind)
		if needed && !f.set {
			return fmt.Errorf("a %s rule needs %s", r.Kind, f.name)
		}
		if f.set && !needed && !slices.Contains(f.allowed, r.Kind) && r.Kind.known() {
			return fmt.Errorf("a %s rule has no %s", r.Kind, f.name)
		}
	}
	return errors.Join(r.checkScope(), r.checkValues())
}

// Kinds lists the kinds of rules.
func Kinds() []Kind {
	return []Kind{BlockClass, RequireApproval, CapSpend, CapTokens, RateLimit, TimeWindow, AllowList, DenyList, ConditionKind}
}

func (k Kind) known() bool { return slices.Contains(Kinds(), k) }

func (r *Rule) checkScope() error {
	if !r.Kind.known() {
		return fmt.Errorf("kind is %.40q, expected one of block_class, require_approval, cap_spend, cap_tokens, rate_limit, time_window, allow_list, deny_list, condition", string(r.Kind))
	}
	for i, a := range r.Actions {
		if !a.Known() || slices.Contains(r.Actions[:i], a) {
			return fmt.Errorf("actions[%d] is %.40q, expected each of tool, memory_write, handoff, approval at most once", i, string(a))
		}
	}
	for i, c := range r.Classes {
		if !c.Known() || slices.Contains(r.Classes[:i], c) {
			return fmt.Errorf("classes[%d] is %.40q, expected each of read, write, network, financial, privileged at most once", i, string(c))
		}
	}
	if err := checkList("tools", r.Tools); err != nil {
		return err
	}
	// A scope that no call can meet looks like protection and is none.
	if !r.actsOn(Tool) && (len(r.Classes) > 0 || len(r.Tools) > 0) {
		return errors.New("classes and tools are for tool calls, which actions leaves out")
	}
	return checkList("names", r.Names)
}

func (r *Rule) checkValues() error {
	for _, v := range []struct {
		name     string
		value    *int64
		min, max int64
	}{
		{"max_cost_microdollars", r.MaxCostMicroUSD, 0, maxMoney},
		{"max_tokens", r.MaxTokens, 0, maxMoney},
		{"max_calls", r.MaxCalls, 0, maxCalls},
		{"window_ms", r.WindowMS, 1, maxWindowMS},
	} {
		if v.value != nil && (*v.value < v.min || *v.value > v.max) {
			return fmt.Errorf("%s is %d, expected %d to %d", v.name, *v.value, v.min, v.max)
		}
	}
	if r.Then != "" && r.Then != Deny && r.Then != Escalate {
		return fmt.Errorf("then is %.40q, expected deny or escalate", string(r.Then))
	}
	if r.Kind == TimeWindow {
		from, err := parseClock(r.From)
		if err != nil {
			return fmt.Errorf("from: %w", err)
		}
		to, err := parseClock(r.To)
		if err != nil {
			return fmt.Errorf("to: %w", err)
		}
		if from >= to {
			return fmt.Errorf("from %s is not before to %s; a window over midnight is two rules' worth of days: give it as UTC hours of one day", r.From, r.To)
		}
	}
	for i, d := range r.Days {
		if !slices.Contains(dayNames, d) || slices.Contains(r.Days[:i], d) {
			return fmt.Errorf("days[%d] is %.40q, expected each of mon tue wed thu fri sat sun at most once", i, d)
		}
	}
	return nil
}

// parseClock reads 15:04; 24:00 ends a day.
func parseClock(s string) (time.Duration, error) {
	if s == "24:00" {
		return 24 * time.Hour, nil
	}
	t, err := time.Parse("15:04", s)
	if err != nil || t.Format("15:04") != s {
		return 0, fmt.Errorf("%.40q is not a time of day as in 09:30", s)
	}
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute, nil
}

// actsOn reports whether the rule looks at calls with this action. Lists of
// names and everything about tools mean tools unless the rule says otherwise.
func (r *Rule) actsOn(a Action) bool {
	if len(r.Actions) == 0 {
		return a == Tool
	}
	return slices.Contains(r.Actions, a)
}

// effect is the verdict of a rule that applies.
func (r *Rule) effect() Verdict {
	switch r.Kind {
	case RequireApproval:
		return Escalate
	case ConditionKind:
		return r.Then
	}
	return Deny
}

func sortedRules(rules []Rule) []Rule {
	sorted := slices.Clone(rules)
	slices.SortFunc(sorted, func(a, b Rule) int { return cmp.Compare(a.Priority, b.Priority) })
	return sorted
}
