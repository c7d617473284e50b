package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"tallystick/internal/app/lab"
	"tallystick/internal/read/history"
	"tallystick/internal/read/recount"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
)

// answer puts the summary into the form that is promised.
func (r *runner) answer(s *lab.RunResult) *recount.Run {
	a := &recount.Run{Rules: scorecard.Rules, Attempt: recount.RunLine{ID: s.Attempt, Number: s.Number, Level: history.Scratch.String()}, Class: s.Class, Target: s.Target, Total: s.Planned,
		Passed: s.Outcomes[evidence.Passed], Failed: s.Outcomes[evidence.Failed], Skipped: s.Outcomes[evidence.Skipped],
		Unscored: s.Outcomes[evidence.Unscored], Truncated: s.Outcomes[evidence.Truncated], Errors: s.Outcomes[evidence.Errored], Unanswered: s.Unanswered,
		MeanScore: s.MeanScore, FailureModes: s.FailureModes, JudgeCostUSD: float64(s.JudgeCost.MicroUSD) / 1e6, JudgeUnpriced: s.JudgeCost.Unpriced,
		Paid: history.PaidOf(s.Paid), Isolation: s.IsolationClass, Head: s.Head, Finished: s.Finished}
	a.NotRun = a.Total - a.Passed - a.Failed - a.Skipped - a.Unscored - a.Truncated - a.Errors
	a.SetCost(s.Cost)
	return a
}

func runText(out io.Writer, a *recount.Run, byRubric bool) {
	fmt.Fprintf(out, "attempt  %s (number %d%s, %s)\n", plain.Line(a.Attempt.ID), a.Attempt.Number, ofClass(a.Attempt.Of), history.LevelText(a.Attempt.Level, a.Attempt.Properties))
	othersText(out, a)
	if a.Unanswered > 0 {
		unansweredText(out, a)
		decisionText(out, a.Decision)
		fmt.Fprintf(out, "head     %s\n", a.Head)
		return
	}
	fmt.Fprintf(out, "cases    %d: %d passed, %d failed", a.Total, a.Passed, a.Failed)
	for _, n := range []plain.Count{{N: a.Errors, What: "errors"}, {N: a.Truncated, What: "truncated"}, {N: a.Unscored, What: "unscored"}, {N: a.Skipped, What: "skipped"}, {N: a.NotRun, What: "not run"}} {
		if n.N > 0 {
			fmt.Fprintf(out, ", %d %s", n.N, n.What)
		}
	}
	fmt.Fprintln(out)
	if m := a.Mixed; m != nil {
		mixed := ""
		if m.Replayed > 0 && m.Asked > 0 {
			mixed = ": a mixed attempt, which never counts for promotion"
		}
		fmt.Fprintf(out, "answers  %d replayed, %d asked live%s\n", m.Replayed, m.Asked, mixed)
	}
	reducedText(out, a)
	runMeanText(out, a)
	if len(a.FailureModes) > 0 {
		fmt.Fprintf(out, "modes    %s\n", plain.Line(strings.Join(a.FailureModes, ", ")))
	}
	runCostText(out, a)
	if a.Isolation != "" {
		fmt.Fprintf(out, "graded   %s\n", gradedWhere(a, byRubric))
	}
	if a.Scorecard != nil {
		qualificationsText(out, "note     ", a.Scorecard.Qualifications)
	}
	decisionText(out, a.Decision)
	if a.Submittable != nil {
		fmt.Fprintf(out, "submit   %s: %s\n", map[bool]string{true: "possible", false: "NOT POSSIBLE"}[*a.Submittable], plain.Line(a.Reason))
	}
	fmt.Fprintf(out, "head     %s\n", a.Head)
	if a.Comparison != nil {
		fmt.Fprintln(out)
		compareText(out, a.Comparison, differences{})
	}
	if a.Scorecard != nil && slices.ContainsFunc(a.Scorecard.Qualifications, func(q history.Qualification) bool { return q.Name == history.QualUnsandboxed }) {
		fmt.Fprintln(out, "NOT ISOLATED: the agent ran without a sandbox and could do what you can; the result never counts for promotion")
	}
	switch a.Attempt.Level {
	case history.Scratch.String():
		fmt.Fprintln(out, "SCRATCH: no signer vouches for this bench or this ledger; the result never counts for promotion")
	case history.Example.String():
		fmt.Fprintln(out, "EXAMPLES: the signers come with \"tally init\" and their keys lie here; the result never counts for promotion")
	}
	if a.Passed < a.Total && a.Finished {
		fmt.Fprintln(out, `Next: "tally why CASE" tells why a case failed`)
	}
}

func ofClass(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" of %d", n)
}

// othersText lists the other attempts of the class, by every target: a reader who
// sees one result should know of the others. The newest come last, two of them.
func othersText(out io.Writer, a *recount.Run) {
	if a.Scorecard == nil {
		return
	}
	othersLines(out, a.Scorecard.Siblings, 2)
}

// othersLines prints at most the newest of some attempts; 0 means all.
func othersLines(out io.Writer, others []scorecard.AttemptLine, most int) {
	left := 0
	if most > 0 {
		left = max(0, len(others)-most)
	}
	others = others[left:]
	for _, o := range others {
		fmt.Fprintf(out, "besides  %s by %s: number %d, %s, %s%s\n", plain.Line(o.ID), plain.Line(o.Target), o.Number, o.OutcomeText(), history.LevelText(o.Level.String(), o.Properties), o.Labels())
	}
	if left > 0 {
		fmt.Fprintf(out, "besides  %d more (tally log)\n", left)
	}
}

// reducedText prints what the repetitions of each case amount to.
func reducedText(out io.Writer, a *recount.Run) {
	c := a.Scorecard
	if c == nil || len(c.Attempts) == 0 || c.Attempts[0].Reduce == "" {
		return
	}
	fmt.Fprintf(out, "reduced  by %s: %d cases, %d passed, %d failed, %d errors\n", c.Attempts[0].Reduce, c.TotalTasks, c.Solved, c.Failed, c.Errors)
}

// runMeanText prints the mean, and what it could be if every case had a score.
func runMeanText(out io.Writer, a *recount.Run) {
	if a.MeanScore == nil {
		return
	}
	fmt.Fprintf(out, "mean     %s", plain.Score(*a.MeanScore, 4))
	if c := a.Scorecard; c != nil && c.MeanScoreBounds != nil {
		fmt.Fprintf(out, " of %d scored; with every case scored %.4f to %.4f", c.ScoredTasks, c.MeanScoreBounds[0], c.MeanScoreBounds[1])
	}
	fmt.Fprintln(out)
}

// runCostText prints what the agent cost, and the judge.
func runCostText(out io.Writer, a *recount.Run) {
	text := a.Cost.String()
	if a.Cost.MicroUSD > 0 {
		switch {
		case qualified(a, history.QualReplies) > 0:
			text += " with the recorded cost of cached replies, not paid now"
		case qualified(a, history.QualReused) > 0:
			text += " with the recorded cost of reused replies, not paid now"
		case qualified(a, history.QualReplayed) > 0:
			text += " recorded cost, not paid now"
		case qualified(a, history.QualAuthored) > 0:
			text += " authored cost, not paid now"
		}
	}
	fmt.Fprintf(out, "cost     %s", text)
	if judging := cost.Of(int64(a.JudgeCostUSD*1e6+0.5), a.JudgeUnpriced); judging != (cost.Cost{}) {
		fmt.Fprintf(out, ", and %s for judging", judging)
	}
	fmt.Fprintln(out)
	paidText(out, a.Paid, a.Cost)
}

// paidText prints what was paid, where that is not what was scored.
func paidText(out io.Writer, p *history.Paid, scored cost.Cost) {
	if text := p.Beside(scored); text != "" {
		fmt.Fprintf(out, "paid     %s\n", text)
	}
}

// qualified is of how many tasks of a run a qualification is true.
func qualified(a *recount.Run, name string) int {
	if a.Scorecard != nil {
		for _, q := range a.Scorecard.Qualifications {
			if q.Name == name {
				return q.Tasks
			}
		}
	}
	return 0
}

// qualificationsText prints what must be known beside the numbers, a line each,
// but for the level, which is printed with the attempt's name.
func qualificationsText(out io.Writer, label string, said []history.Qualification) {
	for _, q := range said {
		if q.Name != history.QualScratch {
			fmt.Fprintf(out, "%s%s\n", label, plain.Line(q.Text))
		}
	}
}

// gradedWhere says in words where the scores were made.
func gradedWhere(a *recount.Run, byRubric bool) string {
	judged := qualified(a, history.QualJudged)
	by := "by the rubric, in " + plain.Line(a.Isolation)
	switch {
	case a.Isolation == "builtin":
		by = "by built-in graders"
	case a.Isolation == "mixed":
		by = "in several ways: see each case's record"
	case !byRubric:
		by = "by the tests of the cases, in " + plain.Line(a.Isolation)
	}
	switch {
	case judged > 0 && judged == a.Total:
		return "by a model"
	case judged > 0:
		return fmt.Sprintf("%s, %d cases by a model", by, judged)
	}
	return by
}
