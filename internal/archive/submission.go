package archive

import (
	"slices"

	"tallystick/internal/canon"
	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/history"
	"tallystick/internal/ledger"
	"tallystick/internal/refusal"
	"tallystick/internal/submission"
)

// Submission gathers what a package of an attempt is derived from, and the
// receipts of it. It needs [Ask].Prove. What the target is, the caller adds.
func (r *Reading) Submission(a *history.Attempt) (*submission.Attempt, *submission.Receipts, error) {
	if a.Finished == nil {
		return nil, nil, refusal.Newf(refusal.NotSubmittable, "attempt %s has not finished", a.ID).
			WithHint(`finish it with "tally run %s --target %s --resume"`, a.Class, a.Target)
	}
	s, receipts, err := r.gather(a)
	if err != nil {
		return nil, nil, err
	}
	for c := range a.Cases() {
		if s.Withheld[c.ID] {
			return nil, nil, heldOutSubmission(a.ID, c.ID)
		}
	}
	s.Registration, err = r.registrationOf(a)
	return s, receipts, err
}

// Audited is what [Reading.Submission] gathers, for an audit: also of an attempt
// that has not finished, that has held-out cases, which are then not shown, or
// whose registration has changed since.
func (r *Reading) Audited(a *history.Attempt) (*submission.Attempt, error) {
	s, _, err := r.gather(a)
	if err != nil {
		return nil, err
	}
	if s.Registration, err = r.registrationOf(a); err != nil {
		r.Note("the registration of attempt %s is not at hand (%v); the audit is not complete", a.ID, err)
		s.Registration = nil
	}
	return s, nil
}

// gather reads the entries of an attempt, with receipts.
func (r *Reading) gather(a *history.Attempt) (*submission.Attempt, *submission.Receipts, error) {
	s := &submission.Attempt{Origin: r.History.Origin, Level: a.Level.String(), Read: r.Piece, Withheld: map[string]bool{}}
	if a.Level > history.Signed {
		s.Level = history.Signed.String() // more than that a package does not prove
	}
	ends, class, records, err := r.entriesOf(a, s)
	if err != nil {
		return nil, nil, err
	}
	all := slices.Concat(ends, class, records)
	proofs, _, err := r.Prove(all...)
	if err != nil {
		return nil, nil, err
	}
	if s.Registered, err = bodyOf[*evidence.AttemptRegistered](a.Index, proofs[a.Index].Entry); err != nil {
		return nil, nil, err
	}
	out := &submission.Receipts{Registered: whole(proofs[a.Index])}
	if a.Finished != nil {
		envelope, body, err := evidence.DecodeEntry(proofs[a.Finished.Index].Raw)
		if err != nil {
			return nil, nil, err
		}
		s.Finished, s.FinishedAt = body.(*evidence.AttemptFinished), envelope.Time
		out.Finished = whole(proofs[a.Finished.Index])
	}
	for _, i := range class {
		other, err := bodyOf[*evidence.AttemptRegistered](i, proofs[i].Entry)
		if err != nil {
			return nil, nil, err
		}
		s.Class, out.Class = append(s.Class, other), append(out.Class, whole(proofs[i]))
	}
	for _, i := range records {
		rec, err := bodyOf[*evidence.CaseScored](i, proofs[i].Entry)
		if err != nil {
			return nil, nil, err
		}
		s.Records, out.Records = append(s.Records, submission.Record{Entry: i, CaseScored: rec}), append(out.Records, whole(proofs[i]))
	}
	head, _ := r.BestCheckpoint(r.verified, slices.Max(all))
	s.TreeSize = head.Size
	return s, out, nil
}

// entriesOf lists the entries that matter, and notes which tasks are held out.
func (r *Reading) entriesOf(a *history.Attempt, s *submission.Attempt) (ends, class, records []int64, err error) {
	ends = []int64{a.Index}
	if a.Finished != nil {
		ends = append(ends, a.Finished.Index)
	}
	for _, other := range r.History.Attempts {
		if other.Class == a.Class {
			class = append(class, other.Index)
		}
	}
	for c := range a.Cases() {
		if c.Index >= 0 {
			records = append(records, c.Index)
		}
		held, err := r.isHeldOut(a, c)
		if err != nil {
			return nil, nil, nil, err
		}
		if held && !r.ask.ShowHeldOut {
			s.Withheld[c.ID] = true
		}
	}
	slices.Sort(class)
	slices.Sort(records)
	return ends, class, records, nil
}

// whole is a receipt with its entry, however long.
func whole(p Proof) *ledger.Receipt {
	x := p.Receipt()
	x.Entry = p.Raw
	return x
}

func heldOutSubmission(attempt, id string) error {
	return refusal.Newf(refusal.NotSubmittable, "attempt %s: case %s is held out, and a package shows question and answer", attempt, id).
		WithHint("ask for it with --show-held-out, if it may leave the workspace")
}

// registrationOf is the registration that an attempt was planned with, in
// canonical JSON.
func (r *Reading) registrationOf(a *history.Attempt) ([]byte, error) {
	if data, ok := r.Content(a.Plan.RegistrationDigest); ok {
		return data, nil // of an attempt that was recorded for a submission
	}
	v, err := r.bench(a.Class)
	if err != nil {
		return nil, err
	}
	data, err := canon.Marshal(v.Registration())
	if err != nil {
		return nil, err
	}
	if got := digest.ContentOf(data); got != a.Plan.RegistrationDigest {
		return nil, refusal.Newf(refusal.NotFound, "class %s: the registration is %s now, the attempt was planned with %s", a.Class, got, a.Plan.RegistrationDigest).
			WithHint("check out the bench as it was when the attempt was registered")
	}
	return data, nil
}
