package scorecard

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"tallystick/internal/read/history"
	"tallystick/internal/record/plain"
)

// Print writes the answer for people: where each target stands with each class if it
// is of several, else the whole card.
func (s *Answer) Print(out io.Writer) {
	if s.Groups != nil {
		s.printGroups(out)
		return
	}
	s.printCard(out)
}

// printGroups prints where each target stands with each class.
func (s *Answer) printGroups(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "class\ttarget\tattempts\tnewest finished\tsolved\trate\tat 95 %\tcost\t")
	for _, g := range s.Groups {
		fmt.Fprintf(w, "%s\t%s\t%d%s\t", plain.Line(g.Class), plain.Line(g.Target), g.Attempts, plain.OfWhich(plain.Count{N: g.Unfinished, What: "not finished"}))
		if t := g.Totals; t != nil {
			fmt.Fprintf(w, "%s\t%d of %d\t%s\t[%.4f, %.4f]\t%s\t%s", plain.Line(g.Newest.ID), t.Solved, t.TotalTasks, plain.Score(t.SolveRate, 4), t.SolveRateCI95[0], t.SolveRateCI95[1],
				t.TotalCost, strings.TrimPrefix(g.Newest.Labels(), ", "))
		} else {
			fmt.Fprint(w, "-\t-\t-\t-\t-\t")
		}
		fmt.Fprintln(w)
	}
	w.Flush()
	if s.FailedCases != nil {
		failedText(out, *s.FailedCases)
	}
	fmt.Fprintln(out, `The whole card: "tally scorecard ATTEMPT", or with --class and --target; "tally log" lists every attempt`)
}

func (s *Answer) printCard(out io.Writer) {
	c := s.Card
	fmt.Fprintf(out, "SCORECARD  %s  level %s\n", plain.Line(c.Ledger.Origin), history.LevelText(c.Level.String(), c.Properties))
	attemptLines(out, c)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	row("tasks", "%d: %d solved, %d failed%s, %d skipped, %d errors%s", c.TotalTasks, c.Solved, c.Failed, plain.OfWhich(plain.Count{N: c.NotRun, What: "not run"}), c.Skipped,
		c.Errors, plain.OfWhich(plain.Count{N: c.Unscored, What: "unscored"}, plain.Count{N: c.Truncated, What: "truncated"}))
	row("solve rate", "%s  [%.4f, %.4f] at 95 %%, over %d distinct cases", plain.Score(c.SolveRate, 4), c.SolveRateCI95[0], c.SolveRateCI95[1], c.DistinctCases)
	if c.MeanScore != nil {
		row("mean score", "%s  [%.4f, %.4f], of %d scored tasks", plain.Score(*c.MeanScore, 4), c.MeanScoreCI95[0], c.MeanScoreCI95[1], c.ScoredTasks)
	}
	if c.MeanScoreBounds != nil {
		row("bounds", "with every task scored: rate %.4f to %.4f, mean %.4f to %.4f", c.SolveRateBounds[0], c.SolveRateBounds[1], c.MeanScoreBounds[0], c.MeanScoreBounds[1])
	}
	for _, k := range c.PassAtK {
		row(fmt.Sprintf("k = %d", k.K), "pass@k %.4f, pass^k %.4f, over %d cases", k.At, k.All, k.Over)
	}
	row("policy", "%s violations, %s rollbacks, correctness %s", c.PolicyViolations, c.RollbackCount, c.rollbackText())
	if c.TotalCost.Known() {
		row("cost", "%s, %s a solve; %s tokens", c.TotalCost, perSolve(c.Solved, c.CostPerSolve), c.TotalTokens)
	} else {
		row("cost", "%s; %s a solve; %s tokens", c.TotalCost, c.briefPerSolve(), c.leastTokens())
	}
	if u := c.UserCost; u != nil {
		row("users", "%s", u)
	}
	if p := c.Paid; p != nil {
		if text := p.Beside(c.TotalCost); text != "" {
			row("paid", "%s", text)
		}
	}
	for _, n := range c.NotSeen {
		row("not seen", "%s of %s: %s", n.Total, plain.Plural(n.Tasks, "task"), n.Reason)
	}
	row("latency", "median %d ms, p95 %d ms", c.MedianLatencyMS, c.P95LatencyMS)
	if n := c.ToolCalls; n != nil {
		row("tool calls", "%d executed, %d reported by the agent, %d only proposed%s", n.Executed, n.Reported, n.Proposed, unknownCalls(n.Unknown))
	}
	row("retries", "%s; %d executions, %d abandoned", c.TotalRetries, c.Executions, c.Abandoned)
	if c.Draws > 0 {
		row("judge", "%d verdicts drawn, %d of them again", c.Draws, c.Redraws)
	}
	if c.EvidenceCoverage == nil {
		row("evidence", "NOT CHECKED")
	} else {
		row("evidence", "of %.4f of the solved tasks", *c.EvidenceCoverage)
	}
	for _, m := range c.Modes {
		row("failure mode", "%s: %d tasks", plain.Line(m.Code), m.Tasks)
	}
	if c.Excluded > 0 {
		row("excluded", "%d records do not count", c.Excluded)
	}
	if c.Amendments.Lowered+c.Amendments.Ignored > 0 {
		row("amended", "%d lowered; %d would raise a score and do not count", c.Amendments.Lowered, c.Amendments.Ignored)
	}
	for _, x := range c.Reviewed {
		row("reviewed", "%s", plain.Line(x.Text()))
	}
	for _, x := range c.Corrected {
		row("corrected", "%s", plain.Line(x.Text()))
	}
	if c.AsCorrected != nil {
		row("as corrected", "%s; the numbers above are as recorded", c.AsCorrected.CorrectedText())
	}
	verdict := "NOT MET"
	if c.Acceptance.Met {
		verdict = "MET"
	}
	row("acceptance", "%s: %s", verdict, strings.Join(c.Acceptance.Reasons, "; "))
	for _, q := range c.Qualifications {
		row("note", "%s", plain.Line(q.Text))
	}
	w.Flush()
	for _, m := range c.EvidenceMissing {
		fmt.Fprintf(out, "evidence missing: %s %s (entry %d): %s\n", plain.Line(m.Attempt), plain.Line(m.CaseID), m.Entry, plain.Line(m.Reason))
	}
	breakdownText(out, c.By)
	if c.NotRun > 0 && len(c.By.Tag) > 0 {
		fmt.Fprintf(out, "not run: %s, in no row by tag: only records tell tags\n", plain.Plural(c.NotRun, "task"))
	}
	if s.FailedCases != nil {
		failedText(out, *s.FailedCases)
	}
}

func attemptLines(out io.Writer, c *Card) {
	for _, a := range c.Attempts {
		fmt.Fprintf(out, "attempt %s: number %d of %d by %s, %d of %d with this plan; %s%s, %s\n", plain.Line(a.ID), a.Number, a.Of, plain.Line(a.Target),
			a.PlanNumber, a.PlanOf, history.LevelText(a.Level.String(), a.Properties), a.Labels(), a.RegisteredAt.Date())
		for _, p := range a.Problems {
			fmt.Fprintf(out, "  problem: %s\n", plain.Line(p))
		}
	}
	for _, a := range c.Siblings {
		fmt.Fprintf(out, "not in this card: %s by %s, number %d of %d: %s, %s%s, %s\n", plain.Line(a.ID), plain.Line(a.Target), a.Number, a.Of, a.OutcomeText(),
			history.LevelText(a.Level.String(), a.Properties), a.Labels(), a.RegisteredAt.Date())
	}
}

// Labels are what a reader must not miss about an attempt.
func (a *AttemptLine) Labels() string {
	s := ""
	if a.Filtered {
		s += ", FILTERED"
		if a.Selection != "" {
			s += " (" + plain.Line(a.Selection) + ")"
		}
	}
	if a.Reduce != "" {
		s += fmt.Sprintf(", REDUCED by %s", a.Reduce)
	}
	if !a.Finished {
		s += ", NOT FINISHED"
	}
	if a.Mode == "live" {
		s += ", live"
	}
	if a.Abandoned > 0 {
		s += fmt.Sprintf(", %d executions abandoned", a.Abandoned)
	}
	return s
}

// briefPerSolve is what a solve cost, without what is missing of the total beside it.
func (t *Totals) briefPerSolve() string {
	if t.Solved == 0 {
		return "-"
	}
	return t.CostPerSolve.Brief()
}

// leastTokens are the tokens that were told. A call without a price may have told none.
func (t *Totals) leastTokens() string {
	if t.TotalTokens.Unknown {
		return t.TotalTokens.String()
	}
	return leastTold(t.TotalTokens.String(), t.TotalCost.Unpriced)
}

// breakdownText prints the properties that tell tasks apart.
func breakdownText(out io.Writer, by Breakdown) {
	for _, d := range []struct {
		name   string
		groups []Group
		least  int
	}{{"class", by.Class, 2}, {"target", by.Target, 2}, {"week", by.Week, 2}, {"tag", by.Tag, 1}} {
		if len(d.groups) < d.least {
			continue
		}
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintf(w, "by %s\ttasks\tsolved\trate\tat 95 %%\tviolations\tcost a solve\n", d.name)
		for _, g := range d.groups {
			fmt.Fprintf(w, "%s\t%d\t%d\t%s\t[%.4f, %.4f]\t%s\t%s\n", plain.Line(g.Key), g.TotalTasks, g.Solved, plain.Score(g.SolveRate, 4), g.SolveRateCI95[0], g.SolveRateCI95[1],
				g.PolicyViolations, perSolve(g.Solved, g.CostPerSolve))
		}
		w.Flush()
	}
}

func failedText(out io.Writer, cases []FailedRow) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "not solved\tcase\trepeat\toutcome\tscore\tentry\tfailure modes\n")
	for _, c := range cases {
		score := "-"
		if c.Score != nil {
			score = plain.Score(*c.Score, 4)
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%d\t%s\n", plain.Line(c.Attempt), plain.Line(c.CaseID), c.Repeat, c.Outcome, score, c.Entry, plain.Line(strings.Join(c.Modes, ", ")))
	}
	w.Flush()
}

func unknownCalls(tasks int) string {
	if tasks == 0 {
		return ""
	}
	return fmt.Sprintf("; unknown for %d tasks", tasks)
}
