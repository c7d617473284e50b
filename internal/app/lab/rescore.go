package lab

import (
	"cmp"
	"context"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/store"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/harness"
)

// RescoreOptions say whether new scores are recorded, and why.
type RescoreOptions struct {
	Reason string
	DryRun bool // show what would change and record nothing
	Live   bool // ask the judge for verdicts that are missing, failed or new
	// MaxCostMicroUSD bounds what that may cost; it is needed with Live.
	MaxCostMicroUSD int64
	Version         string // of the program
}

// A Rescored is an attempt under the graders of today.
type Rescored struct {
	Attempt string        `json:"attempt"`
	Graded  int           `json:"graded"`
	Changed []ScoreChange `json:"changed"`
	Not     []NotGraded   `json:"not_graded"`
	DryRun  bool          `json:"dry_run"`
	// Paid is what the judge cost, if it was asked live.
	Paid *history.Paid `json:"paid,omitempty"`
}

// A ScoreChange is a score that came out different.
type ScoreChange struct {
	Case   string   `json:"case"`
	Repeat int      `json:"repeat"`
	Entry  int64    `json:"entry"`
	Was    *float64 `json:"was"` // null if it was unscored
	Now    float64  `json:"now"`
	Passed bool     `json:"passed"`
	Fills  bool     `json:"fills,omitempty"`     // the record is unscored: gates use this score
	Amends int64    `json:"amendment,omitempty"` // index of the new entry

	score   evidence.Score
	grading *digest.Content
}

// A NotGraded is a case that was left as it is.
type NotGraded struct {
	Case string `json:"case"`
	Why  string `json:"why"`
}

// Rescore grades the stored trajectories of an attempt with the bench as it is
// now. Nothing is driven. Each score that comes out different becomes an
// amendment in the ledger, unless it is a dry run.
func Rescore(ctx context.Context, c *dossier.Corpus, original Original, o RescoreOptions) (*Rescored, error) {
	v, err := c.Bench(original.Class)
	if err != nil {
		return nil, c.Refused(err)
	}
	// Nothing is driven, so the target may be gone, or be one of the network.
	s := &Setup{Bench: v, Target: &agent.Target{Name: original.Target}, place: c, Spec: harness.Spec{Class: original.Class, Version: o.Version}.For(original.Target)}
	cfg, err := s.config()
	if err != nil {
		return nil, err
	}
	r := &rescoring{Rescored: Rescored{Attempt: original.ID, Changed: []ScoreChange{}, Not: []NotGraded{}, DryRun: o.DryRun}, s: s, o: o, blocked: s.blocked}
	if o.Live {
		asked, err := s.secondOpinion(ctx, cfg, original, o)
		if err != nil {
			return nil, err
		}
		cfg.Judge, r.blocked = asked, asked.blocked
		err = r.regrade(ctx, cfg, original)
		r.Paid = asked.spent()
		// The amendments are appended by who opens the ledger next.
		if err = cmp.Or(err, asked.close()); err != nil {
			return &r.Rescored, err
		}
	} else if err := r.regrade(ctx, cfg, original); err != nil {
		return &r.Rescored, err
	}
	if o.DryRun || len(r.Changed) == 0 {
		return &r.Rescored, nil
	}
	return &r.Rescored, r.amend(ctx, c, o.Reason)
}

// A rescoring is a rescore under way.
type rescoring struct {
	Rescored
	s       *Setup
	o       RescoreOptions
	blocked func(evidence.IntegrityEvent) error
}

// regrade grades what is stored, and keeps what was compared.
func (r *rescoring) regrade(ctx context.Context, cfg harness.Config, original Original) error {
	out, s := &r.Rescored, r.s
	stored, was := out.stored(original)
	crossed := s.unattempted()
	cfg.Crossed = crossed.write
	vault := store.OpenVault(store.OS{}, s.place.EvidenceDir())
	err := harness.Regrade(ctx, cfg, stored, func(x harness.Stored, g harness.Regraded) error {
		if err := crossed.add(g.Crossings, r.blocked); err != nil {
			return err
		}
		for _, piece := range g.Verdicts { // a draw is in the ledger, changed or not
			if _, err := vault.Put(piece); err != nil {
				return err
			}
		}
		if g.Record.Score == nil {
			out.Not = append(out.Not, NotGraded{x.CaseID, g.Record.Reason})
			return nil
		}
		out.Graded++
		change := changeOf(was[caseKey{x.CaseID, x.Repeat}], g.Record.Score)
		if change == nil {
			return nil
		}
		if !r.o.DryRun {
			name, err := vault.Put(g.Grading) // what was compared this time
			if err != nil {
				return err
			}
			for _, piece := range g.Vectors { // which it names
				if _, err := vault.Put(piece); err != nil {
					return err
				}
			}
			change.grading = &name
		}
		out.Changed = append(out.Changed, *change)
		return nil
	})
	if cerr := crossed.close(); err == nil {
		err = cerr
	}
	return err
}

// changeOf is what a score of today changes, nil if it is that of the record or
// of its last amendment.
func changeOf(c *history.Case, now *evidence.Score) *ScoreChange {
	score, passed, scored := c.Score, c.Outcome() == evidence.Passed, c.WasScored()
	if a := c.Amendment; a != nil {
		score, passed, scored = a.Score, a.Passed, true
	}
	if scored && score == now.Score && passed == now.Passed {
		return nil
	}
	change := &ScoreChange{Case: c.ID, Repeat: int(c.Repeat), Entry: c.Index, Now: now.Score, Passed: now.Passed, score: *now}
	if scored {
		change.Was = &score
	}
	change.Fills = c.Outcome() == evidence.Unscored
	return change
}

// stored lists what can be graded again, and notes the rest.
func (r *Rescored) stored(a Original) ([]harness.Stored, map[caseKey]*history.Case) {
	var stored []harness.Stored
	was := map[caseKey]*history.Case{}
	for c := range a.Cases() {
		if c.Index < 0 || !harness.Ended(c.Outcome()) {
			r.Not = append(r.Not, NotGraded{c.ID, "it was never graded: " + string(c.Outcome())})
			continue
		}
		files, err := history.FilesOf(c, a.Read)
		if err != nil {
			r.Not = append(r.Not, NotGraded{c.ID, err.Error()})
			continue
		}
		was[caseKey{c.ID, int(c.Repeat)}] = c
		stored = append(stored, harness.Stored{Attempt: a.ID, CaseID: c.ID, Repeat: int(c.Repeat), CostMicroUSD: c.Cost.MicroUSD, Files: *files, Read: a.Read})
	}
	return stored, was
}

// amend records the new scores beside the old ones.
func (r *Rescored) amend(ctx context.Context, c *dossier.Corpus, reason string) error {
	key, err := c.OperatorKey()
	if err != nil {
		return err
	}
	author, err := c.OperatorName(c.Options.Signers, key)
	if err != nil {
		return err
	}
	l, err := c.OpenLedger(ctx)
	if err != nil {
		return err
	}
	for i := range r.Changed {
		x := &r.Changed[i]
		pos, aerr := l.AppendRecord(evidence.ScoreAmendedKind, &evidence.ScoreAmended{Entry: x.Entry, Score: x.score, Author: author, Reason: reason, Grading: x.grading, Fills: x.Fills})
		if err = aerr; err != nil {
			break
		}
		x.Amends = pos.Index
	}
	if cerr := l.Close(); err == nil {
		err = cerr
	}
	return err
}
