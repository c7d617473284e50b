package archive

import (
	"fmt"

	"tallystick/internal/audit"
	"tallystick/internal/audit/intake"
	"tallystick/internal/evidence"
	"tallystick/internal/history"
)

// Audited gives the results and trajectories of an attempt, made of its evidence
// while they are read, and what the ledger says about it. Receipts can be had for
// all of it, so all of it is vouched for.
func (r *Reading) Audited(a *history.Attempt) (audit.Input, error) {
	var out audit.Input
	out.Results, out.Trajectories = intake.Derive("attempt "+a.ID, r.auditedCases(a))
	out.Vouched = &audit.Vouched{Attempt: a.ID, Number: a.Ordinal, Of: a.Siblings, VotingAttempts: 1, Abandoned: a.Abandoned, Redraws: a.Redraws,
		Results: true, Trajectories: true, Metadata: true}
	for c := range a.Cases() {
		out.Vouched.VotingAttempts = max(out.Vouched.VotingAttempts, int(c.Scored))
	}
	if a.Finished != nil {
		out.AuditedAt = a.Finished.Time.Go()
		n, err := r.judgeEvents(a)
		if err != nil {
			return out, err
		}
		out.Vouched.JudgeCacheEvents = n
	}
	return out, nil
}

// auditedCases visits the cases of an attempt. Repetitions of a case are one task
// by several models.
func (r *Reading) auditedCases(a *history.Attempt) intake.Each {
	return func(visit func(intake.Row, *intake.Line) error) error {
		for c := range a.Cases() {
			row, line, err := r.auditedCase(a, c)
			if err != nil {
				return fmt.Errorf("case %s: %w", c.ID, err)
			}
			if err := visit(row, line); err != nil {
				return err
			}
		}
		return nil
	}
}

func (r *Reading) auditedCase(a *history.Attempt, c *history.Case) (intake.Row, *intake.Line, error) {
	model := a.Target
	if c.Repeat > 1 {
		model = fmt.Sprintf("%s (repetition %d)", a.Target, c.Repeat)
	}
	row := intake.Row{TaskID: c.ID, Model: model}
	if outcome := c.Effective(); outcome != evidence.Unscored {
		correct := outcome == evidence.Passed
		row.Correct = &correct
	}
	if c.Index < 0 {
		return row, nil, nil // planned and never run
	}
	if w, err := r.withholds(a, c); err != nil || w != nil {
		return row, nil, err // held out: nothing of what was said is shown
	}
	v, err := history.TrajectoryOf(c, r.Piece)
	if err != nil {
		return row, nil, err
	}
	told, line := intake.Tell(c.ID, model, v, r.Content)
	told.Correct = row.Correct
	checks, err := r.Checks(c)
	if err != nil {
		return row, nil, err
	}
	for _, d := range checks {
		if d.Expected == nil {
			continue
		}
		told.Expected = &d.Expected.Head
		if d.Extracted != nil {
			told.Answer = &d.Extracted.Head
		}
		break
	}
	return told, &line, nil
}

// judgeEvents counts what the judge's cache gave rise to, in the list of events
// that the end of the attempt names.
func (r *Reading) judgeEvents(a *history.Attempt) (n int, err error) {
	if a.Finished.Events == nil {
		return 0, nil
	}
	data, err := r.Piece(*a.Finished.Events)
	if err != nil {
		return 0, fmt.Errorf("the list of events: %w", err)
	}
	return audit.JudgeEvents(data)
}
