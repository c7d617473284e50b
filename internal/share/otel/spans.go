package otel

import (
	"fmt"
	"slices"
	"strings"

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
	place        int // among the spans of the story
	visited      bool
	orphan       bool            // its parent is not in the file
	circular     bool            // it is its own parent, over others or directly
	twice        int             // how often it is in the file beside this once
	used         map[string]bool // attributes that are in an event

	conversation string // to which it belongs, "" if nothing says so

	agentAbove, toolAbove *node // the nearest around it

	input, output []foreign.Message // of a model or an agent
	system        []foreign.Message // gen_ai.system_instructions, which are apart from the messages
	proposals     []*proposal
	shown         []*proposal       // whose results are in the input
	asked         *proposal         // that a tool span carries out, maybe not as the first
	tool          *foreign.ToolCall // what the messages know about it
	skipped       bool              // a tool span inside that of the same call
	notExecuted   bool              // our own export says that the policy refused it

	begins, ends *moment // nil if there is nothing to tell

	// Of an agent.
	turn        bool // no other agent called it
	heard, said string
}

// Import makes a trajectory of each conversation, and of each trace that says
// nothing of a conversation.
func Import(src foreign.Source, b *foreign.Budget, in *Batch) ([]foreign.Trajectory, error) {
	stories, stray := storiesOf(in)
	var out []foreign.Trajectory
	without := 0
	for _, t := range stories {
		t.budget = b
		if err := t.read(); err != nil {
			return nil, foreign.Refused(src.Name, fmt.Errorf("%s: %w", t.name(), err), refusal.Malformed)
		}
		if !t.hasAgent() {
			without += len(t.nodes)
			continue
		}
		if len(out) >= foreign.MaxRuns {
			return nil, refusal.Newf(refusal.TooLarge, "%s: more than %d conversations", src.Name, foreign.MaxRuns)
		}
		one, err := t.trajectory(src)
		if err != nil {
			return nil, foreign.Refused(src.Name, fmt.Errorf("%s: %w", t.name(), err), refusal.Malformed)
		}
		out = append(out, one)
	}
	if len(out) == 0 {
		return nil, refusal.Newf(refusal.Unrecognised, "%s: has %d spans, none of which has attributes of the OpenTelemetry GenAI or OpenInference conventions", src.Name, len(in.spans)).
			WithHint("instrument the agent with one of these conventions; docs/formats/telemetry.md lists what is read")
	}
	// What belongs to no trajectory is told with the first.
	var rest foreign.Notes
	if without > 0 {
		rest.Count("spans that belong to no conversation with an agent or a model", "", without)
	}
	if stray > 0 {
		rest.Count("log records that belong to no span of the file", "", stray)
	}
	out[0].Notes = append(out[0].Notes, rest.List...)
	return out, nil
}

// A story is the spans that make one trajectory: those of a conversation, in however
// many traces, or of a trace that says nothing of a conversation.
type story struct {
	id     string
	nodes  []*node // in the order of their start
	budget *foreign.Budget
	*foreign.Recorder
	moments []*moment
	begin   uint64

	marked    map[[16]byte]bool // traces in which spans mark the turns
	last      [16]byte          // the trace that began last
	proposals map[string][]*proposal
	evaluated []foreign.Evaluation
	running   int    // turns that have begun and not ended
	answer    string // of the last turn
	failure   string
	status    string
	early     foreign.Notes // from before there is a recorder
}

func (t *story) name() string {
	if t.nodes[0].conversation != "" {
		return fmt.Sprintf("conversation %.80q", t.id)
	}
	return "trace " + t.id
}

// hasAgent reports whether anything in the story is of an agent or a model.
func (t *story) hasAgent() bool {
	return slices.ContainsFunc(t.nodes, func(n *node) bool { return n.role != otherSpan })
}

// read finds out what each span is and what was said in it.
func (t *story) read() error {
	for _, n := range t.nodes {
		// The details of a call may come as an event of their own.
		for _, e := range n.events {
			if e.name == "gen_ai.client.inference.operation.details" {
				n.attrs = append(slices.Clip(n.attrs), e.attrs...)
			}
		}
		t.classify(n)
	}
	t.findTurns()
	for _, n := range t.nodes {
		if err := t.flatten(n); err != nil {
			return err
		}
		if n.role == modelSpan || n.role == agentSpan || n.role == planSpan {
			if err := t.readMessages(n); err != nil {
				return err
			}
		}
		t.readEvents(n)
		t.readAnnotations(n)
		if n.dropped > 0 {
			t.early.Count("attributes or events that the exporter had dropped", n.name, int(min(n.dropped, 1<<30)))
		}
		if n.orphan {
			t.early.Add("span whose parent is not in the file", n.name)
		}
		if n.circular {
			t.early.Add("spans that are each other's parents", n.name)
		}
		if n.twice > 0 {
			t.early.Count("span that is there twice", n.name, n.twice)
		}
	}
	t.relate()
	return nil
}

// findTurns makes turns of chains: an application without agents begins with one
// chain of OpenInference, which has what the user asked and was answered.
func (t *story) findTurns() {
	top := map[[16]byte][]*node{}
	agents, work := map[[16]byte]bool{}, map[[16]byte]bool{}
	for _, n := range t.nodes {
		switch {
		case n.role == agentSpan:
			agents[n.trace] = true
		case n.role != otherSpan:
			work[n.trace] = true
		case n.op == chain && (n.parentNode == nil || n.parentNode.op != chain):
			top[n.trace] = append(top[n.trace], n)
		}
	}
	t.marked = agents
	for id, list := range top {
		n := list[0]
		if _, asked := n.attrs.get("input.value"); len(list) == 1 && asked && work[id] && !agents[id] {
			n.role = agentSpan
			t.marked[id] = true
		}
	}
}

// relate finds the agent and the tool around each span, from the roots down: a
// way up from each span would take time in the square of a hostile depth.
func (t *story) relate() {
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
	// What an agent heard, the one that called it heard first.
	for _, n := range slices.Backward(down) {
		if a := n.agentAbove; n.role == agentSpan && a != nil && a.heard == "" {
			if a.heard, _ = foreign.LastUser(n.input); a.heard == "" {
				a.heard = n.heard
			}
		}
	}
}

func (t *story) classify(n *node) {
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
	kind := strings.ToUpper(n.attrs.text(openInferenceKind))
	if n.op == "" {
		n.op = operations[kind]
	}
	if n.op == "" && n.attrs.text("mcp.method.name") == "tools/call" {
		n.op = "execute_tool"
	}
	if n.op == "" && kind == "" && n.attrs.text(names[factModel]...) != "" && (n.attrs.text(names[factProvider]...) != "" || n.hasMessages()) {
		n.op = "chat"
	}
	if memoryOperations[n.op] {
		n.role = toolSpan
	}
	switch n.op {
	case "chat", "generate_content", "text_completion":
		n.role = modelSpan
	case "execute_tool", retrieval:
		n.role = toolSpan
	case "invoke_agent":
		n.role = agentSpan
	case "plan":
		n.role = planSpan
	case "invoke_workflow", chain:
	case "":
		if kind != "" {
			t.early.Add("span of the kind "+kind, n.name)
			break
		}
		t.early.Add("span of neither the GenAI nor the OpenInference conventions", n.name)
	default:
		if n.role == toolSpan {
			break
		}
		t.early.Add("span of the operation "+n.op, n.name)
	}
	if s := n.attrs.text(attrStatus); s != "" && n.parentNode == nil {
		t.status = s
	}
	n.notExecuted = n.attrs.text(attrExecuted) == "false"
}

// hasMessages reports whether a span has messages of OpenInference.
func (n *node) hasMessages() bool {
	return slices.ContainsFunc(n.attrs, func(a attribute) bool {
		return strings.HasPrefix(a.key, "llm.input_messages") || strings.HasPrefix(a.key, "llm.output_messages")
	})
}
