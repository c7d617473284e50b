package scorecard

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"tallystick/internal/read/history"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/testing/historytest"
)

func cardOf(t *testing.T, h *history.History, v View) *Card {
	t.Helper()
	if v.Attempts == nil {
		v.Attempts = h.Attempts
	}
	c, err := Of(h, v)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// allThere is evidence of which nothing is missing.
func allThere(*history.Case) error { return nil }

// smallAttempt writes the worked example of docs/formats/scorecard.md.
func smallAttempt(t *testing.T) *history.History {
	t.Helper()
	b := historytest.New(t)
	r := historytest.Registration("repo-fix.agent.1", "agent", 1, 10, 1)
	b.Register(r)
	for i, v := range []float64{1, 1, 1, 0.5, 0} { // 100 to 500 ms
		s := historytest.Score(r, i, 1, v)
		s.Retries = i
		if i == 4 {
			s.Policy = evidence.PolicyCount{Violations: 2, Rollbacks: 4, RollbacksVerified: 3}
		}
		b.Case(r, s)
	}
	b.Case(r, historytest.UnscoredCase(r, 5, 1, evidence.Unscored))
	b.Case(r, historytest.UnscoredCase(r, 6, 1, evidence.Truncated))
	b.Case(r, historytest.UnscoredCase(r, 7, 1, evidence.Errored))
	b.Case(r, historytest.UnscoredCase(r, 8, 1, evidence.Skipped)) // 900 ms; case-10 is not run
	b.Finish(r)
	return read(b, history.Options{})
}

// The page shows the totals of its example as this package counts them.
func TestWorkedExampleOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/formats/scorecard.md")
	if err != nil {
		t.Fatal(err)
	}
	totals := string(historytest.Marshal(t, cardOf(t, smallAttempt(t), View{}).Totals))
	if !strings.Contains(string(page), "\n"+totals+"\n") {
		t.Errorf("the page does not show\n%s", totals)
	}
	g := generator(Seed)
	if want := fmt.Sprintf("the first draw below 10 is %d,", g.below(10)); !strings.Contains(string(page), want) {
		t.Errorf("the page does not say %q", want)
	}
}

// Every number of a scorecard on a small attempt, worked out by hand.
func TestCardOfASmallAttempt(t *testing.T) {
	h := smallAttempt(t)
	c := cardOf(t, h, View{Evidence: found(h, func(c *history.Case) error {
		if c.ID == "case-02" {
			return refusal.Newf(refusal.NotFound, "gone")
		}
		return nil
	})})
	want := map[string]any{
		"total_tasks": 10, "solved": 3, "failed": 3, "skipped": 1, "errors": 3, "unscored": 1, "truncated": 1, "not_run": 1,
		"policy_violations": 2, "rollback_count": 4, "rollback_correctness": 0.75,
		"total_cost_microdollars": 2700, "median_latency_ms": 500, "p95_latency_ms": 900, "total_tokens": 9000, "total_retries": 10,
		"cost_per_solve": 900, "tokens_per_solve": 3000, "solve_rate": 0.3, "distinct_cases": 10, "scored_tasks": 5, "mean_score": 0.7,
		"evidence_coverage": 0.666666, "evidence_checked": true, "executions": 9, "abandoned_executions": 0, "excluded_records": 0,
		"level": "signed",
	}
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	for field, v := range want {
		if fmt.Sprint(got[field]) != fmt.Sprint(v) {
			t.Errorf("%s is %v, want %v", field, got[field], v)
		}
	}
	lo, hi := Wilson(3, 10, Z95)
	near(t, "lower bound", c.SolveRateCI95[0], lo, 1e-6)
	near(t, "upper bound", c.SolveRateCI95[1], hi, 1e-6)
	if c.SolveRateSE != nil || c.PassAtK != nil {
		t.Error("no case repeats, and yet there are clustered errors or pass@k")
	}
	if len(c.EvidenceMissing) != 1 || c.EvidenceMissing[0].CaseID != "case-02" || c.EvidenceMissing[0].Reason != "gone" {
		t.Errorf("missing evidence %+v", c.EvidenceMissing)
	}
	if !slices.Equal(c.Modes, []ModeCount{{"tests.failed", 2}}) {
		t.Errorf("failure modes %v", c.Modes)
	}
	reasons := strings.Join(c.Acceptance.Reasons, "\n")
	for _, want := range []string{"solve_rate is 0.30, needs 0.60 or more (3 of 10 tasks)", "policy_violations is 2, needs 0",
		"evidence_coverage is 0.6667, needs 1.00 (evidence of 1 solved tasks is missing or changed)", "rollback_correctness is 0.75, needs 1.00 (4 rollbacks)"} {
		if !strings.Contains(reasons, want) {
			t.Errorf("reasons do not say %q:\n%s", want, reasons)
		}
	}
	if c.Acceptance.Met {
		t.Error("accepted")
	}
	sum := c.Solved + c.Failed + c.Skipped + c.Errors
	if sum != c.TotalTasks {
		t.Errorf("the outcomes add up to %d of %d", sum, c.TotalTasks)
	}
}

// Acceptance: 100 tasks under a fixed policy. Sixty solved with full
// evidence and no violation pass; one less of anything fails.
func TestAcceptanceIsReachedBothWays(t *testing.T) {
	for _, tt := range []struct {
		name     string
		solved   int
		edit     func(*evidence.CaseScored)
		evidence func(*history.Case) error
		reason   string
	}{
		{"sixty", 60, nil, allThere, "all criteria met"},
		{"all", 100, nil, allThere, "all criteria met"},
		{"fifty-nine", 59, nil, allThere, "solve_rate is 0.59, needs 0.60 or more (59 of 100 tasks)"},
		{"an agent without a sandbox", 60, func(s *evidence.CaseScored) { s.AgentIsolation = "none" }, allThere, "policy_violations is 0 of what was seen, needs 0 of everything (the agent of 1 tasks ran where nothing watches what it tries)"},
		{"an agent elsewhere", 60, func(s *evidence.CaseScored) { s.AgentIsolation, s.Vantage = "remote", "answers" }, allThere, "policy_violations is 0 of what was seen, needs 0 of everything (the agent of 1 tasks ran where nothing watches what it tries); rollback_correctness cannot be seen, needs 1.00"},
		{"one violation", 60, func(s *evidence.CaseScored) { s.Policy.Violations = 1 }, allThere, "policy_violations is 1, needs 0"},
		{"one bad rollback", 60, func(s *evidence.CaseScored) { s.Policy.Rollbacks = 1 }, allThere, "rollback_correctness is 0.00, needs 1.00 (1 rollbacks)"},
		{"one good rollback", 60, func(s *evidence.CaseScored) { s.Policy.Rollbacks, s.Policy.RollbacksVerified = 1, 1 }, allThere, "all criteria met"},
		{"one bundle missing", 60, nil, func(c *history.Case) error {
			if c.ID == historytest.CaseName(7) {
				return refusal.Newf(refusal.DigestMismatch, "changed")
			}
			return nil
		}, "evidence_coverage is 0.9833, needs 1.00 (evidence of 1 solved tasks is missing or changed)"},
		{"the evidence was not looked at", 60, nil, nil, "evidence_coverage was not checked, needs 1.00; 0 distinct tasks are repository issues (tag repo-issue), needs 100; 100 tasks are not repository issues (tag repo-issue): 100 whose evidence was not read"},
		{"evidence of an unsolved case is missing", 60, nil, func(c *history.Case) error {
			if !c.Passed() {
				return refusal.Newf(refusal.NotFound, "gone")
			}
			return nil
		}, "all criteria met"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := historytest.New(t)
			r := historytest.Registration("repo-fix.agent.1", "agent", 1, 100, 1)
			b.Register(r)
			for i := range 100 {
				v := 0.0
				if i < tt.solved {
					v = 1
				}
				s := historytest.Score(r, i, 1, v)
				s.Tags = append(s.Tags, RepositoryIssue)
				if i == 50 && tt.edit != nil {
					tt.edit(s)
				}
				b.Ledger.Submit(evidence.CaseStartedKind, historytest.Marshal(t, &evidence.CaseStarted{Attempt: s.Attempt, CaseID: s.CaseID, Repeat: 1, Execution: 1}))
				b.Ledger.Submit(evidence.CaseScoredKind, historytest.Marshal(t, s))
			}
			b.Finish(r)
			h := read(b, history.Options{})
			c := cardOf(t, h, View{Evidence: found(h, tt.evidence)})
			if met := tt.reason == "all criteria met"; c.Acceptance.Met != met || strings.Join(c.Acceptance.Reasons, "; ") != tt.reason {
				t.Errorf("met %v, reasons %q; want %q", c.Acceptance.Met, c.Acceptance.Reasons, tt.reason)
			}
		})
	}
}

// Acceptance is about a hundred repository issues, under one policy, by a model, on
// record: whatever else is solved does not count, and the reasons say what is
// missing.
func TestAcceptanceIsOnlyOfWhatTheSeedAsksFor(t *testing.T) {
	const half = 50
	examples := false // example people may sign; the level says so
	for _, tt := range []struct {
		name   string
		n      int // of tasks in each of two attempts
		plan   func(number int, r *evidence.AttemptRegistered)
		edit   func(*evidence.CaseScored)
		reason string
	}{
		{"a hundred issues in two attempts", half, nil, nil, "all criteria met"},
		{"one too few", half - 1, nil, nil, "98 distinct tasks are repository issues (tag repo-issue), needs 100"},
		{"one that is not an issue", half, nil, func(s *evidence.CaseScored) { s.Tags = []string{"puzzle"} }, "99 distinct tasks are repository issues (tag repo-issue), needs 100; 1 tasks are not repository issues (tag repo-issue)"},
		{"two policies", half, func(n int, r *evidence.AttemptRegistered) {
			r.Plan.RegistrationDigest = historytest.ContentOf("registration %d", n)
		}, nil, "the tasks ran under 2 registrations, needs one fixed policy"},
		{"scratch", half, func(n int, r *evidence.AttemptRegistered) { r.Scratch = n == 2 }, nil, "1 attempts are scratch"},
		{"an authored reply", half, nil, func(s *evidence.CaseScored) { s.Provenance = "authored" }, "1 tasks were answered by authored replies, not by a model"},
		{"example signers", half, func(n int, r *evidence.AttemptRegistered) { examples = true }, nil, "2 attempts are of a bench that example signers may have signed"},
		{"filtered", half, func(n int, r *evidence.AttemptRegistered) { r.Plan.Filtered = n == 1 }, nil, "1 attempts are filtered or unfinished"},
	} {
		b := historytest.New(t)
		for n := 1; n <= 2; n++ {
			r := historytest.Registration(fmt.Sprintf("repo-fix.agent.%d", n), "agent", n, tt.n, 1)
			for i := range r.Plan.Cases { // other cases than those of the other attempt
				r.Plan.Cases[i].Digest = historytest.ContentOf("case %d of %d", i, n)
			}
			if tt.plan != nil {
				tt.plan(n, r)
			}
			b.Register(r)
			for i := range tt.n {
				s := historytest.Score(r, i, 1, 1)
				s.CaseDigest, s.Tags = r.Plan.Cases[i].Digest, []string{RepositoryIssue}
				if n == 1 && i == 7 && tt.edit != nil {
					tt.edit(s)
				}
				b.Case(r, s)
			}
			b.Finish(r)
		}
		h := read(b, history.Options{})
		for _, a := range h.Attempts {
			if examples {
				a.Level, a.Examples = history.Example, true
			}
		}
		examples = false
		c := cardOf(t, h, View{Evidence: found(h, allThere)})
		if got := strings.Join(c.Acceptance.Reasons, "; "); c.Acceptance.Met != (tt.reason == "all criteria met") || got != tt.reason {
			t.Errorf("%s: met %v, %s; want %s", tt.name, c.Acceptance.Met, got, tt.reason)
		}
	}
}

// Acceptance believes what the evidence shows of each task, and not its tag: a
// repository at a commit, a test that fails before and passes after, a change of code
// by the agent, and no task twice.
func TestAcceptanceNeedsEvidenceOfRepositoryIssues(t *testing.T) {
	type issue = evidence.RepositoryIssue
	same := historytest.ContentOf("the same")
	for _, tt := range []struct {
		name   string
		issue  func(*history.Case, *issue) *issue // of every case
		reason string
	}{
		{"nothing but the tag", func(*history.Case, *issue) *issue { return nil }, "0 distinct tasks are repository issues (tag repo-issue), needs 100; 100 tasks are not repository issues (tag repo-issue): 100 without a repository at a commit on record"},
		{"a test that passes before", func(_ *history.Case, i *issue) *issue { i.Before.Passed = true; return i }, "0 distinct tasks are repository issues (tag repo-issue), needs 100; 100 tasks are not repository issues (tag repo-issue): 100 whose test passes without a change"},
		{"a command that does not exist", func(_ *history.Case, i *issue) *issue { i.Before = evidence.IssueTest{Exit: 127}; return i }, "0 distinct tasks are repository issues (tag repo-issue), needs 100; 100 tasks are not repository issues (tag repo-issue): 100 whose test did not fail before the change: no test was reported to"},
		{"all tests skipped before", func(_ *history.Case, i *issue) *issue {
			i.Before = evidence.IssueTest{Exit: 1, Reported: 2, Skipped: 2}
			return i
		}, "0 distinct tasks are repository issues (tag repo-issue), needs 100; 100 tasks are not repository issues (tag repo-issue): 100 whose test did not fail before the change: no test was reported to"},
		{"no change of code", func(_ *history.Case, i *issue) *issue { i.Changed = nil; return i }, "100 tasks passed: 100 without a change of code by the agent"},
		{"no test that the change mends", func(_ *history.Case, i *issue) *issue { i.Fixed = 0; return i }, "100 tasks passed: 100 without a test that failed before and passes after"},
		{"no test afterwards", func(_ *history.Case, i *issue) *issue { i.After = nil; return i }, "100 tasks passed: 100 without a test that failed before and passes after"},
		{"one commit", func(_ *history.Case, i *issue) *issue { i.Commit = "1"; return i }, "1 distinct tasks are repository issues (tag repo-issue), needs 100; 99 cases repeat another: they have its commit, its change or its tests, but for names, literals and comments"},
		{"one change", func(_ *history.Case, i *issue) *issue { i.Change = same; return i }, "1 distinct tasks are repository issues (tag repo-issue), needs 100; 99 cases repeat another: they have its commit, its change or its tests, but for names, literals and comments"},
		{"the same tests", func(_ *history.Case, i *issue) *issue { i.Tests = same; return i }, "1 distinct tasks are repository issues (tag repo-issue), needs 100; 99 cases repeat another: they have its commit, its change or its tests, but for names, literals and comments"},
		{"one that is copied", func(c *history.Case, i *issue) *issue {
			if c.ID == historytest.CaseName(7) || c.ID == historytest.CaseName(70) {
				i.Change = same
			}
			return i
		}, "99 distinct tasks are repository issues (tag repo-issue), needs 100; 1 cases repeat another: they have its commit, its change or its tests, but for names, literals and comments"},
		{"all as it should be", nil, "all criteria met"},
	} {
		b := historytest.New(t)
		r := historytest.Registration("repo-fix.agent.1", "agent", 1, acceptTasks, 1)
		b.Register(r)
		for i := range acceptTasks {
			s := historytest.Score(r, i, 1, 1)
			s.Tags = []string{RepositoryIssue}
			b.Case(r, s)
		}
		b.Finish(r)
		h := read(b, history.Options{})
		c := cardOf(t, h, View{Evidence: map[*history.Attempt]Evidence{h.Attempts[0]: finding{allThere, tt.issue}}})
		if got := strings.Join(c.Acceptance.Reasons, "; "); c.Acceptance.Met != (tt.issue == nil) || got != tt.reason {
			t.Errorf("%s: met %v, %s; want %s", tt.name, c.Acceptance.Met, got, tt.reason)
		}
	}
}

// What could not be read is not what is missing.
func TestUnreadableEvidenceIsNoVerdict(t *testing.T) {
	b := historytest.New(t)
	b.Run(historytest.Registration("repo-fix.agent.1", "agent", 1, 1, 1), 1)
	h := read(b, history.Options{})
	_, err := Of(h, View{Attempts: h.Attempts, Evidence: found(h, func(*history.Case) error { return refusal.Newf(refusal.Unreadable, "no permission") })})
	if !refusal.Is(err, refusal.Unreadable) {
		t.Errorf("got %v, want Unreadable", err)
	}
}

func TestAnAttemptCountsOnce(t *testing.T) {
	b := historytest.New(t)
	b.Run(historytest.Registration("repo-fix.agent.1", "agent", 1, 1, 1), 1)
	h := read(b, history.Options{})
	if _, err := Of(h, View{Attempts: []*history.Attempt{h.Attempts[0], h.Attempts[0]}}); err == nil {
		t.Error("an attempt named twice was counted twice")
	}
	h = read(b, history.Options{Want: func(*history.Attempt) bool { return false }})
	if _, err := Of(h, View{Attempts: h.Attempts}); err == nil {
		t.Error("an attempt without its records has a card")
	}
}

// Running a bench seven times is seven times the tasks and not seven times the
// sample, and the best of seven is seen to be one of seven.
func TestRepeatingDoesNotNarrowTheInterval(t *testing.T) {
	b := historytest.New(t)
	for k := 1; k <= 7; k++ {
		b.Run(historytest.Registration(fmt.Sprintf("repo-fix.agent.%d", k), "agent", k, 10, 1), 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)
	}
	h := read(b, history.Options{})
	one, all := cardOf(t, h, View{Attempts: h.Attempts[4:5]}), cardOf(t, h, View{})
	if all.TotalTasks != 70 || all.DistinctCases != 10 || all.SolveRate != one.SolveRate || all.SolveRateCI95 != one.SolveRateCI95 || *all.MeanScoreCI95 != *one.MeanScoreCI95 {
		t.Errorf("seven times: %d tasks, %d cases, rate %v %v; once: %v %v", all.TotalTasks, all.DistinctCases, all.SolveRate, all.SolveRateCI95, one.SolveRate, one.SolveRateCI95)
	}
	near(t, "standard error", *all.SolveRateSE, 0.163299, 1e-6) // sqrt(10/9 · 10 · 0.24)/10
	line := one.Attempts[0]
	if line.Number != 5 || line.Of != 7 || line.PlanNumber != 5 || line.PlanOf != 7 || len(one.Siblings) != 6 {
		t.Errorf("attempt %d of %d, %d of %d with this plan, %d others listed", line.Number, line.Of, line.PlanNumber, line.PlanOf, len(one.Siblings))
	}
}

func TestPassAtKOfRepeatedCases(t *testing.T) {
	b := historytest.New(t)
	r := historytest.Registration("repo-fix.agent.1", "agent", 1, 2, 3)
	b.Register(r)
	for repeat, scores := range [][]float64{{1, 0}, {0, 0}, {1, 1}} {
		for i, v := range scores {
			b.Case(r, historytest.Score(r, i, repeat+1, v))
		}
	}
	b.Finish(r)
	c := cardOf(t, read(b, history.Options{}), View{})
	if c.TotalTasks != 6 || c.Solved != 3 || c.DistinctCases != 2 {
		t.Errorf("%d tasks, %d solved, %d cases", c.TotalTasks, c.Solved, c.DistinctCases)
	}
	// 2 of 3 and 1 of 3: pass@2 is (1 + 2/3)/2, pass^2 is (1/3 + 0)/2.
	want := []PassK{{1, 0.5, 0.5, 2}, {2, 0.833333, 0.166667, 2}, {3, 1, 0, 2}}
	if !slices.Equal(c.PassAtK, want) {
		t.Errorf("got %v, want %v", c.PassAtK, want)
	}
}

func TestBreakdowns(t *testing.T) {
	b := historytest.New(t)
	r := historytest.Registration("repo-fix.agent.1", "agent", 1, 3, 1)
	b.Register(r)
	for i, tags := range [][]string{{"easy", "npm", "npm"}, {"easy"}} {
		s := historytest.Score(r, i, 1, float64(1-i))
		s.Tags = tags
		b.Case(r, s)
	}
	b.Finish(r)
	b.Now = b.Now.AddDate(0, 0, 7)
	b.Run(historytest.Registration("repo-fix.rival.1", "rival", 1, 2, 1), 1, 1)
	h := read(b, history.Options{})
	c := cardOf(t, h, View{Tags: func(class, id string) []string {
		if class == "repo-fix" && id == "case-03" { // of which there is no record
			return []string{"easy"}
		}
		return nil
	}})
	show := func(groups []Group) string {
		var s []string
		for _, g := range groups {
			s = append(s, fmt.Sprintf("%s %d/%d", g.Key, g.Solved, g.TotalTasks))
		}
		return strings.Join(s, ", ")
	}
	for name, tt := range map[string]struct {
		got  []Group
		want string
	}{
		"class": {c.By.Class, "repo-fix 3/5"}, "target": {c.By.Target, "agent 1/3, rival 2/2"},
		"week": {c.By.Week, "2026-W20 1/3, 2026-W21 2/2"}, "tag": {c.By.Tag, "easy 1/3, npm 1/1"},
	} {
		if show(tt.got) != tt.want {
			t.Errorf("by %s: %s, want %s", name, show(tt.got), tt.want)
		}
	}
	// A group has the same numbers as a card of its own.
	own := cardOf(t, h, View{Attempts: h.Attempts[1:]})
	got, want := historytest.Marshal(t, c.By.Target[1].Totals), historytest.Marshal(t, own.Totals)
	if string(got) != string(want) {
		t.Errorf("target rival: %s\nits own card: %s", got, want)
	}
}

// The card's level is that of its weakest attempt.
func TestCardHasTheWeakestLevel(t *testing.T) {
	b := historytest.New(t)
	b.Run(historytest.Registration("repo-fix.agent.1", "agent", 1, 1, 1), 1)
	r := historytest.Registration("repo-fix.agent.2", "agent", 2, 1, 1)
	r.Scratch, r.Signature = true, "none"
	b.Run(r, 1)
	h := read(b, history.Options{})
	if c := cardOf(t, h, View{}); c.Level != history.Scratch || c.Attempts[0].Level != history.Signed {
		t.Errorf("level %s", c.Level)
	}
	if c := cardOf(t, h, View{Attempts: h.Attempts[:1]}); c.Level != history.Signed {
		t.Errorf("level %s", c.Level)
	}
}

func TestAmendmentsAreCounted(t *testing.T) {
	b := historytest.New(t)
	at := b.Run(historytest.Registration("repo-fix.agent.1", "agent", 1, 3, 1), 1, 0, 1)
	for i, pass := range []bool{false, true} {
		b.Add(evidence.ScoreAmendedKind, &evidence.ScoreAmended{Entry: at[i], Author: "alice", Reason: "x",
			Score: evidence.Score{Passed: pass, Score: float64(i), Breakdown: map[string]float64{}, FailureModes: []string{}}})
	}
	c := cardOf(t, read(b, history.Options{}), View{})
	if c.Solved != 2 || c.Failed != 1 || c.Amendments != (Amendments{1, 1}) || *c.MeanScore != round(2.0/3) {
		t.Errorf("solved %d, failed %d, mean %v, amendments %+v", c.Solved, c.Failed, *c.MeanScore, c.Amendments)
	}
	if n := c.AsCorrected; n == nil || n.Solved != 1 || n.Failed != 2 || *n.MeanScore != round(1.0/3) || len(c.Corrected) != 2 || c.Corrected[0].Ignored != "" || c.Corrected[1].Ignored == "" {
		t.Errorf("as corrected %+v, %+v", n, c.Corrected)
	}
	c = cardOf(t, read(b, history.Options{}), View{Basis: history.AsCorrected})
	if c.Solved != 1 || c.By.Class[0].Solved != 1 {
		t.Errorf("counted as corrected: solved %d, of the class %d", c.Solved, c.By.Class[0].Solved)
	}
}

// The list of cases is in the evidence and was lost: nothing vanishes.
func TestALostCaseListStaysInTheDenominator(t *testing.T) {
	b := historytest.New(t)
	r := historytest.Registration("repo-fix.agent.1", "agent", 1, 5, 1)
	d := historytest.ContentOf("list")
	r.Plan.Cases, r.Plan.CasesDigest = nil, &d
	b.Run(r, 1, 1)
	c := cardOf(t, read(b, history.Options{CaseList: func(digest.Content) ([]byte, error) { return nil, errors.New("lost") }}), View{})
	if c.TotalTasks != 5 || c.NotRun != 3 || c.DistinctCases != 5 || len(c.Attempts[0].Problems) != 1 {
		t.Errorf("%d tasks, %d not run, %d distinct, problems %q", c.TotalTasks, c.NotRun, c.DistinctCases, c.Attempts[0].Problems)
	}
}

func TestReexecutionsAreRetries(t *testing.T) {
	b := historytest.New(t)
	r := historytest.Registration("repo-fix.agent.1", "agent", 1, 1, 1)
	b.Register(r)
	b.Start(r, 0, 1, 1)
	b.Start(r, 0, 1, 2)
	s := historytest.Score(r, 0, 1, 1)
	s.Execution, s.Retries = 3, 5
	b.Case(r, s)
	if c := cardOf(t, read(b, history.Options{}), View{}); c.TotalRetries.N != 7 || c.Abandoned != 2 || c.Executions != 3 {
		t.Errorf("retries %d, abandoned %d, executions %d; want 7, 2, 3", c.TotalRetries.N, c.Abandoned, c.Executions)
	}
}

func TestACardCountsDrawsOfAJudge(t *testing.T) {
	b := historytest.New(t)
	r := historytest.Registration("repo-fix.default.1", "default", 1, 1, 1)
	b.Register(r)
	for n := range 3 {
		b.Add(evidence.JudgeDrawnKind, &evidence.JudgeDrawn{Attempt: r.Attempt, CaseID: "case-01", Draw: n + 1, Key: "k", Verdict: historytest.ContentOf("%d", n)})
	}
	if c := cardOf(t, read(b, history.Options{}), View{}); c.Draws != 3 || c.Redraws != 2 {
		t.Errorf("the card has %d draws, %d again", c.Draws, c.Redraws)
	}
}

// The list of what is missing is in the order of the tasks, and bounded.
func TestMissingEvidenceIsInOrder(t *testing.T) {
	b := historytest.New(t)
	b.Run(historytest.Registration("repo-fix.agent.1", "agent", 1, 400, 1), slices.Repeat([]float64{1}, 400)...)
	h := read(b, history.Options{})
	c := cardOf(t, h, View{Evidence: found(h, func(c *history.Case) error {
		if c.Index%3 == 0 {
			return refusal.Newf(refusal.NotFound, "gone")
		}
		return nil
	})})
	if !slices.IsSortedFunc(c.EvidenceMissing, func(x, y MissingEvidence) int { return cmp.Compare(x.Entry, y.Entry) }) || len(c.EvidenceMissing) != maxMissing || c.missing < maxMissing {
		t.Errorf("%d listed of %d: %+v", len(c.EvidenceMissing), c.missing, c.EvidenceMissing)
	}
}

// Evidence that was not looked at is not evidence that is there.
func TestACardNeedsTheEvidenceOfEveryAttempt(t *testing.T) {
	b := historytest.New(t)
	b.Run(historytest.Registration("repo-fix.agent.1", "agent", 1, 1, 1), 1)
	h := read(b, history.Options{})
	if _, err := Of(h, View{Attempts: h.Attempts, Evidence: map[*history.Attempt]Evidence{}}); err == nil {
		t.Error("counted without the evidence")
	}
}

// A finding is evidence of which a test says what is missing. Its cases are issues of
// repositories that agents solved as they should, unless the test says otherwise.
type finding struct {
	missing func(*history.Case) error
	issue   func(*history.Case, *evidence.RepositoryIssue) *evidence.RepositoryIssue
}

func (f finding) Missing(c *history.Case) error { return f.missing(c) }

func (f finding) Issue(c *history.Case) (*evidence.RepositoryIssue, error) {
	i := &evidence.RepositoryIssue{Name: "r", Commit: c.Digest.String(), Change: c.Digest, Tests: c.Digest, Changed: []string{"a.py"}, Fixed: 1,
		Before: evidence.IssueTest{Exit: 1, Failed: 1, Reported: 2}, After: &evidence.IssueTest{Passed: true, Reported: 2}}
	if f.issue != nil {
		i = f.issue(c, i)
	}
	return i, nil
}

// found is the evidence of every attempt, nil if it is not looked at.
func found(h *history.History, missing func(*history.Case) error) map[*history.Attempt]Evidence {
	if missing == nil {
		return nil
	}
	all := make(map[*history.Attempt]Evidence)
	for _, a := range h.Attempts {
		all[a] = finding{missing: missing}
	}
	return all
}
