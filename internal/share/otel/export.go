package otel

import (
	"encoding/hex"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/share/foreign"
)

// MaxExport is how long an exported document may get: it is made in memory.
const MaxExport = 256 << 20

// A Run is what an export says about all traces of an attempt.
type Run struct {
	ID, Class, Target string
	Level             string
	Gate              string // what is decided about the attempt, and why
	Version           string // of the program
}

// A Trace is one execution of a case, for [Export].
type Trace struct {
	ID                string
	Repeat, Execution int
	Started           time.Time
	Took              time.Duration

	// Trajectory is nil for a case that was not run. Content gives the whole
	// texts of which it has the beginning; it may be nil.
	Trajectory *trajectory.Verified
	Content    func(digest.Content) ([]byte, bool)

	Outcome string   // passed, failed, unscored, ...
	Score   *float64 // nil if there is none
	// Corrections are what was set beside outcome and score, which are as recorded.
	Corrections []evidence.CorrectedRow
	Reason      string
	Checks      []grade.Detail
}

// Export writes an attempt as one OTLP JSON document: a trace for each case
// with spans for its turns, model calls and tool calls, everything else as
// events of these spans, and a gen_ai.evaluation.result for the case and for
// each check. Ids follow from what the trace is of, so the same attempt gives
// the same bytes.
func Export(a Run, cases iter.Seq2[Trace, error]) ([]byte, error) {
	resource, err := json.Marshal(map[string]any{"attributes": []outAttribute{text("service.name", "tallystick"), text("service.version", a.Version),
		text(attrAttempt, a.ID), text(attrClass, a.Class), text(attrTarget, a.Target), text(attrLevel, a.Level), text(attrGate, a.Gate)}})
	if err != nil {
		return nil, err
	}
	scope, err := json.Marshal(struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}{"tallystick", a.Version})
	if err != nil {
		return nil, err
	}
	out := fmt.Appendf(nil, `{"resourceSpans":[{"resource":%s,"scopeSpans":[{"scope":%s,"spans":[`, resource, scope)
	first := true
	for c, err := range cases {
		if err != nil {
			return nil, err
		}
		spans, err := spansOf(a, &c)
		if err != nil {
			return nil, fmt.Errorf("case %s: %w", c.ID, err)
		}
		for _, s := range spans {
			doc, err := json.Marshal(s)
			if err != nil {
				return nil, fmt.Errorf("case %s: %w", c.ID, err)
			}
			if !first {
				out = append(out, ',')
			}
			first = false
			if out = append(append(out, '\n'), doc...); len(out) > MaxExport {
				return nil, refusal.Newf(refusal.TooLarge, "the document would have more than %d bytes", MaxExport).WithHint("export fewer cases at a time with --case")
			}
		}
	}
	return append(out, "\n]}]}]}\n"...), nil
}

// The JSON that is written. The order of members is that of the fields.
type outSpan struct {
	TraceID    string         `json:"traceId"`
	SpanID     string         `json:"spanId"`
	Parent     string         `json:"parentSpanId,omitempty"`
	Name       string         `json:"name"`
	Kind       int            `json:"kind"`
	Start      string         `json:"startTimeUnixNano"`
	End        string         `json:"endTimeUnixNano"`
	Attributes []outAttribute `json:"attributes"`
	Events     []outEvent     `json:"events,omitempty"`
	Status     outStatus      `json:"status"`

	end uint64
	cut int // texts that are not whole
}

type outStatus struct {
	Code    int    `json:"code,omitzero"`
	Message string `json:"message,omitempty"`
}

type outEvent struct {
	At         string         `json:"timeUnixNano"`
	Name       string         `json:"name"`
	Attributes []outAttribute `json:"attributes"`
}

type outAttribute struct {
	Key   string   `json:"key"`
	Value outValue `json:"value"`
}

type outValue struct {
	Text  *string   `json:"stringValue,omitzero"`
	Int   string    `json:"intValue,omitzero"`
	Float *float64  `json:"doubleValue,omitzero"`
	Bool  *bool     `json:"boolValue,omitzero"`
	List  *outArray `json:"arrayValue,omitzero"`
}

type outArray struct {
	Values []outValue `json:"values"`
}

func text(key, v string) outAttribute {
	v = foreign.Clean(v)
	return outAttribute{key, outValue{Text: &v}}
}
func whole(key string, n int64) outAttribute {
	return outAttribute{key, outValue{Int: strconv.FormatInt(n, 10)}}
}
func decimal(key string, f float64) outAttribute { return outAttribute{key, outValue{Float: &f}} }
func flag(key string, b bool) outAttribute       { return outAttribute{key, outValue{Bool: &b}} }

const (
	kindInternal = 1
	kindClient   = 3
	statusOK     = 1
	statusError  = 2
)

// An exporter makes the spans of one case.
type exporter struct {
	c       *Trace
	trace   string
	base    uint64
	spans   []*outSpan
	root    *outSpan
	turn    *outSpan
	models  map[string]*outSpan
	tools   map[string]*outSpan
	wishes  map[string][]string // of a model call: the ids of the tool calls it led to
	lastEnd uint64
	err     error

	// Calls that never came to the session, by their first event.
	observed map[int]*trajectory.ToolCall
	reports  map[*trajectory.ToolObserved]int
	seen     map[int]*outSpan
}

func spansOf(a Run, c *Trace) ([]*outSpan, error) {
	e := &exporter{c: c, base: uint64(max(0, c.Started.UnixNano())), models: map[string]*outSpan{}, tools: map[string]*outSpan{}}
	head := ""
	if c.Trajectory != nil {
		head = c.Trajectory.Head().String()
	}
	seed := digest.IDOf(fmt.Appendf(nil, "tallystick-otel-v1\x00%s\x00%s\x00%d\x00%d\x00%s", a.ID, c.ID, c.Repeat, c.Execution, head))
	e.trace = hex.EncodeToString(seed[:16])
	e.lastEnd = e.base + uint64(max(0, c.Took))

	e.root = e.open("case", nil, "invoke_workflow "+a.Class, kindInternal, e.base)
	e.root.add(text("gen_ai.operation.name", "invoke_workflow"), text("gen_ai.workflow.name", a.Class), text(attrAttempt, a.ID), text(attrCase, c.ID),
		whole(attrRepeat, int64(c.Repeat)), whole(attrExecution, int64(c.Execution)), text(attrLevel, a.Level), text(attrOutcome, c.Outcome))
	for i, b := range c.Corrections {
		e.root.add(text(fmt.Sprintf("%s.%d", attrCorrection, i+1), b.Beside.Text()))
	}
	if c.Trajectory != nil {
		e.root.add(text(attrHead, head))
		e.matchWishes()
		e.findObserved()
		for ev := range c.Trajectory.Events() {
			e.event(ev)
		}
	}
	e.evaluations()
	for i := len(e.spans) - 1; i >= 0; i-- {
		e.spans[i].finish()
	}
	e.root.close(e.lastEnd)
	return e.spans, e.err
}

// at is the time of an event. The events of a replay often share a millisecond,
// so their number is in the nanoseconds: readers sort by time.
func (e *exporter) at(ev trajectory.Event) uint64 {
	return e.base + uint64(ev.At.Nanoseconds()) + uint64(ev.Seq)
}

func (e *exporter) open(key string, parent *outSpan, name string, kind int, at uint64) *outSpan {
	id := digest.IDOf([]byte(e.trace + "\x00" + key))
	s := &outSpan{TraceID: e.trace, SpanID: hex.EncodeToString(id[:8]), Name: foreign.Clean(name), Kind: kind, Start: strconv.FormatUint(at, 10)}
	if parent != nil {
		s.Parent = parent.SpanID
	}
	s.close(at)
	e.spans = append(e.spans, s)
	return s
}

func (s *outSpan) add(list ...outAttribute) { s.Attributes = append(s.Attributes, list...) }

// close moves the end of a span forward.
func (s *outSpan) close(at uint64) {
	if at >= s.end {
		s.end, s.End = at, strconv.FormatUint(at, 10)
	}
}

func (s *outSpan) fail(kind, message string) {
	s.add(text("error.type", kind))
	s.Status = outStatus{statusError, foreign.Cut(foreign.Clean(message), foreign.MaxDetail)}
}

func (s *outSpan) finish() {
	if s.cut > 0 {
		s.add(whole(attrCut, int64(s.cut)))
	}
}

// whole is the text that a content stands for, or as much of it as there is.
func (e *exporter) whole(s *outSpan, c *trajectory.Content) string {
	if c == nil {
		return ""
	}
	if !c.Truncated && !c.Lossy {
		if c.Redacted {
			s.cut++
		}
		return c.Head
	}
	if data, ok := e.content(c.Digest); ok && !c.Redacted {
		return foreign.Clean(string(data))
	}
	s.cut++
	return c.Head
}

func (e *exporter) content(d digest.Content) ([]byte, bool) {
	if e.c.Content == nil {
		return nil, false
	}
	return e.c.Content(d)
}

// args are the arguments of a call as JSON, or as they were written.
func (e *exporter) args(s *outSpan, a *trajectory.Args) string {
	if a.Raw != nil {
		return e.whole(s, a.Raw)
	}
	if len(a.Cut) > 0 && !a.Redacted {
		if data, ok := e.content(a.Digest); ok {
			return foreign.Clean(string(data))
		}
	}
	out := []byte{'{'}
	for _, k := range sortedKeys(a.Values) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(foreign.AppendText(out, k), ':'), a.Values[k]...)
	}
	if len(a.Cut) > 0 || a.Redacted {
		s.cut++
	}
	return string(append(out, '}'))
}

func messagesAttr(key string, list ...foreign.Message) outAttribute {
	return text(key, foreign.PromptText(list))
}

func said(role, t string) foreign.Message {
	return foreign.Message{Role: role, Parts: []foreign.Part{{Kind: "text", Text: t}}}
}

// event puts an event where it belongs.
func (e *exporter) event(ev trajectory.Event) {
	at := e.at(ev)
	e.lastEnd = max(e.lastEnd, at)
	if e.turn != nil {
		e.turn.close(at)
	}
	switch p := ev.Payload.(type) {
	case *trajectory.RunStarted:
		e.root.add(text(attrTarget, p.Target))
	case *trajectory.TurnStarted:
		e.startTurn(ev, p)
	case *trajectory.TurnCompleted:
		if p.Answer != nil && e.turn != nil {
			e.turn.add(messagesAttr("gen_ai.output.messages", said("assistant", e.whole(e.turn, p.Answer))))
		}
	case *trajectory.ModelCallStarted:
		e.startModel(ev, p)
	case *trajectory.ModelCallCompleted:
		e.endModel(at, p)
	case *trajectory.ToolProposed:
		e.proposeTool(ev, p)
	case *trajectory.ToolExecuted:
		e.endTool(ev, p)
	case *trajectory.ToolObserved:
		e.observeTool(ev, p)
		e.other(ev, at)
	case *trajectory.RunCompleted:
		e.root.add(text(attrStatus, p.Status))
		if p.Answer != nil {
			e.root.add(messagesAttr("gen_ai.output.messages", said("assistant", e.whole(e.root, p.Answer))))
		}
		e.root.Status.Code = statusOK
	case *trajectory.RunFailed:
		e.root.add(text(attrStatus, "failed"))
		e.root.fail(p.Name, p.Detail)
	default:
		e.other(ev, at)
	}
}

// here is the span that what happens now belongs to.
func (e *exporter) here() *outSpan {
	if e.turn != nil {
		return e.turn
	}
	return e.root
}

func (e *exporter) startTurn(ev trajectory.Event, p *trajectory.TurnStarted) {
	agent := p.Agent
	if agent == "" {
		agent = "agent"
	}
	e.turn = e.open(fmt.Sprintf("turn/%d", ev.Turn), e.root, "invoke_agent "+agent, kindInternal, e.at(ev))
	e.turn.add(text("gen_ai.operation.name", "invoke_agent"))
	if p.Agent != "" {
		e.turn.add(text("gen_ai.agent.name", p.Agent))
	}
	if p.Input != nil {
		e.turn.add(messagesAttr("gen_ai.input.messages", said("user", e.whole(e.turn, p.Input))))
	}
}

func (e *exporter) startModel(ev trajectory.Event, p *trajectory.ModelCallStarted) {
	s := e.open(fmt.Sprintf("event/%d", ev.Seq), e.here(), "chat "+p.Model, kindClient, e.at(ev))
	s.add(text("gen_ai.operation.name", "chat"), text("gen_ai.provider.name", p.Provider), text("gen_ai.request.model", p.Model))
	// A request that is only there in part is not JSON, and half a
	// conversation would mislead.
	if system, list, ok := requestMessages(p.Provider, e.whole(s, &p.Prompt)); ok && s.cut == 0 {
		if len(system) > 0 {
			s.add(text("gen_ai.system_instructions", foreign.PartsText(system)))
		}
		s.add(messagesAttr("gen_ai.input.messages", list...))
	}
	e.models[p.Call] = s
}

func (e *exporter) endModel(at uint64, p *trajectory.ModelCallCompleted) {
	s := e.models[p.Call]
	if s == nil {
		return
	}
	s.close(at)
	reply := replyMessage(e.whole(s, &p.Output), e.wishes[p.Call])
	reply.Finish = p.FinishReason
	if p.FinishReason != "" {
		reason := foreign.Clean(p.FinishReason)
		s.add(outAttribute{"gen_ai.response.finish_reasons", outValue{List: &outArray{[]outValue{{Text: &reason}}}}})
	}
	// What is not known is left out: a zero would be believed.
	if !p.Unpriced || p.TokensIn > 0 {
		s.add(whole("gen_ai.usage.input_tokens", p.TokensIn))
	}
	if !p.Unpriced || p.TokensOut > 0 {
		s.add(whole("gen_ai.usage.output_tokens", p.TokensOut))
	}
	if !p.Unpriced {
		s.add(whole(attrCost, p.CostMicroUSD))
	}
	s.add(text(attrSource, p.Source))
	if len(reply.Parts) > 0 {
		s.add(messagesAttr("gen_ai.output.messages", reply))
	}
	if p.Error != "" {
		s.fail("model_error", p.Error)
	}
}

func (e *exporter) proposeTool(ev trajectory.Event, p *trajectory.ToolProposed) {
	s := e.open(fmt.Sprintf("event/%d", ev.Seq), e.here(), "execute_tool "+p.Name, kindInternal, e.at(ev))
	s.add(text("gen_ai.operation.name", "execute_tool"), text("gen_ai.tool.name", p.Name), text("gen_ai.tool.call.id", p.Call),
		text("gen_ai.tool.call.arguments", e.args(s, &p.Args)), text(attrToolClass, string(p.Class)), text(attrTrust, p.Trust), flag(attrExecuted, false))
	e.tools[p.Call] = s
}

func (e *exporter) endTool(ev trajectory.Event, p *trajectory.ToolExecuted) {
	s := e.tools[p.Call]
	if s == nil { // carried out and never proposed
		e.proposeTool(ev, &trajectory.ToolProposed{Args: p.Args, Call: p.Call, Name: p.Name, Trust: p.Trust})
		s = e.tools[p.Call]
	}
	delete(e.tools, p.Call)
	s.close(e.at(ev))
	s.Attributes[len(s.Attributes)-1] = flag(attrExecuted, true)
	s.add(text("gen_ai.tool.call.result", e.whole(s, &p.Result)), whole(attrCost, p.CostMicroUSD), whole(attrTokens, p.Tokens), text(attrSource, p.Source))
	if p.Error != "" {
		s.fail("tool_error", p.Error)
	}
}

// findObserved finds the calls that never came to the session. They have spans
// too: who reads an export must not see fewer calls than were seen.
func (e *exporter) findObserved() {
	view := trajectory.CallsOf(e.c.Trajectory)
	e.observed, e.reports, e.seen = map[int]*trajectory.ToolCall{}, map[*trajectory.ToolObserved]int{}, map[int]*outSpan{}
	for i := range view.Calls {
		if c := &view.Calls[i]; c.Call == "" && !c.Stopped {
			e.observed[c.Seq] = c
			if c.Report != nil {
				e.reports[c.Report] = c.Seq
			}
		}
	}
}

// observeTool writes the span of a call that the agent made itself, or that its
// model asked for.
func (e *exporter) observeTool(ev trajectory.Event, p *trajectory.ToolObserved) {
	if c := e.observed[ev.Seq]; c != nil {
		s := e.open(fmt.Sprintf("event/%d", ev.Seq), e.here(), "execute_tool "+c.Name, kindInternal, e.at(ev))
		s.add(text("gen_ai.operation.name", "execute_tool"), text("gen_ai.tool.name", c.Name), text("gen_ai.tool.call.id", p.ID),
			text("gen_ai.tool.call.arguments", e.args(s, &p.Args)), text(attrVantage, string(c.Vantage)), flag(attrExecuted, false))
		e.seen[ev.Seq] = s
	}
	at, reported := e.reports[p]
	if s := e.seen[at]; reported && s != nil {
		s.close(e.at(ev))
		s.add(text("gen_ai.tool.call.result", e.whole(s, p.Result)))
		if p.Error {
			s.fail("tool_error", "the agent says that the tool failed")
		}
	}
}

// other keeps every event that has no span as an event of the span around it.
func (e *exporter) other(ev trajectory.Event, at uint64) {
	payload, err := canon.Marshal(ev.Payload)
	if err != nil {
		e.err = fmt.Errorf("event %d (%s): %w", ev.Seq, ev.Type, err)
		return
	}
	s := e.here()
	s.Events = append(s.Events, outEvent{strconv.FormatUint(at, 10), "tallystick." + string(ev.Type), []outAttribute{whole(attrSeq, int64(ev.Seq)), text(attrPayload, string(payload))}})
}

// evaluations says how the case and each check ended.
func (e *exporter) evaluations() {
	at := strconv.FormatUint(e.lastEnd, 10)
	add := func(name, label, why string, score *float64, broken bool) {
		ev := outEvent{at, "gen_ai.evaluation.result", []outAttribute{text("gen_ai.evaluation.name", name)}}
		if score != nil {
			ev.Attributes = append(ev.Attributes, decimal("gen_ai.evaluation.score.value", *score))
		}
		ev.Attributes = append(ev.Attributes, text("gen_ai.evaluation.score.label", label))
		if why != "" {
			ev.Attributes = append(ev.Attributes, text("gen_ai.evaluation.explanation", why))
		}
		if broken {
			ev.Attributes = append(ev.Attributes, text("error.type", label))
		}
		e.root.Events = append(e.root.Events, ev)
	}
	add("case", e.c.Outcome, e.c.Reason, e.c.Score, e.c.Score == nil)
	for _, d := range e.c.Checks {
		name := strings.TrimSpace(d.Check + " " + string(d.Grader))
		add("check "+name, string(d.Outcome), d.Why, d.Score, d.Outcome == grade.Unscored)
	}
}
