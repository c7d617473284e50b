package harness

import (
	"bytes"
	"fmt"
	"slices"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/sequential"
	"tallystick/internal/run/scenario"
)

// stopEarly is the question of the registration, if the attempt is to stop when it is
// answered; nil if it is not.
func (w *Worker) stopEarly(p *evidence.Plan) (*evidence.StopEarly, error) {
	if !w.cfg.Spec.StopEarly {
		return nil, nil
	}
	switch {
	case w.reg.StopEarly == nil:
		return nil, refusal.Newf(refusal.Usage, "class %s: --stop-early, and the registration has no stop_early", w.reg.Class).
			WithHint("the question and its error rates are signed before the run: add stop_early to registration.yaml, see docs/formats/scorecard.md")
	case p.Filtered || p.Retries != "":
		return nil, refusal.Newf(refusal.Usage, "--stop-early asks about the whole bench: it does not go with a selection of cases")
	case p.Repeat > 1 || p.Reduce != "":
		return nil, refusal.Newf(refusal.Usage, "--stop-early counts each case once: it does not go with --repeat")
	}
	return w.reg.StopEarly, nil
}

// drawOrder puts the cases of an attempt that may stop early into an order that the
// signed registration fixes; see [evidence.StopEarly.Place]. In the order of the
// dataset alike cases stand together, and in that in which they end the quick ones
// come first.
func drawOrder(p *evidence.Plan, cases *scenario.Set, places []int) []int {
	if p.StopEarly == nil {
		return places
	}
	keys := make(map[int]digest.Content, len(places))
	for _, i := range places {
		keys[i] = p.StopEarly.Place(cases.Ref(i).ID)
	}
	drawn := slices.Clone(places)
	slices.SortFunc(drawn, func(a, b int) int {
		x, y := keys[a], keys[b]
		return bytes.Compare(x[:], y[:])
	})
	return drawn
}

func stopText(p *evidence.Plan) string {
	if p.StopEarly == nil {
		return "not early"
	}
	return fmt.Sprintf("%+v", *p.StopEarly)
}

// decided reports whether the records so far answer the question of the attempt.
func (a *attempt) decided() bool {
	if a.plan.StopEarly == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.answered()
}

// answered is decided for a caller that holds mu.
func (a *attempt) answered() bool {
	s := a.stopped()
	return s != nil && s.Decision != sequential.Undecided
}

// stopped is how the test stands, by the records in the order of the plan up to the
// first case without one: what ended early beyond it does not count yet. It is nil
// of an attempt that does not stop early, or without a record. The caller holds mu.
func (a *attempt) stopped() *evidence.Stopped {
	if a.plan.StopEarly == nil {
		return nil
	}
	end := a.plan.StopEarly.Test().Run(func(yield func(bool) bool) {
		for _, c := range a.plan.Cases {
			b, ok := a.results[planned{c.ID, 1}]
			if !ok || !yield(b.outcome == evidence.Passed) {
				return
			}
		}
	})
	if end.N == 0 {
		return nil
	}
	return &evidence.Stopped{Decision: end.Decision, After: end.N, Passed: end.Passed}
}
