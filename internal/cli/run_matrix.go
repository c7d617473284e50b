package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"tallystick/internal/evidence"
	"tallystick/internal/history"
	"tallystick/internal/lab"
	"tallystick/internal/plain"
	"tallystick/internal/recount"
	"tallystick/internal/refusal"
	"tallystick/internal/scorecard"
)

// A matrixAnswer is what "tally run" prints for several targets.
type matrixAnswer struct {
	Matrix   *scorecard.Matrix `json:"matrix"`
	Attempts []*recount.Run    `json:"attempts"`
}

// matrix runs one attempt for each target, in order. They do not run side by side:
// each has the machine and all of --jobs for itself, so that their times compare,
// and what Ctrl-C leaves is one attempt that is not finished.
func (r *runner) matrix(ctx context.Context, setups []*lab.Setup) error {
	round := make(lab.Round, len(setups))
	if r.o.resume {
		var err error
		if round, err = lab.LastRound(r.reading.History, setups); err != nil {
			return err
		}
	}
	answer := &matrixAnswer{Attempts: []*recount.Run{}}
	entries, worst := make([]scorecard.MatrixEntry, len(setups)), error(nil)
	for i, s := range setups {
		entries[i].Target = s.Target.Name
		if stopped := ctx.Err() != nil || refusal.ExitCode(worst) == refusal.ExitUnverified; stopped {
			entries[i].Error = "not started"
			continue
		}
		one, err := r.oneOf(ctx, s, round[i], i, len(setups))
		if err != nil {
			entries[i].Error = err.Error()
			if refusal.Is(err, refusal.GateNotMet) {
				entries[i].Error = "" // the attempt is whole
			}
			r.env.Note("target %s: %v", s.Target.Name, err)
			worst = worse(worst, err)
		}
		if one != nil {
			answer.Attempts = append(answer.Attempts, one.answer)
			entries[i].Attempt, entries[i].Card = r.reading.History.Attempt(one.answer.Attempt.ID), one.answer.Scorecard
		}
	}
	if len(answer.Attempts) == 0 {
		return worst
	}
	var err error
	if answer.Matrix, err = scorecard.MatrixOf(entries); err != nil {
		return r.reading.Refused(err)
	}
	if err := r.env.Answer(answer, func(out io.Writer) { r.matrixText(out, answer) }); err != nil {
		return err
	}
	return worst
}

// oneOf runs the attempt of one target, resumes the one that the round has, or
// shows it if it is finished.
func (r *runner) oneOf(ctx context.Context, s *lab.Setup, before *history.Attempt, i, n int) (*oneRun, error) {
	if before != nil && before.Finished != nil {
		r.env.Note("target %d of %d, %s: attempt %s is finished", i+1, n, s.Target.Name, before.ID)
		one := &oneRun{answer: answerOf(before)}
		one.answer.LocalLedger = r.local
		r.spent += spentBy(before.Finished.Paid, before.Finished.CostMicroUSD)
		return one, r.report(one.answer)
	}
	r.env.Note("target %d of %d, %s", i+1, n, s.Target.Name)
	return r.one(ctx, s, before != nil)
}

// worse is the error that decides the exit code of several attempts: evidence that
// does not verify (3), then work that could not be done (1), then a wrong question
// (2), then a gate (4). Of two alike it is the first.
func worse(a, b error) error {
	severity := map[int]int{refusal.ExitDone: 0, refusal.ExitGate: 1, refusal.ExitUsage: 2, refusal.ExitFailed: 3, refusal.ExitUnverified: 4}
	if severity[refusal.ExitCode(b)] > severity[refusal.ExitCode(a)] {
		return b
	}
	return a
}

// A marks is how outcomes are drawn in a table.
type marks struct{ passed, failed, broken, none, mixed string }

var (
	terminalMarks = marks{"✓", "✗", "E", "–", "~"}
	plainMarks    = marks{"+", "x", "E", "-", "~"}
)

func (m marks) of(c scorecard.MatrixCell, there bool) string {
	mark := m.broken
	switch {
	case !there || c.Outcome == history.NotRun || c.Outcome == evidence.Skipped:
		mark = m.none
	case c.Outcome == evidence.Passed:
		mark = m.passed
	case c.Outcome == evidence.Failed:
		mark = m.failed
	case c.Outcome == scorecard.Mixed:
		mark = m.mixed
	}
	if c.Of > 1 {
		mark += fmt.Sprintf(" %d/%d", c.Passed, c.Of)
	}
	return mark
}

// shortTable is how many cases are shown whatever came of them; longTable how many
// of those that did not pass everywhere.
const (
	shortTable = 20
	longTable  = 200
)

func (r *runner) matrixText(out io.Writer, a *matrixAnswer) {
	m := plainMarks
	if isTerminal(r.env.Stdout) {
		m = terminalMarks
	}
	for i, t := range a.Matrix.Targets {
		fmt.Fprintf(out, "%d  %s  %s\n", i+1, plain.Line(t.Target), plain.Line(strings.TrimSpace(t.Attempt+"  "+t.Error)))
	}
	fmt.Fprintln(out)
	matrixTable(out, a.Matrix, m)
	fmt.Fprintln(out)
	matrixTotals(out, a)
	matrixPairs(out, a.Matrix)
	for _, run := range a.Attempts {
		matrixNotes(out, run)
	}
}

func matrixTable(out io.Writer, x *scorecard.Matrix, m marks) {
	if len(x.Cases) > shortTable && x.Cases[0].AllPassed() { // the others come first
		fmt.Fprintf(out, "%d cases, all passed\n", len(x.Cases))
		return
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "case")
	for i := range x.Targets {
		fmt.Fprintf(w, "\t%d", i+1)
	}
	fmt.Fprintln(w)
	shown := 0
	for _, c := range x.Cases {
		if len(x.Cases) > shortTable && (c.AllPassed() || shown == longTable) {
			break
		}
		shown++
		fmt.Fprint(w, plain.Line(c.Case))
		for _, t := range x.Targets {
			cell, there := c.Results[t.Target]
			fmt.Fprintf(w, "\t%s", m.of(cell, there))
		}
		fmt.Fprintln(w)
	}
	w.Flush()
	passed := 0
	for _, c := range x.Cases[shown:] {
		if c.AllPassed() {
			passed++
		}
	}
	if left := len(x.Cases) - shown - passed; left > 0 {
		fmt.Fprintf(out, "%d more that did not pass everywhere\n", left)
	}
	if passed > 0 {
		fmt.Fprintf(out, "%d more, all passed\n", passed)
	}
	fmt.Fprintf(out, "%s passed  %s failed  %s error, truncated or unscored  %s not run or skipped  %s some repetitions passed\n", m.passed, m.failed, m.broken, m.none, m.mixed)
}

func matrixTotals(out io.Writer, a *matrixAnswer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "target\tsolved\trate\tat 95 %\tmean score\tat 95 %\tcost\ttime")
	for i, t := range a.Matrix.Targets {
		if t.Attempt == "" {
			fmt.Fprintf(w, "%d\t-\n", i+1)
			continue
		}
		mean, interval := "-", "-"
		if t.MeanScore != nil {
			mean, interval = fmt.Sprintf("%.4f", *t.MeanScore), fmt.Sprintf("[%.4f, %.4f]", t.MeanCI95[0], t.MeanCI95[1])
		}
		took := "-"
		if t.RuntimeMS != nil {
			took = (time.Duration(*t.RuntimeMS) * time.Millisecond).Round(100 * time.Millisecond).String()
		}
		fmt.Fprintf(w, "%d\t%d of %d\t%.4f\t[%.4f, %.4f]\t%s\t%s\t%s\t%s\n", i+1, t.Solved, t.Tasks, t.SolveRate, t.CI95[0], t.CI95[1], mean, interval, money(t.Cost), took)
	}
	w.Flush()
}

func matrixPairs(out io.Writer, x *scorecard.Matrix) {
	if len(x.Pairs) == 0 {
		return
	}
	number := map[string]int{}
	for i, t := range x.Targets {
		number[t.Target] = i + 1
	}
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "pair\tgained\tlost\tMcNemar p\tdifference\tat 95 %\tcases")
	for _, p := range x.Pairs {
		fmt.Fprintf(w, "%d to %d\t%d\t%d\t%.4g\t%+.4f\t[%+.4f, %+.4f]\t%d\n", number[p.A], number[p.B], len(p.Gained), len(p.Lost), p.McNemarP, p.Difference, p.DifferenceCI95[0], p.DifferenceCI95[1], p.Paired)
	}
	w.Flush()
	if n := len(x.Targets); n > scorecard.MaxPaired {
		fmt.Fprintf(out, "of %d targets only the first is compared with each; \"tally compare A B\" compares two others\n", n)
	}
	if len(x.Pairs) > 1 {
		fmt.Fprintf(out, "p is not corrected for %d comparisons: expect one in twenty below 0.05 by chance\n", len(x.Pairs))
	}
}

// matrixNotes prints what must be known beside the numbers of one attempt.
func matrixNotes(out io.Writer, a *recount.Run) {
	fmt.Fprintf(out, "\n%s (number %d, %s)\n", plain.Line(a.Attempt.ID), a.Attempt.Number, levelText(a.Attempt.Level, a.Attempt.Properties))
	if a.Scorecard != nil {
		qualificationsText(out, "note     ", a.Scorecard.Qualifications)
	}
	runGatesText(out, a)
}

// answerOf is the summary of an attempt that was finished earlier.
func answerOf(a *history.Attempt) *recount.Run {
	f := a.Finished
	cost := float64(f.CostMicroUSD) / 1e6
	run := &recount.Run{Rules: scorecard.Rules, Attempt: recount.RunAttemptOf(a), Class: a.Class, Target: a.Target, Total: a.Tasks(),
		Passed: f.Outcomes[evidence.Passed], Failed: f.Outcomes[evidence.Failed], Skipped: f.Outcomes[evidence.Skipped], Unscored: f.Outcomes[evidence.Unscored],
		Truncated: f.Outcomes[evidence.Truncated], Errors: f.Outcomes[evidence.Errored], MeanScore: f.MeanScore, FailureModes: f.FailureModes, CostUSD: &cost, Paid: history.PaidOf(f.Paid), Head: f.Head, Finished: true}
	for c := range a.Cases() {
		if !c.CostKnown() {
			run.CostUSD = nil
		}
		if c.Context != nil && run.Isolation == "" {
			run.Isolation = c.Context.Isolation
		}
	}
	return run
}
