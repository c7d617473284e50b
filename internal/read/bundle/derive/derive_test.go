package derive

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"tallystick/internal/read/bundle"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/trajectory"
)

// A told case is a trajectory and evidence that a test tells, event by event.
type told struct {
	t      *testing.T
	log    *trajectory.Log
	turn   int
	pieces map[digest.Content][]byte
	record evidence.CaseScored
	files  evidence.CaseFiles
	amend  *evidence.ScoreAmended
}

func newTold(t *testing.T) *told {
	t.Helper()
	c := &told{t: t, log: trajectory.NewLog(), pieces: map[digest.Content][]byte{}, files: evidence.CaseFiles{Version: format.Version}}
	c.record = evidence.CaseScored{SchemaVersion: 1, Attempt: "desk.agent.1", Class: "desk", CaseID: "refund", Tags: []string{"money"}, Repeat: 1, Execution: 1,
		CaseDigest: digest.ContentOf([]byte("case")), Outcome: evidence.Passed, Score: &evidence.Score{Passed: true, Score: 1}, Retries: 2,
		FinishedAt: evidence.At(time.Date(2026, 5, 1, 9, 0, 0, 5e6, time.UTC))}
	return c
}

// begin writes run_started under a policy.
func (c *told) begin(p policy.Policy) *told {
	c.t.Helper()
	id, err := p.Digest()
	if err != nil {
		c.t.Fatal(err)
	}
	c.event(&trajectory.RunStarted{Attempt: "desk.agent.1", Case: "refund", Class: "desk", Target: "agent", Repeat: 1, Execution: 1, Format: trajectory.Format,
		Governance: p.Mode, Policy: id, PolicyShort: p.ShortHash()})
	return c
}

func (c *told) event(p trajectory.Payload) {
	c.t.Helper()
	if _, ok := p.(*trajectory.TurnStarted); ok {
		c.turn++
	}
	if _, err := c.log.Append(c.turn, p, 0); err != nil {
		c.t.Fatal(err)
	}
}

func (c *told) put(data []byte) *digest.Content {
	d := digest.ContentOf(data)
	c.pieces[d] = data
	return &d
}

// keep puts a long text into the evidence, as a session does.
func (c *told) keep(data []byte) {
	c.files.Contents = append(c.files.Contents, *c.put(data))
}

func (c *told) ask(text string) {
	input := trajectory.NewContent([]byte(text), trajectory.PromptHead)
	c.event(&trajectory.TurnStarted{Agent: "main", Input: &input})
}

func (c *told) propose(id, name string, args trajectory.Args) {
	c.event(&trajectory.ToolProposed{Call: id, Name: name, Args: args})
}

func (c *told) decide(id, name string, v policy.Verdict, check policy.Check) {
	c.event(&trajectory.PolicyDecision{Action: policy.Tool, Call: id, Name: name, Verdict: v, Check: check, Rule: "r", Reason: "because"})
}

func (c *told) execute(x trajectory.ToolExecuted) {
	x.Source = "fixture"
	c.event(&x)
}

func (c *told) grade(r grade.Result) {
	c.t.Helper()
	doc, err := grade.Document(&r)
	if err != nil {
		c.t.Fatal(err)
	}
	c.files.Grading = c.put(doc)
}

func (c *told) end() *told {
	c.event(&trajectory.RunCompleted{Status: "completed"})
	return c
}

func (c *told) bundle() (*bundle.Bundle, error) {
	c.t.Helper()
	v, err := trajectory.Verify(c.log.Bytes(), trajectory.HeadIs(c.log.Head()))
	if err != nil {
		c.t.Fatal(err)
	}
	b, err := Bundle(Source{Record: &c.record, Files: &c.files, Trajectory: v, Amendment: c.amend, Read: func(d digest.Content) ([]byte, error) {
		if data, ok := c.pieces[d]; ok {
			return data, nil
		}
		return nil, refusal.Newf(refusal.NotFound, "no evidence %s", d)
	}})
	if err != nil {
		return nil, err
	}
	if _, err := b.Pack(bundle.Seals{}); err != nil {
		c.t.Fatalf("what was derived does not pack: %v", err)
	}
	return b, nil
}

func (c *told) mustBundle() *bundle.Bundle {
	c.t.Helper()
	b, err := c.bundle()
	if err != nil {
		c.t.Fatal(err)
	}
	return b
}

var passed = grade.Result{Passed: true, Score: 1, Breakdown: map[string]float64{}, FailureModes: []string{},
	Details: []grade.Detail{{Grader: grade.Exact, Outcome: grade.Passed, Score: ptr(1.0), Why: "it is the same"}}}

func ptr[T any](v T) *T { return &v }

func TestBundleOfASolvedCase(t *testing.T) {
	c := newTold(t).begin(policy.ForMode(policy.Restricted))
	c.ask("Refund order 7.")
	c.propose("c1", "Read", trajectory.NewArgs([]byte(`{ "path": "orders/7" }`)))
	c.decide("c1", "Read", policy.Allow, policy.Allowed)
	c.execute(trajectory.ToolExecuted{Call: "c1", Name: "Read", Args: trajectory.NewArgs([]byte(`{"path":"orders/7"}`)), LatencyMS: 40, CostMicroUSD: 7, Tokens: 3,
		Result: trajectory.NewContent([]byte(`{"paid":20}`), trajectory.ResultHead)})
	c.propose("c2", "Bash", trajectory.NewArgs(nil))
	c.decide("c2", "Bash", policy.Deny, policy.Denied)
	c.event(&trajectory.PolicyViolation{Call: "c2", Rule: "policy:deny", Text: "denied tool: Bash"})
	c.propose("c3", "Grep", trajectory.NewArgs([]byte(`{}`)))
	c.decide("c3", "Grep", policy.Escalate, policy.Denied)
	c.decide("c3", "Grep", policy.Allow, policy.Confirmed)
	c.execute(trajectory.ToolExecuted{Call: "c3", Name: "Grep", Args: trajectory.NewArgs([]byte(`{}`)), LatencyMS: 1 << 40, Result: trajectory.NewContent(nil, trajectory.ResultHead)})
	c.files.Plan, c.files.Diff, c.files.TestLog = c.put([]byte("look first\n")), c.put([]byte("+ok\n")), c.put([]byte("--- PASS: TestX (0.00s)"))
	c.grade(passed)
	b := c.end().mustBundle()

	id, err := bundle.TaskIDOf("desk", "refund", c.record.CaseDigest)
	if err != nil {
		t.Fatal(err)
	}
	if b.TaskID != id || b.Outcome != bundle.Solved || b.Mode != bundle.Restricted || hex.EncodeToString(b.PolicyHash[:]) != "66fb836fa37e48ef" || b.Retries != 2 || b.CreatedNS != 1777626000005000000 || b.Postmortem != nil {
		t.Errorf("header %+v", b)
	}
	if got, want := string(b.Spec), "case refund of class desk\n"+c.record.CaseDigest.String()+"\ntags: money\n\nturn 1\nRefund order 7.\n"; got != want {
		t.Errorf("specification %q, want %q", got, want)
	}
	if string(b.Plan) != "look first\n" || string(b.Diff) != "+ok\n" || string(b.TestLog) != "--- PASS: TestX (0.00s)\ncheck exact passed: it is the same\ntests: 1 passed, 0 failed\n" {
		t.Errorf("plan %q, diff %q, test log %q", b.Plan, b.Diff, b.TestLog)
	}
	args := bundle.Hash(sha256.Sum256([]byte(`{"path":"orders/7"}`)))
	result := bundle.Hash(sha256.Sum256([]byte(`{"paid":20}`)))
	empty, nothing := bundle.Hash(sha256.Sum256([]byte("{}"))), bundle.Hash(sha256.Sum256(nil))
	want := []bundle.ToolCall{
		{Action: "Read", Check: bundle.Allowed, ArgsHash: args.Short(), ResultHash: result.Short(), LatencyMS: 40, CostMicrodollars: 7, Tokens: 3},
		{Action: "Bash", Check: bundle.Denied, ArgsHash: empty.Short(), ResultHash: nothing.Short()},
		{Action: "Grep", Check: bundle.Confirmed, ArgsHash: empty.Short(), ResultHash: nothing.Short(), LatencyMS: 1<<32 - 1},
	}
	if len(b.Trace) != len(want) {
		t.Fatalf("trace %+v", b.Trace)
	}
	for i := range want {
		if b.Trace[i] != want[i] {
			t.Errorf("call %d: %+v, want %+v", i, b.Trace[i], want[i])
		}
	}
	if b.Full == nil || b.Full.Calls[0] != (bundle.CallHashes{Args: args, Result: result}) {
		t.Errorf("whole hashes %+v", b.Full)
	}
	if _, err := bundle.CheckOutcome(b); err != nil {
		t.Error(err)
	}
}

// Texts that are too long for an event come from the evidence; of texts with
// secrets nothing is there but the digest.
func TestTextsThatEventsDoNotHave(t *testing.T) {
	long := strings.Repeat("a very long question ", 400)
	big := []byte(`{"z": 1, "text": "` + strings.Repeat("x", trajectory.ArgumentHead+1) + `"}`)
	canonical, err := canon.Canonicalize(big)
	if err != nil {
		t.Fatal(err)
	}
	output := []byte(strings.Repeat("row\n", 3000))
	secret := []byte(`{"token":"s3cr3t"}`)

	c := newTold(t).begin(policy.ForMode(policy.Autonomous))
	c.ask(long)
	c.keep([]byte(long))
	c.keep(big)
	c.keep(output)
	c.propose("c1", "Write", trajectory.NewArgs(big))
	c.decide("c1", "Write", policy.Allow, policy.Allowed)
	c.execute(trajectory.ToolExecuted{Call: "c1", Name: "Write", Args: trajectory.NewArgs(big), Result: trajectory.NewContent(output, trajectory.ResultHead)})
	c.propose("c2", "Login", trajectory.NewRedactedArgs(secret, []byte(`{"token":"[REDACTED]"}`)))
	c.decide("c2", "Login", policy.Allow, policy.Allowed)
	c.execute(trajectory.ToolExecuted{Call: "c2", Name: "Login", Args: trajectory.NewRedactedArgs(secret, []byte(`{"token":"[REDACTED]"}`)),
		Result: trajectory.NewRedacted([]byte("welcome s3cr3t"), []byte("welcome [REDACTED]"), trajectory.ResultHead)})
	c.propose("c3", "Bash", trajectory.NewArgs([]byte("{not json")))
	c.decide("c3", "Bash", policy.Allow, policy.Allowed)
	c.propose("c4", "Bash", trajectory.NewArgs(nil)) // the run ended before the policy spoke
	c.grade(passed)
	b := c.end().mustBundle()

	if !bytes.Contains(b.Spec, []byte(strings.TrimSpace(long))) || bytes.Contains(b.Spec, []byte("not all of it")) {
		t.Errorf("the question was cut: %d bytes", len(b.Spec))
	}
	named := func(d digest.Content) bundle.Hash { return sha256.Sum256([]byte(d.String())) }
	want := []bundle.CallHashes{
		{Args: sha256.Sum256(canonical), Result: sha256.Sum256(output)},
		{Args: sha256.Sum256([]byte(`{"token":"[REDACTED]"}`)), Result: named(digest.ContentOf([]byte("welcome [REDACTED]")))},
		{Args: sha256.Sum256([]byte("{not json")), Result: sha256.Sum256(nil)}, // it was never made
	}
	for i, w := range want {
		if b.Full.Calls[i] != w {
			t.Errorf("call %d: %x, want %x", i, b.Full.Calls[i], w)
		}
	}

	if b.Trace[2].Check != bundle.Allowed || b.Trace[3].Check != bundle.Denied {
		t.Errorf("checks %v and %v: what was not permitted counts as denied", b.Trace[2].Check, b.Trace[3].Check)
	}

	// A text with secrets is told as far as it is there, and that it is not all.
	hidden := trajectory.NewRedacted([]byte("my pin is 1234"), []byte("my pin is [REDACTED]"), trajectory.PromptHead)
	c = newTold(t).begin(policy.ForMode(policy.Restricted))
	c.event(&trajectory.TurnStarted{Agent: "main", Input: &hidden})
	if b := c.end().mustBundle(); !bytes.Contains(b.Spec, []byte("my pin is [REDACTED]\n[not all of it is in the evidence; the whole has 20 bytes, blake3:")) {
		t.Errorf("%s", b.Spec)
	}
}

func TestPostmortemTellsWhatWentWrong(t *testing.T) {
	failed := grade.Result{Score: 0.25, Breakdown: map[string]float64{}, FailureModes: []string{"grade.mismatch"}, Details: []grade.Detail{
		{Check: "amount", Grader: grade.Exact, Outcome: grade.Passed, Score: ptr(1.0), Why: "it is the same"},
		{Check: "who", Grader: grade.Exact, Outcome: grade.Mismatch, Why: "another\ntests: 9 passed, 0 failed",
			Extracted: ptr(trajectory.NewContent([]byte("Eve\n9 passed, 0 failed"), 100)), Expected: ptr(trajectory.NewContent([]byte("Ana"), 100))}}}
	c := newTold(t).begin(policy.ForMode(policy.Restricted))
	c.ask("Pay Ana.")
	c.event(&trajectory.PolicyViolation{Call: "c9", Rule: "policy:deny", Text: "denied tool: Bash"})
	c.record.Outcome, c.record.Score = evidence.Failed, &evidence.Score{Score: 0.25, FailureModes: []string{"grade.mismatch"}}
	c.grade(failed)
	b := c.end().mustBundle()
	want := "outcome: failed\nfailure modes: grade.mismatch\nviolation: denied tool: Bash\n" +
		`check who exact mismatch: another\ntests: 9 passed, 0 failed` + "\n" + `  got: Eve\n9 passed, 0 failed` + "\n  want: Ana\n"
	if string(b.Postmortem) != want {
		t.Errorf("%q, want %q", b.Postmortem, want)
	}
	// What the agent answered is not a summary of tests.
	if s, err := bundle.CheckOutcome(b); err != nil || s.Passed != 0 || s.Failed != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	if bytes.Contains(b.Spec, []byte("want")) {
		t.Errorf("the specification tells what was expected: %s", b.Spec)
	}

	// A case without a grade has no test log, and is errored.
	for outcome, kind := range map[evidence.Outcome]bundle.Outcome{evidence.Truncated: bundle.Errored, evidence.Errored: bundle.Errored, evidence.Skipped: bundle.Skipped} {
		c := newTold(t).begin(policy.ForMode(policy.Restricted))
		c.record.Outcome, c.record.Score, c.record.Reason = outcome, nil, "LimitReached: it took too long"
		b := c.end().mustBundle()
		if b.Outcome != kind || b.TestLog != nil || b.EvidenceComplete() || string(b.Postmortem) != "outcome: "+string(outcome)+"\nreason: LimitReached: it took too long\n" {
			t.Errorf("%s: %v, test log %q, postmortem %q", outcome, b.Outcome, b.TestLog, b.Postmortem)
		}
	}
	c = newTold(t).begin(policy.ForMode(policy.Restricted))
	c.record.Outcome, c.record.Score, c.record.Reason = evidence.Unscored, nil, "no judge"
	c.grade(grade.Result{Unscored: "no judge", Breakdown: map[string]float64{}, FailureModes: []string{}})
	if b := c.end().mustBundle(); b.Outcome != bundle.Errored || string(b.TestLog) != "no grade: no judge\n" {
		t.Errorf("unscored: %v, %q", b.Outcome, b.TestLog)
	}

	// An amendment is told, and leaves the outcome to the record.
	c = newTold(t).begin(policy.ForMode(policy.Restricted))
	c.grade(passed)
	c.amend = &evidence.ScoreAmended{Score: evidence.Score{Score: 0.5}, Author: "olga", Reason: "a weaker match"}
	if b := c.end().mustBundle(); b.Outcome != bundle.Solved || string(b.Postmortem) != "outcome: passed\namended: score 0.5, passed false, by olga: a weaker match\n" {
		t.Errorf("amended: %v, %q", b.Outcome, b.Postmortem)
	}
}

// A rule of its own changes the policy's hash in the header too: two policies
// must not look like one.
func TestARuleChangesThePolicyHash(t *testing.T) {
	hashes := map[string]bool{}
	for _, rules := range [][]policy.Rule{nil,
		{{ID: "ask", Priority: 10, Kind: policy.RequireApproval}},
		{{ID: "block", Priority: 10, Kind: policy.BlockClass, Classes: []policy.Class{policy.Financial}}},
	} {
		p := policy.ForMode(policy.Restricted)
		p.Rules = rules
		c := newTold(t).begin(p)
		c.grade(passed)
		b := c.end().mustBundle()
		hashes[hex.EncodeToString(b.PolicyHash[:])] = true
		if b.Full == nil || b.Full.Policy.Short() != b.PolicyHash {
			t.Errorf("whole hashes %v, the header has %x", b.Full, b.PolicyHash)
		}
	}
	if len(hashes) != 3 || !hashes["66fb836fa37e48ef"] {
		t.Errorf("hashes %v, want three, of which the plain policy has the format's", hashes)
	}
}

// What a call was known by is in the bundle, and the work of models is in its
// totals, so that a scorecard can be made of bundles alone.
func TestObservedCallsAndModelWorkAreInTheBundle(t *testing.T) {
	c := newTold(t).begin(policy.ForMode(policy.Autonomous))
	c.ask("Refund order 7.")
	c.event(&trajectory.ModelCallCompleted{Call: "m1", CostMicroUSD: 500, LatencyMS: 900, TokensIn: 70, TokensOut: 7, Source: "cassette", Output: trajectory.NewContent(nil, 1)})
	asks := func(id, name string) {
		c.event(&trajectory.ToolObserved{Args: trajectory.NewArgs(nil), Call: "m1", ID: id, Name: name, Vantage: trajectory.Proposed})
	}
	asks("a", "issue_refund")
	asks("b", "look")
	asks("c", "delete_account")
	c.propose("c1", "look", trajectory.NewArgs(nil))
	c.decide("c1", "look", policy.Allow, policy.Allowed)
	c.execute(trajectory.ToolExecuted{Call: "c1", Name: "look", Args: trajectory.NewArgs(nil), LatencyMS: 40, CostMicroUSD: 7, Tokens: 3, Result: trajectory.NewContent(nil, 1)})
	c.event(&trajectory.PolicyViolation{Call: "c1", Rule: "budget:cost", Text: "cost budget exceeded"})
	c.event(&trajectory.PolicyViolation{Call: "m1", Rule: "budget:cost", Text: "a model cost too much"})
	refunded := trajectory.NewContent([]byte("refunded"), trajectory.ResultHead)
	c.event(&trajectory.ToolObserved{Args: trajectory.NewArgs(nil), Call: "m2", ID: "a", Name: "issue_refund", Result: &refunded, Vantage: trajectory.Reported})
	c.grade(passed)
	b := c.end().mustBundle()
	var got []string
	for i, call := range b.Trace {
		v, _ := b.VantageOf(i)
		got = append(got, fmt.Sprintf("%s %s %s", call.Action, v, call.Check))
	}
	// The policy was not asked about the refund, so it is what the standard policy says that the run
	// names; what was only proposed is not a call.
	want := []string{"issue_refund reported allowed", "look executed denied"}
	if !slices.Equal(got, want) {
		t.Errorf("trace %q, want %q", got, want)
	}
	if h := bundle.Hash(sha256.Sum256([]byte("refunded"))); b.Trace[0].ResultHash != h.Short() {
		t.Error("the reported result is not the one in the trace")
	}
	if !strings.Contains(string(b.TestLog), "violation: a model cost too much\n") || strings.Contains(string(b.TestLog), "cost budget") {
		t.Errorf("test log %q", b.TestLog)
	}
	data, err := b.Pack(bundle.Seals{HMACKey: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	p, err := bundle.Parse(data)
	if err != nil || p.Header.CostMicrodollars != 507 || p.Header.LatencyMS != 940 || p.Header.Tokens != 80 || p.Header.ToolCalls != 2 {
		t.Errorf("header %+v, %v", p.Header, err)
	}
}

func TestBundleRefusesARecordThatItsEvidenceContradicts(t *testing.T) {
	for _, tt := range []struct {
		name string
		bend func(*told)
		want refusal.Name
		says string
	}{
		{"the trajectory of another case", func(c *told) { c.record.CaseID = "other" }, refusal.RecomputeMismatch, "case refund"},
		{"of another attempt", func(c *told) { c.record.Attempt = "desk.agent.2" }, refusal.RecomputeMismatch, "attempt desk.agent.1"},
		{"of another repetition", func(c *told) { c.record.Repeat = 2 }, refusal.RecomputeMismatch, "repeat 1"},
		{"of another execution", func(c *told) { c.record.Execution = 2 }, refusal.RecomputeMismatch, "execution 1"},
		{"of another class", func(c *told) { c.record.Class = "till" }, refusal.RecomputeMismatch, "class desk"},
		{"a higher score than the graders gave", func(c *told) {
			c.grade(grade.Result{Score: 0.25, Breakdown: map[string]float64{}, FailureModes: []string{}})
		}, refusal.RecomputeMismatch, "its grading document says otherwise"},
		{"the same score, and passed", func(c *told) {
			c.record.Score.Score = 0.25
			c.grade(grade.Result{Score: 0.25, Breakdown: map[string]float64{}, FailureModes: []string{}})
		}, refusal.RecomputeMismatch, "its grading document says otherwise"},
		{"another score, passed as well", func(c *told) {
			c.grade(grade.Result{Passed: true, Score: 0.9, Breakdown: map[string]float64{}, FailureModes: []string{}})
		}, refusal.RecomputeMismatch, "its grading document says otherwise"},
		{"a score where the graders gave none", func(c *told) {
			c.grade(grade.Result{Unscored: "no judge", Breakdown: map[string]float64{}, FailureModes: []string{}})
		}, refusal.RecomputeMismatch, "its outcome is passed"},
		{"a failure mode that blocks, kept quiet", func(c *told) {
			c.grade(grade.Result{Passed: true, Score: 1, Breakdown: map[string]float64{}, FailureModes: []string{"leak"}})
		}, refusal.RecomputeMismatch, `its failure modes are [], and its grading document has ["leak"]`},
		{"the opinion of a model, as if there were none", func(c *told) {
			c.grade(grade.Result{Passed: true, Score: 1, Breakdown: map[string]float64{}, FailureModes: []string{}, JudgedByModel: true})
		}, refusal.RecomputeMismatch, "judged_by_model is false, and its grading document says true"},
		{"a piece that is gone", func(c *told) { delete(c.pieces, *c.files.Grading) }, refusal.NotFound, "no evidence"},
		{"a diff that is gone", func(c *told) { c.files.Diff = ptr(digest.ContentOf([]byte("gone"))) }, refusal.NotFound, "no evidence"},
		{"a grading document that is not one", func(c *told) { c.files.Grading = c.put([]byte("{")) }, refusal.Malformed, "grading document"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newTold(t).begin(policy.ForMode(policy.Restricted))
			c.ask("Refund order 7.")
			c.grade(passed)
			c.end()
			if _, err := c.bundle(); err != nil {
				t.Fatalf("the honest one: %v", err)
			}
			tt.bend(c)
			if _, err := c.bundle(); !refusal.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want %s with %q", err, tt.want, tt.says)
			}
		})
	}

	c := newTold(t).begin(policy.ForMode(policy.Restricted))
	c.grade(passed)
	if _, err := c.bundle(); !refusal.Is(err, refusal.RecomputeMismatch) {
		t.Errorf("a trajectory without an end: %v", err)
	}
	c.ask("x")
	c.execute(trajectory.ToolExecuted{Call: "c1", Name: "Bash", Args: trajectory.NewArgs(nil), Result: trajectory.NewContent(nil, 1)})
	if _, err := c.end().bundle(); !refusal.Is(err, refusal.RecomputeMismatch) || !strings.Contains(err.Error(), "never proposed") {
		t.Errorf("a call that was never proposed: %v", err)
	}
}

// TestABundleDecidesAboutEveryTypeOfEvent: a bundle tells of the types in the
// switch of events. Those below it leaves to the trajectory, whose head is in
// the record; a new type belongs in one of the two places.
func TestABundleDecidesAboutEveryTypeOfEvent(t *testing.T) {
	left := []trajectory.Type{
		trajectory.RunCompletedType, trajectory.RunFailedType, // the outcome is in the record
		trajectory.TurnCompletedType, trajectory.ContextCompiledType, trajectory.PlanType,
		trajectory.ModelCallStartedType,
		trajectory.ApprovalRequestedType, trajectory.ApprovalResolvedType, // a decision says what came of it
		trajectory.MemoryProposedType, trajectory.MemoryWrittenType, trajectory.MemoryRetrievedType, trajectory.HandoffType,
		trajectory.CheckpointSavedType, trajectory.FileWrittenType, trajectory.FileDeletedType, trajectory.TestRunType,
		trajectory.TransportRequestType, trajectory.SecurityEventType, trajectory.LimitReachedType, trajectory.ErrorType,
		trajectory.UserMovedType, trajectory.UserToolCalledType, trajectory.UserBrokeRuleType, trajectory.UserEndedType, // not the agent's; its words are the turns
		trajectory.WorldStartedType, trajectory.WorldStateType, trajectory.ServiceTrafficType, // the world's own; what the agent did to it is its calls
		trajectory.ToolObservedType, trajectory.PolicyDecisionType, // in the view of the run's calls
	}
	source, err := os.ReadFile("derive.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, typ := range trajectory.Types() {
		payload := strings.TrimPrefix(fmt.Sprintf("%T", trajectory.NewPayload(typ)), "*")
		told := bytes.Contains(source, []byte("\t\tcase *"+payload+":\n"))
		if told == slices.Contains(left, typ) {
			t.Errorf("%s: a bundle tells of it: %v; it is listed here as left out: %v", typ, told, slices.Contains(left, typ))
		}
	}
}

// TestEvidenceWhoseFilesNoEventTells: the files of the evidence and the events
// about them say the same, or one of them was changed.
func TestEvidenceWhoseFilesNoEventTells(t *testing.T) {
	d := digest.ContentOf([]byte("x"))
	written := &trajectory.FileWritten{Path: "a", Bytes: 1, Digest: d}
	for name, tt := range map[string]struct {
		folder folderStory
		files  []evidence.ChangedFile
		diff   bool
		passed bool
		ok     bool
	}{
		"told":              {folderStory{written: map[string][]*trajectory.FileWritten{"a": {written}}}, []evidence.ChangedFile{{Path: "a", Digest: &d}}, true, true, true},
		"not told":          {folderStory{}, []evidence.ChangedFile{{Path: "a", Digest: &d}}, true, true, false},
		"another text":      {folderStory{written: map[string][]*trajectory.FileWritten{"a": {{Path: "a", Digest: digest.ContentOf(nil)}}}}, []evidence.ChangedFile{{Path: "a", Digest: &d}}, true, true, false},
		"another mode":      {folderStory{written: map[string][]*trajectory.FileWritten{"a": {written}}}, []evidence.ChangedFile{{Path: "a", Digest: &d, Mode: "0755"}}, true, true, false},
		"a link":            {folderStory{written: map[string][]*trajectory.FileWritten{"a": {written}}}, []evidence.ChangedFile{{Path: "a", Link: "x"}}, true, true, false},
		"gone, not told":    {folderStory{}, []evidence.ChangedFile{{Path: "a"}}, true, true, false},
		"gone":              {folderStory{deleted: map[string]bool{"a": true}}, []evidence.ChangedFile{{Path: "a"}}, true, true, true},
		"a folder":          {folderStory{}, []evidence.ChangedFile{{Path: "a", Folder: true}}, true, true, true},
		"lost":              {folderStory{lost: true}, nil, false, false, true},
		"lost, and passed":  {folderStory{lost: true}, nil, false, true, false},
		"lost, with a diff": {folderStory{lost: true}, nil, true, false, false},
	} {
		g := &deriving{folder: tt.folder}
		g.Files = &evidence.CaseFiles{}
		g.started.Format, g.Record = trajectory.Format, &evidence.CaseScored{Outcome: evidence.Failed}
		if tt.passed {
			g.Record.Outcome = evidence.Passed
		}
		if tt.diff {
			g.Files.Diff = &d
		}
		if tt.files != nil {
			g.Files.Folder = &evidence.FolderFiles{Changed: tt.files}
		}
		if err := g.checkFolder(); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
