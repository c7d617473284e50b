package otel

import (
	"cmp"

	"tallystick/internal/run/trajectory"
	"tallystick/internal/share/foreign"
)

// startTurn begins a turn: an agent was invoked by its user alone.
func (t *story) startTurn(n *node) {
	if t.running > 0 {
		t.Notes.Add("turn that begins before the one before it has ended", n.name)
	}
	t.running++
	input, _ := foreign.LastUser(n.input)
	if input == "" {
		input = n.heard
	}
	t.Event(&trajectory.TurnStarted{Agent: foreign.Cut(foreign.Clean(n.agentName()), foreign.MaxName), Input: t.Optional(input, trajectory.PromptHead)})
}

func (t *story) endTurn(n *node) {
	t.running--
	answer := n.answer()
	t.answer = answer
	t.Event(&trajectory.TurnCompleted{Answer: t.Optional(answer, trajectory.ArgumentHead)})
}

// answer is what an agent answered: what its span says, or what was said last in it.
func (n *node) answer() string {
	text, _, _ := foreign.SaidOf(n.output)
	return cmp.Or(text, n.said)
}

// handOff is an agent that another agent invoked. Frameworks often have two
// spans for one invocation, one inside the other; that is not a hand-off.
func (t *story) handOff(n *node) {
	from, to := n.agentAbove.agentName(), n.agentName()
	if from == to {
		t.Notes.Add("agent span inside that of the same agent", n.name)
		return
	}
	input, _ := foreign.LastUser(n.input)
	if input == "" {
		input = n.heard
	}
	t.Event(&trajectory.HandedOff{Call: t.CallID(spanID(n)), From: foreign.Name(from), To: foreign.Name(to), Input: t.Optional(input, trajectory.PromptHead)})
}

// A conversation finds turns where no span marks them: one begins when the last
// message of the user is another, or when there are more of them, or when the same is
// asked again in another trace, after an answer.
type conversation struct {
	t        *story
	isOpen   bool
	text     string
	count    int
	trace    [16]byte
	answer   string
	answered bool
}

func (c *conversation) hear(n *node) {
	text, count := foreign.LastUser(n.input)
	again := n.trace != c.trace && c.answered && len(n.input) > 0 && n.input[len(n.input)-1].Role == "user"
	if c.isOpen && (text == "" || text == c.text && count <= c.count && !again) {
		return
	}
	c.close()
	*c = conversation{t: c.t, isOpen: true, text: text, count: count, trace: n.trace}
	c.t.Event(&trajectory.TurnStarted{Input: c.t.Optional(text, trajectory.PromptHead)})
}

// open begins a turn without a speaker.
func (c *conversation) open() {
	if !c.isOpen {
		*c = conversation{t: c.t, isOpen: true}
		c.t.Event(&trajectory.TurnStarted{})
	}
}

// said notes what could be the answer of a turn.
func (c *conversation) said(n *node) {
	text, calls, _ := foreign.SaidOf(n.output)
	if text == "" {
		return
	}
	c.answer, c.answered = text, len(calls) == 0
	if n.agentAbove != nil {
		n.agentAbove.said = text
	}
}

func (c *conversation) close() {
	if c.isOpen {
		c.isOpen = false
		c.t.answer = c.answer
		c.t.Event(&trajectory.TurnCompleted{Answer: c.t.Optional(c.answer, trajectory.ArgumentHead)})
	}
}
