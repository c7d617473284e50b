package lab

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"tallystick/internal/app/spend"
	"tallystick/internal/read/dossier"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/judge"
	"tallystick/internal/run/scenario"
)

// A WatchedQuestion says that cases of a target ask something new, and what that would
// cost.
type WatchedQuestion struct {
	Target string   `json:"target"`
	Cases  []string `json:"cases"`
	Text   string   `json:"text"`
	Why    string   `json:"why,omitempty"` // it was not asked
}

// askMissing asks models exactly what is missing, if this user permitted it for the workspace.
// Every reply is in the library, with its entry in the ledger, before an agent has it.
// A change of a file does not stop it: what is sent is paid, and must not be lost.
func (r *round) askMissing(ctx context.Context, cases []*scenario.Task) error {
	var missing []string
	for _, c := range cases {
		for repeat := 1; repeat <= max(1, r.s.Spec.Repeat); repeat++ {
			if r.w.cells[r.key(c, repeat)].Unanswered {
				missing = append(missing, c.ID)
				break
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	m := r.s.Missing(missing, nil, r.w.Command, false)
	q := WatchedQuestion{Target: r.s.Target.Name, Cases: missing,
		Text: fmt.Sprintf("%d of %s ask something new: %q would pay %s", len(missing), plain.Plural(len(cases), "case"), m.Command, m.Estimate)}
	permission, err := r.s.Permit()
	if err != nil {
		return err
	}
	if q.Why = permission.Why; q.Why == "" {
		err := r.pay(ctx, permission, missing, len(cases))
		if err != nil && !refusal.Is(err, refusal.NotAnswered) {
			return err
		}
		if err != nil {
			q.Why = err.Error()
		}
	}
	if q.Why != "" {
		r.out.Questions = append(r.out.Questions, q)
	}
	return nil
}

// pay drives the cases again with models behind them.
func (r *round) pay(ctx context.Context, permission *Permission, missing []string, of int) error {
	paying := *r.s
	paying.Under(permission)
	past := &harness.Past{}
	ledger, err := paying.place.Config()
	if err != nil {
		return err
	}
	ledger.Visit = past.Visit
	l, err := paying.place.OpenWith(ctx, ledger, dossier.LockWait)
	if err != nil {
		return err
	}
	err = r.payOn(ctx, &paying, &draws{ledger: &book{l, &paying}, past: past}, missing, of)
	if cerr := l.Close(); err == nil {
		err = cerr
	}
	return err
}

func (r *round) payOn(ctx context.Context, s *Setup, drawn *draws, missing []string, of int) error {
	cfg, err := s.config()
	if err != nil {
		return err
	}
	live, err := s.goLive(&cfg, drawn)
	if err != nil {
		return err
	}
	defer live.access.Close()
	if cfg.Judge != nil {
		// As in a recording: a verdict belongs to no attempt here, and its replies are
		// kept with the others.
		if cfg.Judge, err = s.judge(judge.Record, nil, nil); err != nil {
			return err
		}
	}
	if err := live.Ahead(missing, of); err != nil {
		return err
	}
	cfg.Select = func(c *scenario.Task) bool { return slices.Contains(missing, c.ID) }
	cfg.Rank = func(id string) int { return r.ranks[id] }
	crossed := s.unattempted()
	cfg.Crossed = crossed.write
	resume := r.w.files.ignore(repliesDir)
	defer func() {
		resume()
		r.w.library.note(r.w.files.below(repliesDir))
		for _, c := range r.w.cells {
			if c.Unanswered && slices.Contains(missing, c.Case) {
				c.replies = r.w.library.state(true)
			}
		}
	}()
	err = harness.Rehearse(ctx, cfg, func(g *harness.Graded) error {
		if err := crossed.add(g.Crossings, onlyListed); err != nil {
			return err
		}
		r.drive[g.Case.ID] = true
		return r.drove(g)
	})
	if cerr := crossed.close(); err == nil {
		err = cerr
	}
	return err
}

// spentToday is what this user's permissions for the workspace have paid today.
func spentToday(p *dossier.Place) (microUSD, calls int64, err error) {
	given, err := spend.Given(p.Getenv, p.Now)
	if err != nil {
		return 0, 0, err
	}
	dir, err := filepath.EvalSymlinks(p.Dir)
	if err != nil {
		return 0, 0, refusal.Newf(refusal.Unreadable, "the folder of the workspace: %w", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return 0, 0, err
	}
	for _, g := range given {
		if g.Subject.Workspace == dir {
			microUSD, calls = microUSD+g.Spent, calls+g.Calls
		}
	}
	return microUSD, calls, nil
}
