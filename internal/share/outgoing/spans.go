package outgoing

import (
	"fmt"
	"iter"
	"strings"
	"time"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/share/otel"
)

// Spans gives the cases of an attempt whose id matches glob, or all if that
// is "", for somebody else's format. They come one at a time: a trajectory is in
// memory only while it is written. A case whose evidence is not whole ends it.
func Spans(a *dossier.Public, glob string) iter.Seq2[otel.Case, error] {
	return func(yield func(otel.Case, error) bool) {
		for c := range matching(a, glob) {
			one, err := spansOf(a, c)
			if err != nil {
				err = fmt.Errorf("case %s: %w", c.ID, err)
			}
			if !yield(one, err) || err != nil {
				return
			}
		}
	}
}

func spansOf(a *dossier.Public, record *history.Case) (out otel.Case, err error) {
	c, err := a.Case(record)
	if err != nil {
		return out, err
	}
	out = otel.Case{ID: c.ID, Repeat: int(c.Repeat), Execution: int(c.Execution), Started: a.Time.Go(), Outcome: string(c.Effective()), Content: c.Content}
	if c.Index < 0 {
		return out, nil // planned and never run
	}
	out.Started, out.Took = time.UnixMilli(c.StartedMS).UTC(), c.Latency()
	out.Reason = strings.Join(c.FailureModes(), ", ")
	if c.IsScored() {
		score := c.EffectiveScore()
		out.Score = &score
	}
	if c.IsHidden() {
		return out, nil // outcome, score and failure modes, and nothing of what was said
	}
	if out.Trajectory, err = c.Trajectory(); err != nil {
		return out, err
	}
	out.Checks, err = c.Checks()
	return out, err
}
