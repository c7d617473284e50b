package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/refusal"
)

type curveOptions struct {
	class, target, since string
	all                  bool
	csv                  bool
	plot                 bool
}

func newCurve(env *Env) *cobra.Command {
	var o curveOptions
	cmd := &cobra.Command{
		Use:     "curve",
		Short:   "Cost and outcome week by week",
		Example: "tally scorecard curve --class support --since 90d",
		Long: `Show for each week what was attempted and solved, what a solve cost in money and
tokens, retries and regressions: cases that the attempt before, of the same class and
target, solved and this one did not.

On a terminal it draws bars above the table; --plot draws them anywhere. Scratch and
filtered attempts are left out unless --all is given.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runCurve(cmd.Context(), env, o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.class, "class", "", "only attempts of this task `CLASS`")
	f.StringVar(&o.target, "target", "", "only attempts of the target `NAME`")
	f.StringVar(&o.since, "since", "", "only attempts registered since `WHEN`: days ago (90d) or a date")
	f.BoolVar(&o.all, "all", false, "scratch and filtered attempts too")
	f.BoolVar(&o.csv, "csv", false, "print comma-separated values")
	f.BoolVar(&o.plot, "plot", false, "draw bars also when the answer goes into a pipe")
	return cmd
}

func runCurve(_ context.Context, env *Env, o curveOptions) error {
	if o.csv && o.plot || env.JSON && (o.csv || o.plot) {
		return refusal.Newf(refusal.Usage, "--csv, --plot and --json are three ways to print the same").WithHint("give one of them")
	}
	since, err := parseSince(o.since, env.Now())
	if err != nil {
		return err
	}
	choice := scorecard.CurveOptions{Class: o.class, Target: o.target, Since: since, All: o.all}
	p, err := read(env, dossier.Ask{Want: choice.Takes})
	if err != nil {
		return err
	}
	curve := scorecard.CurveOf(p.History, choice)
	if curve.LeftOut > 0 {
		env.Note("%d scratch or filtered attempts are left out; --all takes them", curve.LeftOut)
	} else if len(curve.Weeks) == 0 {
		env.Note("the ledger %s has no such attempt", p.History.Origin)
	}
	return env.Answer(curve, func(out io.Writer) {
		if o.csv {
			out.Write(curve.CSV())
			return
		}
		if o.plot || isTerminal(env.Stdout) {
			_, columns := terminalSize(env.Stdout)
			scorecard.PlotWeeks(out, curve.Weeks, columns)
		}
		scorecard.PrintWeeks(out, curve.Weeks)
	})
}
