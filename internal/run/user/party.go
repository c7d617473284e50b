package user

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/expression"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/session"
	"tallystick/internal/run/tools"
	"tallystick/internal/run/trajectory"
)

// Whom a user hears.
const (
	fromAgent = "agent"
	fromTools = "tools"
)

// Heard is what a user is told before it moves: the agent's words, or what its own tools
// gave.
type Heard struct {
	From    string   `json:"from"`
	Left    int      `json:"left"` // how many messages it may still send
	Results []Result `json:"results,omitempty"`
	Text    string   `json:"text"`
	Turn    int      `json:"turn"` // that the agent has answered
}

// A Result is what one of the user's tools gave.
type Result struct {
	Error  string           `json:"error,omitempty"`
	Name   string           `json:"name"`
	Result canon.RawMessage `json:"result,omitempty"`
}

// unreadable is a reply that is not a move, and broken a script that did not end well.
// Both are the user's, and not the agent's.
type (
	unreadable struct{ error }
	broken     struct{ error }
)

var errSlow = errors.New("the model that plays the user did not reply in time")

// A player is a [Model] or a [Script].
type player interface {
	move(ctx context.Context, h Heard) (Move, *trajectory.UserMoved, error)
}

// A Party is the user in one execution of a case.
type Party struct {
	spec    *scenario.User
	by      trajectory.Speaker
	session *session.Session
	player  player
	tools   *tools.State
	watch   *Watch
	reached *expression.Program // nil if the case does not say
	stop    *expression.Program
	answer  string
	ended   bool
}

// conditions are what reached and stop see.
var conditions = expression.NewLanguage(100_000,
	expression.Variable{Name: "state", Kind: expression.Object},
	expression.Variable{Name: "answer", Kind: expression.Text},
	expression.Variable{Name: "turn", Kind: expression.Number},
)

// Check refuses a user that could not be run.
func Check(s *scenario.Scenario) error {
	_, _, err := compile(s.User)
	if err == nil {
		_, err = tools.New(s.User.Tools, "", nil, nil)
	}
	return err
}

func compile(u *scenario.User) (reached, stop *expression.Program, err error) {
	for _, c := range []struct {
		name, source string
		into         **expression.Program
	}{{"reached", u.Reached, &reached}, {"stop", u.Stop, &stop}} {
		if c.source == "" {
			continue
		}
		if *c.into, err = conditions.CompileCondition(c.source); err != nil {
			return nil, nil, refusal.Newf(refusal.Malformed, "user: %s: %w", c.name, err).
				WithHint("an expression sees state, what the user's tools remember, answer and turn; docs/users.md has examples")
		}
	}
	return reached, stop, nil
}

// New makes the user of one execution. Expected are the values that the case wants of
// the agent. Model and script: exactly one is given.
func New(s *session.Session, sc *scenario.Scenario, expected []string, model *Model, script *Script) (*Party, error) {
	p := &Party{spec: sc.User, session: s, watch: NewWatch(sc, expected)}
	if p.by, p.player = trajectory.ByScript, player(script); script == nil {
		p.by, p.player = trajectory.ByModel, model
	}
	var err error
	if p.reached, p.stop, err = compile(sc.User); err != nil {
		return nil, err
	}
	p.tools, err = tools.New(sc.User.Tools, "", nil, nil)
	return p, err
}

// Next answers the agent. It is what a session asks; see [session.Config.User].
func (p *Party) Next(ctx context.Context, answer string) (session.UserTurn, error) {
	if p.ended {
		return session.UserTurn{}, nil
	}
	p.answer = answer
	p.watch.Answered(answer)
	if p.stop != nil {
		holds, err := p.holds(p.stop)
		if err != nil {
			return session.UserTurn{}, fmt.Errorf("user: stop: %w", err)
		}
		if holds {
			return session.UserTurn{}, p.end("stopped")
		}
	}
	h := Heard{From: fromAgent, Text: answer}
	for step := 0; ; step++ {
		h.Turn, h.Left = p.watch.answers, p.watch.Left()
		m, breaches, err := p.moves(ctx, h, step)
		switch {
		case err != nil:
			return session.UserTurn{}, err
		case len(breaches) > 0:
			return session.UserTurn{}, p.breaks(breaches)
		case len(m.Tools) > 0:
			if h.Results, err = p.use(ctx, m.Tools); err != nil {
				return session.UserTurn{}, err
			}
			h.From, h.Text = fromTools, ""
		case m.End && *m.Reached:
			return session.UserTurn{}, p.end("reached")
		case m.End:
			return session.UserTurn{}, p.end("gave_up")
		default:
			return session.UserTurn{Text: m.Say, By: p.by, More: true}, nil
		}
	}
}

// moves gets the next move, records it, and says what it breaks.
func (p *Party) moves(ctx context.Context, h Heard, step int) (Move, []Breach, error) {
	m, event, err := p.player.move(ctx, h)
	var bad *unreadable
	var died *broken
	switch {
	case errors.As(err, &bad), errors.As(err, &died):
		if rerr := p.session.Event(event); rerr != nil {
			return m, nil, rerr
		}
		b := Breach{Rule: Unreadable, Text: head(p.session.Safe("what it gave is not a move: "+err.Error()), 1000)}
		if died != nil {
			b = Breach{Rule: Failed, Text: head(p.session.Safe(err.Error()), 1000)}
		}
		return m, []Breach{b}, nil
	case err != nil && ctx.Err() == nil && p.by == trajectory.ByModel && !concernsTheRun(err):
		return m, []Breach{{Rule: Failed, Text: head(p.session.Safe("the model that plays it could not be asked: "+err.Error()), 1000)}}, nil
	case err != nil:
		return m, nil, err
	}
	event.End, event.Reached = m.End, m.Reached
	if strings.TrimSpace(m.Say) != "" {
		said := p.session.Note(m.Say, trajectory.PromptHead)
		event.Say = &said
	}
	for _, c := range m.Tools {
		event.Tools = append(event.Tools, head(p.session.Safe(c.Name), 200))
	}
	if err := p.session.Event(event); err != nil {
		return m, nil, err
	}
	breaches := p.watch.Moves(m)
	if step >= maxToolSteps && len(m.Tools) > 0 {
		breaches = append(breaches, Breach{Rule: ToolsOnly, Text: fmt.Sprintf("it called its tools in %d moves one after the other and did not speak", step+1)})
	}
	if m.End && m.Reached != nil && *m.Reached && p.reached != nil {
		holds, err := p.holds(p.reached)
		if err != nil {
			return m, nil, fmt.Errorf("user: reached: %w", err)
		}
		if !holds {
			breaches = append(breaches, endedWithoutGoal)
		}
	}
	return m, breaches, nil
}

// concernsTheRun reports whether an error of a call is not the user's own failure: what is
// not recorded, may not be paid for or differs from what was paid is told as it is.
func concernsTheRun(err error) bool {
	for _, name := range []refusal.Name{refusal.CassetteMiss, refusal.NotAnswered, refusal.JournalDiffers, refusal.ReplyInvalid, refusal.LimitReached} {
		if refusal.Is(err, name) {
			return true
		}
	}
	return false
}

var endedWithoutGoal = Breach{Rule: EndedWithoutGoal, Text: "it ended the conversation and said that its goal is reached, and the case's condition says that it is not"}

// use calls the user's own tools.
func (p *Party) use(ctx context.Context, calls []Call) ([]Result, error) {
	var results []Result
	for _, c := range calls {
		r, err := p.tools.Call(ctx, c.Name, c.Args)
		if err != nil {
			return nil, err
		}
		if err := p.session.UserTool(p.by, c.Name, c.Args, r); err != nil {
			return nil, err
		}
		p.watch.Tool(c.Name, string(r.JSON), r.Error != "")
		results = append(results, Result{Error: r.Error, Name: c.Name, Result: r.JSON})
	}
	return results, nil
}

func (p *Party) breaks(found []Breach) error {
	for _, b := range found {
		if err := p.session.Event(&trajectory.UserBrokeRule{By: p.by, Fact: b.Fact, Rule: string(b.Rule), Text: b.Text}); err != nil {
			return err
		}
	}
	return p.end("broke_rule")
}

// end records the end of the conversation, with what the user's tools remember.
func (p *Party) end(why string) error {
	p.ended = true
	e := &trajectory.UserEnded{By: p.by, Turns: int64(p.watch.turns), Why: why}
	if len(p.spec.Tools) > 0 {
		state, err := p.tools.Snapshot().Values()
		if err != nil {
			return err
		}
		said := p.session.Note(string(state), trajectory.ResultHead)
		e.State = &said
	}
	if p.by == trajectory.ByModel {
		prompt := PromptDigest()
		e.Prompt = &prompt
	}
	return p.session.Event(e)
}

// holds evaluates a condition of the case.
func (p *Party) holds(c *expression.Program) (bool, error) {
	data, err := p.tools.Snapshot().Values()
	if err != nil {
		return false, err
	}
	return holds(c, data, p.answer, p.watch.answers)
}

func holds(c *expression.Program, state []byte, answer string, turn int) (bool, error) {
	values, err := objectOf(state)
	if err != nil {
		return false, err
	}
	return c.Holds(map[string]any{"state": values, "answer": answer, "turn": float64(turn)})
}

func head(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "")
}
