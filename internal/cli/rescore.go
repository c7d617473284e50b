package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tallystick/internal/agent"
	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/harness"
	"tallystick/internal/plain"
	"tallystick/internal/refusal"
	"tallystick/internal/scorecard"
	"tallystick/internal/store"
)

type rescoreOptions struct {
	attempt string
	reason  string
	dryRun  bool
}

func newRescore(env *Env) *cobra.Command {
	var o rescoreOptions
	cmd := &cobra.Command{
		Use:   "rescore ATTEMPT --reason TEXT",
		Short: "Grade stored trajectories again with the bench as it is now",
		Long: `Grade the stored trajectories of an attempt with the rubric and graders of today.
Nothing is run again. Each score that comes out different becomes an amendment in the
ledger, with your name and the reason, beside the original, which stays. For promotion
an amendment may lower a score and never raise it.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.attempt = args[0]
			return runRescore(cmd.Context(), env, o)
		},
	}
	cmd.Flags().StringVar(&o.reason, "reason", "", "why, in a sentence; it is recorded")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "show what would change and record nothing")
	return cmd
}

type rescoreAnswer struct {
	Attempt string          `json:"attempt"`
	Graded  int             `json:"graded"`
	Changed []rescoreChange `json:"changed"`
	Not     []rescoreLeft   `json:"not_graded"`
	DryRun  bool            `json:"dry_run"`
}

type rescoreChange struct {
	Case   string   `json:"case"`
	Repeat int      `json:"repeat"`
	Entry  int64    `json:"entry"`
	Was    *float64 `json:"was"` // null if it was unscored
	Now    float64  `json:"now"`
	Passed bool     `json:"passed"`
	Amends int64    `json:"amendment,omitempty"` // index of the new entry

	score   evidence.Score
	grading *digest.Content
}

type rescoreLeft struct {
	Case string `json:"case"`
	Why  string `json:"why"`
}

func runRescore(ctx context.Context, env *Env, o rescoreOptions) error {
	if o.reason == "" && !o.dryRun {
		return refusal.Newf(refusal.Usage, "an amendment needs a reason").WithHint("give --reason, or look first with --dry-run")
	}
	p, err := env.readPast(func(a *scorecard.Attempt) bool { return a.ID == o.attempt })
	if err != nil {
		return err
	}
	attempt, err := p.attempt(o.attempt)
	if err != nil {
		return err
	}
	place, err := env.openCorpus()
	if err != nil {
		return err
	}
	defer place.Root.Close()
	v, err := place.Bench(attempt.Class)
	if err != nil {
		return place.Alarm(err)
	}
	// Nothing is driven, so the target may be gone, or be one of the network.
	r := &runner{env: env, o: runOptions{class: attempt.Class, repeat: 1}, place: place, bench: v, target: &agent.Target{Name: attempt.Target}, past: &harness.Past{}}
	answer := &rescoreAnswer{Attempt: attempt.ID, Changed: []rescoreChange{}, Not: []rescoreLeft{}, DryRun: o.dryRun}
	stored, was := p.storedCases(attempt, answer)
	cfg, err := r.rehearsal()
	if err != nil {
		return err
	}
	vault := store.OpenVault(store.OS{}, p.w.EvidenceDir())
	err = harness.Regrade(ctx, cfg, stored, func(s harness.Stored, g harness.Regraded) error {
		if g.Record.Score == nil {
			answer.Not = append(answer.Not, rescoreLeft{s.CaseID, g.Record.Reason})
			return nil
		}
		answer.Graded++
		change := changeOf(was[storedKey{s.CaseID, s.Repeat}], g.Record.Score)
		if change == nil {
			return nil
		}
		if !o.dryRun {
			name, err := vault.Put(g.Grading) // what was compared this time
			if err != nil {
				return err
			}
			change.grading = &name
		}
		answer.Changed = append(answer.Changed, *change)
		return nil
	})
	if err != nil {
		return err
	}
	if !o.dryRun && len(answer.Changed) > 0 {
		if err := r.amend(ctx, answer, o.reason); err != nil {
			return err
		}
	}
	return env.Answer(answer, answer.print)
}

// changeOf is what a score of today changes, nil if it is that of the record or
// of its last amendment.
func changeOf(c *scorecard.Case, now *evidence.Score) *rescoreChange {
	score, passed, scored := c.Score, c.Outcome() == evidence.Passed, c.IsScored()
	if a := c.Amendment; a != nil {
		score, passed, scored = a.Score, a.Passed, true
	}
	if scored && score == now.Score && passed == now.Passed {
		return nil
	}
	change := &rescoreChange{Case: c.ID, Repeat: int(c.Repeat), Entry: c.Index, Now: now.Score, Passed: now.Passed, score: *now}
	if scored {
		change.Was = &score
	}
	return change
}

type storedKey struct {
	id     string
	repeat int
}

// storedCases lists what can be graded again; the answer gets the rest.
func (p *pastReading) storedCases(a *scorecard.Attempt, answer *rescoreAnswer) ([]harness.Stored, map[storedKey]*scorecard.Case) {
	var stored []harness.Stored
	was := map[storedKey]*scorecard.Case{}
	for c := range a.Cases() {
		if c.Index < 0 || !harness.Ended(c.Outcome()) {
			answer.Not = append(answer.Not, rescoreLeft{c.ID, "it was never graded: " + string(c.Outcome())})
			continue
		}
		files, err := scorecard.FilesOf(c, p.read)
		if err != nil {
			answer.Not = append(answer.Not, rescoreLeft{c.ID, err.Error()})
			continue
		}
		was[storedKey{c.ID, int(c.Repeat)}] = c
		stored = append(stored, harness.Stored{CaseID: c.ID, Repeat: int(c.Repeat), CostMicroUSD: c.CostMicro, Files: *files, Read: p.read})
	}
	return stored, was
}

// amend records the new scores beside the old ones.
func (r *runner) amend(ctx context.Context, a *rescoreAnswer, reason string) error {
	key, err := r.place.OperatorKey()
	if err != nil {
		return err
	}
	author, err := r.place.OperatorName(r.place.Options.Signers, key)
	if err != nil {
		return err
	}
	l, err := r.place.OpenLedger(ctx)
	if err != nil {
		return err
	}
	for i := range a.Changed {
		c := &a.Changed[i]
		pos, aerr := l.AppendRecord(evidence.ScoreAmendedKind, &evidence.ScoreAmended{Entry: c.Entry, Score: c.score, Author: author, Reason: reason, Grading: c.grading})
		if err = aerr; err != nil {
			break
		}
		c.Amends = pos.Index
	}
	if cerr := l.Close(); err == nil {
		err = cerr
	}
	return err
}

func (a *rescoreAnswer) print(out io.Writer) {
	for _, c := range a.Changed {
		was := "unscored"
		if c.Was != nil {
			was = fmt.Sprint(*c.Was)
		}
		fmt.Fprintf(out, "%s: %s, now %v (entry %d)\n", plain.Line(c.Case), was, c.Now, c.Entry)
	}
	for _, n := range a.Not {
		fmt.Fprintf(out, "%s: not graded again: %s\n", plain.Line(n.Case), plain.Line(n.Why))
	}
	what := "recorded as amendments"
	if a.DryRun {
		what = "would change"
	}
	fmt.Fprintf(out, "%d cases graded again, %d %s\n", a.Graded, len(a.Changed), what)
}
