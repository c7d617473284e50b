package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"tallystick/internal/archive"
	"tallystick/internal/history"
	"tallystick/internal/refusal"
	"tallystick/internal/scorecard"
)

type powerOptions struct {
	attempts []string
	detect   float64
}

func newPower(env *Env) *cobra.Command {
	var o powerOptions
	cmd := &cobra.Command{
		Use:   "power ATTEMPT...",
		Short: "What attempts can show: spread, smallest difference, trend, budget",
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
	p, err := read(env, archive.Ask{Want: func(a *history.Attempt) bool { return slices.Contains(o.attempts, a.ID) }})
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
		attempts = append(attempts, a)
	}
	power, err := scorecard.PowerOf(attempts, o.detect)
	if err != nil {
		return err
	}
	return env.Answer(power, func(out io.Writer) { printPower(out, power) })
}

func printPower(out io.Writer, p *scorecard.Power) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "attempt\tcases\truns\tmean\tstandard error\tbetween cases\tbetween runs")
	for _, a := range p.Attempts {
		fmt.Fprintf(w, "%s\t%d\t%d\t%.4f\t%.4f\t%s\t%s\n", a.Attempt, a.Cases, a.Runs, a.Mean, a.Error, variance(a.Variance.Case), variance(a.Variance.Run))
	}
	w.Flush()
	fmt.Fprintf(out, "\ndisagree    %.1f %% of cases, %s\n", 100*p.Discordant, basisWords[p.Basis])
	if p.Detectable < 1 {
		fmt.Fprintf(out, "detectable  a difference of %.1f points on %d cases, four times out of five\n", 100*p.Detectable, p.Cases)
	} else {
		fmt.Fprintf(out, "detectable  nothing: %d cases are too few\n", p.Cases)
	}
	if p.Needed != nil {
		if *p.Needed > 0 {
			fmt.Fprintf(out, "needed      %d cases for a difference of %.1f points\n", *p.Needed, 100**p.Asked)
		} else {
			fmt.Fprintf(out, "needed      a difference of %.1f points cannot be: only %.1f %% of cases come out differently\n", 100**p.Asked, 100*p.Discordant)
		}
	}
	if t := p.Trend; t != nil {
		fmt.Fprintf(out, "trend       %+.4f an attempt, at 95 %% [%+.4f, %+.4f], over %d cases that are in all\n", t.Slope, t.CI95[0], t.CI95[1], t.Cases)
	}
	printPowerPairs(out, p.Pairs)
	printBudgets(out, p.Attempts)
}

var basisWords = map[string]string{
	scorecard.BasisPairs:       "as these attempts do",
	scorecard.BasisRepetitions: "as the repetitions of one case do",
	scorecard.BasisAssumed:     "assumed: run with --repeat, or name two attempts, to measure it",
}

func variance(v *float64) string {
	if v == nil {
		return "unknown"
	}
	return fmt.Sprintf("%.4f", *v)
}

func printPowerPairs(out io.Writer, pairs []scorecard.PowerPair) {
	if len(pairs) == 0 {
		return
	}
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "pair\tcases\tMcNemar p\tHolm p")
	for _, p := range pairs {
		fmt.Fprintf(w, "%s to %s\t%d\t%.4g\t%.4g\n", p.A, p.B, p.Paired, p.McNemarP, p.HolmP)
	}
	w.Flush()
}

func printBudgets(out io.Writer, attempts []scorecard.PowerLine) {
	for _, a := range attempts {
		if len(a.ByTokens) == 0 {
			continue
		}
		fmt.Fprintf(out, "\nsolved within, of all tasks of %s\n", a.Attempt)
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		for _, kind := range []struct {
			name   string
			points []scorecard.Budget
			amount func(int64) string
		}{
			{"cost", a.ByCost, dollars},
			{"tokens", a.ByTokens, func(n int64) string { return fmt.Sprint(n) }},
			{"time", a.ByLatency, func(ms int64) string { return fmt.Sprintf("%.1f s", float64(ms)/1000) }},
		} {
			fmt.Fprintf(w, "  %s", kind.name)
			if len(kind.points) == 0 {
				fmt.Fprint(w, "\tunknown")
			}
			for _, b := range kind.points {
				fmt.Fprintf(w, "\t%s %.0f %%", kind.amount(b.Within), 100*b.Solved)
			}
			fmt.Fprintln(w)
		}
		w.Flush()
	}
}
