package outgoing

import (
	"slices"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/share/submission"
)

// Submission gathers what a package of an attempt is derived from, and the
// receipts of it. It needs [dossier.Ask].Prove. What the target is, the caller adds.
func Submission(a *dossier.Public, since Since) (*submission.Source, *submission.Receipts, error) {
	if a.Finished == nil {
		return nil, nil, refusal.Newf(refusal.NotSubmittable, "attempt %s has not finished", a.ID).
			WithHint(`finish it with "tally run %s --target %s --resume"`, a.Class, a.Target)
	}
	if err := scorecard.RequireAnswered(a.Attempt); err != nil {
		return nil, nil, err
	}
	s, receipts, err := gather(a, since)
	if err != nil {
		return nil, nil, err
	}
	for c := range a.Cases() {
		if s.Withheld[c.ID] {
			return nil, nil, heldOutSubmission(a.ID, c.ID)
		}
	}
	s.Registration, err = a.Registration()
	return s, receipts, err
}

// Audited is what [Submission] gathers, for an audit: also of an attempt
// that has not finished, that has held-out cases, or whose registration has changed
// since. The audit stays here and reads held-out cases too, of which it then tells
// only what became of them: see [submission.Source].Withheld.
func Audited(a *dossier.Dossier) (*submission.Source, error) {
	public := a.Public()
	s, _, err := gather(public, SinceNothing)
	if err != nil {
		return nil, err
	}
	s.Read = a.Reading().Piece
	if s.Registration, err = public.Registration(); err != nil {
		a.Reading().Note("the registration of attempt %s is not at hand (%v); the audit is not complete", a.ID, err)
		s.Registration = nil
	}
	return s, nil
}

// maxRest bounds the entries since the registration that a package shows besides
// those of the attempt.
const maxRest = 20_000

// maxRestEntry bounds one of them: a receipt must stay readable.
const maxRestEntry = 32 << 10

// Since says which entries since the registration are shown besides those of the
// attempt, so that a reader need not take it on trust that there were no others.
type Since string

// What is shown: nothing; all, if they are of the class or the ledger's own; all.
const (
	SinceNothing Since = ""
	SinceOwn     Since = "own"
	SinceAll     Since = "all"
)

// gather reads the entries of an attempt, with receipts.
func gather(a *dossier.Public, since Since) (*submission.Source, *submission.Receipts, error) {
	indexes := a.Entries()
	size := a.TreeSize(slices.Max(indexes))
	rest, shown, err := entriesSince(a, indexes, size, since)
	if err != nil {
		return nil, nil, err
	}
	indexes = append(indexes, rest...)
	slices.Sort(indexes)
	proofs, _, err := a.Prove(indexes...)
	if err != nil {
		return nil, nil, err
	}
	var entries []submission.Entry
	for _, i := range slices.Compact(indexes) {
		envelope, body, err := evidence.DecodeEntry(proofs[i].Raw)
		if err != nil {
			return nil, nil, err
		}
		entries = append(entries, submission.Entry{Entry: envelope, Index: i, Body: body, Receipt: wholeReceipt(proofs[i])})
	}
	s, out := submission.Gather(a.ID, a.Class, entries)
	s.Origin, s.TreeSize, s.Exact, s.Whole, s.Read = a.History().Origin, size, shown >= untilRegistration, shown == everything, a.Piece
	s.Level = min(a.Level, history.Signed).String() // more than that a package does not prove
	for c := range a.Cases() {
		if a.Withholds(c) {
			s.Withheld[c.ID] = true
		}
	}
	return s, out, nil
}

// How much of a tree is shown: what is told, all from the registration on, all.
type extent int

const (
	told extent = iota
	untilRegistration
	everything
)

// entriesSince lists the other entries of a tree that are shown: all of them, those from
// the registration on, or none.
func entriesSince(a *dossier.Public, have []int64, size int64, since Since) (rest []int64, shown extent, err error) {
	if since == SinceAll {
		if rest, ok, err := others(a, have, 0, size, since); ok || err != nil {
			return rest, everything, err
		}
	}
	rest, ok, err := others(a, have, a.Index, size, since)
	if !ok || err != nil {
		return nil, told, err
	}
	return rest, untilRegistration, nil
}

// others lists the entries of a stretch of the tree that are not among those that
// are there, and reports whether all of them may be shown.
func others(a *dossier.Public, have []int64, from, size int64, since Since) (rest []int64, ok bool, err error) {
	known := map[int64]bool{}
	for _, i := range have {
		known[i] = true
	}
	for i := from; i < size; i++ {
		if !known[i] {
			rest = append(rest, i)
		}
	}
	if since == SinceNothing || len(rest) > maxRest {
		return nil, false, nil
	}
	entries, err := a.EntriesAgain(rest...)
	if err != nil {
		return nil, false, err
	}
	for _, e := range entries {
		_, body, err := evidence.DecodeEntry(e.Raw)
		if err != nil {
			return nil, false, err
		}
		if len(e.Raw) > maxRestEntry || since == SinceOwn && !ofClass(a.History(), body, a.Class) {
			return nil, false, nil
		}
	}
	return rest, true, nil
}

// ofClass reports whether an entry tells a stranger nothing of other classes.
func ofClass(h *history.History, body evidence.Body, class string) bool {
	attempt := ""
	switch b := body.(type) {
	case *evidence.AnchorPublished, *evidence.KeyPublished, *evidence.SignersChanged:
		return true
	case *evidence.CaseStarted:
		attempt = b.Attempt
	case *evidence.CaseScored:
		attempt = b.Attempt
	case *evidence.AttemptFinished:
		attempt = b.Attempt
	case *evidence.JudgeDrawn:
		attempt = b.Attempt
	case *evidence.AuditDisposed:
		attempt = b.Attempt
	case *evidence.ScoreCorrected:
		attempt = b.Attempt
	case *evidence.ScoreAmended:
		attempt = attemptOfRecord(h, b.Entry)
	case *evidence.CassetteRecorded:
		return b.Class == class
	}
	other := h.Attempt(attempt)
	return other != nil && other.Class == class
}

// attemptOfRecord is the attempt that a record is of, "" if the entry is not one.
func attemptOfRecord(h *history.History, record int64) string {
	for _, a := range h.Attempts {
		for c := range a.Cases() {
			if c.Index == record {
				return a.ID
			}
		}
	}
	return ""
}

// wholeReceipt is a receipt with its entry, however long.
func wholeReceipt(p dossier.Proof) *ledger.Receipt {
	x := p.Receipt()
	x.Entry = p.Raw
	return x
}

func heldOutSubmission(attempt, id string) error {
	return refusal.Newf(refusal.NotSubmittable, "attempt %s: case %s is held out, and a package shows question and answer", attempt, id).
		WithHint("ask for it with --show-held-out, if it may leave the workspace")
}
