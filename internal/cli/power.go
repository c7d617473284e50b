package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/refusal"
)

type powerOptions struct {
	attempts []string
	detect   float64
}

func newPower(env *Env) *cobra.Command {
	var o powerOptions
	cmd := &cobra.Command{
		Use:     "power ATTEMPT...",
		Short:   "What attempts can show: spread, smallest difference, trend, budget",
		Example: "tally scorecard power latest~1 latest --detect 0.05",
		Long: `Say how much the scores of attempts can prove:

  spread      how much of the variance lies between cases, and how much between
              repetitions of one case (needs --repeat)
  detectable  the smallest difference in solve rates that a comparison on these cases
              finds four times out of five; --detect D asks how many cases D would need
  trend       how the scores of the same cases change from one attempt to the next, in
              the order given (three attempts or more)
  pairs       each two attempts, with p values corrected for there being several (Holm)
  budget      the share of tasks solved within an amount of money, tokens and time

How often two attempts disagree is taken from the attempts given; from one attempt, from
its repetitions; without any, cases are taken to be alike, and the answer says so.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.attempts = args
			return runPower(cmd.Context(), env, o)
		},
	}
	cmd.Flags().Float64Var(&o.detect, "detect", 0, "say how many cases show a `DIFFERENCE` in solve rates, such as 0.05")
	return cmd
}

func runPower(_ context.Context, env *Env, o powerOptions) error {
	if o.detect < 0 || o.detect > 1 {
		return refusal.Newf(refusal.Usage, "--detect %v: expected a difference of two rates, over 0 and up to 1", o.detect)
	}
	if len(o.attempts) > scorecard.MaxPaired {
		return refusal.Newf(refusal.Usage, "%d attempts: at most %d are compared with each other", len(o.attempts), scorecard.MaxPaired)
	}
	p, err := read(env, dossier.Ask{Want: func(a *history.Attempt) bool { return slices.Contains(o.attempts, a.ID) }})
	if err != nil {
		return err
	}
	var attempts []*history.Attempt
	for i, id := range o.attempts {
		if slices.Contains(o.attempts[:i], id) {
			return refusal.Newf(refusal.Usage, "%s is named twice", id)
		}
		a, err := p.Attempt(id)
		if err != nil {
			return err
		}
		attempts = append(attempts, a.Attempt)
	}
	power, err := scorecard.PowerOf(attempts, o.detect)
	if err != nil {
		return err
	}
	return env.Answer(power, power.Print)
}
