package audit

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

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
	has := func(kind string) bool {
		return slices.ContainsFunc(o.t.Steps, func(s step.View) bool { return s.Kind == kind })
	}
	o.models = has(step.Model)
	if !o.r.correct || w.a.answersOnly(o.r) {
		return
	}
	f := &o.found[aud2]
	f.auditable++
	reasons := idle(cmp.Or(o.r.turns, o.t.Turns), cmp.Or(o.r.tokensOut, o.t.Out))
	if o.t.HasSteps && !o.models {
		// Whether that means anything shows when the whole file was read: a
		// recorder may not record model calls at all.
		o.idle = true
		if !has(step.Call) && !has(step.Prompt) {
			reasons = append(reasons, "no substantive tool use")
		}
	}
	if len(reasons) > 0 {
		f.fails = append(f.fails, fmt.Sprintf("task %s: marked correct with %s", o.r.id, strings.Join(reasons, ", ")))
	}
}

// idle are the numbers that say that nothing was done.
func idle(turns, tokensOut *float64) []string {
	var list []string
	if turns != nil && *turns == 0 {
		list = append(list, "turns=0")
	}
	if tokensOut != nil && *tokensOut == 0 {
		list = append(list, "outputTokens=0")
	}
	return list
}

// takeModelCalls remembers which correct tasks have no model call.
func (a *auditor) takeModelCalls(o *outcome) {
	if a.answersOnly(o.r) {
		return
	}
	if o.idle {
		a.noModelCalls = append(a.noModelCalls, o.r.id)
	}
	a.modelCalls = a.modelCalls || o.models
}

// finishWork decides AUD-2 once all trajectories were read.
func (a *auditor) finishWork() {
	f := &a.found[aud2]
	for _, r := range a.results.list {
		if !r.correct || r.trajectory != 0 || a.answersOnly(r) {
			continue
		}
		if reasons := idle(r.turns, r.tokensOut); len(reasons) > 0 {
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
	answer, gold := compared(r.answer), compared(r.gold)
	why := ""
	switch {
	case answer == gold || sameNumber(answer, gold):
	case slices.Contains(sight.Generic, answer), slices.Contains(otherGeneric(), answer):
		why = "a generic answer"
	case isPattern(answer) && !isPattern(gold):
		why = "a pattern that any answer matches"
	case namesAll(answer, gold, sight.FoldString(r.question)):
		why = "it names all choices"
	case len([]rune(answer)) == 1 && len([]rune(gold)) > 1:
		why = "a single character"
	case len([]rune(answer)) >= 2 && len(answer) < len(gold) && strings.Contains(gold, answer):
		why = "a strict substring of the expected answer"
	}
	if why != "" {
		f.fails = append(f.fails, fmt.Sprintf("task %s: answer %s is marked correct against %s: %s", r.id, quoted(answer), quoted(gold), why))
	}
}

// compared is an answer as the original normalises it, folded, so that
// full-width and look-alike letters are the letters that they stand for, and
// without the signs around it.
func compared(raw string) string {
	s := sight.FoldString(sight.Normalise(raw))
	if bare := strings.Trim(s, " .!?,;:\"'()[]*_`"); bare != "" {
		return bare
	}
	return s
}

// patternMarks are what a regular expression or a wildcard has, and an answer in
// words does not.
var patternMarks = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[\^(]*(?:\.[*+]|\*+|%+|\\[wsd.][*+]?|\[[^\]]*\][*+?])|\.[*+](?:[)$]|$)|^\([^()|]+(?:\|[^()|]+)+\)$|^\^.*\$$`)
})

// isPattern reports whether an answer is one that a lax grader would run.
func isPattern(answer string) bool { return patternMarks().MatchString(answer) }

// minNamed is how many choices an answer that names all of them has.
const minNamed = 3

// namesAll reports whether an answer names one choice after the other, of which
// the expected one is one: those of the question, or single letters.
func namesAll(answer, gold, question string) bool {
	parts := strings.FieldsFunc(strings.NewReplacer(" or ", ",", " and ", ",", " oder ", ",", " ou ", ",").Replace(answer), func(r rune) bool { return strings.ContainsRune(",;/|\n", r) })
	if len(parts) < minNamed {
		if parts = strings.Fields(answer); len(parts) < minNamed || len(answer) > 2*len(parts) {
			return false
		}
	}
	among := false
	for _, p := range parts {
		p = strings.Trim(p, " .()\"'")
		among = among || p == gold
		if p == "" || len([]rune(p)) > 1 && !strings.Contains(question, p) && !slices.Contains(sight.Generic, p) && p != "maybe" {
			return false
		}
	}
	return among
}

// otherGeneric are generic answers of other languages, and of other words, as
// they fold.
var otherGeneric = sync.OnceValue(func() (list []string) {
	for _, w := range strings.Fields("nope yeah okay correct right maybe idk tbd nil undefined nan unanswerable oui non si da нет да ja nein sim nao evet hayir tak nie 是 否 不知道 未知 はい いいえ 예 아니요 نعم لا हाँ नहीं") {
		list = append(list, sight.FoldString(w))
	}
	return append(list, "i don't know", "i do not know", "not available", "not sure", "no answer", "cannot determine", "the answer")
})

// sameNumber compares as the official scorer does, which takes off $, % and
// commas: 5.0 for 5 is not a collision.
func sameNumber(a, b string) bool {
	x, err := strconv.ParseFloat(bareNumber(a), 64)
	y, err2 := strconv.ParseFloat(bareNumber(b), 64)
	return err == nil && err2 == nil && x == y && !math.IsInf(x, 0)
}

func bareNumber(s string) string { return strings.NewReplacer("$", "", "%", "", ",", "").Replace(s) }
