package otel

import (
	"cmp"
	"fmt"
	"slices"

	"tallystick/internal/record/refusal"
	"tallystick/internal/share/foreign"
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

	input, output []foreign.Message // of a model or an agent
	system        []foreign.Message // gen_ai.system_instructions, which are apart from the messages
	proposals     []*proposal
	tool          *foreign.ToolCall // what the messages know about it
	skipped       bool              // a tool span inside that of the same call
	notExecuted   bool              // our own export says that the policy refused it

	// Of an agent.
	turn        bool // no other agent called it
	heard, said string
}

// Import makes a trajectory of each trace.
func Import(src foreign.Source, b *foreign.Budget, in *Batch) ([]foreign.Trajectory, error) {
	traces, stray := tracesOf(in)
	var out []foreign.Trajectory
	without := 0
	for _, t := range traces {
		t.budget = b
		if err := t.read(); err != nil {
			return nil, foreign.Refused(src.Name, fmt.Errorf("trace %x: %w", t.id, err), refusal.Malformed)
		}
		if !t.hasGenAI() {
			without += len(t.nodes)
			continue
		}
		if len(out) >= foreign.MaxRuns {
			return nil, refusal.Newf(refusal.TooLarge, "%s: more than %d traces", src.Name, foreign.MaxRuns)
		}
		one, err := t.trajectory(src)
		if err != nil {
			return nil, foreign.Refused(src.Name, fmt.Errorf("trace %x: %w", t.id, err), refusal.Malformed)
		}
		out = append(out, one)
	}
	if len(out) == 0 {
		return nil, refusal.Newf(refusal.Unrecognised, "%s: has %d spans, none of which has gen_ai attributes", src.Name, len(in.spans)).
			WithHint("instrument the agent with the OpenTelemetry GenAI conventions; docs/formats/telemetry.md lists what is read")
	}
	// What belongs to no trajectory is told with the first.
	var rest foreign.Notes
	if without > 0 {
		rest.Count("spans of traces without gen_ai attributes", "", without)
	}
	if stray > 0 {
		rest.Count("log records that belong to no span of the file", "", stray)
	}
	out[0].Notes = append(out[0].Notes, rest.List...)
	return out, nil
}

type trace struct {
	id     [16]byte
	nodes  []*node // in the order of their start
	roots  []*node
	budget *foreign.Budget
	*foreign.Recorder
	moments []moment
	begin   uint64

	byCall    map[string]*proposal // of the model, by its id
	evaluated []foreign.Evaluation
	running   int    // turns that have begun and not ended
	answer    string // of the last turn
	failure   string
	status    string
	early     foreign.Notes // from before there is a recorder
}

// tracesOf groups spans by trace, in the order in which the traces begin, and
// gives log records to their spans.
func tracesOf(in *Batch) (list []*trace, stray int) {
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
			t.early.Add("span that is there twice", s.name)
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
				t.early.Add("span whose parent is not in the file", n.name)
			}
			plant(n)
		}
	}
	for _, n := range t.nodes {
		if !n.visited {
			t.early.Add("spans that are each other's parents", n.name)
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
			t.early.Count("attributes or events that the exporter had dropped", n.name, int(min(n.dropped, 1<<30)))
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
			t.early.Add("tool span inside that of the same tool", n.name)
		}
	}
	for _, n := range t.nodes {
		if a := n.agentAbove; n.role == modelSpan && a != nil && a.heard == "" {
			a.heard, _ = foreign.LastUser(n.input)
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
		t.early.Add("span that is none of the GenAI conventions", n.name)
	default:
		t.early.Add("span of the operation "+n.op, n.name)
	}
	if s := n.attrs.text(attrStatus); s != "" && n.parentNode == nil {
		t.status = s
	}
	n.notExecuted = n.attrs.text(attrExecuted) == "false"
}
