package session

import (
	"context"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/tools"
	"tallystick/internal/run/trajectory"
)

// A UserTurn is what a simulated user says next. More is false if it has ended the
// conversation.
type UserTurn struct {
	Text string
	By   trajectory.Speaker
	More bool
}

// NextTurn begins the next turn and gives what the user says: the case's turns one after
// the other, or after the first what the simulated user answers to the agent's last
// words. More is false when the conversation is over, and then no turn has begun. It is
// how every driver hears the user.
func (s *Session) NextTurn(ctx context.Context, agent string, turns []scenario.Turn) (text string, more bool, err error) {
	if err := s.enter(); err != nil {
		return "", false, err
	}
	n, answer := s.turn, s.answered
	s.mu.Unlock()
	switch {
	case n < len(turns):
		return turns[n].Text, true, s.StartTurn(agent, turns[n].Text)
	case s.cfg.User == nil:
		return "", false, nil
	}
	said, err := s.cfg.User(ctx, answer)
	if err != nil {
		return "", false, s.userFailed(err)
	}
	if !said.More {
		return "", false, nil
	}
	return said.Text, true, s.startTurn(agent, said.Text, said.By)
}

// userFailed ends a case whose user could not be asked, as a call of the agent's model
// would that failed for the same reason.
func (s *Session) userFailed(err error) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.mu.Unlock()
	switch name, _ := nameOf(err); name {
	case refusal.LimitReached:
		return s.halt(Truncated, name, err)
	case refusal.ReplyInvalid:
		return s.halt(Broken, name, err)
	default:
		return s.halt(Failed, name, err)
	}
}

// UserTool records that the simulated user called a tool of its own.
func (s *Session) UserTool(by trajectory.Speaker, name string, args []byte, r tools.Result) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.mu.Unlock()
	shown, whole := s.args(args)
	if whole != nil {
		s.keepWhole(shown.Digest, whole)
	}
	return s.event(&trajectory.UserToolCalled{Args: shown, By: by, Error: cutText(s.safe(r.Error), maxDetail), LatencyMS: r.Latency.Milliseconds(), Name: s.named(name),
		Result: s.content(string(r.JSON), trajectory.ResultHead), Source: r.Source})
}
