package audit

import "strings"

// The checks, in the order of the report.
const (
	aud1 = iota
	aud2
	aud3
	aud4
	aud5
	aud6
	aud7
	aud8
	aud9
	aud10
	aud11
	aud12
	numChecks
)

// checkNames are the ids and severities of the checks. Both are promises to
// readers of reports.
var checkNames = [numChecks]struct{ id, severity string }{
	aud1:  {"answer-leakage", Critical},
	aud2:  {"no-work-pass", Critical},
	aud3:  {"oracle-leakage", Critical},
	aud4:  {"grader-isolation", Critical},
	aud5:  {"normalization-collision", Warn},
	aud6:  {"voting-disclosure", Warn},
	aud7:  {"split-integrity", Warn},
	aud8:  {"answer-key-reads", Critical},
	aud9:  {"dynamic-eval", Critical},
	aud10: {"judge-injection", Warn},
	aud11: {"answers-carried", Critical},
	aud12: {"answers-from-nowhere", Critical},
}

// report decides every check.
func (a *auditor) report() *Report {
	a.finish()
	r := &Report{
		Schema: Schema, AuditedAt: a.auditedAt(), ThreatModel: ThreatModel,
		Totals: Totals{Questions: len(a.results.list), MarkedCorrect: a.correct(), Trajectories: a.trajectories, Recorded: a.recorded()},
		Inputs: a.vouched(), Rules: Rules(), Bodies: a.demanded(), strict: a.in.Strict,
	}
	for i := range a.found {
		r.Checks = append(r.Checks, a.decide(i))
	}
	r.Attestation = attest(r.Checks)
	found := map[string]bool{}
	for _, f := range r.Findings() {
		found[f.ID] = true
	}
	for _, d := range a.in.Dispositions {
		d.Present = found[d.Finding]
		r.Dispositions = append(r.Dispositions, d)
	}
	return r
}

// decide gives a check its status. What was found fails it, whatever else is
// missing. A check passes if it could look at everything that it must see; one
// that could not, or that could decide nothing, is skipped.
func (a *auditor) decide(i int) Check {
	f := &a.found[i]
	c := Check{ID: checkNames[i].id, Severity: checkNames[i].severity, Status: Pass, Decided: f.decided, NotDecidable: f.undecidable}
	if f.excused == "" {
		c.HarnessGap = strings.Join(f.gaps(), "; ")
	}
	switch {
	case len(f.fails) > 0:
		c.Status, c.Evidence = Fail, evidenceOf(f.fails)
		return c
	case f.excused != "":
		f.notes = []string{f.excused}
		c.Status = Skip
	case f.auditable == 0 && f.undecidable > 0:
		f.notes = append(f.notes, "no answer is long enough to be told from chance: whether one was leaked cannot be decided")
		c.Status = Skip
	case f.auditable == 0 || f.blind:
		c.Status = Skip
		if c.HarnessGap == "" && len(f.notes) == 0 {
			c.HarnessGap = "nothing that it reads was recorded" // a skip says why
		}
	case i == aud7:
		c.Severity = Info
	}
	c.Evidence = evidenceOf(f.notes)
	return c
}

// gaps are the inputs that were not given and the evidence that was not recorded.
func (f *findings) gaps() []string {
	if f.gap == "" {
		return f.lacks
	}
	return append([]string{f.gap}, f.lacks...)
}

// recorded is how many trajectories there should be.
func (a *auditor) recorded() int {
	n := 0
	for _, r := range a.results.list {
		n += a.executions(r)
	}
	return n
}

// executions is how often a task was run: as often as receipts say, or the
// metadata, which states from how many tries an answer was chosen, or the
// trajectories themselves.
func (a *auditor) executions(r *result) int {
	n := max(1, len(r.executions))
	if v := a.in.Vouched; v != nil {
		return max(n, v.Recorded[r.id])
	}
	if tries := a.meta.voting; tries != nil && *tries < 1<<20 {
		return max(n, int(*tries))
	}
	return n
}

func (a *auditor) correct() int {
	n := 0
	for _, r := range a.results.list {
		if r.correct {
			n++
		}
	}
	return n
}
