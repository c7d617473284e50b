package lab

import (
	"fmt"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/provider"
	"tallystick/internal/run/replies"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/wire"
)

// A librarian gives each execution of a case its shelves in the library of replies. It
// is the one place that decides who may be answered from there.
type librarian struct {
	library *replies.Library
	user    replies.User // without case, repetition and scope
	heldOut map[string]bool
}

// librarian opens the library for the setup's class and target. Enter appends draws to
// the ledger, nil if nothing is drawn.
func (s *Setup) librarian(at func(wire.API) (evidence.Endpoint, bool), enter func(*evidence.ReplyDrawn) error) *librarian {
	return &librarian{
		library: replies.Open(s.place.Dir, s.place.Draws, enter),
		user:    replies.User{Class: s.Bench.Class(), Target: s.Target.Name, At: at},
		heldOut: s.Bench.HeldOut(),
	}
}

// mayReuse reports whether runs of the class are answered from the library. A signed
// case is answered by what people signed, and by nothing else.
func (s *Setup) mayReuse() bool { return s.Bench.Level() == string(bench.Scratch) }

// shelf is the library for one party of a case. Repetitions of a live run are different
// samples; a replay, which has no number, gives each the same.
func (l *librarian) shelf(c *scenario.Task, repeat int, party cassette.Purpose) *replies.Shelf {
	u := l.user
	u.Case, u.Repeat, u.Scope = c.ID, repeat, replies.ScopeOf(u.Class, c.ID, l.heldOut)
	return l.library.Shelf(u, party)
}

// lend puts the shelves of a case into the options of its live side.
func (l *librarian) lend(o *provider.CaseOptions, c *scenario.Task, repeat int) {
	o.Kept, o.JudgeKept, o.UserKept = l.shelf(c, repeat, cassette.ForAgent), l.shelf(c, repeat, cassette.ForJudge), l.shelf(c, repeat, cassette.ForUser)
}

// reuse lets a replay be answered from the library, if the class may and providers.yaml
// says which endpoints would be asked.
func (s *Setup) reuse(cfg *harness.Config) error {
	if !s.mayReuse() {
		return nil
	}
	settings, err := provider.LoadSettings(s.place.Path(provider.SettingsFile))
	if refusal.Is(err, refusal.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	l := s.librarian(settings.At, nil)
	l.user.Finds = true
	cfg.Library = func(c *scenario.Task, party cassette.Purpose) *replies.Shelf { return l.shelf(c, 0, party) }
	return nil
}

// entering appends draws to a ledger.
func entering(l interface {
	AppendRecord(evidence.Kind, evidence.Body) (ledger.Position, error)
}) func(*evidence.ReplyDrawn) error {
	return func(e *evidence.ReplyDrawn) error {
		_, err := l.AppendRecord(evidence.ReplyDrawnKind, e)
		return err
	}
}

// reusedText says what the library gave to a recording; "" if nothing.
func reusedText(r *evidence.Reused) string {
	switch {
	case r == nil:
		return ""
	case r.Unlisted > 0:
		return fmt.Sprintf(", %d from the library and not paid now, %d of them not in this ledger, so the recording is called edited", r.Replies, r.Unlisted)
	}
	return fmt.Sprintf(", %d from the library and not paid now", r.Replies)
}
