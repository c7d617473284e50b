package extract

import (
	"context"
	"errors"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/expression"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/vantage"
)

// Evaluate gives what an expression comes to, if that follows from what was seen.
// A refusal NotFound says that it depends on something that cannot be seen.
//
// How the expression is spelled does not matter. A variable that cannot be seen is
// an unknown, so whatever is computed from it is one. Of events there may be more
// than are in the list: so the expression is evaluated again with events that may
// have happened, of which nothing is known but their type, and must come to the same.
//
// All of that is paid from one budget. If it does not suffice, the expression failed: what
// it would have come to is not known.
func (s *Source) Evaluate(p *expression.Program, vars map[string]any, b *expression.Budget) (any, error) {
	ctx := s.Lasting()
	result, err := p.Value(ctx, vars, b)
	if why := unknown(err); why != nil {
		return nil, why
	}
	if stopped(ctx, err) {
		return nil, err
	}
	if !strings.Contains(p.Source(), "events") {
		return result, err
	}
	probes := s.probes()
	for _, n := range multiplicities(p.Source()) {
		var ended error
		differs := func(some []probe) bool {
			more, merr := p.Value(ctx, withProbes(vars, some, n), b)
			if stopped(ctx, merr) {
				ended = merr
				return true
			}
			return unknown(merr) != nil || (merr == nil) != (err == nil) || !reflect.DeepEqual(more, result)
		}
		if len(probes) == 0 || !differs(probes) {
			continue
		}
		if ended != nil {
			return nil, ended
		}
		of := probes[0]
		for i := range probes { // which of them it was, to tell
			if differs(probes[i : i+1]) {
				of = probes[i]
				break
			}
		}
		return nil, refusal.Newf(refusal.NotFound, "the expression depends on events of type %s, and not all of them can be seen: %s", of.of, of.why)
	}
	return result, err
}

// stopped reports whether an evaluation ended without saying anything of the run: the
// budget is spent, its process ended, or the caller is to stop.
func stopped(ctx context.Context, err error) bool {
	var spent *expression.SpentError
	return errors.As(err, &spent) || refusal.Is(err, refusal.NotFound) || ctx.Err() != nil
}

func unknown(err error) error {
	var u *expression.UnknownError
	if !errors.As(err, &u) {
		return nil
	}
	return refusal.Newf(refusal.NotFound, "%s", u.What)
}

// A probe is an event that may have happened unseen.
type probe struct {
	of    trajectory.Type
	why   string
	event map[string]any
}

// probes are one for each type of events that cannot all be seen.
func (s *Source) probes() []probe {
	if s.probing != nil {
		return s.probing
	}
	s.probing = []probe{}
	for _, t := range trajectory.Types() {
		sight := s.sees(vantage.Event, string(t))
		if sight.Sight == vantage.Seen {
			continue
		}
		u := expression.Unknown("events of type " + string(t) + " cannot be seen: " + sight.Why)
		s.probing = append(s.probing, probe{t, sight.Why, map[string]any{"type": string(t), "seq": u, "turn": u, "t": u, "payload": u}})
	}
	return s.probing
}

// withProbes are the variables with n events more of each probe, before the last:
// what ends a turn or a run is always seen.
func withProbes(vars map[string]any, probes []probe, n int) map[string]any {
	seen, _ := vars["events"].([]any)
	last := max(0, len(seen)-1)
	events := append(make([]any, 0, len(seen)+n*len(probes)), seen[:last]...)
	for i := range n * len(probes) {
		events = append(events, probes[i%len(probes)].event)
	}
	events = append(events, seen[last:]...)
	more := make(map[string]any, len(vars))
	for name, value := range vars {
		more[name] = value
	}
	more["events"] = events
	return more
}

// What is thought of unless the expression names a number, and at most if it does.
const (
	manyProbes = 200
	maxProbes  = 2000
)

var digits = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[0-9]+`) })

// multiplicities are how many events of a type are thought of: few, many, and the
// numbers that the expression itself compares with.
func multiplicities(source string) []int {
	list := []int{1, 2, manyProbes}
	for _, text := range digits().FindAllString(source, 8) {
		if n, err := strconv.Atoi(text); err == nil && n > 0 && n < maxProbes {
			list = append(list, n, n+1)
		}
	}
	return list
}
