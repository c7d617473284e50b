package cli

import (
	"context"
	"fmt"
	"io"

	"tallystick/internal/app/lab"
	"tallystick/internal/read/history"
	"tallystick/internal/read/recount"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
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
