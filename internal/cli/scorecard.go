package cli

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/refusal"
)

type scorecardOptions struct {
	attempts   []string
	class      string
	target     string
	since      string
	last       bool
	noEvidence bool
	failed     bool
}

func newScorecard(env *Env) *cobra.Command {
	var o scorecardOptions
	cmd := &cobra.Command{
		Use:     "scorecard [ATTEMPT...]",
		Short:   "Totals, intervals and the acceptance verdict over verified records",
		Example: "tally scorecard latest --failed",
		Long: `Count what the ledger says about attempts, after verifying it: tasks, solve rate with
its interval, violations, cost, latency, retries, evidence, and whether the criteria of
acceptance are met. Without ATTEMPT it is about every attempt but scratch ones; of
several classes or targets it shows where each stands with its newest finished attempt,
because totals over all of them would be of nothing.

Every planned case is in the denominator: what was not run has failed. A repetition
counts once, by its first record. Other attempts of the same class and target are listed
too, so that "the best of seven" is visible. Formulas: docs/formats/scorecard.md.

Evidence of solved cases is read and hashed; --no-evidence leaves that out, and then the
acceptance criteria cannot be met.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.attempts = args
			return runScorecard(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.class, "class", "", "only attempts of this task `CLASS`")
	f.StringVar(&o.target, "target", "", "only attempts of the target `NAME`")
	f.StringVar(&o.since, "since", "", "only attempts registered since `WHEN`: days ago (90d) or a date")
	f.BoolVar(&o.last, "last", false, "only the newest attempt of those")
	f.BoolVar(&o.noEvidence, "no-evidence", false, "do not read the evidence; its coverage is then not known")
	f.BoolVar(&o.failed, "failed", false, "list every task that was not solved")
	cmd.AddCommand(newCurve(env), newPower(env))
	return cmd
}

func runScorecard(_ context.Context, env *Env, o scorecardOptions) error {
	if len(o.attempts) > 0 && (o.class != "" || o.target != "" || o.since != "" || o.last) {
		return refusal.Newf(refusal.Usage, "attempts are named, and --class, --target, --since and --last choose among all").
			WithHint("give one or the other")
	}
	since, err := parseSince(o.since, env.Now())
	if err != nil {
		return err
	}
	p, err := read(env, dossier.Ask{Want: func(a *history.Attempt) bool {
		if len(o.attempts) > 0 {
			return slices.Contains(o.attempts, a.ID)
		}
		return (o.class == "" || a.Class == o.class) && (o.target == "" || a.Target == o.target) && !a.Time.Go().Before(since)
	}})
	if err != nil {
		return err
	}
	chosen, err := o.choose(p)
	if err != nil {
		return err
	}
	for _, a := range chosen {
		if err := scorecard.RequireAnswered(a); err != nil {
			return err
		}
	}
	view := scorecard.View{Attempts: chosen}
	if !o.noEvidence {
		rows := p.ForDisplay()
		defer rows.Close()
		view.Evidence = make(map[*history.Attempt]scorecard.Evidence)
		for _, a := range chosen {
			if view.Evidence[a], err = rows.Dossier(a); err != nil {
				return p.Refused(err)
			}
		}
	}
	card, err := scorecard.Of(p.History, view)
	if err != nil {
		return p.Refused(err)
	}
	answer := scorecard.Answer{Card: card}
	if o.failed {
		answer.FailedCases = scorecard.FailedCases(chosen)
	}
	if groups := scorecard.ByClassTarget(chosen); len(o.attempts) == 0 && len(groups) > 1 {
		answer.Groups = groups
	}
	return env.Answer(answer, answer.Print)
}

// choose returns the attempts that the card is about.
func (o *scorecardOptions) choose(p *dossier.Reading) ([]*history.Attempt, error) {
	var chosen []*history.Attempt
	for _, id := range o.attempts {
		a, err := p.Attempt(id)
		if err != nil {
			return nil, err
		}
		if slices.Contains(chosen, a.Attempt) {
			return nil, refusal.Newf(refusal.Usage, "%s is named twice", id).WithHint("an attempt counts once")
		}
		chosen = append(chosen, a.Attempt)
	}
	if len(o.attempts) > 0 {
		return chosen, nil
	}
	var scratch []*history.Attempt
	for _, a := range p.History.Attempts {
		switch {
		case !a.Kept || a.Unanswered() > 0: // what has no score is not in a total
		case a.Level == history.Scratch:
			scratch = append(scratch, a)
		default:
			chosen = append(chosen, a)
		}
	}
	if len(chosen) == 0 {
		chosen = scratch // better than nothing, and labelled
	}
	if len(chosen) == 0 {
		return nil, refusal.Newf(refusal.NotFound, "the ledger %s has no such attempt", p.History.Origin).
			WithHint(`"tally run CLASS" makes one`)
	}
	if o.last {
		chosen = chosen[len(chosen)-1:]
	}
	return chosen, nil
}

// parseSince reads a point in time as days ago (90d) or a date.
func parseSince(since string, now time.Time) (time.Time, error) {
	if since == "" {
		return time.Time{}, nil
	}
	if days, ok := strings.CutSuffix(since, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n <= 100_000 {
			return now.AddDate(0, 0, -n), nil
		}
	}
	if day, err := time.Parse(time.DateOnly, since); err == nil {
		return day, nil
	}
	return time.Time{}, refusal.Newf(refusal.Usage, "--since %q is neither days as in 90d, nor a date as in 2026-05-01", since)
}
