package audit

import "fmt"

// finish decides what shows only when everything was read: the checks over all
// trajectories, and what could not be checked for want of a record.
func (a *auditor) finish() {
	a.finishWork()
	a.oracle.finish(&a.found[aud3])
	a.voting()
	a.splitIntegrity()
	a.cacheEvents()
	a.trajectoryGaps()
	a.answersOnlyGaps()
	a.goldGaps()
	a.sourceGaps()
}

// trajectoryGaps are those of the checks that read trajectories.
func (a *auditor) trajectoryGaps() {
	if !a.in.Trajectories.Given() {
		for _, i := range []int{aud1, aud3, aud4} {
			a.found[i].gap = "no trajectories supplied"
		}
		a.workGap("no trajectories supplied, and the results state neither turns nor outputTokens")
		return
	}
	without, correctWithout := 0, 0
	for _, r := range a.results.list {
		if r.trajectory == 0 {
			without++
			if r.correct {
				correctWithout++
			}
		}
	}
	missing := func(n int) string {
		return fmt.Sprintf("%d of %d results have no trajectory", n, len(a.results.list))
	}
	if correctWithout > 0 {
		a.found[aud1].gap = missing(correctWithout)
	}
	if without > 0 {
		a.found[aud3].gap, a.found[aud4].gap = missing(without), missing(without)
	}
	for i, what := range map[int]string{aud1: "tool results", aud3: "prompts"} {
		if f := &a.found[i]; f.dark > 0 && f.gap == "" {
			f.gap = fmt.Sprintf("%d %s are recorded only in part, and nobody looked for the answer in the rest (no gold_hits)", f.dark, what)
		}
	}
	for i, what := range map[int]string{aud1: "steps of correct answers", aud3: "prompts", aud4: "tool calls"} {
		if f := &a.found[i]; f.auditable == 0 && f.gap == "" && a.trajectories > 0 && !(i == aud1 && a.correct() == 0) {
			f.gap = "the trajectories record no " + what
		}
	}
	if a.trajectories > 0 && a.correct() == 0 && a.results.graded {
		a.found[aud1].auditable++
	}
	a.workGap("the results that are marked correct have no trajectory, and state neither turns nor outputTokens")
	if a.trajectories == 0 {
		for _, i := range []int{aud1, aud3, aud4} {
			a.found[i].gap = "the trajectories are empty"
		}
	}
}

// recorded is how many trajectories the receipts of a run ask for.
func (a *auditor) recorded() (n int) {
	if a.in.Vouched != nil {
		for _, executions := range a.in.Vouched.Recorded {
			n += executions
		}
	}
	return n
}

// answersOnly reports whether receipts say that of a task only its answer was seen.
func (a *auditor) answersOnly(r *result) bool {
	return a.in.Vouched != nil && a.in.Vouched.AnswersOnly[r.id]
}

// answersOnlyGaps are those of the checks that look at what an agent did, where it
// ran elsewhere and only its answers were seen. Without any other task they looked at
// nothing, but for AUD-3: what the harness itself asked was seen.
func (a *auditor) answersOnlyGaps() {
	n := 0
	for _, r := range a.results.list {
		if a.answersOnly(r) {
			n++
		}
	}
	if n == 0 {
		return
	}
	for i, what := range map[int]string{aud1: "what the agent fetched", aud2: "whether the agent asked a model", aud3: "what the agent told its models", aud4: "what the agent's tools did"} {
		f := &a.found[i]
		f.gap = fmt.Sprintf("of %d of %d tasks only the answers were seen, because the agent runs elsewhere: nobody knows %s", n, len(a.results.list), what)
		if n == len(a.results.list) && i != aud3 {
			f.auditable = 0
		}
	}
}

// workGap is that of AUD-2. Where nothing is marked correct nothing was earned
// without work.
func (a *auditor) workGap(gap string) {
	f := &a.found[aud2]
	switch {
	case f.auditable > 0:
	case a.correct() > 0:
		f.gap = gap
	case a.results.graded:
		f.auditable++
	}
}

// goldGaps are those of the checks that compare with expected answers. The test
// split has none: that is not the recorder's fault.
func (a *auditor) goldGaps() {
	if a.results.golds > 0 {
		if !a.results.graded {
			for _, i := range []int{aud1, aud2, aud5} {
				a.without(i, "the results do not say which answers are correct")
			}
		}
		return
	}
	for _, i := range []int{aud1, aud3, aud5} {
		a.without(i, "the results carry no expected answers")
	}
	if !a.results.graded {
		a.without(aud2, "the results do not say which answers are correct")
	}
}

// without skips a check: with a gap, unless the split has no answers.
func (a *auditor) without(i int, gap string) {
	f := &a.found[i]
	f.auditable = 0
	if a.split() == "test" {
		f.gap = ""
		f.notes = []string{"the test split has no expected answers"}
		return
	}
	f.gap = gap
}
