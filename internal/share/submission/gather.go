package submission

import (
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
)

// An Entry is one of the ledger that a package shows, with its receipt.
type Entry struct {
	evidence.Entry
	Index   int64
	Body    evidence.Body
	Receipt *ledger.Receipt
}

// Gather makes of entries, in the order of the ledger, what they say about an
// attempt, and puts their receipts where a package has them. What is about none of
// it is the rest.
func Gather(attempt, class string, entries []Entry) (*Source, *Receipts) {
	a, out := &Source{Withheld: map[string]bool{}}, &Receipts{}
	of := &evidence.AttemptRegistered{Attempt: attempt, Class: class}
	records := map[int64]bool{}
	for _, e := range entries {
		if e.Manual || !about(e.Body, of, records) {
			out.Rest = append(out.Rest, e.Receipt)
			continue
		}
		switch b := e.Body.(type) {
		case *evidence.AttemptRegistered:
			if b.Attempt == attempt {
				a.Registered, out.Registered = b, e.Receipt
			}
			a.Class, out.Class = append(a.Class, b), append(out.Class, e.Receipt)
		case *evidence.CaseScored:
			a.Records, out.Records = append(a.Records, Record{e.Index, e.Receipt.Head(), b}), append(out.Records, e.Receipt)
			records[e.Index] = true
		case *evidence.JudgeDrawn:
			a.Draws, out.Draws = append(a.Draws, Draw{e.Index, b}), append(out.Draws, e.Receipt)
		case *evidence.AttemptFinished:
			a.Finished, a.FinishedAt, out.Finished = b, e.Time, e.Receipt
		case *evidence.AuditDisposed:
			a.Dispositions, out.Dispositions = append(a.Dispositions, Disposed{e.Index, b}), append(out.Dispositions, e.Receipt)
		case *evidence.ScoreCorrected, *evidence.ScoreAmended:
			a.Beside, out.Beside = append(a.Beside, Beside{e.Index, e.Time, b}), append(out.Beside, e.Receipt)
		}
	}
	return a, out
}
