package session

import (
	"errors"
	"unicode/utf8"

	"tallystick/internal/record/refusal"
)

// maxDetail bounds what an event says about an error, as the trajectory does.
const maxDetail = 512

// A StopKind says what becomes of a case that was stopped.
type StopKind string

// The kinds.
const (
	Truncated StopKind = "truncated" // a limit was reached; never a quiet score
	Failed    StopKind = "failed"    // the agent's run broke: no recording, a provider that fails
	Suspended StopKind = "suspended" // waits for a person's approval
	Broken    StopKind = "broken"    // the harness could not do its work
)

// A Stop is why a case ends now. A caller that gets one returns it unchanged.
type Stop struct {
	Kind StopKind
	Name refusal.Name
	Err  error
}

func (s *Stop) Error() string { return s.Err.Error() }

// Unwrap gives the cause.
func (s *Stop) Unwrap() error { return s.Err }

// halt stops the case; the first reason stays.
func (s *Session) halt(kind StopKind, name refusal.Name, err error) error {
	if s.stop == nil {
		s.stop = &Stop{kind, name, err}
	}
	return s.stop
}

// Halt stops the case from outside, as when its time is over. The event is
// limit_reached if limit is not "".
func (s *Session) Halt(kind StopKind, name refusal.Name, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.halt(kind, name, err)
}

// Stopped returns why the case was stopped, nil if it was not.
func (s *Session) Stopped() *Stop {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stop
}

func nameOf(err error) (refusal.Name, string) {
	name := refusal.Failed
	var r *refusal.Error
	if errors.As(err, &r) {
		name = r.Name
	}
	return name, err.Error()
}

func cutText(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}
