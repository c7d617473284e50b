package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"tallystick/internal/refusal"
	"tallystick/internal/scorecard"
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
		Use:   "curve",
		Short: "Cost and outcome week by week",
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
	f.StringVar(&o.target, "target", "", "only attempts of this `TARGET`")
	f.StringVar(&o.since, "since", "", "only attempts registered since `WHEN`: days ago (90d) or a date")
	f.BoolVar(&o.all, "all", false, "scratch and filtered attempts too")
	f.BoolVar(&o.csv, "csv", false, "print comma-separated values")
	f.BoolVar(&o.plot, "plot", false, "draw bars also when the answer goes into a pipe")
	return cmd
}

func runCurve(_ context.Context, env *Env, o curveOptions) error {
	if o.csv && (o.plot || env.JSON) {
		return refusal.Newf(refusal.Usage, "--csv, --plot and --json are three ways to print the same").WithHint("give one of them")
	}
	since, err := parseSince(o.since, env.Now())
	if err != nil {
		return err
	}
	choice := scorecard.CurveOptions{Class: o.class, Target: o.target, Since: since, All: o.all}
	p, err := env.readPast(choice.Takes)
	if err != nil {
		return err
	}
	curve := scorecard.CurveOf(p.history, choice)
	if curve.LeftOut > 0 {
		env.Note("%d scratch or filtered attempts are left out; --all takes them", curve.LeftOut)
	}
	return env.Answer(curve, func(out io.Writer) {
		if o.csv {
			out.Write(curve.CSV())
			return
		}
		if o.plot || isTerminal(env.Stdout) {
			_, columns := terminalSize(env.Stdout)
			curvePlot(out, curve.Weeks, columns)
		}
		curveTable(out, curve.Weeks)
	})
}

func curveTable(out io.Writer, weeks []scorecard.Week) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "week\ttasks\tsolved\trate\tcost a solve\ttokens a solve\tretries\tregressions\tattempts\tlevel")
	for _, k := range weeks {
		fmt.Fprintf(w, "%s\t%d\t%d\t%.4f\t%s\t%d\t%d\t%d\t%d\t%s\n", k.Week, k.Tasks, k.Solved, k.SolveRate, dollars(k.CostPerSolve), k.TokensPerSolve, k.Retries, k.Regressions, k.Attempts, k.Level)
	}
	w.Flush()
}

// curvePlot draws a bar for the solve rate and one for the cost of a solve, in
// letters that every terminal has. A terminal too narrow for both gets none.
func curvePlot(out io.Writer, weeks []scorecard.Week, columns int) {
	const fixed = len("2026-W20  1.00 |  $0.000000 |") // week, rate, cost, edges
	width := (columns - fixed - 4) / 2
	if width < 8 || len(weeks) == 0 {
		return
	}
	dearest := int64(1)
	for _, k := range weeks {
		dearest = max(dearest, k.CostPerSolve)
	}
	costWidth := len(dollars(dearest))
	fmt.Fprintf(out, "%-8s  %-*s  %s\n", "week", width+6, "solve rate (full: 1)", fmt.Sprintf("cost a solve (full: %s)", dollars(dearest)))
	for _, k := range weeks {
		cost := "-"
		if k.Solved > 0 {
			cost = dollars(k.CostPerSolve)
		}
		fmt.Fprintf(out, "%-8s  %.2f |%-*s  %*s |%s\n", k.Week, k.SolveRate, width, bar(k.SolveRate, width), costWidth, cost,
			bar(float64(k.CostPerSolve)/float64(dearest), width))
	}
	fmt.Fprintln(out)
}

// bar is a part of width, at least one stroke for anything above zero.
func bar(part float64, width int) string {
	n := int(part*float64(width) + 0.5)
	if part > 0 {
		n = max(n, 1)
	}
	return strings.Repeat("#", min(max(n, 0), width))
}
