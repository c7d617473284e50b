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
	a.resultLacks()
	a.lackGaps()
	a.goldGaps()
	a.sourceGaps()
	a.finishCarried()
	a.finishNowhere()
}

// trajectoryChecks read what agents did.
var trajectoryChecks = []int{aud1, aud2, aud3, aud4, aud8, aud10}

// trajectoryGaps are those of a run without trajectories, and of checks that had
// nothing to look at in them.
func (a *auditor) trajectoryGaps() {
	gap := ""
	switch {
	case !a.in.Trajectories.Given():
		gap = "no trajectories supplied"
	case a.trajectories == 0:
		gap = "the trajectories are empty"
	}
	if gap != "" {
		for _, i := range trajectoryChecks {
			a.found[i].gap = gap
		}
		a.workGap(gap + ", and the results state neither turns nor outputTokens")
		return
	}
	for i, what := range map[int]string{aud1: "steps of correct answers", aud3: "prompts", aud4: "tool calls"} {
		f := &a.found[i]
		if f.auditable+f.undecidable == 0 && !(i == aud1 && a.correct() == 0) {
			f.gap = "the trajectories record no " + what
		}
	}
	if a.correct() == 0 && a.results.graded {
		a.found[aud1].auditable++
	}
	a.workGap("the results that are marked correct have no trajectory, and state neither turns nor outputTokens")
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
	for i, what := range map[int]string{aud1: "what the agent fetched", aud2: "whether the agent asked a model", aud3: "what the agent told its models", aud4: "what the agent's tools did", aud12: "where its answers come from"} {
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
		f.excused = "the test split has no expected answers"
		return
	}
	f.gap = gap
}
