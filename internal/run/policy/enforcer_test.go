package policy

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/refusal"
)

var monday = time.Date(2026, 5, 11, 9, 0, 0, 0, time.UTC)

func enforcer(t testing.TB, p Policy) *Enforcer {
	t.Helper()
	s, err := Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	e, err := s.Enforcer(monday)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func tool(id, name string) Call { return Call{ID: id, Action: Tool, Name: name, Class: Read} }

func wantDecision(t *testing.T, d Decision, check Check, verdict Verdict, rule string) {
	t.Helper()
	if d.Check != check || d.Verdict != verdict || d.Rule != rule {
		t.Errorf("got %s (%s), want %s by %s (%s)", d, d.Check, verdict, rule, check)
	}
	if d.Permits() != (verdict == Allow) {
		t.Errorf("%s: permits is %v", d, d.Permits())
	}
	if d.Reason == "" || strings.ContainsAny(d.String(), "\n\r\x1b") {
		t.Errorf("%q is not one line that explains itself", d.String())
	}
}

func texts(violations []Violation) []string {
	all := []string{}
	for _, v := range violations {
		all = append(all, v.Text)
	}
	return all
}

func wantViolations(t *testing.T, e *Enforcer, c Call, use Usage, want ...string) {
	t.Helper()
	got, err := e.Record(c, use)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(texts(got), want) {
		t.Errorf("%s: violations %q, want %q", c.ID, texts(got), want)
	}
	for _, v := range got {
		if v.CallID != c.ID || v.Rule == "" {
			t.Errorf("violation %+v does not say of which call and rule", v)
		}
	}
}

// The end-to-end expectation of RVF's implementation: Read, Write, Edit,
// Bash in restricted mode give allowed, denied, denied, denied and three
// violations.
func TestRestrictedRunIsThatOfRVF(t *testing.T) {
	e := enforcer(t, ForMode(Restricted))
	for i, tt := range []struct {
		name  string
		check Check
		rule  string
	}{{"Read", Allowed, RuleRestricted}, {"Write", Denied, RuleDenyList}, {"Edit", Denied, RuleDenyList}, {"Bash", Denied, RuleDenyList}, {"Mystery", Denied, RuleAllowList}} {
		c := tool(fmt.Sprint(i), tt.name)
		d := e.Decide(c)
		if tt.check == Allowed {
			wantDecision(t, d, Allowed, Allow, tt.rule)
			wantViolations(t, e, c, Usage{Executed: true})
		} else {
			wantDecision(t, d, Denied, Deny, tt.rule)
			wantViolations(t, e, c, Usage{}, "denied tool: "+tt.name)
		}
	}
	if e.Totals().ToolCalls != 5 {
		t.Errorf("%d calls, want 5: denied calls are recorded", e.Totals().ToolCalls)
	}
}

func TestDenyListIsStrongerThanTheMode(t *testing.T) {
	for _, m := range []Mode{Restricted, Approved, Autonomous} {
		e := enforcer(t, Policy{Mode: m, Allow: []string{"Bash"}, Deny: []string{"Bash"}, MaxToolCalls: 9})
		wantDecision(t, e.Decide(tool("1", "Bash")), Denied, Deny, RuleDenyList)
		if _, err := e.Approve("1"); !refusal.Is(err, refusal.NotFound) {
			t.Errorf("%s: a denied call was approved: %v", m, err)
		}
	}
}

func TestApprovedModeConfirmsOnlyAfterAnApproval(t *testing.T) {
	e := enforcer(t, ForMode(Approved))
	c := tool("1", "Write")
	wantDecision(t, e.Decide(c), Denied, Escalate, RuleApproved)
	wantDecision(t, e.Decide(c), Denied, Escalate, RuleApproved)
	if !e.Pending("1") {
		t.Error("the call does not wait")
	}
	d, err := e.Approve("1")
	if err != nil {
		t.Fatal(err)
	}
	wantDecision(t, d, Confirmed, Allow, RuleApproval)
	wantDecision(t, e.Decide(c), Confirmed, Allow, RuleApproval)
	if _, err := e.Approve("1"); !refusal.Is(err, refusal.NotFound) {
		t.Errorf("approved twice: %v", err)
	}
	if _, err := e.Refuse("1"); !refusal.Is(err, refusal.NotFound) {
		t.Errorf("refused after it was approved: %v", err)
	}
	wantViolations(t, e, c, Usage{Executed: true})

	refused := tool("2", "Write")
	e.Decide(refused)
	d, err = e.Refuse("2")
	if err != nil {
		t.Fatal(err)
	}
	wantDecision(t, d, Denied, Deny, RuleApproval)
	wantDecision(t, e.Decide(refused), Denied, Deny, RuleApproval)
	wantViolations(t, e, refused, Usage{}, "denied tool: Write")

	forgotten := tool("3", "Write")
	e.Decide(forgotten)
	wantViolations(t, e, forgotten, Usage{Executed: true}, "unapproved tool: Write", "executed without permission, tool: Write")
	if _, err := e.Approve("3"); !refusal.Is(err, refusal.NotFound) {
		t.Errorf("approved after the fact: %v", err)
	}
}

// Approve a small transfer, execute a large one: the oldest trick.
func TestAnApprovalHoldsForTheVeryCallOnly(t *testing.T) {
	change := map[string]func(*Call){
		"arguments": func(c *Call) { c.Args = []byte(`{"amount":1000000}`) },
		"tool":      func(c *Call) { c.Name = "Bash" },
		"class":     func(c *Call) { c.Class = Privileged },
		"action":    func(c *Call) { c.Action = Handoff },
		"cost":      func(c *Call) { c.CostMicroUSD = 5 },
	}
	for what, edit := range change {
		e := enforcer(t, ForMode(Approved))
		c := Call{ID: "1", Action: Tool, Name: "transfer", Class: Financial, Args: []byte(`{"amount":1}`)}
		e.Decide(c)
		if _, err := e.Approve("1"); err != nil {
			t.Fatal(err)
		}
		forged := c
		edit(&forged)
		if d := e.Decide(forged); d.Permits() {
			t.Errorf("another %s was let through: %s", what, d)
		}
		// And the approval is gone for the honest call too.
		if d := e.Decide(c); d.Permits() {
			t.Errorf("%s: after the attempt the call is still permitted", what)
		}

		e = enforcer(t, ForMode(Approved))
		e.Decide(c)
		if _, err := e.Approve("1"); err != nil {
			t.Fatal(err)
		}
		got, err := e.Record(forged, Usage{Executed: true})
		if err != nil || len(got) == 0 || !strings.HasPrefix(got[0].Text, "changed ") {
			t.Errorf("another %s was executed and recorded as %q, %v", what, texts(got), err)
		}
	}
}

func TestACallIDIsUsedOnce(t *testing.T) {
	e := enforcer(t, ForMode(Autonomous))
	c := Call{ID: "1", Action: Tool, Name: "transfer", Class: Financial}
	wantDecision(t, e.Decide(c), Allowed, Allow, RuleAutonomous)
	wantViolations(t, e, c, Usage{Executed: true})
	wantDecision(t, e.Decide(c), Denied, Deny, RuleCall)
	wantViolations(t, e, c, Usage{Executed: true}, "repeated tool: transfer")
	wantViolations(t, e, tool("never", "Read"), Usage{Executed: true}, "undecided tool: Read")
	wantViolations(t, e, tool("never", "Read"), Usage{Executed: true}, "repeated tool: Read")
}

func TestBudgetsAreViolatedByEveryLaterCall(t *testing.T) {
	e := enforcer(t, Policy{Mode: Autonomous, MaxCostMicroUSD: 100, MaxToolCalls: 2, Deny: []string{"Bash"}})
	for i, tt := range []struct {
		name string
		cost int64
		want []string
	}{
		{"Read", 60, nil},
		{"Read", 40, nil}, // exactly the budget
		{"Read", 1, []string{"cost budget exceeded: 101 > 100", "tool call budget exceeded: 3 > 2"}},
		{"Bash", 0, []string{"denied tool: Bash", "cost budget exceeded: 101 > 100", "tool call budget exceeded: 4 > 2"}},
		{"Read", 9, []string{"cost budget exceeded: 110 > 100", "tool call budget exceeded: 5 > 2"}},
	} {
		c := tool(fmt.Sprint(i), tt.name)
		e.Decide(c)
		wantViolations(t, e, c, Usage{Executed: tt.name != "Bash", CostMicroUSD: tt.cost, Tokens: 3, Latency: time.Second}, tt.want...)
	}
	if got := e.Totals(); got != (Totals{CostMicroUSD: 110, Tokens: 15, ToolCalls: 5, Latency: 5 * time.Second}) {
		t.Errorf("totals %+v", got)
	}
	got, err := e.Charge("model-1", Usage{CostMicroUSD: 5, Tokens: 10})
	if err != nil || !slices.Equal(texts(got), []string{"cost budget exceeded: 115 > 100"}) {
		t.Errorf("a model call: %q, %v", texts(got), err)
	}
	if e.Totals().ToolCalls != 5 {
		t.Error("a model call counts as a tool call")
	}
}

func TestSumsDoNotWrapAround(t *testing.T) {
	e := enforcer(t, ForMode(Autonomous))
	for i := range 3 {
		c := tool(fmt.Sprint(i), "Read")
		e.Decide(c)
		got, err := e.Record(c, Usage{CostMicroUSD: math.MaxInt64 - 1, Tokens: math.MaxInt64})
		if err != nil || len(got) != 1 {
			t.Errorf("call %d: %q, %v", i, texts(got), err)
		}
	}
	if _, err := e.Record(tool("x", "Read"), Usage{CostMicroUSD: -1}); err == nil {
		t.Error("a negative cost buys budget back")
	}
	if _, err := e.Charge("y", Usage{CostMicroUSD: -1}); err == nil {
		t.Error("a negative charge buys budget back")
	}
}

func rules(rules ...Rule) Policy {
	return Policy{Mode: Autonomous, MaxCostMicroUSD: 1e9, MaxToolCalls: 1e6, Rules: rules}
}

func ptr(n int64) *int64 { return &n }

func TestFirstNonAllowWinsAndALaterDenyOverridesAnEscalation(t *testing.T) {
	ask := Rule{ID: "ask", Priority: 10, Kind: RequireApproval}
	askToo := Rule{ID: "ask-too", Priority: 15, Kind: RequireApproval}
	forbid := Rule{ID: "forbid", Priority: 20, Kind: DenyList, Names: []string{"bad"}}
	forbidToo := Rule{ID: "forbid-too", Priority: 30, Kind: BlockClass, Classes: []Class{Read}, Tools: []string{"bad"}}

	e := enforcer(t, rules(forbidToo, forbid, askToo, ask)) // in any order in the file
	wantDecision(t, e.Decide(tool("1", "good")), Denied, Escalate, "ask")
	wantDecision(t, e.Decide(tool("2", "bad")), Denied, Deny, "forbid")

	ask.Priority, forbid.Priority = 20, 10
	e = enforcer(t, rules(ask, forbid))
	wantDecision(t, e.Decide(tool("2", "bad")), Denied, Deny, "forbid")

	// In approved mode no person is asked to approve what a rule forbids.
	p := rules(forbid)
	p.Mode = Approved
	wantDecision(t, enforcer(t, p).Decide(tool("1", "bad")), Denied, Deny, "forbid")

	// A rule cannot loosen the mode.
	p = rules(Rule{ID: "only", Priority: 1, Kind: AllowList, Names: []string{"x"}})
	p.Mode = Restricted
	wantDecision(t, enforcer(t, p).Decide(tool("1", "x")), Denied, Deny, RuleAllowList)

	// Approving an escalation by a rule confirms.
	e = enforcer(t, rules(ask))
	e.Decide(tool("1", "x"))
	d, err := e.Approve("1")
	if err != nil {
		t.Fatal(err)
	}
	wantDecision(t, d, Confirmed, Allow, RuleApproval)
	if !strings.Contains(d.Reason, "ask") {
		t.Errorf("%s does not say which rule asked", d)
	}
}

func TestEachRuleKind(t *testing.T) {
	call := func(edit func(*Call)) Call {
		c := Call{ID: "1", Action: Tool, Name: "transfer", Class: Financial, Args: []byte(`{"amount":50}`), CostMicroUSD: 5, Tokens: 5}
		if edit != nil {
			edit(&c)
		}
		return c
	}
	for _, tt := range []struct {
		name string
		rule Rule
		call Call
		want Verdict
		why  string
	}{
		{"a blocked class", Rule{Kind: BlockClass, Classes: []Class{Write, Financial}}, call(nil), Deny, "safety class financial"},
		{"another class", Rule{Kind: BlockClass, Classes: []Class{Write}}, call(nil), Allow, ""},
		{"a tool without class", Rule{Kind: BlockClass, Classes: []Class{Write}}, call(func(c *Call) { c.Class = "" }), Deny, "no safety class"},
		{"approval of one tool", Rule{Kind: RequireApproval, Tools: []string{"transfer"}}, call(nil), Escalate, "required"},
		{"approval of another tool", Rule{Kind: RequireApproval, Tools: []string{"read"}}, call(nil), Allow, ""},
		{"approval of a class", Rule{Kind: RequireApproval, Classes: []Class{Financial}}, call(nil), Escalate, ""},
		{"spend within the cap", Rule{Kind: CapSpend, MaxCostMicroUSD: ptr(5)}, call(nil), Allow, ""},
		{"spend over the cap", Rule{Kind: CapSpend, MaxCostMicroUSD: ptr(4)}, call(nil), Deny, "5, the cap is 4"},
		{"tokens within the cap", Rule{Kind: CapTokens, MaxTokens: ptr(5)}, call(nil), Allow, ""},
		{"tokens over the cap", Rule{Kind: CapTokens, MaxTokens: ptr(4)}, call(nil), Deny, "5, the cap is 4"},
		{"no calls at all", Rule{Kind: RateLimit, MaxCalls: ptr(0), WindowMS: ptr(1000)}, call(nil), Deny, "limit is 0"},
		{"in the window", Rule{Kind: TimeWindow, From: "09:00", To: "17:00"}, call(nil), Allow, ""},
		{"at its end", Rule{Kind: TimeWindow, From: "09:00", To: "17:00"}, call(func(c *Call) { c.At = 8 * time.Hour }), Deny, "Mon 17:00:00 is outside"},
		{"just before its end", Rule{Kind: TimeWindow, From: "09:00", To: "17:00"}, call(func(c *Call) { c.At = 8*time.Hour - 1 }), Allow, ""},
		{"another day", Rule{Kind: TimeWindow, From: "00:00", To: "24:00", Days: []string{"sat", "sun"}}, call(nil), Deny, "on [sat sun]"},
		{"that day", Rule{Kind: TimeWindow, From: "00:00", To: "24:00", Days: []string{"mon"}}, call(nil), Allow, ""},
		{"on a list", Rule{Kind: AllowList, Names: []string{"transfer"}}, call(nil), Allow, ""},
		{"not on a list", Rule{Kind: AllowList, Names: []string{"x"}}, call(nil), Deny, "not on"},
		{"a forbidden name", Rule{Kind: DenyList, Names: []string{"transfer"}}, call(nil), Deny, "on the rule's list"},
		{"another name", Rule{Kind: DenyList, Names: []string{"x"}}, call(nil), Allow, ""},
		{"a condition that holds", Rule{Kind: ConditionKind, When: "args.amount > 10", Then: Escalate}, call(nil), Escalate, "args.amount > 10"},
		{"a condition that does not", Rule{Kind: ConditionKind, When: "args.amount > 100", Then: Deny}, call(nil), Allow, ""},
		{"a condition about a missing argument", Rule{Kind: ConditionKind, When: "args.amount > 10", Then: Escalate}, call(func(c *Call) { c.Args = []byte(`{"sum":1}`) }), Deny, "could not be evaluated for tool transfer: no such key: amount"},
		{"a condition without arguments", Rule{Kind: ConditionKind, When: "args.amount > 10", Then: Escalate}, call(func(c *Call) { c.Args = nil }), Deny, "no such key"},
		{"a condition over a list", Rule{Kind: ConditionKind, When: "args.amount > 10", Then: Escalate}, call(func(c *Call) { c.Args = []byte(`[1]`) }), Deny, "could not be evaluated"},
		{"a condition over null", Rule{Kind: ConditionKind, When: "args.amount > 10", Then: Escalate}, call(func(c *Call) { c.Args = []byte(`null`) }), Deny, "could not be evaluated"},
		{"a condition over a key that is there twice", Rule{Kind: ConditionKind, When: "args.amount > 10", Then: Escalate}, call(func(c *Call) { c.Args = []byte(`{"amount":1,"amount":99}`) }), Deny, "could not be evaluated"},
		{"a memory write outside the scope", Rule{Kind: DenyList, Names: []string{"user.email"}}, call(func(c *Call) { c.Action, c.Name = MemoryWrite, "user.email" }), Allow, ""},
		{"a memory write in scope", Rule{Kind: DenyList, Actions: []Action{MemoryWrite}, Names: []string{"user.email"}}, call(func(c *Call) { c.Action, c.Name = MemoryWrite, "user.email" }), Deny, "memory write user.email"},
		{"a hand-off to a stranger", Rule{Kind: AllowList, Actions: []Action{Handoff}, Names: []string{"treasury"}}, call(func(c *Call) { c.Action, c.Name = Handoff, "mallory" }), Deny, "handoff mallory"},
		{"a memory write with a condition", Rule{Kind: ConditionKind, Actions: []Action{MemoryWrite}, When: "args.amount > 10", Then: Escalate}, call(func(c *Call) { c.Action = MemoryWrite }), Escalate, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.rule.ID, tt.rule.Priority = "the-rule", 1
			d := enforcer(t, rules(tt.rule)).Decide(tt.call)
			if d.Verdict != tt.want || !strings.Contains(d.String(), tt.why) || (tt.want != Allow) != (d.Rule == "the-rule") {
				t.Errorf("got %s, want %s with %q", d, tt.want, tt.why)
			}
		})
	}
}

func TestRateLimitCountsLogicalTime(t *testing.T) {
	e := enforcer(t, rules(Rule{ID: "slow", Priority: 1, Kind: RateLimit, Tools: []string{"x"}, MaxCalls: ptr(2), WindowMS: ptr(1000)}))
	for i, tt := range []struct {
		name string
		at   time.Duration
		want Verdict
	}{
		{"x", 0, Allow},
		{"y", 0, Allow}, // another tool does not count
		{"x", 500 * time.Millisecond, Allow},
		{"x", 999 * time.Millisecond, Deny},
		{"x", 1000 * time.Millisecond, Allow}, // the first has left the window, denied calls never entered it
		{"x", 1499 * time.Millisecond, Deny},
		{"x", 1500 * time.Millisecond, Allow},
		{"y", 100 * time.Millisecond, Deny}, // time does not go back
	} {
		c := tool(fmt.Sprint(i), tt.name)
		c.At = tt.at
		if d := e.Decide(c); d.Verdict != tt.want {
			t.Errorf("call %d at %v: %s, want %s", i, tt.at, d, tt.want)
		}
	}
}

func TestCapsSeeWhatWasRecorded(t *testing.T) {
	e := enforcer(t, rules(
		Rule{ID: "spend", Priority: 1, Kind: CapSpend, MaxCostMicroUSD: ptr(100)},
		Rule{ID: "tokens", Priority: 2, Kind: CapTokens, MaxTokens: ptr(1000)}))
	c := tool("1", "x")
	e.Decide(c)
	wantViolations(t, e, c, Usage{Executed: true, CostMicroUSD: 100, Tokens: 10})
	c = tool("2", "x")
	c.CostMicroUSD = 1
	wantDecision(t, e.Decide(c), Denied, Deny, "spend")
	wantDecision(t, e.Decide(tool("3", "x")), Allowed, Allow, RuleAutonomous)
	if _, err := e.Charge("m", Usage{Tokens: 991}); err != nil {
		t.Fatal(err)
	}
	wantDecision(t, e.Decide(tool("4", "x")), Denied, Deny, "tokens")
}

func TestModesApplyToEveryAction(t *testing.T) {
	actions := []Action{MemoryWrite, Handoff, Approval}
	p := ForMode(Restricted)
	for _, a := range actions {
		c := Call{ID: "1", Action: a, Name: "Read"} // the name of an allowed tool does not help
		wantDecision(t, enforcer(t, p).Decide(c), Denied, Deny, RuleAllowList)
		wantDecision(t, enforcer(t, ForMode(Approved)).Decide(c), Denied, Escalate, RuleApproved)
		e := enforcer(t, Policy{Mode: Autonomous, Deny: []string{"action:" + string(a)}})
		wantDecision(t, e.Decide(c), Denied, Deny, RuleDenyList)
		wantViolations(t, e, c, Usage{}, "denied "+strings.ReplaceAll(string(a), "_", " ")+": Read")
	}
	p.Allow = append(p.Allow, "action:memory_write")
	wantDecision(t, enforcer(t, p).Decide(Call{ID: "1", Action: MemoryWrite, Name: "k"}), Allowed, Allow, RuleRestricted)
	// A tool cannot borrow the name of an action.
	wantDecision(t, enforcer(t, p).Decide(tool("1", "action:memory_write")), Denied, Deny, RuleCall)
	// Asking a person is never answered by the machine.
	wantDecision(t, enforcer(t, ForMode(Autonomous)).Decide(Call{ID: "1", Action: Approval, Name: "may I?"}), Denied, Escalate, RuleApproval)
	// Memory and hand-offs are not tool calls.
	e := enforcer(t, Policy{Mode: Autonomous, MaxToolCalls: 0})
	c := Call{ID: "1", Action: MemoryWrite, Name: "k"}
	e.Decide(c)
	wantViolations(t, e, c, Usage{Executed: true})
}

func TestMalformedCallsAreDenied(t *testing.T) {
	for name, c := range map[string]Call{
		"no id":             {Action: Tool, Name: "x"},
		"no action":         {ID: "1", Name: "x"},
		"an unknown action": {ID: "1", Action: "fly", Name: "x"},
		"no name":           {ID: "1", Action: Tool},
		"a huge name":       {ID: "1", Action: Tool, Name: strings.Repeat("x", 300)},
		"bytes for a name":  {ID: "1", Action: Tool, Name: "\xff"},
		"an unknown class":  {ID: "1", Action: Tool, Name: "x", Class: "harmless"},
		"a negative cost":   {ID: "1", Action: Tool, Name: "x", CostMicroUSD: -1},
	} {
		e := enforcer(t, ForMode(Autonomous))
		if d := e.Decide(c); d.Permits() || d.Rule != RuleCall {
			t.Errorf("%s: %s", name, d)
		}
		if got, err := e.Record(c, Usage{}); err != nil || len(got) != 1 || !strings.HasPrefix(got[0].Text, "denied ") || len(got[0].Text) > 300 {
			t.Errorf("%s: recorded as %q, %v", name, texts(got), err)
		}
	}
	e := enforcer(t, ForMode(Autonomous))
	d := e.Decide(tool("1", "x\x1b[31m\n::error::owned"))
	wantDecision(t, d, Allowed, Allow, RuleAutonomous)
}

func TestTheZeroValuesPermitNothing(t *testing.T) {
	if (Decision{}).Permits() {
		t.Error("the zero Decision permits")
	}
	if d := enforcer(t, Policy{}).Decide(tool("1", "Read")); d.Permits() {
		t.Errorf("the zero Policy: %s", d)
	}
}

func TestCompileNamesTheRule(t *testing.T) {
	p := rules(Rule{ID: "big", Priority: 1, Kind: ConditionKind, When: "nonsense", Then: Deny})
	if _, err := Compile(p); err == nil || !strings.Contains(err.Error(), "rule big: when: 1:1: undeclared") {
		t.Errorf("got %v", err)
	}
	s, err := Compile(rules(Rule{ID: "day", Priority: 1, Kind: TimeWindow, From: "09:00", To: "10:00"}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Enforcer(time.Time{}); err == nil {
		t.Error("a time window without a time was accepted")
	}
}

// The state of a suspended case is rebuilt by giving the same calls again.
func TestTheSameCallsGiveTheSameDecisions(t *testing.T) {
	p := rules(
		Rule{ID: "ask", Priority: 1, Kind: ConditionKind, When: "args.amount > 10", Then: Escalate},
		Rule{ID: "slow", Priority: 2, Kind: RateLimit, MaxCalls: ptr(5), WindowMS: ptr(100)})
	run := func() string {
		e, log := enforcer(t, p), ""
		for i := range 50 {
			c := tool(fmt.Sprint(i), "t"+fmt.Sprint(i%3))
			c.Args, c.At = fmt.Appendf(nil, `{"amount":%d}`, i%20), time.Duration(i*7)*time.Millisecond
			d := e.Decide(c)
			log += d.String() + "\n"
			if d.Verdict == Escalate {
				d, err := e.Approve(c.ID)
				log += fmt.Sprintln(d, err)
			}
			v, err := e.Record(c, Usage{Executed: d.Permits(), CostMicroUSD: int64(i)})
			log += fmt.Sprintln(v, err)
		}
		return log
	}
	if first := run(); first != run() {
		t.Error("two runs differ")
	}
}

func BenchmarkDecideAndRecord(b *testing.B) {
	e := enforcer(b, rules(
		Rule{ID: "block", Priority: 1, Kind: BlockClass, Classes: []Class{Privileged}},
		Rule{ID: "ask", Priority: 2, Kind: RequireApproval, Tools: []string{"other"}}))
	i := 0
	for b.Loop() {
		c := tool(fmt.Sprint(i), "Read")
		i++
		if d := e.Decide(c); !d.Permits() {
			b.Fatal(d)
		}
		if _, err := e.Record(c, Usage{Executed: true}); err != nil {
			b.Fatal(err)
		}
	}
}

// A cap that cannot be shown to hold does not hold.
func TestUnknownSpendIsNotBelowACap(t *testing.T) {
	most := int64(1_000_000)
	for _, rule := range []Rule{
		{ID: "cap", Kind: CapSpend, MaxCostMicroUSD: &most},
		{ID: "when", Kind: ConditionKind, When: "spent_microdollars > 1000000.0", Then: Deny},
	} {
		p := ForMode(Autonomous)
		p.Rules = []Rule{rule}
		set, err := Compile(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, unpriced := range []bool{false, true} {
			e, err := set.Enforcer(time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := e.Charge("m1", Usage{Executed: true, CostMicroUSD: 5, Unpriced: unpriced}); err != nil {
				t.Fatal(err)
			}
			if d := e.Decide(tool("1", "Read")); d.Permits() == unpriced {
				t.Errorf("%s, unpriced %v: %+v", rule.ID, unpriced, d)
			}
		}
	}
}
