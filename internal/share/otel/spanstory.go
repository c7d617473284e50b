package otel

import (
	"cmp"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/share/foreign"
)

// A moment is something that happened at a time.
type moment struct {
	at    uint64
	order int
	do    func()
}

// A proposal is a tool call that a model asked for.
type proposal struct {
	foreign.Part
	span *node  // that carries it out
	late string // the result, as a later call of a model shows it
	call *foreign.ToolCall
}

func (t *trace) trajectory(src foreign.Source) (foreign.Trajectory, error) {
	id := hex.EncodeToString(t.id[:])
	t.Recorder = foreign.Start(src, id, t.target())
	t.Notes = t.early
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
		t.Until(time.Duration(min(m.at-min(m.at, t.begin), 1<<62)))
		m.do()
	}
	if !turns {
		talk.close()
	}
	out, err := t.Finish(t.end(), src, id)
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
		return &trajectory.RunFailed{Name: string(refusal.AgentFailed), Detail: foreign.Detail(t.failure)}
	}
	status := "completed"
	if t.status == "refused" || t.status == "suspended" {
		status = t.status
	}
	return &trajectory.RunCompleted{Answer: t.Optional(t.answer, trajectory.ArgumentHead), Status: status}
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
		_, calls, _ := foreign.SaidOf(n.output)
		for _, c := range calls {
			p := &proposal{Part: c}
			n.proposals = append(n.proposals, p)
			if c.ID != "" && t.byCall[c.ID] == nil {
				t.byCall[c.ID] = p
			}
			if s := byID[c.ID]; c.ID != "" && s != nil {
				p.span = s
				delete(byID, c.ID)
			} else if list := byName[c.Name]; len(list) > 0 {
				p.span, byName[c.Name] = list[0], list[1:]
			}
		}
	}
	// Results that no span has are shown to the model with the next call.
	for _, n := range t.nodes {
		if n.role != modelSpan {
			continue
		}
		for i := range n.input {
			for _, part := range n.input[i].Parts {
				if p := t.byCall[part.ID]; part.Kind == "tool_call_response" && p != nil && p.late == "" {
					p.late = part.Text
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
func (p *proposal) fill() *foreign.ToolCall {
	return &foreign.ToolCall{ID: p.ID, Name: p.Name, Args: p.Args, Result: p.late}
}

func (t *trace) schedule(n *node, talk *conversation, turns bool) {
	at := func(when uint64, order int, do func()) { t.moments = append(t.moments, moment{when, order, do}) }
	end := max(n.end, n.start)
	if n.end == 0 && n.role != otherSpan {
		t.Notes.Add("span without an end", n.name)
	}
	switch {
	case n.role == agentSpan && n.turn:
		at(n.start, n.enter, func() { t.startTurn(n) })
		at(end, n.leave, func() { t.endTurn(n) })
	case n.role == agentSpan:
		at(n.start, n.enter, func() { t.handOff(n) })
	case n.role == planSpan:
		at(end, n.leave, func() {
			text, _, _ := foreign.SaidOf(n.output)
			if text == "" {
				t.Notes.Add("plan without a text", n.name)
				return
			}
			t.Event(&trajectory.Plan{Text: t.Content(text, trajectory.ArgumentHead)})
		})
	case n.role == modelSpan:
		m := t.modelCall(n)
		at(n.start, n.enter, func() {
			t.showResults(n)
			if !turns {
				talk.hear(n)
			}
			t.AskModel(m)
		})
		at(end, n.leave, func() {
			t.ModelSaid(m)
			talk.said(n)
			t.propose(n)
		})
	case n.role == toolSpan && !n.skipped:
		c := t.toolCall(n)
		at(n.start, n.enter, func() {
			if !turns {
				talk.open()
			}
			t.ProposeTool(c)
		})
		if !n.notExecuted {
			at(end, n.leave, func() { t.ToolGave(c) })
		}
	}
	for _, e := range n.events {
		if e.name == "exception" {
			f := &trajectory.Failure{Name: foreign.Name(e.attrs.text("exception.type")), Detail: foreign.Detail(e.attrs.text("exception.message"))}
			if f.Detail == "" {
				f.Detail = "an exception without a message"
			}
			when := min(max(e.at, n.start), end)
			at(when, n.leave, func() { t.Event(f) })
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
		return kind + ": " + foreign.Clean(n.statusMessage)
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

func (t *trace) modelCall(n *node) *foreign.ModelCall {
	text, calls, finish := foreign.SaidOf(n.output)
	m := &foreign.ModelCall{ID: t.CallID(spanID(n)), Model: n.attrs.text("gen_ai.request.model", "gen_ai.response.model"),
		Provider: n.attrs.text("gen_ai.provider.name", "gen_ai.system"), Messages: len(n.input), Prompt: foreign.PromptText(slices.Concat(n.system, n.input)),
		Reply: foreign.ReplyText(text, calls), Finish: finish, Problem: n.problem(), Latency: n.took()}
	if v, ok := n.attrs.get("gen_ai.response.finish_reasons"); ok {
		m.Finish = firstReason(t.budget, v)
	}
	m.In, _ = n.attrs.whole("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
	m.Out, _ = n.attrs.whole("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")
	m.In, m.Out = min(m.In, 1<<40), min(m.Out, 1<<40)
	if micro, ok := n.attrs.whole(attrCost); ok {
		m.Cost = min(micro, 1<<50)
	} else if v, ok := n.attrs.get("gen_ai.usage.cost"); ok {
		usd, isNumber := foreign.NumberOf(v.raw())
		if m.Cost, ok = foreign.MicroUSD(usd); !ok || !isNumber {
			t.Notes.Add("cost that is no amount of dollars", v.string())
		}
	}
	if len(n.output) == 0 && n.problem() == "" {
		t.Notes.Add("model call whose reply was not captured", n.name)
	}
	return m
}

// firstReason reads a list of finish reasons, of which we have room for one.
func firstReason(b *foreign.Budget, v value) string {
	var list []string
	if b.Decode(v.bytes(), &list) == nil && len(list) > 0 {
		return list[0]
	}
	if v.isText {
		return v.string()
	}
	return ""
}

// toolCall puts together what the span and the messages know about a call.
func (t *trace) toolCall(n *node) *foreign.ToolCall {
	c := n.tool
	if c == nil {
		c = &foreign.ToolCall{}
	}
	id := n.attrs.text("gen_ai.tool.call.id")
	if id == "" {
		if id = c.ID; id == "" {
			id = spanID(n)
		}
	}
	c.ID, c.Name, c.Problem, c.Latency = t.CallID(id), toolName(n), n.problem(), n.took()
	if v, ok := n.attrs.get("gen_ai.tool.call.arguments"); ok {
		c.Args = []byte(v.string())
	} else if v, ok := n.attrs.get("traceloop.entity.input"); ok && len(c.Args) == 0 {
		c.Args = []byte(v.string())
	}
	result, ok := n.attrs.get("gen_ai.tool.call.result")
	if !ok {
		result, ok = n.attrs.get("traceloop.entity.output")
	}
	switch {
	case ok:
		c.Result = result.string()
	case c.Result == "" && c.Problem == "" && !n.notExecuted:
		t.Notes.Add("tool call whose result was not captured", n.name)
	}
	return c
}

// propose writes the calls that a model asked for and that no span carries
// out: they are in the messages alone.
func (t *trace) propose(n *node) {
	for _, p := range n.proposals {
		if p.span == nil {
			p.call = p.fill()
			p.call.ID = t.CallID(p.ID)
			t.ProposeTool(p.call)
		}
	}
}

// showResults writes the results that this call of a model shows for the first
// time, of calls that no span carries out.
func (t *trace) showResults(n *node) {
	for i := range n.input {
		for _, part := range n.input[i].Parts {
			p := t.byCall[part.ID]
			if part.Kind != "tool_call_response" || p == nil || p.call == nil {
				continue
			}
			t.ToolGave(p.call)
			p.call = nil // once
		}
	}
}
