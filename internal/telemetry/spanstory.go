package telemetry

import (
	"cmp"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"tallystick/internal/refusal"
	"tallystick/internal/trajectory"
)

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
