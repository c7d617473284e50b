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

// A proposal is a tool call that a model asked for.
type proposal struct {
	foreign.Part
	by   *node  // the model's
	span *node  // that carries it out, as the first of several if it was tried again
	late string // the result, as a later call of a model shows it
	call *foreign.ToolCall
}

func (t *story) trajectory(src foreign.Source) (foreign.Trajectory, error) {
	t.Recorder = foreign.Start(src, t.id, t.target())
	t.Notes = t.early
	t.matchProposals()
	talk := &conversation{t: t}
	for _, n := range t.nodes {
		t.schedule(n, talk)
	}
	t.causes()
	for _, m := range t.inOrder() {
		t.Until(time.Duration(min(m.at-min(m.at, t.begin), 1<<62)))
		m.do()
	}
	talk.close()
	t.noteAttributes()
	out, err := t.Finish(t.end(), src, t.id)
	out.Evaluations = append(out.Evaluations, t.evaluated...)
	return out, err
}

// noteAttributes counts what spans say that no event has.
func (t *story) noteAttributes() {
	for _, n := range t.nodes {
		for _, a := range n.attrs {
			if !n.isCarried(a) {
				t.Notes.Add("attribute "+withoutNumbers(a.key), a.string())
			}
		}
	}
}

// target is the agent, or at least the program.
func (t *story) target() string {
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

// agentName is the name of an agent. OpenInference has it in the name of the span if
// nowhere else.
func (n *node) agentName() string {
	name := n.text(factAgent)
	if name == "" && n.op == "invoke_agent" && n.attrs.text(openInferenceKind) != "" {
		name = n.span.name
	}
	return name
}

func toolName(n *node) string {
	if s := n.text(factToolName); s != "" {
		return s
	}
	if memoryOperations[n.op] {
		return n.op
	}
	name := n.name
	for _, prefix := range []string{"execute_tool ", "tools/call "} {
		name = strings.TrimPrefix(name, prefix)
	}
	return name
}

func (t *story) end() trajectory.Payload {
	if t.failure != "" {
		return &trajectory.RunFailed{Name: string(refusal.AgentFailed), Detail: foreign.Detail(t.failure)}
	}
	status := "completed"
	if t.status == "refused" || t.status == "suspended" {
		status = t.status
	}
	return &trajectory.RunCompleted{Answer: t.Optional(t.answer, trajectory.ArgumentHead), Status: status}
}

// matchProposals finds out which tool spans carry out what a model asked for: by the
// id of the call, or by name and order where spans have no id. Some models count their
// calls from the beginning in every turn, so spans of the same trace come first.
func (t *story) matchProposals() {
	t.proposals = map[string][]*proposal{}
	var all []*proposal
	for i, n := range t.nodes {
		n.place = i
		if n.role != modelSpan {
			continue
		}
		_, calls, _ := foreign.SaidOf(n.output)
		for _, c := range calls {
			p := &proposal{Part: c, by: n}
			n.proposals = append(n.proposals, p)
			t.proposals[p.key()] = append(t.proposals[p.key()], p)
			all = append(all, p)
		}
	}
	here, anywhere := spanQueue{}, spanQueue{}
	for _, n := range t.nodes {
		if n.role == toolSpan && !n.skipped {
			for _, key := range []string{callKey(n.text(factCallID), toolName(n)), "any " + toolName(n)} {
				here.add(string(n.trace[:])+key, n)
				anywhere.add(key, n)
			}
		}
	}
	for _, queue := range []struct {
		spans spanQueue
		key   func(p *proposal, key string) string
	}{
		{here, func(p *proposal, key string) string { return string(p.by.trace[:]) + key }},
		{anywhere, func(_ *proposal, key string) string { return key }},
	} {
		for _, p := range all {
			fallback := callKey("", p.Name) // a span without an id
			if p.ID == "" {
				fallback = "any " + p.Name
			}
			for _, key := range []string{p.key(), fallback} {
				if p.span == nil {
					p.carriedOutBy(queue.spans.first(queue.key(p, key)))
				}
			}
		}
	}
	t.matchRetries()
	for _, n := range t.nodes {
		if n.role == modelSpan {
			t.matchResults(n)
		}
	}
	for _, p := range all {
		if p.span != nil {
			p.span.tool = p.fill()
		}
	}
}

// key is by what a result names a call: its id, or the tool if it has none.
func (p *proposal) key() string { return callKey(p.ID, p.Name) }

func callKey(id, name string) string {
	if id != "" {
		return "id " + id
	}
	return "name " + name
}

func (p *proposal) carriedOutBy(n *node) {
	if n != nil {
		p.span, n.asked = n, p
	}
}

// A spanQueue has tool spans in the order of their start.
type spanQueue map[string][]*node

func (q spanQueue) add(key string, n *node) { q[key] = append(q[key], n) }

// first takes the first span that carries out no proposal yet; nil if there is none.
func (q spanQueue) first(key string) *node {
	for len(q[key]) > 0 {
		n := q[key][0]
		q[key] = q[key][1:]
		if n.asked == nil {
			return n
		}
	}
	return nil
}

// matchRetries finds the proposal of a span that carries one out again: it names the id
// of a call that another span has carried out.
func (t *story) matchRetries() {
	for _, n := range t.nodes {
		if n.role != toolSpan || n.asked != nil {
			continue
		}
		list := t.proposals[callKey(n.text(factCallID), toolName(n))]
		for _, p := range slices.Backward(list) {
			if p.by.trace == n.trace {
				n.asked = p
				break
			}
		}
		if n.asked == nil && n.text(factCallID) != "" && len(list) > 0 {
			n.asked = list[len(list)-1]
		}
	}
}

// matchResults finds the calls whose results a model was shown. A result is that of the
// last call of its id before this one, the one before it in the same messages that of the
// call before it, and so on.
func (t *story) matchResults(n *node) {
	counted := map[string]int{}
	for i := range slices.Backward(n.input) {
		for _, part := range slices.Backward(n.input[i].Parts) {
			if part.Kind != "tool_call_response" {
				continue
			}
			key := callKey(part.ID, part.Name)
			p := t.before(n, key, counted[key])
			if counted[key]++; p == nil {
				continue
			}
			n.shown = append(n.shown, p)
			if p.late == "" {
				p.late = part.Text
			}
		}
	}
	slices.Reverse(n.shown)
}

// before is a proposal that a model made in another call, the last of those that began
// before n or the one skip before it. Of those that are said to have begun later it is
// the first: then clocks differ.
func (t *story) before(n *node, key string, skip int) *proposal {
	list := t.proposals[key]
	until, _ := slices.BinarySearchFunc(list, n.place, func(p *proposal, place int) int { return p.by.place - place })
	if i := until - 1 - skip; i >= 0 {
		return list[i]
	}
	if until == 0 && skip == 0 && len(list) > 0 && list[0].by != n {
		return list[0]
	}
	return nil
}

// fill is what the messages know about a call that a span carries out.
func (p *proposal) fill() *foreign.ToolCall {
	return &foreign.ToolCall{ID: p.ID, Name: p.Name, Args: p.Args, Result: p.late}
}

// schedule says when what a span tells happened.
func (t *story) schedule(n *node, talk *conversation) {
	end := max(n.end, n.start)
	if n.end == 0 && n.role != otherSpan {
		t.Notes.Add("span without an end", n.name)
	}
	begins := func(do func()) { n.begins = t.at(n.start, n.enter, do) }
	ends := func(do func()) { n.ends = t.at(end, n.leave, do) }
	marked := t.marked[n.trace]
	switch {
	case n.role == agentSpan && n.turn:
		begins(func() { talk.close(); t.startTurn(n) })
		ends(func() { t.endTurn(n) })
	case n.role == agentSpan:
		begins(func() { t.handOff(n) })
		ends(func() { n.agentAbove.said = cmp.Or(n.answer(), n.agentAbove.said) })
	case n.role == planSpan:
		ends(func() {
			text, _, _ := foreign.SaidOf(n.output)
			if text == "" {
				t.Notes.Add("plan without a text", n.name)
				return
			}
			t.Event(&trajectory.Plan{Text: t.Content(text, trajectory.ArgumentHead)})
		})
	case n.role == modelSpan:
		m := t.modelCall(n)
		begins(func() {
			t.showResults(n)
			if !marked {
				talk.hear(n)
			}
			t.AskModel(m)
		})
		ends(func() {
			t.ModelSaid(m)
			talk.said(n)
			t.propose(n)
		})
	case n.role == toolSpan && !n.skipped:
		c := t.toolCall(n)
		begins(func() {
			if !marked {
				talk.open()
			}
			t.ProposeTool(c)
		})
		if !n.notExecuted {
			ends(func() { t.ToolGave(c) })
		}
	}
	for _, e := range n.events {
		if e.name == "exception" {
			f := &trajectory.Failure{Name: foreign.Name(e.attrs.text("exception.type")), Detail: foreign.Detail(e.attrs.text("exception.message"))}
			if f.Detail == "" {
				f.Detail = "an exception without a message"
			}
			then(n.begins, t.at(min(max(e.at, n.start), end), n.leave, func() { t.Event(f) }))
		}
	}
	if n.parentNode == nil && (n.role == agentSpan || n.role == otherSpan) && n.problem() != "" {
		t.fail(n, end)
	}
}

// fail tells that a root failed. A conversation failed if the last of its traces did: after
// another one it went on.
func (t *story) fail(n *node, end uint64) {
	if n.trace == t.last {
		t.failure = n.problem()
		return
	}
	f := &trajectory.Failure{Name: foreign.Name(n.text(factFailure)), Detail: foreign.Detail(n.problem())}
	then(n.ends, t.at(end, n.leave, func() { t.Event(f) }))
}

// problem says how a span failed.
func (n *node) problem() string {
	kind := n.text(factFailure)
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

func (t *story) modelCall(n *node) *foreign.ModelCall {
	text, calls, finish := foreign.SaidOf(n.output)
	m := &foreign.ModelCall{ID: t.CallID(spanID(n)), Model: n.text(factModel), Provider: n.text(factProvider),
		Messages: len(n.input), Prompt: foreign.PromptText(slices.Concat(n.system, n.input)),
		Reply: foreign.ReplyText(text, calls), Finish: finish, Problem: n.problem(), Latency: n.took()}
	if v, ok := n.take(factFinish); ok {
		m.Finish = firstReason(t.budget, v)
	}
	m.In, m.Out = n.whole(factTokensIn), n.whole(factTokensOut)
	if micro, ok := n.attrs.whole(attrCost); ok {
		m.Cost, m.Priced = min(micro, 1<<50), true
	} else if v, ok := n.take(factCost); ok {
		usd, isNumber := foreign.NumberOf(v.raw())
		m.Cost, ok = foreign.MicroUSD(usd)
		if m.Priced = ok && isNumber; !m.Priced {
			m.Cost = 0
			t.Notes.Add("cost that is no amount of dollars", v.string())
		}
	}
	if len(n.output) == 0 && n.problem() == "" {
		t.Notes.Add("model call whose reply was not captured", n.name)
	}
	return m
}

// whole is a count, 0 if there is none.
func (n *node) whole(f fact) int64 {
	for _, key := range names[f] {
		if v, ok := n.attrs.whole(key); ok {
			n.use(key)
			return min(v, 1<<40)
		}
	}
	return 0
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
func (t *story) toolCall(n *node) *foreign.ToolCall {
	c := n.tool
	if c == nil {
		c = &foreign.ToolCall{}
	}
	c.ID = t.CallID(cmp.Or(n.text(factCallID), c.ID, spanID(n)))
	c.Name, c.Problem, c.Latency = toolName(n), n.problem(), n.took()
	c.Args = n.arguments(c.Args)
	if found := n.documents(); found != "" {
		c.Result = found
		return c
	}
	result, ok := n.take(factResult)
	switch {
	case ok:
		c.Result = result.string()
	case c.Result == "" && c.Problem == "" && !n.notExecuted:
		t.Notes.Add("tool call whose result was not captured", n.name)
	}
	return c
}

// arguments are those of a call: what the span says it was called with, or else what the
// model asked for. Conventions that wrap arguments, or that have their types in the same
// place, are believed only if the model's words are not there.
func (n *node) arguments(asked []byte) []byte {
	if memoryOperations[n.op] {
		return n.memoryArguments()
	}
	for _, key := range names[factArguments] {
		v, ok := n.attrs.get(key)
		if !ok || v.string() == "" {
			continue
		}
		switch key {
		case "traceloop.entity.input", "tool.parameters":
			ok = len(asked) == 0
		case "input.value":
			ok = len(asked) == 0 || foreign.IsObject(v.bytes())
		}
		if ok {
			n.use(key)
			return []byte(v.string())
		}
	}
	return asked
}

// propose writes the calls that a model asked for and that no span carries
// out: they are in the messages alone.
func (t *story) propose(n *node) {
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
func (t *story) showResults(n *node) {
	for _, p := range n.shown {
		if p.call != nil {
			t.ToolGave(p.call)
			p.call = nil // once
		}
	}
}
