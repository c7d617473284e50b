package user

import (
	"fmt"
	"unicode/utf8"

	"tallystick/internal/record/canon"
	"tallystick/internal/run/question"
)

// Bounds of a move.
const (
	maxSay       = 64 << 10
	maxState     = 256 << 10
	maxToolCalls = 16 // of one move
	maxToolSteps = 8  // moves with calls before the user has to speak
)

// A Move is what a user does in reply.
type Move struct {
	Say   string
	End   bool
	Tools []Call

	// Reached is what the user says at the end of the goal; nil if it does not say.
	Reached *bool
}

// A Call is a call of one of the user's own tools.
type Call struct {
	Name string           `json:"name"`
	Args canon.RawMessage `json:"args,omitempty"`
}

// moveDoc is a move as scripts and models write it.
type moveDoc struct {
	Say     *string          `json:"say,omitempty"`
	End     bool             `json:"end,omitempty"`
	Reached *bool            `json:"reached,omitempty"`
	Tools   []Call           `json:"tool_calls,omitempty"`
	State   canon.RawMessage `json:"state,omitempty"`
}

func (d *moveDoc) move() (Move, error) {
	m := Move{End: d.End, Reached: d.Reached, Tools: d.Tools}
	if d.Say != nil {
		m.Say = *d.Say
	}
	switch {
	case len(m.Say) > maxSay || !utf8.ValidString(m.Say):
		return Move{}, fmt.Errorf("say has %d bytes, expected at most %d of UTF-8", len(m.Say), maxSay)
	case len(m.Tools) > maxToolCalls:
		return Move{}, fmt.Errorf("it has %d tool calls, expected at most %d", len(m.Tools), maxToolCalls)
	}
	for i := range m.Tools {
		c := &m.Tools[i]
		if c.Name == "" || len(c.Name) > 200 {
			return Move{}, fmt.Errorf("tool_calls: the name has %d bytes, expected 1 to 200", len(c.Name))
		}
		if len(c.Args) == 0 || string(c.Args) == "null" {
			c.Args = canon.RawMessage("{}")
		}
		if c.Args[0] != '{' {
			return Move{}, fmt.Errorf("tool_calls: the arguments of %.100q are not an object", c.Name)
		}
	}
	return m, nil
}

// parseScripted reads what a script gave: its move and its new state.
func parseScripted(data []byte) (Move, canon.RawMessage, error) {
	var d moveDoc
	if err := canon.Unmarshal(data, &d); err != nil {
		return Move{}, nil, fmt.Errorf("it gave no move: %w; expected an object with say, end, reached, tool_calls and state", err)
	}
	if len(d.State) > maxState {
		return Move{}, nil, fmt.Errorf("its state has %d bytes, expected at most %d", len(d.State), maxState)
	}
	m, err := d.move()
	return m, d.State, err
}

// shape is what a model is asked for.
var shape = question.Shape[Move]{
	Wanted: []string{"say", "tool_calls", "end", "reached"},
	Read: func(members question.Members) (m Move, err error) {
		var d moveDoc
		for name, into := range map[string]any{"say": &d.Say, "end": &d.End, "reached": &d.Reached, "tool_calls": &d.Tools} {
			if err := members.Take(name, into); err != nil {
				return m, err
			}
		}
		return d.move()
	},
}

// parseReply reads the reply of a model.
func parseReply(text string) (Move, error) { return question.ReadReply(text, shape) }
