package lab

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/journal"
	"tallystick/internal/run/judge"
	"tallystick/internal/run/provider"
)

// A secondOpinion is the judge of a live rescore: a verdict that the recording or
// the signed cache has is used, and a model is asked for what is missing, failed
// or belongs to new criteria. Each draw is in the ledger before it is used.
type secondOpinion struct {
	s      *Setup
	kept   harness.Judge // from the recording and the cache
	asked  harness.Judge // live
	access *provider.Access
	budget *provider.Budget
	paid   *journal.Journal
	before evidence.Paid // by earlier rescores of the attempt
	ledger *sequencer.Ledger
}

// secondOpinion opens the ledger for draws, and the journal of what they cost. The
// caller closes it. It is nil if no case of the class needs a judge.
func (s *Setup) secondOpinion(ctx context.Context, cfg harness.Config, original Original, o RescoreOptions) (*secondOpinion, error) {
	if o.MaxCostMicroUSD == 0 {
		return nil, refusal.Newf(refusal.Usage, "--live costs money and there is no limit").WithHint("say with --max-cost how many dollars may be spent")
	}
	access, err := s.access()
	if err != nil {
		return nil, err
	}
	asked, err := harness.ModelsAskedBy(cfg)
	if err != nil {
		return nil, err
	}
	settings, err := s.judgeNeeded(asked, access)
	if err != nil {
		return nil, err
	}
	if settings == nil {
		return nil, refusal.Newf(refusal.NotFound, "no case of class %s is graded by a judge, so there is no judge to ask", s.Bench.Class()).
			WithHint("leave --live out: everything else is graded again without it")
	}
	if err := s.needJudgeKey(); err != nil {
		return nil, err
	}
	j := &secondOpinion{s: s, access: access, budget: provider.NewBudget(o.MaxCostMicroUSD)}
	past := &harness.Past{}
	books, err := s.place.Config()
	if err != nil {
		return nil, err
	}
	books.Visit = past.Visit
	if j.ledger, err = s.place.OpenWith(ctx, books, dossier.LockWait); err != nil {
		return nil, err
	}
	if err := j.open(original, &draws{ledger: &book{j.ledger, s}, past: past}); err != nil {
		j.close()
		return nil, err
	}
	return j, nil
}

// open makes the two judges and the journal. What a rescore pays is not part of
// what the attempt paid, so it has a journal of its own beside that one.
func (j *secondOpinion) open(original Original, draws *draws) (err error) {
	if j.kept, err = j.s.judge(judge.Replay, draws, nil); err != nil {
		return err
	}
	if j.asked, err = j.s.judge(judge.Live, draws, j.access); err != nil {
		return err
	}
	owner := journal.Owner{Attempt: original.ID, Origin: j.s.place.Settings.Origin, Registered: digest.ContentOf([]byte(original.Head.String()))}
	j.paid, err = journal.Open(store.OS{}, filepath.Join(j.s.place.Private("runs"), original.ID, "rescore"), owner, false, j.s.place.Now)
	if err == nil {
		j.before = j.paid.Paid()
	}
	return err
}

// spent is what the judge cost until now.
func (j *secondOpinion) spent() *history.Paid {
	p := j.paid.Paid()
	p.Calls -= j.before.Calls
	p.CostMicroUSD -= j.before.CostMicroUSD
	p.Refused -= j.before.Refused
	p.Unknown -= j.before.Unknown
	p.UnknownMicroUSD -= j.before.UnknownMicroUSD
	return history.PaidOf(&p)
}

func (j *secondOpinion) close() error {
	j.access.Close()
	if j.paid != nil {
		j.paid.Close()
	}
	return j.ledger.Close()
}

// Knows refuses the name of a judge that judge.yaml does not have.
func (j *secondOpinion) Knows(name string) error { return j.kept.Knows(name) }

// Models are those of the judge.
func (j *secondOpinion) Models() []string { return j.kept.Models() }

// Texts are those of the judge.
func (j *secondOpinion) Texts() digest.Content { return j.kept.Texts() }

// Digest names the settings of the judge.
func (j *secondOpinion) Digest() digest.Content { return j.asked.Digest() }

// Ask asks a model if none was asked, or if that failed.
func (j *secondOpinion) Ask(ctx context.Context, q harness.Judging) (harness.Judged, error) {
	kept, err := j.kept.Ask(ctx, q)
	if err != nil || kept.Unscored == "" {
		return kept, err
	}
	judged, err := j.draw(ctx, q)
	if refusal.Is(err, refusal.JournalDiffers) {
		// Another question than the one that was cut off: nothing of that fits it.
		judged, err = j.draw(ctx, q)
	}
	return judged, err
}

// draw asks the model for one verdict, which is an execution of its own in the
// journal. One that was cut off is resumed with the votes that were paid for; one
// that came to its end, well or not, is never answered from there again.
func (j *secondOpinion) draw(ctx context.Context, q harness.Judging) (harness.Judged, error) {
	o := j.s.caseOptions(q.Case, j.budget)
	var err error
	if o.Journal, err = j.paid.Case(j.paid.Next(q.Case.ID, 1)); err != nil {
		return harness.Judged{}, err
	}
	// What the judge said before did not do: nothing is answered from the library.
	j.s.librarian(j.access.Settings.At, entering(j.ledger)).lend(&o, q.Case, 0)
	live, err := j.access.Case(o)
	if err != nil {
		return harness.Judged{}, err
	}
	q.Models = live.Judges
	judged, err := j.asked.Ask(ctx, q)
	if err == nil {
		err = o.Journal.Equalled(journal.Judge)
	}
	switch {
	case refusal.Is(err, refusal.JournalDiffers):
		return harness.Judged{}, cmp.Or(o.Journal.GiveUp(err.Error()), err)
	case err != nil:
		return harness.Judged{}, err
	}
	return judged, o.Journal.PutAway()
}

// blocked records what blocked, in the ledger that is open.
func (j *secondOpinion) blocked(e evidence.IntegrityEvent) error {
	if _, err := j.ledger.AppendRecord(evidence.IntegrityEventKind, &e); err != nil {
		return fmt.Errorf("recording what blocked: %w", err)
	}
	return nil
}
