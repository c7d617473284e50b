package dossier

import (
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
)

// noteAside remembers where the entries of an attempt are that a package proves and
// the history only counts, if they will be proved: draws of a judge, dispositions,
// corrections and amendments.
func (r *Reading) noteAside(rec ledger.Record) error {
	if r.asides == nil || rec.Envelope.Manual {
		return nil
	}
	switch rec.Envelope.Kind {
	case evidence.JudgeDrawnKind, evidence.AuditDisposedKind, evidence.ScoreCorrectedKind, evidence.ScoreAmendedKind:
	default:
		return nil
	}
	body, err := decoded(rec)
	if err != nil {
		return err
	}
	switch b := body.(type) {
	case *evidence.JudgeDrawn:
		r.asides[b.Attempt] = append(r.asides[b.Attempt], rec.Index)
	case *evidence.AuditDisposed:
		r.asides[b.Attempt] = append(r.asides[b.Attempt], rec.Index)
	case *evidence.ScoreCorrected:
		r.asides[b.Attempt] = append(r.asides[b.Attempt], rec.Index)
	case *evidence.ScoreAmended: // it names its record, and not the attempt
		r.amended[b.Entry] = append(r.amended[b.Entry], rec.Index)
	}
	return nil
}

// Entries lists the entries that are about the attempt. It needs [Ask].Prove.
func (d *Dossier) Entries() []int64 {
	a, r := d.Attempt, d.r
	indexes := []int64{a.Index}
	if a.Finished != nil {
		indexes = append(indexes, a.Finished.Index)
	}
	for _, other := range r.History.Attempts {
		if other.Class == a.Class && other != a {
			indexes = append(indexes, other.Index)
		}
	}
	for c := range a.Cases() {
		if c.Index >= 0 {
			indexes = append(append(indexes, c.Index), r.amended[c.Index]...)
		}
	}
	return append(indexes, r.asides[a.ID]...)
}
