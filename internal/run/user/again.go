package user

import (
	"encoding/json"
	"fmt"
	"slices"

	"tallystick/internal/record/digest"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/trajectory"
)

// Broken looks at a conversation again, from its trajectory, and gives the rules that
// the user broke: those that the trajectory tells of, and those that it leaves out.
// Whole gives the text of which an event has the beginning.
func Broken(s *scenario.Scenario, expected []string, v *trajectory.Verified, whole func(*trajectory.Content) (string, error)) ([]Breach, error) {
	reached, _, err := compile(s.User)
	if err != nil {
		return nil, err
	}
	again := &again{spec: s.User, watch: NewWatch(s, expected), whole: whole}
	for e := range v.Events() {
		if err := again.event(e.Payload); err != nil {
			return nil, fmt.Errorf("event %d: %w", e.Seq, err)
		}
	}
	if again.claimed && reached != nil && again.state != "" {
		holds, err := holds(reached, []byte(again.state), again.answer, again.watch.answers)
		if err != nil {
			return nil, fmt.Errorf("user: reached: %w", err)
		}
		if !holds {
			again.add(endedWithoutGoal)
		}
	}
	if !again.ended && len(again.found) == 0 {
		again.add(Breach{Rule: EndedSilently, Text: "the trajectory does not tell how the conversation with the user ended"})
	}
	return again.found, nil
}

type again struct {
	spec    *scenario.User
	watch   *Watch
	whole   func(*trajectory.Content) (string, error)
	found   []Breach
	moved   string // what the user said, and the agent was not given yet
	answer  string
	state   string
	claimed bool // the user said that its goal is reached
	ended   bool
}

func (a *again) add(b ...Breach) {
	for _, one := range b {
		if !slices.ContainsFunc(a.found, func(f Breach) bool { return f.Rule == one.Rule && f.Fact == one.Fact }) {
			a.found = append(a.found, one)
		}
	}
}

func (a *again) event(p trajectory.Payload) error {
	switch p := p.(type) {
	case *trajectory.TurnCompleted:
		text, err := a.text(p.Answer)
		a.answer = text
		a.watch.Answered(text)
		return err
	case *trajectory.UserToolCalled:
		text, err := a.text(&p.Result)
		a.watch.Tool(p.Name, text, p.Error != "")
		return err
	case *trajectory.UserMoved:
		return a.move(p)
	case *trajectory.TurnStarted:
		if p.By == "" {
			return nil // words of the case
		}
		text, err := a.text(p.Input)
		if err == nil && text != a.moved {
			a.add(Breach{Rule: Unreadable, Text: "the agent was given other words than the user's move has"})
		}
		return err
	case *trajectory.UserBrokeRule:
		a.add(Breach{Rule: Rule(p.Rule), Fact: p.Fact, Text: p.Text})
	case *trajectory.UserEnded:
		a.ended = true
		if p.State != nil {
			text, err := a.text(p.State)
			a.state = text
			return err
		}
		a.state = "{}"
	}
	return nil
}

// move looks at a move again. One that could not be read has nothing to look at, and an
// event that says so follows.
func (a *again) move(p *trajectory.UserMoved) error {
	m := Move{End: p.End, Reached: p.Reached}
	for _, name := range p.Tools {
		m.Tools = append(m.Tools, Call{Name: name})
	}
	var err error
	if m.Say, err = a.text(p.Say); err != nil {
		return err
	}
	if p.Say != nil || p.End || len(p.Tools) > 0 {
		a.add(a.watch.Moves(m)...)
	}
	a.moved = m.Say
	a.claimed = p.End && p.Reached != nil && *p.Reached
	return nil
}

func (a *again) text(c *trajectory.Content) (string, error) {
	if c == nil {
		return "", nil
	}
	return a.whole(c)
}

// objectOf reads the state of tools as expressions see it.
func objectOf(state []byte) (map[string]any, error) {
	values := map[string]any{}
	if err := json.Unmarshal(state, &values); err != nil {
		return nil, fmt.Errorf("the state of the user's tools: %w", err)
	}
	return values, nil
}

// A Spent is what the user of a trajectory did and cost, apart from the agent.
type Spent struct {
	By                  trajectory.Speaker
	Model               string
	Moves, Tools, Turns int
	TokensIn, TokensOut int64
	CostMicroUSD        int64
	Unpriced            int64
	Prompt              *digest.Content
	Why                 string
}

// SpentIn adds up what the user of a trajectory did; nil if there was none.
func SpentIn(v *trajectory.Verified) *Spent {
	var s *Spent
	of := func(by trajectory.Speaker) *Spent {
		if s == nil {
			s = &Spent{By: by}
		}
		return s
	}
	for e := range v.Events() {
		switch p := e.Payload.(type) {
		case *trajectory.UserMoved:
			s := of(p.By)
			s.Moves++
			s.TokensIn, s.TokensOut, s.CostMicroUSD = s.TokensIn+p.TokensIn, s.TokensOut+p.TokensOut, s.CostMicroUSD+p.CostMicroUSD
			if p.Unpriced {
				s.Unpriced++
			}
			if p.Model != "" {
				s.Model = p.Model
			}
		case *trajectory.UserToolCalled:
			of(p.By).Tools++
		case *trajectory.TurnStarted:
			if p.By != "" {
				of(p.By).Turns++
			}
		case *trajectory.UserEnded:
			s := of(p.By)
			s.Prompt, s.Why = p.Prompt, p.Why
		}
	}
	return s
}
