package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tallystick/internal/app/lab"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
)

type rescoreOptions struct {
	attempt string
	reason  string
	dryRun  bool
	live    bool
	maxCost float64
}

func newRescore(env *Env) *cobra.Command {
	var o rescoreOptions
	cmd := &cobra.Command{
		Use:     "rescore ATTEMPT --reason TEXT",
		Short:   "Grade stored trajectories again with the bench as it is now",
		Example: `tally rescore latest --reason "the judge was down" --live`,
		Long: `Grade the stored trajectories of an attempt with the rubric and graders of today.
Nothing is run again. Each score that comes out different becomes an amendment in the
ledger, with your name and the reason, beside the original, which stays. An amendment may
lower a score and never raise it; that takes a signature: "tally review correct". A case that was
unscored, as after an outage of the judge, gets its first score, which scorecards and
gates use and promotion does not.

A verdict that is recorded, or in the signed cache, is used again. --live asks the judge for
the others: those that are missing, failed or belong to new criteria.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.attempt = args[0]
			return runRescore(cmd.Context(), env, o)
		},
	}
	cmd.Flags().StringVar(&o.reason, "reason", "", "why, in a sentence `TEXT`; it is recorded")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "show what would change and record nothing")
	cmd.Flags().BoolVar(&o.live, "live", false, "ask the judge for verdicts that are missing, failed or new; each is recorded before it is used")
	cmd.Flags().Float64Var(&o.maxCost, "max-cost", 0, "spend at most `USD` dollars on the judge")
	return cmd
}

func runRescore(ctx context.Context, env *Env, o rescoreOptions) error {
	if o.reason == "" && !o.dryRun {
		return refusal.Newf(refusal.Usage, "an amendment needs a reason").WithHint("give --reason, or look first with --dry-run")
	}
	switch {
	case o.live && o.dryRun:
		return refusal.Newf(refusal.Usage, "--dry-run records nothing, and what a judge is asked is always recorded").WithHint("leave out --live to see what is known without asking")
	case o.maxCost < 0 || o.maxCost > 0 && !o.live:
		return refusal.Newf(refusal.Usage, "--max-cost %v: expected more than 0, with --live", o.maxCost)
	}
	p, err := read(env, dossier.Ask{Want: func(a *history.Attempt) bool { return a.ID == o.attempt }})
	if err != nil {
		return err
	}
	attempt, err := p.Attempt(o.attempt)
	if err != nil {
		return err
	}
	c, err := p.Corpus()
	if err != nil {
		return err
	}
	defer c.Close()
	answer, err := lab.Rescore(ctx, c, lab.Original{Attempt: attempt.Attempt, Read: p.Piece}, lab.RescoreOptions{Reason: o.reason, DryRun: o.dryRun,
		Live: o.live, MaxCostMicroUSD: int64(o.maxCost * 1e6), Version: thisBuild().Harness()})
	if err != nil {
		return err
	}
	return env.Answer(answer, func(out io.Writer) { printRescored(out, answer) })
}

func printRescored(out io.Writer, a *lab.Rescored) {
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
	if p := a.Paid; p != nil {
		fmt.Fprintf(out, "the judge was asked for %s, %s\n", p.Cost(), plain.Plural(p.Calls+p.UnknownCalls, "call"))
	}
}
