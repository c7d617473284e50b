package audit

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"tallystick/internal/read/step"
	"tallystick/internal/run/sight"
)

// resultChecks are the checks that need nothing but results: AUD-2 where there is
// no trajectory, AUD-5, and AUD-10 on the answers.
func (a *auditor) resultChecks() {
	for _, r := range a.results.list {
		a.collision(r)
		injectedAnswer(r, &a.found[aud10])
	}
}

// work is AUD-2 on one trajectory: was the answer worked for?
func (w *worker) work(o *outcome) {
	if !o.r.correct || w.a.answersOnly(o.r) {
		return
	}
	f := &o.found[aud2]
	f.auditable++
	reasons := idle(o.r)
	if o.t.HasSteps && !slices.ContainsFunc(o.t.Steps, func(s step.View) bool { return s.Kind == step.Model }) {
		// Whether that means anything shows when the whole file was read: a
		// recorder may not record model calls at all.
		o.found[aud2].dark++
		if !slices.ContainsFunc(o.t.Steps, func(s step.View) bool { return s.Kind == step.Call }) {
			if len(o.t.Steps) == 0 || !slices.ContainsFunc(o.t.Steps, func(s step.View) bool { return s.Kind == step.Prompt }) {
				reasons = append(reasons, "no substantive tool use")
			}
		}
	}
	if len(reasons) > 0 {
		f.fails = append(f.fails, fmt.Sprintf("task %s: marked correct with %s", o.r.id, strings.Join(reasons, ", ")))
	}
}

// idle are the numbers of a result that say that nothing was done.
func idle(r *result) []string {
	var list []string
	if r.turns != nil && *r.turns == 0 {
		list = append(list, "turns=0")
	}
	if r.tokensOut != nil && *r.tokensOut == 0 {
		list = append(list, "outputTokens=0")
	}
	return list
}

// takeModelCalls remembers which correct tasks have no model call.
func (a *auditor) takeModelCalls(o *outcome) {
	if a.answersOnly(o.r) {
		return
	}
	if o.found[aud2].dark > 0 {
		a.noModelCalls = append(a.noModelCalls, o.r.id)
	} else if o.t.HasSteps {
		a.modelCalls = true
	}
}

// finishWork decides AUD-2 once all trajectories were read.
func (a *auditor) finishWork() {
	f := &a.found[aud2]
	for _, r := range a.results.list {
		if !r.correct || r.trajectory != 0 || a.answersOnly(r) {
			continue
		}
		if reasons := idle(r); len(reasons) > 0 {
			f.fails = append(f.fails, fmt.Sprintf("task %s: marked correct with %s", r.id, strings.Join(reasons, ", ")))
		}
		if r.turns != nil || r.tokensOut != nil {
			f.auditable++
		}
	}
	switch {
	case a.modelCalls:
		for _, id := range a.noModelCalls {
			f.fails = append(f.fails, fmt.Sprintf("task %s: marked correct with zero LLM calls in trajectory", id))
		}
	case len(a.noModelCalls) > 0:
		f.gap = "the trajectories record no llm_call steps"
	}
}

// collision is AUD-5: is the answer one that many expected answers would match?
func (a *auditor) collision(r *result) {
	f := &a.found[aud5]
	if !r.graded {
		return
	}
	f.auditable++
	if !r.correct || !r.hasGold {
		return
	}
	answer, gold := sight.Normalise(r.answer), sight.Normalise(r.gold)
	why := ""
	switch {
	case answer == gold || sameNumber(answer, gold):
	case slices.Contains(sight.Generic, answer):
		why = "a generic answer"
	case len([]rune(answer)) == 1 && len([]rune(gold)) > 1:
		why = "a single character"
	case len([]rune(answer)) >= 2 && len(answer) < len(gold) && strings.Contains(gold, answer):
		why = "a strict substring of the expected answer"
	}
	if why != "" {
		f.fails = append(f.fails, fmt.Sprintf("task %s: answer %s is marked correct against %s: %s", r.id, quoted(answer), quoted(gold), why))
	}
}

// sameNumber compares as the official scorer does, which takes off $, % and
// commas: 5.0 for 5 is not a collision.
func sameNumber(a, b string) bool {
	x, err := strconv.ParseFloat(bareNumber(a), 64)
	y, err2 := strconv.ParseFloat(bareNumber(b), 64)
	return err == nil && err2 == nil && x == y && !math.IsInf(x, 0)
}

func bareNumber(s string) string { return strings.NewReplacer("$", "", "%", "", ",", "").Replace(s) }
