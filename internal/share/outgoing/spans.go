package outgoing

import (
	"fmt"
	"iter"
	"strings"
	"time"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/gate"
	"tallystick/internal/read/history"
	"tallystick/internal/share/otel"
)

// Spans writes the cases of an attempt whose id matches glob, or all if that is "", as
// OpenTelemetry, and says how many they are.
func Spans(d *dossier.Dossier, glob string) (doc []byte, cases int, err error) {
	decision, err := gate.Of(d)
	if err != nil {
		return nil, 0, err
	}
	a := d.Public()
	doc, err = otel.Export(otel.Run{ID: a.ID, Class: a.Class, Target: a.Target, Level: a.Level.String(), Gate: decision.Text(), Version: a.Harness()}, traces(a, glob, &cases))
	if err == nil && cases == 0 {
		err = NoCase(a.ID, glob)
	}
	return doc, cases, err
}

// traces gives the cases one at a time, and counts them: a trajectory is in memory only
// while it is written. A case whose evidence is not whole ends it.
func traces(a *dossier.Public, glob string, n *int) iter.Seq2[otel.Trace, error] {
	return func(yield func(otel.Trace, error) bool) {
		for c := range matching(a, glob) {
			*n++
			one, err := traceOf(a, c)
			if err != nil {
				err = fmt.Errorf("case %s: %w", c.ID, err)
			}
			if !yield(one, err) || err != nil {
				return
			}
		}
	}
}

func traceOf(a *dossier.Public, record *history.Case) (out otel.Trace, err error) {
	c, err := a.Case(record)
	if err != nil {
		return out, err
	}
	out = otel.Trace{ID: c.ID, Repeat: int(c.Repeat), Execution: int(c.Execution), Started: a.Time.Go(), Outcome: string(c.Outcome()), Score: c.On(history.AsRecorded).Value(), Corrections: corrections(a.ID, c), Content: c.Content}
	if c.Index < 0 {
		return out, nil // planned and never run
	}
	out.Started, out.Took = time.UnixMilli(c.StartedMS).UTC(), c.Latency()
	out.Reason = strings.Join(c.FailureModes(), ", ")
	if c.IsHidden() {
		return out, nil // outcome, score and failure modes, and nothing of what was said
	}
	if out.Trajectory, err = c.Trajectory(); err != nil {
		return out, err
	}
	out.Checks, err = c.Checks()
	return out, err
}
