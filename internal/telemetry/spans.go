package telemetry

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tallystick/internal/refusal"
	"tallystick/internal/trajectory"
)

// A role is what a span is in a trajectory.
type role int

const (
	otherSpan role = iota // holds others together, or is of something else
	modelSpan
	toolSpan
	agentSpan
	planSpan
)

// A node is a span with what was read out of it.
type node struct {
	*span
	role         role
	op           string
	parentNode   *node
	children     []*node
	enter, leave int // order in the tree, for moments at the same time
	visited      bool

	agentAbove, toolAbove *node // the nearest around it

	input, output []message // of a model or an agent
	system        []message // gen_ai.system_instructions, which are apart from the messages
	proposals     []*proposal
	tool          *toolCall // what the messages know about it
	skipped       bool      // a tool span inside that of the same call
	notExecuted   bool      // our own export says that the policy refused it

	// Of an agent.
	turn        bool // no other agent called it
	heard, said string
}

// importSpans makes a trajectory of each trace.
func importSpans(src Source, b *budget, in *batch) ([]Imported, error) {
	traces, stray := tracesOf(in)
	var out []Imported
	without := 0
	for _, t := range traces {
		t.budget = b
		if err := t.read(); err != nil {
			return nil, refused(src.Name, fmt.Errorf("trace %x: %w", t.id, err), refusal.Malformed)
		}
		if !t.hasGenAI() {
			without += len(t.nodes)
			continue
		}
		if len(out) >= maxRuns {
			return nil, refusal.Newf(refusal.TooLarge, "%s: more than %d traces", src.Name, maxRuns)
		}
		one, err := t.trajectory(src)
		if err != nil {
			return nil, refused(src.Name, fmt.Errorf("trace %x: %w", t.id, err), refusal.Malformed)
		}
		out = append(out, one)
	}
	if len(out) == 0 {
		return nil, refusal.Newf(refusal.Unrecognised, "%s: has %d spans, none of which has gen_ai attributes", src.Name, len(in.spans)).
			WithHint("instrument the agent with the OpenTelemetry GenAI conventions; docs/formats/telemetry.md lists what is read")
	}
	// What belongs to no trajectory is told with the first.
	var rest notes
	if without > 0 {
		rest.count("spans of traces without gen_ai attributes", "", without)
	}
	if stray > 0 {
		rest.count("log records that belong to no span of the file", "", stray)
	}
	out[0].Notes = append(out[0].Notes, rest.list...)
	return out, nil
}

type trace struct {
	id     [16]byte
	nodes  []*node // in the order of their start
	roots  []*node
	budget *budget
	*recorder
	moments []moment
	begin   uint64

	byCall    map[string]*proposal // of the model, by its id
	evaluated []Evaluation
	running   int    // turns that have begun and not ended
	answer    string // of the last turn
	failure   string
	status    string
	early     notes // from before there is a recorder
}

// tracesOf groups spans by trace, in the order in which the traces begin, and
// gives log records to their spans.
func tracesOf(in *batch) (list []*trace, stray int) {
	byID := map[[16]byte]*trace{}
	type key struct {
		trace [16]byte
		span  [8]byte
	}
	bySpan := map[key]*node{}
	for i := range in.spans {
		s := &in.spans[i]
		t := byID[s.trace]
		if t == nil {
			t = &trace{id: s.trace}
			byID[s.trace] = t
			list = append(list, t)
		}
		k := key{s.trace, s.id}
		if bySpan[k] != nil {
			t.early.add("span that is there twice", s.name)
			continue
		}
		n := &node{span: s}
		bySpan[k] = n
		t.nodes = append(t.nodes, n)
	}
	for i := range in.logs {
		l := &in.logs[i]
		n := bySpan[key{l.trace, l.span}]
		if n == nil {
			stray++
			continue
		}
		n.events = append(n.events, l.event)
	}
	for _, t := range list {
		slices.SortStableFunc(t.nodes, func(a, b *node) int { return cmp.Compare(a.start, b.start) })
		for _, n := range t.nodes {
			if t.begin = n.start; t.begin > 0 {
				break
			}
		}
		for _, n := range t.nodes {
			if p := bySpan[key{t.id, n.parent}]; p != nil && p != n {
				n.parentNode = p
				p.children = append(p.children, n)
			}
		}
		t.grow()
	}
	slices.SortStableFunc(list, func(a, b *trace) int { return cmp.Compare(a.begin, b.begin) })
	return list, stray
}

// grow finds the roots and numbers the tree. Spans that name each other as
// parents hang from no root; the first of them becomes one.
func (t *trace) grow() {
	next := 0
	plant := func(n *node) {
		t.roots = append(t.roots, n)
		// A stack of its own: a hostile file can be as deep as it is long.
		type frame struct {
			n     *node
			child int
		}
		stack := []frame{{n, 0}}
		n.visited, n.enter = true, next
		next++
		for len(stack) > 0 {
			f := &stack[len(stack)-1]
			if f.child == len(f.n.children) {
				f.n.leave = next
				next++
				stack = stack[:len(stack)-1]
				continue
			}
			c := f.n.children[f.child]
			f.child++
			if !c.visited {
				c.visited, c.enter = true, next
				next++
				stack = append(stack, frame{c, 0})
			}
		}
	}
	for _, n := range t.nodes {
		if n.parentNode == nil {
			if n.parent != [8]byte{} {
				t.early.add("span whose parent is not in the file", n.name)
			}
			plant(n)
		}
	}
	for _, n := range t.nodes {
		if !n.visited {
			t.early.add("spans that are each other's parents", n.name)
			n.parentNode = nil
			plant(n)
		}
	}
}

// hasGenAI reports whether anything in the trace is of an agent or a model.
func (t *trace) hasGenAI() bool {
	return slices.ContainsFunc(t.nodes, func(n *node) bool { return n.role != otherSpan })
}

// known are the attributes that end up in events. Everything else is counted.
func known(key string) bool {
	switch key {
	case "gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.system", "gen_ai.request.model", "gen_ai.response.model",
		"gen_ai.response.finish_reasons", "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens",
		"gen_ai.usage.prompt_tokens", "gen_ai.usage.completion_tokens", "gen_ai.usage.cost", "gen_ai.input.messages", "gen_ai.output.messages",
		"gen_ai.system_instructions", "gen_ai.prompt", "gen_ai.completion", "gen_ai.tool.name", "gen_ai.tool.call.id",
		"gen_ai.tool.call.arguments", "gen_ai.tool.call.result", "gen_ai.agent.name", "gen_ai.agent.id", "gen_ai.workflow.name",
		"error.type", "traceloop.span.kind", "traceloop.entity.name", "traceloop.entity.input", "traceloop.entity.output", "llm.request.type",
		attrStatus, attrExecuted, attrCost:
		return true
	}
	return false
}

// read finds out what each span is and what was said in it.
func (t *trace) read() error {
	for _, n := range t.nodes {
		// The details of a call may come as an event of their own.
		for _, e := range n.events {
			if e.name == "gen_ai.client.inference.operation.details" {
				n.attrs = append(slices.Clip(n.attrs), e.attrs...)
			}
		}
		t.classify(n)
		if n.role == modelSpan || n.role == agentSpan || n.role == planSpan {
			if err := t.readMessages(n); err != nil {
				return err
			}
		}
		t.readEvents(n)
		if n.dropped > 0 {
			t.early.count("attributes or events that the exporter had dropped", n.name, int(min(n.dropped, 1<<30)))
		}
	}
	t.relate()
	return nil
}

// relate finds the agent and the tool around each span, from the roots down: a
// way up from each span would take time in the square of a hostile depth.
func (t *trace) relate() {
	down := slices.SortedFunc(slices.Values(t.nodes), func(a, b *node) int { return a.enter - b.enter })
	for _, n := range down {
		if p := n.parentNode; p != nil {
			n.agentAbove, n.toolAbove = p.agentAbove, p.toolAbove
			switch p.role {
			case agentSpan:
				n.agentAbove = p
			case toolSpan:
				n.toolAbove = p
			}
		}
		n.turn = n.role == agentSpan && n.agentAbove == nil
		if n.role == toolSpan && n.toolAbove != nil && toolName(n.toolAbove) == toolName(n) {
			n.skipped = true // the client's and the server's view of one call
			t.early.add("tool span inside that of the same tool", n.name)
		}
	}
	for _, n := range t.nodes {
		if a := n.agentAbove; n.role == modelSpan && a != nil && a.heard == "" {
			a.heard, _ = lastUser(n.input)
		}
	}
}

func (t *trace) classify(n *node) {
	n.op = n.attrs.text("gen_ai.operation.name")
	if n.op == "" {
		// Before there was an operation name, the kind of request said it.
		switch kind := n.attrs.text("llm.request.type", "traceloop.span.kind"); kind {
		case "chat", "agent", "tool":
			n.op = map[string]string{"chat": "chat", "agent": "invoke_agent", "tool": "execute_tool"}[kind]
		case "completion":
			n.op = "text_completion"
		}
	}
	if n.op == "" && n.attrs.text("mcp.method.name") == "tools/call" {
		n.op = "execute_tool"
	}
	if n.op == "" && n.attrs.text("gen_ai.system", "gen_ai.provider.name") != "" && n.attrs.text("gen_ai.request.model", "gen_ai.response.model") != "" {
		n.op = "chat"
	}
	switch n.op {
	case "chat", "generate_content", "text_completion":
		n.role = modelSpan
	case "execute_tool":
		n.role = toolSpan
	case "invoke_agent":
		n.role = agentSpan
	case "plan":
		n.role = planSpan
	case "invoke_workflow":
	case "":
		t.early.add("span that is none of the GenAI conventions", n.name)
	default:
		t.early.add("span of the operation "+n.op, n.name)
	}
	if s := n.attrs.text(attrStatus); s != "" && n.parentNode == nil {
		t.status = s
	}
	n.notExecuted = n.attrs.text(attrExecuted) == "false"
}

// readMessages reads what was said, by the newest convention that is there.
func (t *trace) readMessages(n *node) error {
	used := map[string]bool{}
	read := func(key string, into *[]message, parse func(*budget, value) ([]message, error)) error {
		v, ok := n.attrs.get(key)
		if !ok {
			return nil
		}
		list, err := parse(t.budget, v)
		*into = append(*into, list...)
		return err
	}
	as := func(role string) func(*budget, value) ([]message, error) {
		return func(b *budget, v value) ([]message, error) { return messagesOf(b, v, role) }
	}
	if err := read("gen_ai.system_instructions", &n.system, partsOf); err != nil {
		return err
	}
	if err := read("gen_ai.input.messages", &n.input, as("user")); err != nil {
		return err
	}
	if err := read("gen_ai.output.messages", &n.output, as("assistant")); err != nil {
		return err
	}
	if n.role == modelSpan {
		if err := t.readEventMessages(n); err != nil {
			return err
		}
	}
	if len(n.input) == 0 {
		if n.input = indexed(n.attrs, "gen_ai.prompt.", used); len(n.input) == 0 {
			if err := read("gen_ai.prompt", &n.input, as("user")); err != nil {
				return err
			}
		}
	}
	if len(n.output) == 0 {
		if n.output = indexed(n.attrs, "gen_ai.completion.", used); len(n.output) == 0 {
			if err := read("gen_ai.completion", &n.output, as("assistant")); err != nil {
				return err
			}
		}
	}
	if n.role == agentSpan && len(n.input)+len(n.output) == 0 {
		if err := read("traceloop.entity.input", &n.input, as("user")); err != nil {
			return err
		}
		if err := read("traceloop.entity.output", &n.output, as("assistant")); err != nil {
			return err
		}
	}
	for _, a := range n.attrs {
		if !used[a.key] && !known(a.key) {
			t.early.add("attribute "+a.key, a.string())
		}
	}
	for _, list := range [][]message{n.system, n.input, n.output} {
		for i := range list {
			for _, p := range list[i].parts {
				if p.kind != "text" && p.kind != "tool_call" && p.kind != "tool_call_response" {
					t.early.add("message part "+p.kind, p.text)
				}
			}
		}
	}
	return nil
}

// eventRoles are the events before 1.37 that carry one message each.
func eventRole(name string) string {
	switch name {
	case "gen_ai.system.message":
		return "system"
	case "gen_ai.user.message", "gen_ai.content.prompt":
		return "user"
	case "gen_ai.assistant.message", "gen_ai.choice", "gen_ai.content.completion":
		return "assistant"
	case "gen_ai.tool.message":
		return "tool"
	}
	return ""
}

// readEventMessages reads messages that are events, if no attribute has them.
func (t *trace) readEventMessages(n *node) error {
	haveInput, haveOutput := len(n.input) > 0, len(n.output) > 0
	for _, e := range n.events {
		role := eventRole(e.name)
		out := e.name == "gen_ai.choice" || e.name == "gen_ai.content.completion"
		if role == "" || out && haveOutput || !out && haveInput {
			continue
		}
		list, err := messagesOf(t.budget, e.message(), role)
		if err != nil {
			return err
		}
		if out {
			n.output = append(n.output, list...)
		} else {
			n.input = append(n.input, list...)
		}
	}
	return nil
}

// message gives the message of an event: its body, an attribute that holds
// all of it, or its attributes.
func (e *spanEvent) message() value {
	if k := e.body.Kind(); k == '{' || k == '"' {
		return value{json: e.body}
	}
	for _, key := range []string{"gen_ai.event.content", "gen_ai.prompt", "gen_ai.completion"} {
		if v, ok := e.attrs.get(key); ok {
			return v
		}
	}
	doc := []byte{'{'}
	for _, key := range []string{"role", "content", "tool_calls", "id", "tool_call_id", "finish_reason", "message"} {
		v, ok := e.attrs.get(key)
		if !ok {
			continue
		}
		if len(doc) > 1 {
			doc = append(doc, ',')
		}
		doc = append(appendText(doc, key), ':')
		// Span attributes are flat, so what has parts is in them as text.
		if text := v.bytes(); v.isText && (key == "tool_calls" || key == "message") && jsontext.Value(text).IsValid() {
			doc = append(doc, text...)
		} else {
			doc = append(doc, v.raw()...)
		}
	}
	return value{json: append(doc, '}')}
}

// readEvents keeps scores and counts what is not read elsewhere.
func (t *trace) readEvents(n *node) {
	for _, e := range n.events {
		switch {
		case e.name == "gen_ai.evaluation.result":
			v := Evaluation{Name: e.attrs.text("gen_ai.evaluation.name"), Label: e.attrs.text("gen_ai.evaluation.score.label"), Explanation: e.attrs.text("gen_ai.evaluation.explanation")}
			if s, ok := e.attrs.get("gen_ai.evaluation.score.value"); ok {
				if f, ok := numberOf(s.raw()); ok {
					v.Score = &f
				}
			}
			t.evaluated = append(t.evaluated, v)
		case e.name == "exception", e.name == "gen_ai.client.inference.operation.details":
		case eventRole(e.name) != "" && n.role == modelSpan:
		default:
			t.early.add("span event "+e.name, "")
		}
	}
	if n.role == otherSpan || n.role == toolSpan {
		for _, a := range n.attrs {
			if !known(a.key) {
				t.early.add("attribute "+a.key, a.string())
			}
		}
	}
}

// A moment is something that happened at a time.
type moment struct {
	at    uint64
	order int
	do    func()
}

// A proposal is a tool call that a model asked for.
type proposal struct {
	part
	span *node  // that carries it out
	late string // the result, as a later call of a model shows it
	call *toolCall
}

func (t *trace) trajectory(src Source) (Imported, error) {
	id := hex.EncodeToString(t.id[:])
	t.recorder = started(src, id, t.target())
	t.notes = t.early
	t.byCall = map[string]*proposal{}
	t.matchProposals()
	turns := slices.ContainsFunc(t.nodes, func(n *node) bool { return n.turn })
	talk := &conversation{t: t}
	for _, n := range t.nodes {
		t.schedule(n, talk, turns)
	}
	slices.SortStableFunc(t.moments, func(a, b moment) int {
		if c := cmp.Compare(a.at, b.at); c != 0 {
			return c
		}
		return a.order - b.order
	})
	for _, m := range t.moments {
		t.until(time.Duration(min(m.at-min(m.at, t.begin), 1<<62)))
		m.do()
	}
	if !turns {
		talk.close()
	}
	out, err := t.finish(t.end(), src, id)
	out.Evaluations = append(out.Evaluations, t.evaluated...)
	return out, err
}

// target is the agent, or at least the program.
func (t *trace) target() string {
	service := ""
	for _, n := range t.nodes {
		if a := n.agentName(); n.turn && a != "" {
			return a
		}
		if service == "" {
			service = n.service
		}
	}
	return service
}

func (n *node) agentName() string {
	return n.attrs.text("gen_ai.agent.name", "traceloop.entity.name", "gen_ai.agent.id")
}

func toolName(n *node) string {
	if s := n.attrs.text("gen_ai.tool.name", "traceloop.entity.name"); s != "" {
		return s
	}
	name := n.name
	for _, prefix := range []string{"execute_tool ", "tools/call "} {
		name = strings.TrimPrefix(name, prefix)
	}
	return name
}

func (t *trace) end() trajectory.Payload {
	if t.failure != "" {
		return &trajectory.RunFailed{Name: string(refusal.AgentFailed), Detail: detail(t.failure)}
	}
	status := "completed"
	if t.status == "refused" || t.status == "suspended" {
		status = t.status
	}
	return &trajectory.RunCompleted{Answer: t.optional(t.answer, trajectory.ArgumentHead), Status: status}
}

// matchProposals finds out which tool spans carry out what a model asked for,
// by the id of the call, or by name and order where spans have no id.
func (t *trace) matchProposals() {
	byID := map[string]*node{}
	byName := map[string][]*node{}
	for _, n := range t.nodes {
		if n.role != toolSpan || n.skipped {
			continue
		}
		if id := n.attrs.text("gen_ai.tool.call.id"); id != "" && byID[id] == nil {
			byID[id] = n
		} else {
			byName[toolName(n)] = append(byName[toolName(n)], n)
		}
	}
	for _, n := range t.nodes {
		if n.role != modelSpan {
			continue
		}
		_, calls, _ := saidOf(n.output)
		for _, c := range calls {
			p := &proposal{part: c}
			n.proposals = append(n.proposals, p)
			if c.id != "" && t.byCall[c.id] == nil {
				t.byCall[c.id] = p
			}
			if s := byID[c.id]; c.id != "" && s != nil {
				p.span = s
				delete(byID, c.id)
			} else if list := byName[c.name]; len(list) > 0 {
				p.span, byName[c.name] = list[0], list[1:]
			}
		}
	}
	// Results that no span has are shown to the model with the next call.
	for _, n := range t.nodes {
		if n.role != modelSpan {
			continue
		}
		for i := range n.input {
			for _, part := range n.input[i].parts {
				if p := t.byCall[part.id]; part.kind == "tool_call_response" && p != nil && p.late == "" {
					p.late = part.text
				}
			}
		}
	}
	for _, n := range t.nodes {
		for _, p := range n.proposals {
			if p.span != nil {
				p.span.tool = p.fill()
			}
		}
	}
}

// fill is what the messages know about a call that a span carries out.
func (p *proposal) fill() *toolCall {
	return &toolCall{id: p.id, name: p.name, args: p.args, result: p.late}
}

func (t *trace) schedule(n *node, talk *conversation, turns bool) {
	at := func(when uint64, order int, do func()) { t.moments = append(t.moments, moment{when, order, do}) }
	end := max(n.end, n.start)
	if n.end == 0 && n.role != otherSpan {
		t.notes.add("span without an end", n.name)
	}
	switch {
	case n.role == agentSpan && n.turn:
		at(n.start, n.enter, func() { t.startTurn(n) })
		at(end, n.leave, func() { t.endTurn(n) })
	case n.role == agentSpan:
		at(n.start, n.enter, func() { t.handOff(n) })
	case n.role == planSpan:
		at(end, n.leave, func() {
			text, _, _ := saidOf(n.output)
			if text == "" {
				t.notes.add("plan without a text", n.name)
				return
			}
			t.event(&trajectory.Plan{Text: t.content(text, trajectory.ArgumentHead)})
		})
	case n.role == modelSpan:
		m := t.modelCall(n)
		at(n.start, n.enter, func() {
			t.showResults(n)
			if !turns {
				talk.hear(n)
			}
			t.askModel(m)
		})
		at(end, n.leave, func() {
			t.modelSaid(m)
			talk.said(n)
			t.propose(n)
		})
	case n.role == toolSpan && !n.skipped:
		c := t.toolCall(n)
		at(n.start, n.enter, func() {
			if !turns {
				talk.open()
			}
			t.proposeTool(c)
		})
		if !n.notExecuted {
			at(end, n.leave, func() { t.toolGave(c) })
		}
	}
	for _, e := range n.events {
		if e.name == "exception" {
			f := &trajectory.Failure{Name: name(e.attrs.text("exception.type")), Detail: detail(e.attrs.text("exception.message"))}
			if f.Detail == "" {
				f.Detail = "an exception without a message"
			}
			when := min(max(e.at, n.start), end)
			at(when, n.leave, func() { t.event(f) })
		}
	}
	if n.parentNode == nil && (n.role == agentSpan || n.role == otherSpan) && n.problem() != "" {
		t.failure = n.problem()
	}
}

// problem says how a span failed.
func (n *node) problem() string {
	kind := n.attrs.text("error.type")
	if kind == "" && !n.failed {
		return ""
	}
	if kind == "" {
		kind = "error"
	}
	if n.statusMessage != "" {
		return kind + ": " + clean(n.statusMessage)
	}
	return kind
}

func spanID(n *node) string { return hex.EncodeToString(n.id[:]) }

func (n *node) took() time.Duration {
	if n.end <= n.start {
		return 0
	}
	return time.Duration(min(n.end-n.start, 1<<52))
}

func (t *trace) modelCall(n *node) *modelCall {
	text, calls, finish := saidOf(n.output)
	m := &modelCall{id: t.call(spanID(n)), model: n.attrs.text("gen_ai.request.model", "gen_ai.response.model"),
		provider: n.attrs.text("gen_ai.provider.name", "gen_ai.system"), messages: len(n.input), prompt: promptText(slices.Concat(n.system, n.input)),
		reply: replyText(text, calls), finish: finish, problem: n.problem(), latency: n.took()}
	if v, ok := n.attrs.get("gen_ai.response.finish_reasons"); ok {
		m.finish = firstReason(t.budget, v)
	}
	m.in, _ = n.attrs.whole("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
	m.out, _ = n.attrs.whole("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")
	m.in, m.out = min(m.in, 1<<40), min(m.out, 1<<40)
	if micro, ok := n.attrs.whole(attrCost); ok {
		m.cost = min(micro, 1<<50)
	} else if v, ok := n.attrs.get("gen_ai.usage.cost"); ok {
		usd, isNumber := numberOf(v.raw())
		if m.cost, ok = microUSD(usd); !ok || !isNumber {
			t.notes.add("cost that is no amount of dollars", v.string())
		}
	}
	if len(n.output) == 0 && n.problem() == "" {
		t.notes.add("model call whose reply was not captured", n.name)
	}
	return m
}

// firstReason reads a list of finish reasons, of which we have room for one.
func firstReason(b *budget, v value) string {
	var list []string
	if b.decode(v.bytes(), &list) == nil && len(list) > 0 {
		return list[0]
	}
	if v.isText {
		return v.string()
	}
	return ""
}

// toolCall puts together what the span and the messages know about a call.
func (t *trace) toolCall(n *node) *toolCall {
	c := n.tool
	if c == nil {
		c = &toolCall{}
	}
	id := n.attrs.text("gen_ai.tool.call.id")
	if id == "" {
		if id = c.id; id == "" {
			id = spanID(n)
		}
	}
	c.id, c.name, c.problem, c.latency = t.call(id), toolName(n), n.problem(), n.took()
	if v, ok := n.attrs.get("gen_ai.tool.call.arguments"); ok {
		c.args = []byte(v.string())
	} else if v, ok := n.attrs.get("traceloop.entity.input"); ok && len(c.args) == 0 {
		c.args = []byte(v.string())
	}
	result, ok := n.attrs.get("gen_ai.tool.call.result")
	if !ok {
		result, ok = n.attrs.get("traceloop.entity.output")
	}
	switch {
	case ok:
		c.result = result.string()
	case c.result == "" && c.problem == "" && !n.notExecuted:
		t.notes.add("tool call whose result was not captured", n.name)
	}
	return c
}

// propose writes the calls that a model asked for and that no span carries
// out: they are in the messages alone.
func (t *trace) propose(n *node) {
	for _, p := range n.proposals {
		if p.span == nil {
			p.call = p.fill()
			p.call.id = t.call(p.id)
			t.proposeTool(p.call)
		}
	}
}

// showResults writes the results that this call of a model shows for the first
// time, of calls that no span carries out.
func (t *trace) showResults(n *node) {
	for i := range n.input {
		for _, part := range n.input[i].parts {
			p := t.byCall[part.id]
			if part.kind != "tool_call_response" || p == nil || p.call == nil {
				continue
			}
			t.toolGave(p.call)
			p.call = nil // once
		}
	}
}
