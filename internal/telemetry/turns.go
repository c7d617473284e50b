package telemetry

import "tallystick/internal/trajectory"

// startTurn begins a turn: an agent was invoked by nobody but its user.
func (t *trace) startTurn(n *node) {
	if t.running > 0 {
		t.notes.add("turn that begins before the one before it has ended", n.name)
	}
	t.running++
	input, _ := lastUser(n.input)
	if input == "" {
		input = n.heard
	}
	t.event(&trajectory.TurnStarted{Agent: cut(clean(n.agentName()), maxName), Input: t.optional(input, trajectory.PromptHead)})
}

func (t *trace) endTurn(n *node) {
	t.running--
	answer, _, _ := saidOf(n.output)
	if answer == "" {
		answer = n.said
	}
	t.answer = answer
	t.event(&trajectory.TurnCompleted{Answer: t.optional(answer, trajectory.ArgumentHead)})
}

// handOff is an agent that another agent invoked. Frameworks often have two
// spans for one invocation, one inside the other; that is no hand-off.
func (t *trace) handOff(n *node) {
	from, to := n.agentAbove.agentName(), n.agentName()
	if from == to {
		t.notes.add("agent span inside that of the same agent", n.name)
		return
	}
	input, _ := lastUser(n.input)
	if input == "" {
		input = n.heard
	}
	t.event(&trajectory.HandedOff{Call: t.call(spanID(n)), From: name(from), To: name(to), Input: t.optional(input, trajectory.PromptHead)})
}

// A conversation finds turns where no span marks them: one begins when the last
// message of the user is another, or when there are more of them.
type conversation struct {
	t      *trace
	isOpen bool
	text   string
	count  int
	answer string
}

func (c *conversation) hear(n *node) {
	text, count := lastUser(n.input)
	if c.isOpen && (text == "" || text == c.text && count <= c.count) {
		return
	}
	c.close()
	c.isOpen, c.text, c.count, c.answer = true, text, count, ""
	c.t.event(&trajectory.TurnStarted{Input: c.t.optional(text, trajectory.PromptHead)})
}

// open begins a turn that nobody is heard in.
func (c *conversation) open() {
	if !c.isOpen {
		c.isOpen = true
		c.t.event(&trajectory.TurnStarted{})
	}
}

// said notes what could be the answer of a turn.
func (c *conversation) said(n *node) {
	text, _, _ := saidOf(n.output)
	if text == "" {
		return
	}
	c.answer = text
	if n.agentAbove != nil {
		n.agentAbove.said = text
	}
}

func (c *conversation) close() {
	if c.isOpen {
		c.t.answer = c.answer
		c.t.event(&trajectory.TurnCompleted{Answer: c.t.optional(c.answer, trajectory.ArgumentHead)})
	}
}
