package session

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/tools"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/vantage"
	"tallystick/internal/run/wire"
)

// judged has an agent talk to its model under a policy, and lists the decisions and
// the violations that follow.
func judged(t *testing.T, p policy.Policy, defs []tools.Definition, api wire.API, exchanges [][2]string) (decisions, violations []string, view *trajectory.CallView) {
	t.Helper()
	r, v := exchanged(t, p, defs, api, exchanges)
	decisions, violations = toldOf(v)
	if r.Counts.Violations != len(violations) || CountsOf(v).Violations != len(violations) {
		t.Errorf("the session counts %d violations, its events %d", r.Counts.Violations, len(violations))
	}
	return decisions, violations, trajectory.CallsOf(v)
}

func toldOf(v *trajectory.Verified) (decisions, violations []string) {
	for e := range v.Events() {
		switch p := e.Payload.(type) {
		case *trajectory.PolicyDecision:
			decisions = append(decisions, fmt.Sprintf("%s %s %s", p.Name, p.Verdict, p.Rule))
		case *trajectory.PolicyViolation:
			violations = append(violations, fmt.Sprintf("%s %v %s", p.Rule, p.Unprevented, p.Text))
		}
	}
	return decisions, violations
}

func without(tool ...string) policy.Policy {
	return policy.Policy{Mode: policy.Autonomous, Deny: tool, MaxToolCalls: 100, MaxCostMicroUSD: 1000}
}

// TestAToolOfTheAgentsOwnIsJudgedHoweverItIsTold: an agent that runs a forbidden tool
// in its own process, in every API and every way to tell its model of it.
func TestAToolOfTheAgentsOwnIsJudgedHoweverItIsTold(t *testing.T) {
	ask := chatSends(nil)
	call := func(name string) string { return `a ` + name + ` {"n":1}` }
	chat := func(name string) [][2]string {
		return [][2]string{{ask, chatAsks(call(name))}, {chatSends([]string{call(name)}, "a ok"), finished}}
	}
	messages := `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}]}`
	for _, tt := range []struct {
		name      string
		api       wire.API
		exchanges [][2]string
		want      int // violations
	}{
		{"proposed and answered", wire.OpenAIChat, chat("issue_refund"), 1},
		{"only proposed", wire.OpenAIChat, [][2]string{{ask, chatAsks(call("issue_refund"))}, {ask, finished}}, 0},
		{"never proposed", wire.OpenAIChat, [][2]string{{chatSends([]string{call("issue_refund")}, "a ok"), finished}}, 1},
		{"told in the last request alone, with all that was done", wire.OpenAIChat,
			[][2]string{{ask, finished}, {ask, finished}, {chatSends([]string{call("issue_refund"), `b issue_refund {"n":2}`}, "a ok", "b ok"), finished}}, 2},
		{"in parallel, one of two", wire.OpenAIChat, [][2]string{{ask, chatAsks(call("look"), `b issue_refund {"n":1}`)}, {chatSends([]string{call("look"), `b issue_refund {"n":1}`}, "a ok", "b ok"), finished}}, 1},
		{"one id for both", wire.OpenAIChat, [][2]string{{ask, chatAsks(call("look"))}, {chatSends([]string{call("look"), call("issue_refund")}, "a ok", "a ok"), finished}}, 1},
		{"the same result sent again", wire.OpenAIChat, append(chat("issue_refund"), chat("issue_refund")[1]), 1},
		{"streamed", wire.OpenAIChat, [][2]string{{ask, "stream " + chatAsks(call("issue_refund"))}, {chatSends([]string{call("issue_refund")}, "a ok"), "stream " + finished}}, 1},
		{"in the oldest form", wire.OpenAIChat, [][2]string{{`{"model":"m","messages":[{"role":"assistant","function_call":{"name":"issue_refund","arguments":"{}"}},{"role":"function","name":"issue_refund","content":"ok"}]}`, finished}}, 1},
		{"nobody named it", wire.OpenAIChat, [][2]string{{chatSends(nil, "z ok"), finished}}, 1},
		{"renamed in the history", wire.OpenAIChat, [][2]string{{ask, chatAsks(call("issue_refund"))}, {chatSends([]string{call("look")}, "a ok"), finished}}, 1},

		{"behind an MCP client", wire.OpenAIChat, chat("mcp__shop__issue_refund"), 1},
		{"behind a dot", wire.OpenAIChat, chat("functions.issue_refund"), 1},
		{"in capitals", wire.OpenAIChat, chat("Issue_Refund"), 1},
		{"in camel case", wire.OpenAIChat, chat("issueRefund"), 1},
		{"with a dash", wire.OpenAIChat, chat("issue-refund"), 1},
		{"with a digit for a letter", wire.OpenAIChat, chat("1ssue_refund"), 1},
		{"with a letter of another alphabet", wire.OpenAIChat, chat("\u0456ssue_refund"), 1},
		{"with full-width letters", wire.OpenAIChat, chat("ｉｓｓｕｅ_refund"), 1},
		{"with an invisible character", wire.OpenAIChat, chat("issue_\u200brefund"), 1},
		{"another tool", wire.OpenAIChat, chat("look"), 0},
		{"a tool whose name only ends alike", wire.OpenAIChat, chat("list_issue_refund"), 0},

		{"in blocks", wire.AnthropicMessages, [][2]string{
			{messages, `{"type":"message","stop_reason":"tool_use","content":[{"type":"tool_use","id":"t1","name":"issue_refund","input":{"n":1}},{"type":"tool_use","id":"t2","name":"look","input":{}}]}`},
			{`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"issue_refund","input":{"n":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"ok"}]}]}`,
				`{"type":"message","stop_reason":"end_turn","content":[]}`}}, 1},
		{"by the provider", wire.AnthropicMessages, [][2]string{{messages, `{"type":"message","stop_reason":"end_turn","content":[{"type":"mcp_tool_use","id":"m1","name":"issue_refund","input":{}},{"type":"mcp_tool_result","tool_use_id":"m1","content":[]}]}`}}, 1},
		{"in a conversation that the provider keeps", wire.OpenAIResponses, [][2]string{
			{`{"model":"m","input":"x"}`, `{"status":"completed","output":[{"type":"function_call","id":"fc_1","call_id":"a","name":"issue_refund","arguments":"{}"}]}`},
			{`{"model":"m","previous_response_id":"resp_1","input":[{"type":"function_call_output","call_id":"a","output":"ok"}]}`, `{"status":"completed","output":[]}`}}, 1},
		{"as a function response", wire.GeminiGenerate, [][2]string{
			{`{"model":"m","contents":[{"role":"user","parts":[{"text":"x"}]}]}`, `{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"issue_refund","args":{"n":1}}}]},"finishReason":"STOP"}]}`},
			{`{"model":"m","contents":[{"role":"user","parts":[{"text":"x"}]},{"role":"model","parts":[{"functionCall":{"name":"issue_refund","args":{"n":1}}}]},{"role":"user","parts":[{"functionResponse":{"name":"issue_refund","response":{"ok":true}}}]}]}`,
				`{"candidates":[{"content":{"role":"model","parts":[{"text":"done"}]},"finishReason":"STOP"}]}`}}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, violations, view := judged(t, without("issue_refund"), nil, tt.api, tt.exchanges)
			if len(violations) != tt.want {
				t.Fatalf("%d violations %q, want %d", len(violations), violations, tt.want)
			}
			n := 0
			for i := range view.Calls {
				if view.Calls[i].Unprevented() {
					n++
				}
			}
			if n != tt.want {
				t.Errorf("the view has %d calls that were not prevented, want %d: %+v", n, tt.want, view.Calls)
			}
			for _, v := range violations {
				if !strings.Contains(v, "true seen, not prevented: ") {
					t.Errorf("violation %q does not say that it was not prevented", v)
				}
			}
		})
	}
}

// TestEveryRuleJudgesReportedCalls: lists, budgets, rules on arguments, approvals.
func TestEveryRuleJudgesReportedCalls(t *testing.T) {
	n := func(i int64) *int64 { return &i }
	two := [][2]string{{chatSends(nil), chatAsks(`a refund {"n":1}`, `b refund {"n":500}`)}, {chatSends([]string{`a refund {"n":1}`, `b refund {"n":500}`}, "a ok", "b ok"), finished}}
	rule := func(r policy.Rule) policy.Policy {
		r.ID, r.Priority = "the-rule", 1
		p := without()
		p.Rules = []policy.Rule{r}
		return p
	}
	for _, tt := range []struct {
		name string
		p    policy.Policy
		want []string // the rules that are broken, in order
	}{
		{"everything is allowed", without(), nil},
		{"denied", without("refund"), []string{policy.RuleDenyList, policy.RuleDenyList}},
		{"no call at all", policy.Policy{Mode: policy.Autonomous, MaxCostMicroUSD: 10}, []string{policy.RuleCallBudget, policy.RuleCallBudget}},
		{"one call", policy.Policy{Mode: policy.Autonomous, MaxCostMicroUSD: 10, MaxToolCalls: 1}, []string{policy.RuleCallBudget}},
		{"restricted to another", policy.Policy{Mode: policy.Restricted, Allow: []string{"look"}, MaxCostMicroUSD: 10, MaxToolCalls: 9}, []string{policy.RuleAllowList, policy.RuleAllowList}},
		{"restricted to it", policy.Policy{Mode: policy.Restricted, Allow: []string{"refund"}, MaxCostMicroUSD: 10, MaxToolCalls: 9}, nil},
		{"approved mode, and nobody was asked", policy.Policy{Mode: policy.Approved, MaxCostMicroUSD: 10, MaxToolCalls: 9}, []string{policy.RuleApproved, policy.RuleApproved}},
		{"an approval is required", rule(policy.Rule{Kind: policy.RequireApproval, Tools: []string{"refund"}}), []string{"the-rule", "the-rule"}},
		{"by its arguments", rule(policy.Rule{Kind: policy.ConditionKind, When: "args.n > 100.0", Then: policy.Deny}), []string{"the-rule"}},
		{"by how many there were", rule(policy.Rule{Kind: policy.ConditionKind, When: "tool_calls >= 1.0", Then: policy.Deny}), []string{"the-rule"}},
		{"by rate", rule(policy.Rule{Kind: policy.RateLimit, MaxCalls: n(1), WindowMS: n(1000)}), []string{"the-rule"}},
		{"by name", rule(policy.Rule{Kind: policy.DenyList, Names: []string{"Refund"}}), []string{"the-rule", "the-rule"}},
		{"by class, which nobody gave", rule(policy.Rule{Kind: policy.BlockClass, Classes: []policy.Class{policy.Financial}}), []string{"the-rule", "the-rule"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			decisions, violations, _ := judged(t, tt.p, nil, wire.OpenAIChat, two)
			var rules []string
			for _, v := range violations {
				rule, _, _ := strings.Cut(v, " ")
				rules = append(rules, rule)
			}
			if !slices.Equal(rules, tt.want) || len(decisions) != 2 {
				t.Errorf("broken %q after the decisions %q, want %q", violations, decisions, tt.want)
			}
		})
	}
}

// TestACallThatWentThroughUsIsJudgedOnce: brought here by MCP under its own name, told
// to the model under another, and denied here and made all the same.
func TestACallThatWentThroughUsIsJudgedOnce(t *testing.T) {
	for _, tt := range []struct {
		name, result    string
		deny            []string
		decisions, want int
	}{
		{"executed here", `{\"ok\":true}`, nil, 1, 0},
		{"denied here, and the model is told so", trajectory.DeniedText(policy.RuleDenyList) + ": no", []string{"refund"}, 1, 1},
		{"denied here, and the model is told so in a client's words", "Error calling tool refund: " + trajectory.DeniedText(policy.RuleDenyList) + ": no. Try something else.", []string{"refund"}, 1, 1},
		{"denied here and made all the same", "refunded", []string{"refund"}, 1, 2},
		{"denied here and made all the same, in the words of a denial", "denied by policy, and refunded", []string{"refund"}, 1, 2},
		{"denied here and made all the same, by another rule", "refunded; not " + trajectory.DeniedText("another"), []string{"refund"}, 1, 2},
		{"denied here and made all the same, with an error that is not ours", "error: denied by Policy (" + policy.RuleDenyList + ")", []string{"refund"}, 1, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := &spoken{replies: []string{chatAsks(`a mcp__shop__refund {"n":1}`), finished}}
			s := start(t, without(tt.deny...), []tools.Definition{fixture("refund", policy.Financial, `{"ok":true}`)}, func(c *Config) { c.Models, c.Run.Vantage = m, vantage.Gateway })
			ctx := context.Background()
			if _, err := s.Model(ctx, wire.OpenAIChat, []byte(chatSends(nil)), nil); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Tool(ctx, ToolCall{Name: "refund", Args: canon.RawMessage(`{"n":1}`)}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Model(ctx, wire.OpenAIChat, []byte(chatSends([]string{`a mcp__shop__refund {"n":1}`}, "a "+tt.result)), nil); err != nil {
				t.Fatal(err)
			}
			r := s.Complete("done", false)
			decisions, violations := toldOf(r.Verified)
			if len(decisions) != tt.decisions || len(violations) != tt.want {
				t.Errorf("decisions %q, violations %q; want %d and %d", decisions, violations, tt.decisions, tt.want)
			}
			if n := len(trajectory.CallsOf(r.Verified).Calls); n != 1 {
				t.Errorf("%d calls, want 1", n)
			}
		})
	}
}
