package session

import (
	"cmp"
	"maps"
	"strings"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/trajectory"
)

// A Result is what is left of a case when it has ended.
type Result struct {
	Trajectory []byte
	Verified   *trajectory.Verified // the same, decoded
	Head       digest.ID
	Contents   map[digest.Content][]byte // whole texts of which events have the beginning
	Counts     Counts
	Plan       string
	Stop       *Stop // nil if the agent came to its own end
	Folder     error // why it is unknown what became of the working folder, nil if it is known

	seat *seat
}

// Free says that the case is recorded and nothing of it is kept any more. It may
// be called again.
func (r Result) Free() { r.seat.free() }

// Complete ends a case at the agent's own end. Refused says that the agent
// would not do what was asked.
func (s *Session) Complete(answer string, refused bool) Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.lookAtEnd()
	if s.stop == nil {
		status := "completed"
		if refused {
			status = "refused"
		}
		c := s.content(answer, trajectory.ArgumentHead)
		_ = s.event(&trajectory.RunCompleted{Status: status, Answer: &c})
	}
	return s.finish()
}

// Fail ends a case that broke or was stopped. A stop that came first is the
// reason, whatever err says.
func (s *Session) Fail(err error) Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.lookAtEnd()
	if s.stop == nil {
		name, _ := nameOf(err)
		_ = s.halt(Failed, name, err)
	}
	return s.finish()
}

// Pause closes the session of a case that another process brings to its end,
// with [Continue]: its trajectory has no last event. A case that was stopped
// ends here.
func (s *Session) Pause() Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.lookAtEnd()
	return s.finish()
}

// finish writes the last event, if the case was stopped, and closes the
// session.
func (s *Session) finish() Result {
	if s.stop != nil && !s.ended {
		if s.stop.Kind == Suspended {
			_ = s.event(&trajectory.RunCompleted{Status: "suspended"})
		} else {
			detail := cmp.Or(cutText(strings.ToValidUTF8(s.safe(s.stop.Error()), "\uFFFD"), maxDetail), string(s.stop.Name))
			_ = s.event(&trajectory.RunFailed{Name: string(s.stop.Name), Detail: detail})
		}
	}
	s.ended = true
	var folder error
	if f := s.cfg.Folder; f != nil && f.err != nil {
		folder = refusal.Newf(refusal.FolderUnreadable, "%s", cutText(s.safe(f.err.Error()), maxDetail))
	}
	s.seat.end()
	return Result{Folder: folder, Trajectory: s.log.Bytes(), Verified: s.log.Verified(), Head: s.log.Head(), Contents: maps.Clone(s.contents), Counts: s.counts, Plan: s.plan, Stop: s.stop, seat: s.seat}
}
