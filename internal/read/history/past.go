package history

import (
	"errors"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
)

// A Past is what a history counted in entries that are not shown to the next Reader of
// the same ledger: the records of cases, of which there are millions, and what was
// appended by hand.
type Past struct {
	Entries  int64     `json:"entries"`
	Manual   int64     `json:"manual"`
	Orphans  int64     `json:"orphans"`
	Attempts []Counted `json:"attempts"`
}

// A Counted is what was counted of the cases of an attempt.
type Counted struct {
	Attempt      string `json:"attempt"`
	Executions   int    `json:"executions"`
	Records      int    `json:"records"`
	Passed       int    `json:"passed"`
	FirstStarted int64  `json:"first_started"`
	Last         int64  `json:"last"`
}

// Past gives what a later Reader is told in place of the records.
func (h *History) Past() Past {
	p := Past{Entries: h.Entries, Manual: h.Manual, Orphans: h.Orphans}
	for _, a := range h.Attempts {
		if a.Executions > 0 || a.Records > 0 {
			p.Attempts = append(p.Attempts, Counted{a.ID, a.Executions, a.Records, a.Passed, a.FirstStarted, a.last})
		}
	}
	return p
}

// InPast reports whether a Reader that is told of a [Past] must be shown the entries of
// this kind besides: all that a history reads, but for the records of cases.
func InPast(kind evidence.Kind) bool {
	return kind.InHistory() && kind != evidence.CaseStartedKind && kind != evidence.CaseScoredKind
}

// Resume makes the Reader know the entries before the first that it will be shown: those
// that [InPast] asks for, in order, and the counts of the others. The attempts whose
// records are kept must not be among them.
func (r *Reader) Resume(p Past, shown []ledger.Record) error {
	for _, rec := range shown {
		if err := r.visit(rec); err != nil {
			return err
		}
	}
	h := r.history
	for _, c := range p.Attempts {
		a := h.byID[c.Attempt]
		if a == nil || a.Kept {
			return errors.New("resuming the history: the records of attempt " + c.Attempt + " are needed, and only their number is known")
		}
		a.Executions, a.Records, a.Passed, a.FirstStarted, a.last = c.Executions, c.Records, c.Passed, c.FirstStarted, max(a.last, c.Last)
	}
	h.Manual, h.Orphans, r.seen = p.Manual, p.Orphans, p.Entries
	return nil
}
