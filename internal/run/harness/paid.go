package harness

import (
	"context"
	"path/filepath"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/journal"
)

// pays reports whether calls of the attempt cost money.
func (a *attempt) pays() bool { _, ok := a.cfg.Live.(Spender); return ok }

// openPaid opens the journal of paid calls of a live attempt, and tells the live
// side what was spent. Begun says that a case was started, so that there must be
// a journal.
func (a *attempt) openPaid(r *evidence.AttemptRegistered, begun bool) error {
	payer, ok := a.cfg.Live.(Spender)
	if !ok {
		return nil
	}
	body, err := canon.Marshal(r)
	if err != nil {
		return err
	}
	owner := journal.Owner{Attempt: a.id, Origin: r.Origin, Registered: digest.ContentOf(body)}
	a.paid, err = journal.Open(store.OS{}, filepath.Join(a.books.Runs, a.id), owner, begun, a.cfg.Now)
	if err != nil {
		return err
	}
	paid := a.paid.Paid()
	a.spent = paid.Most()
	payer.Spent(a.spent)
	return nil
}

// resumePaid opens the journal of an attempt that is resumed. Each record that
// was made names the head that the journal had: lines that were cut off are
// missed.
func (a *attempt) resumePaid(u *unfinished) error {
	if err := a.openPaid(&u.registered, len(u.executions) > 0); err != nil || a.paid == nil {
		return err
	}
	for key, b := range u.results {
		if b.journal != nil && !a.paid.Has(*b.journal) {
			return refusal.Newf(refusal.ChainTamperDetected, "%s: no line is %s, which entry %d, the record of case %s, names: lines were cut off or changed",
				filepath.Join(a.books.Runs, a.id, journal.File), b.journal, b.index, key.id).
				WithHint("restore the journal from a good copy, or start a new attempt; the unfinished one stays in the ledger")
		}
	}
	return nil
}

// next is the job of a case that has no record: the execution that was under way
// if it had paid for a call, else the next one. An execution that paid for
// nothing is not resumed: nothing would show whether it is the same.
func (a *attempt) next(j job, executions int) job {
	j.execution = executions + 1
	if a.paid != nil && a.paid.Began(journal.Execution{Case: j.id, Repeat: j.repeat, Number: executions}) {
		j.execution, j.resumed = executions, true
	}
	return j
}

// startAgain throws an execution away that went another way than its journal,
// and starts the next.
func (a *attempt) startAgain(ctx context.Context, n int, j job, why error) error {
	if err := a.event("bench.case.restarted", why.Error(), map[string]any{"attempt": a.id, "case": j.id, "repeat": j.repeat, "execution": j.execution + 1}); err != nil {
		return err
	}
	j.execution, j.resumed = j.execution+1, false
	return a.runOne(ctx, n, j)
}
