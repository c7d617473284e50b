package harness

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"tallystick/internal/record/evidence"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/session"
)

// Matching is how the model calls of a target in a case are looked up: by the
// normalisers that the class and the target name, of which none touches what the
// case itself says.
func Matching(b *bench.Verified, t *agent.Target, c *scenario.Task) cassette.Matching {
	reg := b.Registration()
	return matching(&reg, t, c)
}

func matching(reg *bench.Registration, t *agent.Target, c *scenario.Task) cassette.Matching {
	return cassette.Matching{Class: reg.Normalise, Target: t.Normalise, Given: c.Given}
}

// normalisersOf lists the normalisers in force, for the plan. One that both name
// is the class's: people signed for it.
func normalisersOf(b *bench.Verified, t *agent.Target) []evidence.PlannedNormaliser {
	var out []evidence.PlannedNormaliser
	class := b.Registration().Normalise
	for _, n := range class {
		out = append(out, evidence.PlannedNormaliser{From: evidence.FromClass, Name: n})
	}
	for _, n := range t.Normalise {
		if !slices.Contains(class, n) {
			out = append(out, evidence.PlannedNormaliser{From: evidence.FromTarget, Name: n})
		}
	}
	return out
}

func normalisersText(p *evidence.Plan) string {
	var out []string
	for _, n := range p.Normalisers {
		out = append(out, string(n.Name)+" of the "+n.From)
	}
	if out == nil {
		return "none"
	}
	return strings.Join(out, ", ")
}

// noteNormalised says in the record how many replies were found only by
// normalising, and how many were borrowed.
func (r *run) noteNormalised(rec *evidence.CaseScored) {
	var n evidence.NormalisedCount
	if live, ok := r.live.(Borrower); ok {
		n, rec.Cached = live.Normalised(), live.Cached()
	} else if r.player != nil {
		n = r.player.Normalised()
	}
	if n != (evidence.NormalisedCount{}) {
		rec.Normalised = &n
	}
}

// suggestion is the line that would have made a recording answer what was missed,
// and where it goes; "" if no normaliser would.
func (r *run) suggestion(stop *session.Stop) string {
	var miss *cassette.Miss
	if !errors.As(stop, &miss) {
		return ""
	}
	var names []evidence.Normaliser
	if live, ok := r.live.(Borrower); ok {
		names = live.Suggest(miss.Request)
	} else if r.player != nil {
		names = r.player.Suggest(miss.Request)
	}
	if names == nil {
		return ""
	}
	target := r.w.cfg.Target
	all := append(slices.Clone(target.Normalise), names...)
	words := make([]string, len(all))
	for i, n := range all {
		words[i] = string(n)
	}
	line := fmt.Sprintf("\"normalise: [%s]\"", strings.Join(words, ", "))
	file := target.File()
	what := "add " + line + " to " + file
	if len(target.Normalise) > 0 {
		what = "make it " + line + " in " + file
	}
	return fmt.Sprintf("; it differs from a recording only in %s: %s (docs/recording.md)", and(names), what)
}

func and(names []evidence.Normaliser) string {
	text := string(names[0])
	for _, n := range names[1:] {
		text += " and " + string(n)
	}
	return text
}
