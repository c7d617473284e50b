package audit

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
// missing; a check that could look at nothing is skipped.
func (a *auditor) decide(i int) Check {
	f := &a.found[i]
	c := Check{ID: checkNames[i].id, Severity: checkNames[i].severity, Status: Pass, HarnessGap: f.gap}
	switch {
	case len(f.fails) > 0:
		c.Status, c.Evidence = Fail, evidenceOf(f.fails)
	case f.auditable == 0:
		c.Status, c.Evidence = Skip, evidenceOf(f.notes)
		if c.HarnessGap == "" && len(f.notes) == 0 {
			c.HarnessGap = "nothing that it reads was recorded" // a skip says why
		}
	default:
		c.Evidence = evidenceOf(f.notes)
		if i == aud7 {
			c.Severity = Info
		}
	}
	return c
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
