package vantage

import "sync"

// A Kind is who uses a name.
type Kind string

// The kinds of names.
const (
	Event     Kind = "event"            // a type of events, which extractors count and expressions look for
	Expect    Kind = "expectation"      // a member of "expect" in a grading
	Extract   Kind = "extractor"        // a kind of extractor; count and cel are decided by what they look at
	Variable  Kind = "variable"         // of an expression in a grading
	Shown     Kind = "view"             // what a judge is shown beside the answer
	Condition Kind = "policy variable"  // of a condition in a policy
	Rule      Kind = "policy rule"      // a kind of policy rule, or a member of the policy
	Limit     Kind = "limit"            // of a case, in the registration
	Field     Kind = "bundle field"     // of a witness bundle
	Metric    Kind = "metric of a gate" // in the registration
	Total     Kind = "scorecard total"  // of a scorecard
)

// Kinds lists them in the order of the documentation.
func Kinds() []Kind {
	return []Kind{Expect, Extract, Event, Variable, Shown, Rule, Condition, Limit, Field, Metric, Total}
}

func of(m ...Matter) []Matter { return m }

// names has every name. The test beside it walks over the tables of those who use
// names, and fails for one that is not here.
var names = sync.OnceValue(func() map[Kind]map[string][]Matter {
	return map[Kind]map[string][]Matter{
		Expect: {
			"answer": of(Words), "approvals": of(Approvals), "cost_microdollars": of(Cost), "errors": of(Failures),
			"files_deleted": of(Files), "files_written": of(Files), "finalStatus": of(Words), "handoffs": of(Handoffs),
			"limits_reached": of(Limits), "memory_writes": of(Memory), "model_calls": of(ModelCalls), "policyDenials": of(Policy),
			"policy_denials": of(Policy), "policy_escalations": of(Policy), "policy_violations": of(Policy), "rollbacks": of(Rollbacks),
			"security_events": of(Fence), "status": of(Words), "test_passed": of(Test), "tokens": of(Tokens),
			"tool_calls": of(ToolCalls), "tool_proposals": of(ToolCalls), "turns": of(Words),
		},
		Extract: {
			"answer": of(Words), "turn_answer": of(Words), "memory": of(Memory), "tools": of(ToolCalls), "verdict": of(Policy),
			"count": of(), "tokens": of(Tokens), "cost": of(Cost), "turns": of(Words), "status": of(Words), "test": of(Test),
			"file": of(Files), "world": of(Environment), "cel": of(),
		},
		Event: {
			"approval_requested": of(Approvals), "approval_resolved": of(Approvals), "checkpoint_saved": of(Rollbacks), "context_compiled": of(Context),
			"error": of(Failures), "file_deleted": of(Files), "file_written": of(Files), "handoff": of(Handoffs), "limit_reached": of(Limits),
			"memory_proposed": of(Memory), "memory_retrieved": of(Memory), "memory_written": of(Memory), "model_call_completed": of(ModelCalls),
			"model_call_started": of(ModelCalls), "plan": of(Plans), "policy_decision": of(Policy), "policy_violation": of(Policy),
			"rollback": of(Rollbacks), "run_completed": of(Words), "run_failed": of(Words), "run_started": of(Words), "security_event": of(Fence),
			"service_traffic": of(), "world_started": of(), "world_state": of(Environment),
			"test_run": of(Test), "tool_executed": of(ToolCalls), "tool_observed": of(ToolCalls), "tool_proposed": of(ToolCalls),
			"transport_request": of(Traffic), "turn_completed": of(Words), "turn_started": of(Words),
			"user_broke_rule": of(User), "user_ended": of(User), "user_moved": of(User), "user_tool_called": of(User),
		},
		Variable: {
			"events": of(), "memory": of(Memory), "context": of(Context), "user": of(User), "world": of(Environment),
			"run.turn": of(Words), "run.answer": of(Words), "run.status": of(Words), "run.tokens": of(Tokens), "run.cost_microdollars": of(Cost),
			"run.model_calls": of(ModelCalls), "run.tool_calls": of(ToolCalls), "run.tool_calls_executed": of(ToolCalls),
			"run.tool_calls_reported": of(ToolCalls), "run.tool_calls_proposed": of(ToolCalls), "run.denials": of(Policy),
			"run.escalations": of(Policy), "run.violations": of(Policy),
		},
		Shown: {
			"answer": of(Words), "transcript": of(Words), "tool_results": of(Results), "files": of(Files), "context": of(),
		},
		Rule: {
			"block_class": of(ToolCalls), "require_approval": of(ToolCalls), "cap_spend": of(Cost, ToolCalls), "cap_tokens": of(Tokens, ToolCalls),
			"rate_limit": of(ToolCalls, Time), "time_window": of(ToolCalls, Time), "allow_list": of(ToolCalls), "deny_list": of(ToolCalls), "condition": of(ToolCalls),
			"allow": of(ToolCalls), "deny": of(ToolCalls), "max_tool_calls": of(ToolCalls), "max_cost_microdollars": of(Cost), "mode": of(ToolCalls), "rules": of(ToolCalls),
		},
		Condition: {
			"action": of(ToolCalls), "name": of(ToolCalls), "class": of(ToolCalls), "args": of(ToolCalls), "turn": of(Words), "cost_microdollars": of(Cost),
			"spent_microdollars": of(Cost), "tokens_used": of(Tokens), "tool_calls": of(ToolCalls),
		},
		Limit: {
			"turns": of(), "tokens": of(Tokens), "cost_microdollars": of(Cost), "wall_clock_seconds": of(Time), "memory_bytes": of(),
			"kept_bytes": of(), "events": of(), "read_bytes": of(),
		},
		Field: {
			"TaskID": of(), "PolicyHash": of(), "CreatedNS": of(), "Outcome": of(), "Mode": of(), "Retries": of(Retries), "Spec": of(Words),
			"Plan": of(Plans), "Diff": of(Files), "TestLog": of(Test), "Postmortem": of(), "Trace": of(ToolCalls), "Full": of(ToolCalls), "Observed": of(ModelCalls), "Other": of(),
			"Action": of(ToolCalls), "Check": of(Policy), "ArgsHash": of(ToolCalls), "ResultHash": of(Results), "LatencyMS": of(Time),
			"CostMicrodollars": of(Cost), "Tokens": of(Tokens), "ModelCalls": of(ModelCalls), "Vantages": of(ToolCalls),
		},
		Metric: {
			"solve_rate": of(), "mean_score": of(), "lower_bound_95": of(), "cost_per_solve": of(Cost), "median_latency_ms": of(Latency),
			"p95_latency_ms": of(Latency), "policy_violations": of(Policy), "evidence_coverage": of(), "rollback_correctness": of(Rollbacks),
		},
		Total: {
			"total_tasks": of(), "solved": of(), "failed": of(), "skipped": of(), "errors": of(), "unscored": of(), "truncated": of(), "not_run": of(),
			"policy_violations": of(Policy), "unwatched_tasks": of(), "rollback_count": of(Rollbacks), "rollback_correctness": of(Rollbacks),
			"total_cost_microdollars": of(Cost), "user_cost": of(), "median_latency_ms": of(Latency), "p95_latency_ms": of(Latency), "total_tokens": of(Tokens),
			"total_retries": of(Retries), "tool_calls": of(ToolCalls), "cost_per_solve": of(Cost), "tokens_per_solve": of(Tokens), "solve_rate": of(),
			"cost_unknown_tasks": of(), "unpriced_calls": of(), "known_cost_microdollars": of(), "not_seen": of(), "distinct_cases": of(), "solve_rate_ci95": of(),
			"solve_rate_se": of(), "scored_tasks": of(), "mean_score": of(), "mean_score_ci95": of(), "solve_rate_bounds": of(), "mean_score_bounds": of(),
		},
	}
})
