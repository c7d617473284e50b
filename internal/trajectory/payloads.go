package trajectory

import (
	"errors"
	"fmt"
	"slices"

	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/policy"
)

// Every payload has its members in the order of their names, which is the
// order on the line.
//
// call names a proposal within the case, be it of a model call, a tool call, a
// memory write, a hand-off or a request for approval; the events of one
// proposal share it. entry names a memory entry, checkpoint a saved state.

// Format is the version of the format, in every run_started.
const Format = "tallystick-trajectory/v1"

// RunStarted is the first event of every trajectory.
type RunStarted struct {
	Attempt     string           `json:"attempt"`
	Case        string           `json:"case"`
	Class       string           `json:"class"`
	Execution   int              `json:"execution"` // from 1
	Format      string           `json:"format"`
	Governance  policy.Mode      `json:"governance"`
	Input       *Content         `json:"input,omitempty"`
	Policy      digest.ID        `json:"policy"`
	PolicyShort policy.ShortHash `json:"policy_short"`
	Repeat      int              `json:"repeat"` // from 1
	Target      string           `json:"target"`
}

// Validate checks the shape.
func (p *RunStarted) Validate() error {
	if p.Format != Format {
		return fmt.Errorf("format is %.80q, expected %q", p.Format, Format)
	}
	if p.Execution < 1 || p.Repeat < 1 {
		return fmt.Errorf("execution %d and repeat %d count from 1", p.Execution, p.Repeat)
	}
	return first(texts("attempt", p.Attempt, "case", p.Case, "class", p.Class, "target", p.Target), optional("input", p.Input))
}

// RunCompleted ends a run that came to its own end. Status is completed,
// refused (the agent would not do it) or suspended (an approval is open).
type RunCompleted struct {
	Answer *Content `json:"answer,omitempty"`
	Status string   `json:"status"`
}

// Validate checks the shape.
func (p *RunCompleted) Validate() error {
	return first(oneOf("status", p.Status, "completed", "refused", "suspended"), optional("answer", p.Answer))
}

// RunFailed ends a run that broke: the target died, a cassette missed, a limit
// was reached. Name is the stable name of the refusal.
type RunFailed struct {
	Detail string `json:"detail"`
	Name   string `json:"name"`
}

// Validate checks the shape.
func (p *RunFailed) Validate() error { return texts("name", p.Name, "detail", p.Detail) }

// TurnStarted begins a turn. It counts the turns: the first has turn 1.
type TurnStarted struct {
	Agent string   `json:"agent,omitempty"`
	Input *Content `json:"input,omitempty"`
}

// Validate checks the shape.
func (p *TurnStarted) Validate() error {
	return first(short("agent", p.Agent), optional("input", p.Input))
}

// TurnCompleted ends a turn with what the agent said.
type TurnCompleted struct {
	Answer *Content `json:"answer,omitempty"`
}

// Validate checks the shape.
func (p *TurnCompleted) Validate() error { return optional("answer", p.Answer) }

// ContextCompiled says what of the budget V_e the context compiler used, in
// tokens by section, and which memory entries it let in.
type ContextCompiled struct {
	Admitted    []string       `json:"admitted"`
	Budget      int64          `json:"budget"`
	Compression []string       `json:"compression"`
	Sections    map[string]int `json:"sections"`
	Used        int64          `json:"used"`
	Window      int64          `json:"window"` // of the model
}

// Validate checks that the sections add up. Passing the budget is not refused:
// it happened, and a grader should see it.
func (p *ContextCompiled) Validate() error {
	sum := int64(0)
	for name, n := range p.Sections {
		if err := oneOf("section", name, "system", "memory", "history", "tools"); err != nil {
			return err
		}
		if n < 0 {
			return fmt.Errorf("section %s has %d tokens", name, n)
		}
		sum += int64(n)
	}
	if sum != p.Used || p.Budget < 0 || p.Window < 0 {
		return fmt.Errorf("used is %d and the sections add up to %d (budget %d, window %d)", p.Used, sum, p.Budget, p.Window)
	}
	return first(ids("admitted", p.Admitted), ids("compression", p.Compression))
}

// Plan is what the agent means to do.
type Plan struct {
	Text Content `json:"text"`
}

// Validate checks the shape.
func (p *Plan) Validate() error { return p.Text.validate("text") }

// ModelCallStarted is a request to a model. Request is the digest of the
// canonical request by which a cassette matches it.
type ModelCallStarted struct {
	Call     string         `json:"call"`
	Messages int            `json:"messages"`
	Model    string         `json:"model"`
	Prompt   Content        `json:"prompt"`
	Provider string         `json:"provider"`
	Request  digest.Content `json:"request"`
}

// Validate checks the shape.
func (p *ModelCallStarted) Validate() error {
	return first(texts("call", p.Call, "model", p.Model, "provider", p.Provider),
		counts("messages", int64(p.Messages)), p.Prompt.validate("prompt"))
}

// ModelCallCompleted is the model's reply, from a cassette or live.
type ModelCallCompleted struct {
	Call         string  `json:"call"`
	CostMicroUSD int64   `json:"cost_microdollars"`
	Error        string  `json:"error,omitempty"`
	FinishReason string  `json:"finish_reason"`
	LatencyMS    int64   `json:"latency_ms"`
	Output       Content `json:"output"`
	Source       string  `json:"source"`
	TokensIn     int64   `json:"tokens_in"`
	TokensOut    int64   `json:"tokens_out"`
}

// Validate checks the shape.
func (p *ModelCallCompleted) Validate() error {
	return first(texts("call", p.Call), short("finish_reason", p.FinishReason), long("error", p.Error), oneOf("source", p.Source, "cassette", "authored", "live"),
		counts("cost_microdollars", p.CostMicroUSD, "latency_ms", p.LatencyMS, "tokens_in", p.TokensIn, "tokens_out", p.TokensOut), p.Output.validate("output"))
}

// ToolProposed is a tool call that the agent wants. Nothing has happened yet.
type ToolProposed struct {
	Args  Args         `json:"args"`
	Call  string       `json:"call"`
	Class policy.Class `json:"class,omitempty"`
	Name  string       `json:"name"`
	Trust string       `json:"trust,omitempty"` // of the tool's description
}

// Validate checks the shape.
func (p *ToolProposed) Validate() error {
	return first(texts("call", p.Call, "name", p.Name), class(p.Class), trust(p.Trust), p.Args.validate("args"))
}

// PolicyDecision is what the policy said about a proposal, and why.
type PolicyDecision struct {
	Action  policy.Action  `json:"action"`
	Call    string         `json:"call"`
	Check   policy.Check   `json:"check"` // 0 allowed, 1 denied, 2 confirmed
	Name    string         `json:"name"`
	Reason  string         `json:"reason"`
	Rule    string         `json:"rule"`
	Verdict policy.Verdict `json:"verdict"`
}

// Decided makes the event of a decision.
func Decided(c policy.Call, d policy.Decision) *PolicyDecision {
	return &PolicyDecision{c.Action, c.ID, d.Check, c.Name, d.Reason, d.Rule, d.Verdict}
}

// Validate checks that verdict and check agree: a log in which they do not
// would read one way to us and another way to readers of the RVF format.
func (p *PolicyDecision) Validate() error {
	agree := p.Verdict == policy.Allow && (p.Check == policy.Allowed || p.Check == policy.Confirmed) ||
		(p.Verdict == policy.Deny || p.Verdict == policy.Escalate) && p.Check == policy.Denied
	if !agree {
		return fmt.Errorf("verdict %.40q and check %d do not go together", string(p.Verdict), p.Check)
	}
	return first(action(p.Action), texts("call", p.Call, "name", p.Name, "rule", p.Rule), long("reason", p.Reason))
}

// PolicyViolation is something that the policy did not permit and that was
// tried or happened.
type PolicyViolation struct {
	Call string `json:"call"`
	Rule string `json:"rule"`
	Text string `json:"text"`
}

// Validate checks the shape.
func (p *PolicyViolation) Validate() error {
	return first(texts("call", p.Call, "rule", p.Rule), filled("text", p.Text))
}

// ToolExecuted is a tool call that was made, with what came back.
type ToolExecuted struct {
	Args         Args    `json:"args"`
	Call         string  `json:"call"`
	CostMicroUSD int64   `json:"cost_microdollars"`
	Error        string  `json:"error,omitempty"`
	LatencyMS    int64   `json:"latency_ms"`
	Name         string  `json:"name"`
	Result       Content `json:"result"`
	Source       string  `json:"source"` // fixture, cassette, live
	Tokens       int64   `json:"tokens"`
	Trust        string  `json:"trust,omitempty"` // of the result
}

// Validate checks the shape.
func (p *ToolExecuted) Validate() error {
	return first(texts("call", p.Call, "name", p.Name), long("error", p.Error), oneOf("source", p.Source, "fixture", "cassette", "live"), trust(p.Trust),
		counts("cost_microdollars", p.CostMicroUSD, "latency_ms", p.LatencyMS, "tokens", p.Tokens), p.Args.validate("args"), p.Result.validate("result"))
}

// ApprovalRequested is a question to a person. The run may be suspended on it.
type ApprovalRequested struct {
	Action policy.Action `json:"action"`
	Call   string        `json:"call"`
	Name   string        `json:"name"`
	Reason string        `json:"reason"`
	Rule   string        `json:"rule"`
}

// Validate checks the shape.
func (p *ApprovalRequested) Validate() error {
	return first(action(p.Action), texts("call", p.Call, "name", p.Name, "rule", p.Rule), long("reason", p.Reason))
}

// ApprovalResolved is the answer. By says who gave it: case, person, timeout.
type ApprovalResolved struct {
	Approved bool   `json:"approved"`
	By       string `json:"by"`
	Call     string `json:"call"`
	Note     string `json:"note,omitempty"`
}

// Validate checks the shape.
func (p *ApprovalResolved) Validate() error {
	return first(texts("call", p.Call), oneOf("by", p.By, "case", "person", "timeout"), long("note", p.Note))
}

// A Tier is a kind of memory (ADR-0051).
type Tier string

// The memory tiers.
const (
	Working    Tier = "working"
	Episodic   Tier = "episodic"
	Semantic   Tier = "semantic"
	Procedural Tier = "procedural"
)

// MemoryProposed is a write that the agent wants. Supersedes is the entry that
// it would replace.
type MemoryProposed struct {
	Call       string  `json:"call"`
	Confidence float64 `json:"confidence"`
	Key        string  `json:"key"`
	Source     string  `json:"source"`
	Supersedes string  `json:"supersedes,omitempty"`
	Tier       Tier    `json:"tier"`
	Value      Content `json:"value"`
}

// Validate checks the shape.
func (p *MemoryProposed) Validate() error {
	return first(texts("call", p.Call, "key", p.Key), short("source", p.Source), short("supersedes", p.Supersedes), memory(p.Tier, p.Confidence), p.Value.validate("value"))
}

// MemoryWritten is a write that took place and made an entry.
type MemoryWritten struct {
	Call       string  `json:"call"`
	Confidence float64 `json:"confidence"`
	Entry      string  `json:"entry"`
	Key        string  `json:"key"`
	Source     string  `json:"source"`
	Supersedes string  `json:"supersedes,omitempty"`
	Tier       Tier    `json:"tier"`
	Value      Content `json:"value"`
}

// Validate checks the shape.
func (p *MemoryWritten) Validate() error {
	if p.Supersedes == p.Entry {
		return fmt.Errorf("entry %.80q supersedes itself", p.Entry)
	}
	return first(texts("call", p.Call, "entry", p.Entry, "key", p.Key), short("source", p.Source), short("supersedes", p.Supersedes), memory(p.Tier, p.Confidence), p.Value.validate("value"))
}

// MemoryRetrieved says which entries the agent was given.
type MemoryRetrieved struct {
	Entries []string `json:"entries"`
	Query   *Content `json:"query,omitempty"`
}

// Validate checks the shape.
func (p *MemoryRetrieved) Validate() error {
	return first(ids("entries", p.Entries), optional("query", p.Query))
}

// CheckpointSaved is a state of the working folder that can be restored.
type CheckpointSaved struct {
	Checkpoint string         `json:"checkpoint"`
	Digest     digest.Content `json:"digest"`
}

// Validate checks the shape.
func (p *CheckpointSaved) Validate() error { return texts("checkpoint", p.Checkpoint) }

// Rollback is a return to a checkpoint after a violation. Restored is the
// digest of what is there now; identical says that it is the checkpoint's.
type Rollback struct {
	Call       string         `json:"call"`
	Checkpoint string         `json:"checkpoint"`
	Identical  bool           `json:"identical"`
	Reason     string         `json:"reason"`
	Restored   digest.Content `json:"restored"`
}

// Validate checks the shape.
func (p *Rollback) Validate() error {
	return first(texts("call", p.Call, "checkpoint", p.Checkpoint), long("reason", p.Reason))
}

// HandedOff is control that passed from one agent to another.
type HandedOff struct {
	Call  string   `json:"call"`
	From  string   `json:"from"`
	Input *Content `json:"input,omitempty"`
	To    string   `json:"to"`
}

// Validate checks the shape.
func (p *HandedOff) Validate() error {
	return first(texts("call", p.Call, "from", p.From, "to", p.To), optional("input", p.Input))
}

// TransportRequest is a crossing of the gateway: what was asked of whom.
type TransportRequest struct {
	BytesIn   int64  `json:"bytes_in"`
	BytesOut  int64  `json:"bytes_out"`
	Error     string `json:"error,omitempty"`
	Host      string `json:"host"` // without port
	LatencyMS int64  `json:"latency_ms"`
	Method    string `json:"method"`
	Path      string `json:"path"`
	Protocol  string `json:"protocol"` // openai, anthropic, mcp, http
	Status    int    `json:"status"`   // 0 if there was no answer
}

// Validate checks the shape.
func (p *TransportRequest) Validate() error {
	return first(texts("host", p.Host, "method", p.Method), oneOf("protocol", p.Protocol, "openai", "anthropic", "mcp", "http"), long("path", p.Path), long("error", p.Error),
		counts("bytes_in", p.BytesIn, "bytes_out", p.BytesOut, "latency_ms", p.LatencyMS, "status", int64(p.Status)))
}

// FileWritten is a file of the working folder that is new or changed.
type FileWritten struct {
	Bytes  int64          `json:"bytes"`
	Digest digest.Content `json:"digest"`
	Path   string         `json:"path"`
}

// Validate checks the shape.
func (p *FileWritten) Validate() error {
	return first(filled("path", p.Path), counts("bytes", p.Bytes))
}

// SecurityEvent is a sign of an attack that something noticed or stopped.
type SecurityEvent struct {
	Boundary string            `json:"boundary,omitempty"` // TB-1 to TB-8
	Detail   string            `json:"detail"`
	Name     string            `json:"name"`
	Severity evidence.Severity `json:"severity"`
}

// Validate checks the shape.
func (p *SecurityEvent) Validate() error {
	if b := p.Boundary; b != "" && (len(b) != 4 || b[:3] != "TB-" || b[3] < '1' || b[3] > '8') {
		return fmt.Errorf("boundary is %.40q, expected TB-1 to TB-8", b)
	}
	return first(texts("name", p.Name), filled("detail", p.Detail), oneOf("severity", string(p.Severity), "block", "warn", "info"))
}

// LimitReached is a limit that stopped something. What it stopped is
// truncated, never a quiet score.
type LimitReached struct {
	Limit string `json:"limit"` // wall_clock_ms, turns, tokens, cost_microdollars, output_bytes
	Max   int64  `json:"max"`
}

// Validate checks the shape.
func (p *LimitReached) Validate() error {
	return first(oneOf("limit", p.Limit, "wall_clock_ms", "turns", "tokens", "cost_microdollars", "output_bytes"), counts("max", p.Max))
}

// Failure is something that went wrong and did not end the run.
type Failure struct {
	Call   string `json:"call,omitempty"`
	Detail string `json:"detail"`
	Name   string `json:"name"`
}

// Validate checks the shape.
func (p *Failure) Validate() error {
	return first(short("call", p.Call), texts("name", p.Name), filled("detail", p.Detail))
}

// TestRun is the test command of a coding case, run by the harness.
type TestRun struct {
	Command   []string `json:"command"`
	Exit      int      `json:"exit"` // -1 if it was killed
	LatencyMS int64    `json:"latency_ms"`
	Output    Content  `json:"output"`
	Passed    bool     `json:"passed"`
}

// Validate checks the shape.
func (p *TestRun) Validate() error {
	if len(p.Command) == 0 {
		return errors.New("command is empty")
	}
	if p.Passed != (p.Exit == 0) {
		return fmt.Errorf("passed is %v and the command ended with %d", p.Passed, p.Exit)
	}
	return first(ids("command", p.Command), counts("latency_ms", p.LatencyMS), p.Output.validate("output"))
}

// Bounds of texts in payloads.
const (
	maxShort = 512
	maxLong  = 4096
	maxList  = 4096
)

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// texts checks pairs of field and value that must be there and short.
func texts(pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			return fmt.Errorf("%s is empty", pairs[i])
		}
		if err := short(pairs[i], pairs[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func short(field, value string) error { return bounded(field, value, maxShort) }
func long(field, value string) error  { return bounded(field, value, maxLong) }

func filled(field, value string) error {
	if value == "" {
		return fmt.Errorf("%s is empty", field)
	}
	return long(field, value)
}

func bounded(field, value string, limit int) error {
	if len(value) > limit {
		return fmt.Errorf("%s has %d bytes, expected at most %d", field, len(value), limit)
	}
	return nil
}

func ids(field string, values []string) error {
	if len(values) > maxList {
		return fmt.Errorf("%s has %d elements, expected at most %d", field, len(values), maxList)
	}
	for i, v := range values {
		if err := bounded(fmt.Sprintf("%s[%d]", field, i), v, maxLong); err != nil {
			return err
		}
	}
	return nil
}

// counts checks pairs of field and value that cannot be negative.
func counts(pairs ...any) error {
	for i := 0; i < len(pairs); i += 2 {
		if n := pairs[i+1].(int64); n < 0 {
			return fmt.Errorf("%s is %d, expected 0 or more", pairs[i], n)
		}
	}
	return nil
}

func oneOf(field, value string, known ...string) error {
	if !slices.Contains(known, value) {
		return fmt.Errorf("%s is %.40q, expected one of %q", field, value, known)
	}
	return nil
}

func optional(field string, c *Content) error {
	if c == nil {
		return nil
	}
	return c.validate(field)
}

func action(a policy.Action) error {
	if !a.Known() {
		return fmt.Errorf("action is %.40q, expected one of %q", string(a), policy.Actions())
	}
	return nil
}

func class(c policy.Class) error {
	if c != "" && !c.Known() {
		return fmt.Errorf("class is %.40q, expected one of %q", string(c), policy.Classes())
	}
	return nil
}

// trust labels are those of ADR-0057.
func trust(label string) error {
	if label == "" {
		return nil
	}
	return oneOf("trust", label, "untrusted", "imported", "pinned", "internal")
}

func memory(t Tier, confidence float64) error {
	if !(confidence >= 0 && confidence <= 1) {
		return fmt.Errorf("confidence is %v, expected 0 to 1", confidence)
	}
	return oneOf("tier", string(t), string(Working), string(Episodic), string(Semantic), string(Procedural))
}
