package dossier

import (
	"fmt"
	"iter"
	"path"
	"strings"
	"time"

	"tallystick/internal/read/history"
	"tallystick/internal/share/otel"
)

// Exported gives the cases of an attempt whose id matches glob, or all if that
// is "", for somebody else's format. They come one at a time: a trajectory is in
// memory only while it is written. A case whose evidence is not whole ends it.
func (r *Reading) Exported(a *history.Attempt, glob string) iter.Seq2[otel.Case, error] {
	return func(yield func(otel.Case, error) bool) {
		for c := range a.Cases() {
			if ok, _ := path.Match(glob, c.ID); glob != "" && !ok {
				continue
			}
			one, err := r.exported(a, c)
			if err != nil {
				err = fmt.Errorf("case %s: %w", c.ID, err)
			}
			if !yield(one, err) || err != nil {
				return
			}
		}
	}
}

func (r *Reading) exported(a *history.Attempt, c *history.Case) (otel.Case, error) {
	out := otel.Case{ID: c.ID, Repeat: int(c.Repeat), Execution: int(c.Execution), Started: a.Time.Go(), Outcome: string(c.Effective()), Content: r.Content}
	if c.Index < 0 {
		return out, nil // planned and never run
	}
	out.Started, out.Took = time.UnixMilli(c.StartedMS).UTC(), c.Latency()
	out.Reason = strings.Join(c.FailureModes(), ", ")
	if c.IsScored() {
		score := c.EffectiveScore()
		out.Score = &score
	}
	w, err := r.withholds(a, c)
	if err != nil || w != nil {
		return out, err // outcome, score and failure modes, and nothing of what was said
	}
	if out.Trajectory, err = history.TrajectoryOf(c, r.Piece); err != nil {
		return out, err
	}
	out.Checks, err = r.Checks(c)
	return out, err
}
