package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tallystick/internal/archive"
	"tallystick/internal/history"
	"tallystick/internal/plain"
	"tallystick/internal/refusal"
	"tallystick/internal/scorecard"
)

type scorecardOptions struct {
	attempts   []string
	class      string
	target     string
	since      string
	last       bool
	noEvidence bool
	failed     bool
}

func newScorecard(env *Env) *cobra.Command {
	var o scorecardOptions
	cmd := &cobra.Command{
		Use:   "scorecard [ATTEMPT...]",
		Short: "Totals, intervals and the acceptance verdict over verified records",
		Long: `Count what the ledger says about attempts, after verifying it: tasks, solve rate with
its interval, violations, cost, latency, retries, evidence, and whether the criteria of
acceptance are met. Without ATTEMPT it is about every attempt but scratch ones; of
several classes or targets it shows where each stands with its newest finished attempt,
because totals over all of them would be of nothing.

Every planned case is in the denominator: what was not run has failed. A repetition
counts once, by its first record. Other attempts of the same class and target are listed
too, so that "the best of seven" is visible. Formulas: docs/formats/scorecard.md.

Evidence of solved cases is read and hashed; --no-evidence leaves that out, and then the
acceptance criteria cannot be met.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.attempts = args
			return runScorecard(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.class, "class", "", "only attempts of this task `CLASS`")
	f.StringVar(&o.target, "target", "", "only attempts of this `TARGET`")
	f.StringVar(&o.since, "since", "", "only attempts registered since `WHEN`: days ago (90d) or a date")
	f.BoolVar(&o.last, "last", false, "only the newest attempt of those")
	f.BoolVar(&o.noEvidence, "no-evidence", false, "do not read the evidence; its coverage is then not known")
	f.BoolVar(&o.failed, "failed", false, "list every task that was not solved")
	return cmd
}

func runScorecard(_ context.Context, env *Env, o scorecardOptions) error {
	if len(o.attempts) > 0 && (o.class != "" || o.target != "" || o.since != "" || o.last) {
		return refusal.Newf(refusal.Usage, "attempts are named, and --class, --target, --since and --last choose among all").
			WithHint("give one or the other")
	}
	since, err := parseSince(o.since, env.Now())
	if err != nil {
		return err
	}
	p, err := read(env, archive.Ask{Want: func(a *history.Attempt) bool {
		if len(o.attempts) > 0 {
			return slices.Contains(o.attempts, a.ID)
		}
		return (o.class == "" || a.Class == o.class) && (o.target == "" || a.Target == o.target) && !a.Time.Go().Before(since)
	}})
	if err != nil {
		return err
	}
	chosen, err := o.choose(p)
	if err != nil {
		return err
	}
	view := scorecard.View{Attempts: chosen}
	if !o.noEvidence {
		rows := p.ForDisplay()
		defer rows.Close()
		view.Evidence = rows.Evidence
	}
	card, err := scorecard.Of(p.History, view)
	if err != nil {
		return p.Refused(err)
	}
	answer := scorecard.Answer{Card: card}
	if o.failed {
		answer.FailedCases = scorecard.FailedCases(chosen)
	}
	if groups := scorecard.ByClassTarget(chosen); len(o.attempts) == 0 && len(groups) > 1 {
		answer.Groups = groups
	}
	return env.Answer(answer, func(out io.Writer) {
		if answer.Groups != nil {
			groupsText(out, answer)
			return
		}
		scorecardText(out, answer)
	})
}

// groupsText prints where each target stands with each class.
func groupsText(out io.Writer, s scorecard.Answer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "class\ttarget\tattempts\tnewest finished\tsolved\trate\tat 95 %\tcost\t")
	for _, g := range s.Groups {
		fmt.Fprintf(w, "%s\t%s\t%d%s\t", plain.Line(g.Class), plain.Line(g.Target), g.Attempts, ofWhich(count{g.Unfinished, "not finished"}))
		if t := g.Totals; t != nil {
			fmt.Fprintf(w, "%s\t%d of %d\t%.4f\t[%.4f, %.4f]\t%s\t%s", plain.Line(g.Newest.ID), t.Solved, t.TotalTasks, t.SolveRate, t.SolveRateCI95[0], t.SolveRateCI95[1],
				money(t.TotalCostMicro), strings.TrimPrefix(labels(*g.Newest), ", "))
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

// choose returns the attempts that the card is about.
func (o *scorecardOptions) choose(p *archive.Reading) ([]*history.Attempt, error) {
	var chosen []*history.Attempt
	for _, id := range o.attempts {
		a, err := p.Attempt(id)
		if err != nil {
			return nil, err
		}
		if slices.Contains(chosen, a) {
			return nil, refusal.Newf(refusal.Usage, "%s is named twice", id).WithHint("an attempt counts once")
		}
		chosen = append(chosen, a)
	}
	if len(o.attempts) > 0 {
		return chosen, nil
	}
	var scratch []*history.Attempt
	for _, a := range p.History.Attempts {
		switch {
		case !a.Kept:
		case a.Level == history.Scratch:
			scratch = append(scratch, a)
		default:
			chosen = append(chosen, a)
		}
	}
	if len(chosen) == 0 {
		chosen = scratch // better than nothing, and labelled
	}
	if len(chosen) == 0 {
		return nil, refusal.Newf(refusal.NotFound, "the ledger %s has no such attempt", p.History.Origin).
			WithHint(`"tally run CLASS" makes one`)
	}
	if o.last {
		chosen = chosen[len(chosen)-1:]
	}
	return chosen, nil
}

func scorecardText(out io.Writer, s scorecard.Answer) {
	c := s.Card
	fmt.Fprintf(out, "SCORECARD  %s  level %s\n", plain.Line(c.Ledger.Origin), levelText(c.Level.String(), c.Properties))
	attemptLines(out, c)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	row("tasks", "%d: %d solved, %d failed%s, %d skipped, %d errors%s", c.TotalTasks, c.Solved, c.Failed, ofWhich(count{c.NotRun, "not run"}), c.Skipped,
		c.Errors, ofWhich(count{c.Unscored, "unscored"}, count{c.Truncated, "truncated"}))
	row("solve rate", "%.4f  [%.4f, %.4f] at 95 %%, over %d distinct cases", c.SolveRate, c.SolveRateCI95[0], c.SolveRateCI95[1], c.DistinctCases)
	if c.MeanScore != nil {
		row("mean score", "%.4f  [%.4f, %.4f], of %d scored tasks", *c.MeanScore, c.MeanScoreCI95[0], c.MeanScoreCI95[1], c.ScoredTasks)
	}
	if c.MeanScoreBounds != nil {
		row("bounds", "with every task scored: rate %.4f to %.4f, mean %.4f to %.4f", c.SolveRateBounds[0], c.SolveRateBounds[1], c.MeanScoreBounds[0], c.MeanScoreBounds[1])
	}
	for _, k := range c.PassAtK {
		row(fmt.Sprintf("k = %d", k.K), "pass@k %.4f, pass^k %.4f, over %d cases", k.At, k.All, k.Over)
	}
	row("policy", "%d violations, %d rollbacks, correctness %.2f", c.PolicyViolations, c.RollbackCount, c.RollbackCorrectness)
	row("cost", "%s, %s a solve; %d tokens", costText(c.Totals), perSolve(c.Solved, money(c.CostPerSolve)), c.TotalTokens)
	if p := c.Paid; p != nil {
		scored := float64(c.TotalCostMicro.Micro) / 1e6
		if text := p.Beside(&scored); text != "" {
			row("paid", "%s", text)
		}
	}
	row("latency", "median %d ms, p95 %d ms", c.MedianLatencyMS, c.P95LatencyMS)
	if n := c.ToolCalls; n != nil {
		row("tool calls", "%d executed, %d reported by the agent, %d only proposed%s", n.Executed, n.Reported, n.Proposed, unknownCalls(n.Unknown))
	}
	row("retries", "%d; %d executions, %d abandoned", c.TotalRetries, c.Executions, c.Abandoned)
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
		fmt.Fprintf(out, "not run: %s, in no row by tag: only records tell tags\n", plural(c.NotRun, "task"))
	}
	if s.FailedCases != nil {
		failedText(out, *s.FailedCases)
	}
}

func attemptLines(out io.Writer, c *scorecard.Card) {
	for _, a := range c.Attempts {
		fmt.Fprintf(out, "attempt %s: number %d of %d by %s, %d of %d with this plan; %s%s, %s\n", plain.Line(a.ID), a.Number, a.Of, plain.Line(a.Target),
			a.PlanNumber, a.PlanOf, levelText(a.Level.String(), a.Properties), labels(a), a.RegisteredAt.Date())
		for _, p := range a.Problems {
			fmt.Fprintf(out, "  problem: %s\n", plain.Line(p))
		}
	}
	for _, a := range c.Siblings {
		fmt.Fprintf(out, "not in this card: %s by %s, number %d of %d: %d of %d passed, %s%s, %s\n", plain.Line(a.ID), plain.Line(a.Target), a.Number, a.Of, a.Passed, a.Tasks,
			levelText(a.Level.String(), a.Properties), labels(a), a.RegisteredAt.Date())
	}
}

// labels are what a reader must not miss about an attempt.
func labels(a scorecard.AttemptLine) string {
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

type count struct {
	n    int
	what string
}

// ofWhich is " (2 not run)", or nothing.
func ofWhich(counts ...count) string {
	var parts []string
	for _, c := range counts {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	if parts == nil {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// costText is the cost of some tasks, and how much of it is not known.
func costText(t scorecard.Totals) string {
	if !t.TotalCostMicro.Unknown {
		return dollars(t.TotalCostMicro.Micro)
	}
	return fmt.Sprintf("unknown for %d of %d tasks, %s for the others", t.CostUnknown, t.TotalTasks, dollars(t.TotalCostMicro.Micro))
}

// costOf is dollars as people write them, or that nobody knows.
func costOf(usd *float64) string {
	if usd == nil {
		return "unknown"
	}
	return fmt.Sprintf("$%.6f", *usd)
}

// money is an amount as people write it.
func money(m scorecard.Money) string {
	if m.Unknown {
		return "unknown"
	}
	return dollars(m.Micro)
}

// dollars is micro-dollars as people write them.
func dollars(micro int64) string {
	sign := ""
	if micro < 0 {
		sign, micro = "-", -micro
	}
	return fmt.Sprintf("%s$%d.%06d", sign, micro/1e6, micro%1e6)
}

// breakdownText prints the properties that tell tasks apart.
func breakdownText(out io.Writer, by scorecard.Breakdown) {
	for _, d := range []struct {
		name   string
		groups []scorecard.Group
		least  int
	}{{"class", by.Class, 2}, {"target", by.Target, 2}, {"week", by.Week, 2}, {"tag", by.Tag, 1}} {
		if len(d.groups) < d.least {
			continue
		}
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintf(w, "by %s\ttasks\tsolved\trate\tat 95 %%\tviolations\tcost a solve\n", d.name)
		for _, g := range d.groups {
			fmt.Fprintf(w, "%s\t%d\t%d\t%.4f\t[%.4f, %.4f]\t%d\t%s\n", plain.Line(g.Key), g.TotalTasks, g.Solved, g.SolveRate, g.SolveRateCI95[0], g.SolveRateCI95[1],
				g.PolicyViolations, perSolve(g.Solved, money(g.CostPerSolve)))
		}
		w.Flush()
	}
}

func failedText(out io.Writer, cases []scorecard.FailedCase) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "not solved\tcase\trepeat\toutcome\tscore\tentry\tfailure modes\n")
	for _, c := range cases {
		score := "-"
		if c.Score != nil {
			score = fmt.Sprintf("%.4f", *c.Score)
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%d\t%s\n", plain.Line(c.Attempt), plain.Line(c.CaseID), c.Repeat, c.Outcome, score, c.Entry, plain.Line(strings.Join(c.Modes, ", ")))
	}
	w.Flush()
}

// parseSince reads a point in time as days ago (90d) or a date.
func parseSince(since string, now time.Time) (time.Time, error) {
	if since == "" {
		return time.Time{}, nil
	}
	if days, ok := strings.CutSuffix(since, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n <= 100_000 {
			return now.AddDate(0, 0, -n), nil
		}
	}
	if day, err := time.Parse(time.DateOnly, since); err == nil {
		return day, nil
	}
	return time.Time{}, refusal.Newf(refusal.Usage, "--since %q is neither days as in 90d, nor a date as in 2026-05-01", since)
}

func unknownCalls(tasks int) string {
	if tasks == 0 {
		return ""
	}
	return fmt.Sprintf("; of %d tasks nobody knows", tasks)
}
