package trajectory

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/vantage"
)

// A step is an event to be written.
type step struct {
	turn    int
	payload Payload
}

// variation is what must not show in the canonical form.
type variation struct {
	prefix  string // of ids
	tick    time.Duration
	latency int64
	attempt string
	source  string
}

var plainRun = variation{prefix: "", tick: 3 * time.Millisecond, latency: 10, attempt: "a-1", source: "cassette"}
var otherRun = variation{prefix: "zz_", tick: 170 * time.Millisecond, latency: 99, attempt: "a-2", source: "live"}

func text(s string) Content         { return NewContent([]byte(s), ArgumentHead) }
func textPointer(s string) *Content { c := text(s); return &c }

func started(v variation) *RunStarted {
	p := policy.ForMode(policy.Autonomous)
	return &RunStarted{Attempt: v.attempt, Case: "pay-alice", Class: "treasury", Execution: 1, Format: Format, Governance: p.Mode,
		Input: textPointer("Pay 100 to alice"), Policy: p.SerialisedDigest(), PolicyShort: p.ShortHash(), Repeat: 1, Target: "t-" + v.attempt, Vantage: vantage.Gateway}
}

// sample is a run of two turns that has an event of every type but run_failed.
func sample(v variation) []step {
	id := func(s string) string { return v.prefix + s }
	checkpoint := digest.ContentOf([]byte("folder" + v.attempt))
	return []step{
		{0, started(v)},
		{0, &MemoryWritten{Call: id("seed"), Confidence: 1, Entry: id("m0"), Key: "user.name", Source: "case", Tier: Semantic, Value: text("Bob")}},
		{1, &TurnStarted{Agent: "clerk", Input: textPointer("Pay 100 to alice")}},
		{1, &MemoryRetrieved{Entries: []string{id("m0")}, Query: textPointer("who am I")}},
		{1, &ContextCompiled{Admitted: []string{id("m0")}, Budget: 4000, Compression: []string{}, Sections: map[string]int{"system": 100, "history": 20}, Used: 120, Window: 10000}},
		{1, &Plan{Text: text("look up alice,\nthen pay\n")}},
		{1, &ModelCallStarted{Call: id("c1"), Definitions: map[string]Content{"transfer": text(`{"description":"Send money.","name":"transfer"}`)}, Files: []SentFile{{4, digest.ContentOf([]byte("file")), "image/png"}}, Messages: 2, Model: "m", Prompt: text("system\nuser"), Provider: "openai", Request: digest.ContentOf([]byte("r")), Tools: []string{"transfer"}}},
		{1, &TransportRequest{BytesIn: v.latency, BytesOut: 5, Host: "gateway", LatencyMS: v.latency, Method: "POST", Path: "/v1/chat/completions", Protocol: "openai", Status: 200}},
		{1, &ModelCallCompleted{Call: id("c1"), CostMicroUSD: v.latency, FinishReason: "tool_calls", LatencyMS: v.latency, Output: text("I will pay."), Source: v.source, TokensIn: 120, TokensOut: 9}},
		{1, &ToolProposed{Args: NewArgs([]byte(`{"amount":100,"to":{"name":"alice","":1,"a.b":[1,{"x":null}]},"empty":{}}`)), Call: id("c2"), Class: policy.Financial, Name: "transfer", Trust: "pinned"}},
		{1, &PolicyDecision{policy.Tool, id("c2"), policy.Denied, "transfer", "large", "large-transfer", policy.Escalate}},
		{1, &ApprovalRequested{Action: policy.Tool, Call: id("c2"), Name: "transfer", Reason: "large", Rule: "large-transfer"}},
		{1, &ApprovalResolved{Approved: true, By: "case", Call: id("c2")}},
		{1, &PolicyDecision{policy.Tool, id("c2"), policy.Confirmed, "transfer", "approved", policy.RuleApproval, policy.Allow}},
		{1, &CheckpointSaved{Checkpoint: id("k1"), Digest: checkpoint}},
		{1, &ToolExecuted{Args: NewArgs([]byte(`{"amount":100}`)), Call: id("c2"), CostMicroUSD: v.latency, LatencyMS: v.latency, Name: "transfer", Result: text(`{"ok":true}`), Source: "fixture", Tokens: 4, Trust: "untrusted"}},
		{1, &SecurityEvent{Boundary: "TB-8", Detail: "hidden \u202e text", Name: "tool.hidden_unicode", Severity: evidence.Warn}},
		{1, &TurnCompleted{Answer: textPointer("paid")}},
		{2, &TurnStarted{Agent: "clerk"}},
		{2, &MemoryProposed{Call: id("c3"), Confidence: 0.5, Key: "user.name", Source: "user", Supersedes: id("m0"), Tier: Semantic, Value: text("Robert")}},
		{2, &PolicyDecision{policy.MemoryWrite, id("c3"), policy.Allowed, "user.name", "autonomous", policy.RuleAutonomous, policy.Allow}},
		{2, &MemoryWritten{Call: id("c3"), Confidence: 0.5, Entry: id("m1"), Key: "user.name", Source: "user", Supersedes: id("m0"), Tier: Semantic, Value: text("Robert")}},
		{2, &ToolProposed{Args: NewArgs([]byte(`not json`)), Call: id("c4"), Class: policy.Privileged, Name: "Bash"}},
		{2, &PolicyDecision{policy.Tool, id("c4"), policy.Denied, "Bash", "on the deny list", policy.RuleDenyList, policy.Deny}},
		{2, &PolicyViolation{Call: id("c4"), Rule: policy.RuleDenyList, Text: "denied tool: Bash"}},
		{2, &Rollback{Call: id("c4"), Checkpoint: id("k1"), Identical: true, Reason: "violation", Restored: checkpoint}},
		{2, &PolicyDecision{policy.Handoff, id("c5"), policy.Allowed, "auditor", "autonomous", policy.RuleAutonomous, policy.Allow}},
		{2, &HandedOff{Call: id("c5"), From: "clerk", Input: textPointer("check this"), To: "auditor"}},
		{2, &FileDeleted{Path: `old\xff`}},
		{2, &FileWritten{Bytes: 3, Link: "abc", Mode: "0755", Digest: digest.ContentOf([]byte("abc")), Path: "out/report.txt"}},
		{2, &Failure{Detail: "retry", Name: "Failed"}},
		{2, &LimitReached{Limit: "turns", Max: 2}},
		{2, &ApprovalRequested{Action: policy.Approval, Call: id("c6"), Name: "may I go on?", Reason: "asks a person", Rule: policy.RuleApproval}},
		{2, &TestRun{Command: []string{"go", "test"}, LatencyMS: v.latency, Output: text(fmt.Sprintf("ok %d ms", v.latency)), Passed: true}},
		{2, &WorldStarted{Clock: "host", Command: []string{"python3", "shop.py"}, Deterministic: true, Files: &textPointer("files").Digest, Image: &textPointer("image").Digest, Isolation: "gvisor", Recorded: true, Seed: 7, Tools: text(`[{"name":"refund"}]`)}},
		{2, &WorldState{Attempted: []string{"connect 10.0.0.1"}, Phase: WorldAfter, State: text(`{"state":{"refunds":1}}`)}},
		{2, &ServiceTraffic{BytesIn: 10, BytesOut: 20, Connections: 1, Name: "database", Port: 5432, Protocol: "postgresql"}},
		{2, &ToolObserved{Args: NewArgs([]byte(`{"amount":100}`)), Call: id("c1"), ID: id("call_7"), Name: "transfer", Vantage: Proposed}},
		{2, &ToolObserved{Args: NewArgs([]byte(`{"amount":100}`)), Call: id("c1"), Error: true, ID: id("call_7"), Name: "transfer", Result: textPointer("no"), Vantage: Reported}},
		{2, &ToolObserved{Args: NewArgs(nil), Call: id("c1"), ID: id("call_8"), Judged: id("c7"), Name: "issue_refund", Result: textPointer("refunded"), Vantage: Reported}},
		{2, &PolicyDecision{policy.Tool, id("c7"), policy.Denied, "issue_refund", "on the deny list", policy.RuleDenyList, policy.Deny}},
		{2, &PolicyViolation{Call: id("c7"), Rule: policy.RuleDenyList, Text: "seen, not prevented: denied tool: issue_refund", Unprevented: true}},
		{2, &UserToolCalled{Args: NewArgs([]byte(`{"times":1}`)), By: ByModel, Error: "it is broken", LatencyMS: v.latency, Name: "toggle", Result: text("null"), Source: "fixture"}},
		{2, &UserMoved{By: ByModel, CostMicroUSD: v.latency, LatencyMS: v.latency, Model: "u", Request: &checkpoint, Source: v.source, TokensIn: v.latency, TokensOut: v.latency, Tools: []string{"toggle"}, Unpriced: true}},
		{2, &UserMoved{By: ByModel, End: true, LatencyMS: v.latency, Model: "u", Reached: new(bool), Request: &checkpoint, Say: textPointer("never mind, it is 8431"), Source: v.source, Tools: nil}},
		{2, &UserBrokeRule{By: ByModel, Fact: "pin", Rule: "too_early", Text: "it gave away the fact pin too early"}},
		{2, &UserEnded{By: ByModel, Prompt: promptOfSample(), State: textPointer(`{"a":1}`), Turns: 2, Why: "broke_rule"}},
		{2, &RunCompleted{Answer: textPointer("line one\nline two"), Status: "completed"}},
	}
}

func promptOfSample() *digest.Content {
	d := digest.ContentOf([]byte("prompt"))
	return &d
}

// small is a run of few lines, for tests that try everything.
func small() []step {
	return []step{
		{0, started(plainRun)},
		{1, &TurnStarted{}},
		{1, &ToolProposed{Args: NewArgs([]byte(`{"a":1}`)), Call: "c1", Name: "Read"}},
		{1, &RunCompleted{Answer: textPointer("x"), Status: "completed"}},
	}
}

func write(t testing.TB, steps []step, tick time.Duration) *Log {
	t.Helper()
	l := NewLog()
	for i, s := range steps {
		if _, err := l.Append(s.turn, s.payload, time.Duration(i)*tick); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func verified(t testing.TB, steps []step, tick time.Duration) *Verified {
	t.Helper()
	l := write(t, steps, tick)
	v, err := Verify(l.Bytes(), HeadIs(l.Head()))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func trace(t testing.TB, steps []step) *Trace {
	t.Helper()
	c, err := Canonical(verified(t, steps, time.Millisecond), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// wantRefusal wants a refusal of one of the names, at the line (0: any), with
// the text.
func wantRefusal(t *testing.T, err error, line int, text string, names ...refusal.Name) {
	t.Helper()
	if err == nil {
		t.Fatalf("accepted, want a refusal with %q", text)
	}
	named := false
	for _, n := range names {
		named = named || refusal.Is(err, n)
	}
	if !named || !strings.Contains(err.Error(), text) || line > 0 && !strings.Contains(err.Error(), fmt.Sprintf("line %d:", line)) {
		t.Errorf("got %s: %v\nwant one of %v at line %d with %q", refusal.Of(err).Name, err, names, line, text)
	}
}
