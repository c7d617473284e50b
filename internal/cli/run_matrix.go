package cli

import (
	"context"
	"fmt"
	"io"
	"slices"

	"tallystick/internal/app/lab"
	"tallystick/internal/read/history"
	"tallystick/internal/read/outline"
	"tallystick/internal/read/recount"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
)

// A matrixAnswer is what "tally run" prints for several targets.
type matrixAnswer struct {
	Matrix   *scorecard.Matrix `json:"matrix"`
	Attempts []*recount.Run    `json:"attempts"`
	// Answers are what each target said in each case: all of them as JSON, on a terminal
	// those that are shown side by side.
	Answers []lab.CaseAnswers `json:"answers,omitempty"`
}

// matrix runs one attempt for each target, in order. They do not run side by side:
// each has the machine and all of --jobs for itself, so that their times compare,
// and what Ctrl-C leaves is one attempt that is not finished.
func (r *runner) matrix(ctx context.Context, setups []*lab.Setup) error {
	round := make(lab.Round, len(setups))
	if r.o.spec.Resume {
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
			if refusal.Is(err, refusal.GateNotMet) || refusal.Is(err, refusal.NotAnswered) {
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
	if err := r.readAnswers(answer); err != nil {
		return err
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
	s.Spec.Resume = before != nil
	return r.one(ctx, s, i == n-1)
}

// worse is the error that decides the exit code of several attempts: evidence that
// does not verify (3), then work that could not be done (1), then a wrong question
// (2), then a gate (4). Of two alike it is the first.
func worse(a, b error) error {
	severity := map[int]int{refusal.ExitDone: 0, refusal.ExitUnanswered: 1, refusal.ExitGate: 2, refusal.ExitUsage: 3, refusal.ExitFailed: 4, refusal.ExitUnverified: 5}
	if severity[refusal.ExitCode(b)] > severity[refusal.ExitCode(a)] {
		return b
	}
	return a
}

func (r *runner) matrixText(out io.Writer, a *matrixAnswer) {
	a.Matrix.Print(out, isTerminal(r.env.Stdout))
	for _, run := range a.Attempts {
		matrixNotes(out, run)
	}
	answersText(out, a, r.env.Stdout)
	r.compareHint(out, a)
}

// maxAnswersShown is how many cases are shown with what each target said.
const maxAnswersShown = 20

// readAnswers reads what is shown of what the targets said: everything as JSON, on a
// terminal a screenful if the targets fit beside each other, in a pipe nothing.
func (r *runner) readAnswers(a *matrixAnswer) error {
	var cases, attempts []string
	for _, c := range a.Matrix.Cases { // those that fail somewhere come first
		cases = append(cases, c.Case)
	}
	for _, run := range a.Attempts {
		attempts = append(attempts, run.Attempt.ID)
	}
	if !r.env.JSON {
		if !isTerminal(r.env.Stdout) || len(a.Matrix.Targets) > outline.MaxColumns {
			return nil
		}
		// Twice as many as are shown: those that say the same everywhere are not.
		cases = cases[:min(len(cases), 2*maxAnswersShown)]
	}
	var err error
	a.Answers, err = lab.AnswersOf(r.reading, attempts, cases)
	return err
}

// answersText shows what the targets said in the cases that do not pass everywhere, or in
// which they say different things.
func answersText(out io.Writer, a *matrixAnswer, terminal io.Writer) {
	_, width := terminalSize(terminal)
	shown := 0
	for i, c := range a.Answers {
		row, said := a.Matrix.Cases[i], map[string]bool{}
		for _, text := range c.Answers {
			said[text] = true
		}
		if len(c.Answers) == 0 || row.AllPassed() && len(said) == 1 || shown == maxAnswersShown {
			continue
		}
		shown++
		fmt.Fprintf(out, "\n%s\n", heading.of(plain.Line(c.Case)))
		var columns []outline.Column
		for n, t := range a.Matrix.Targets {
			title := fmt.Sprintf("%d %s", n+1, orNone(string(row.Results[t.Target].Outcome)))
			columns = append(columns, outline.Column{Title: title, Text: c.Answers[t.Target]})
		}
		beside(out, columns, width-2, "  ")
	}
	if left := len(a.Matrix.Cases) - shown; shown > 0 && left > 0 {
		fmt.Fprintf(out, "\n%s more; --json has every answer\n", plain.Plural(left, "case"))
	}
}

// compareHint says the command that compares two of the targets, in words that need no
// id.
func (r *runner) compareHint(out io.Writer, a *matrixAnswer) {
	if len(a.Attempts) < 2 || !isTerminal(r.env.Stdout) {
		return
	}
	address := func(id string) string {
		all := r.reading.History.Attempts
		at := slices.IndexFunc(all, func(x *history.Attempt) bool { return x.ID == id })
		return history.Latest(len(all) - 1 - at)
	}
	fmt.Fprintf(out, "\nNext: \"tally compare %s %s\" sets %s beside %s, case by case\n", address(a.Attempts[0].Attempt.ID), address(a.Attempts[1].Attempt.ID),
		plain.Line(bench.ShortTarget(a.Attempts[0].Target)), plain.Line(bench.ShortTarget(a.Attempts[1].Target)))
}

// matrixNotes prints what must be known beside the numbers of one attempt.
func matrixNotes(out io.Writer, a *recount.Run) {
	fmt.Fprintf(out, "\n%s (number %d, %s)\n", plain.Line(a.Attempt.ID), a.Attempt.Number, history.LevelText(a.Attempt.Level, a.Attempt.Properties))
	if a.Scorecard != nil {
		qualificationsText(out, "note     ", a.Scorecard.Qualifications)
	}
	decisionText(out, a.Decision)
}

// answerOf is the summary of an attempt that was finished earlier.
func answerOf(a *history.Attempt) *recount.Run {
	f := a.Finished
	run := &recount.Run{Rules: scorecard.Rules, Attempt: recount.RunLineOf(a), Class: a.Class, Target: a.Target, Total: a.Tasks(),
		Passed: f.Outcomes[evidence.Passed], Failed: f.Outcomes[evidence.Failed], Skipped: f.Outcomes[evidence.Skipped], Unscored: f.Outcomes[evidence.Unscored],
		Truncated: f.Outcomes[evidence.Truncated], Errors: f.Outcomes[evidence.Errored], MeanScore: f.MeanScore, FailureModes: f.FailureModes, Paid: history.PaidOf(f.Paid), Head: f.Head, Finished: true}
	for c := range a.Cases() {
		run.SetCost(run.Cost.Plus(c.Cost))
		if c.Context != nil && run.Isolation == "" {
			run.Isolation = c.Context.Isolation
		}
	}
	return run
}
