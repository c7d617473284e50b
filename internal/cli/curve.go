package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tallystick/internal/archive"
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
	if o.csv && o.plot || env.JSON && (o.csv || o.plot) {
		return refusal.Newf(refusal.Usage, "--csv, --plot and --json are three ways to print the same").WithHint("give one of them")
	}
	since, err := parseSince(o.since, env.Now())
	if err != nil {
		return err
	}
	choice := scorecard.CurveOptions{Class: o.class, Target: o.target, Since: since, All: o.all}
	p, err := read(env, archive.Ask{Want: choice.Takes})
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
			curvePlot(out, curve.Weeks, columns)
		}
		curveTable(out, curve.Weeks)
	})
}

func curveTable(out io.Writer, weeks []scorecard.Week) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "week\ttasks\tsolved\trate\tcost a solve\ttokens a solve\tretries\tregressions\tattempts\tlevel")
	for _, k := range weeks {
		fmt.Fprintf(w, "%s\t%d\t%d\t%.4f\t%s\t%s\t%d\t%d\t%d\t%s\n", k.Week, k.Tasks, k.Solved, k.SolveRate, perSolve(k.Solved, money(k.CostPerSolve)), perSolve(k.Solved, fmt.Sprint(k.TokensPerSolve)), k.Retries, k.Regressions, k.Attempts, k.Level)
	}
	w.Flush()
}

// perSolve is what a solve took. Where nothing is solved there is no such
// number, and the 0 of the format would look like a bargain.
func perSolve(solved int, amount string) string {
	if solved == 0 {
		return "-"
	}
	return amount
}

// curvePlot draws a bar for the solve rate and one for the cost of a solve, in
// letters that every terminal has, and tells of weeks in between that have no
// attempt. A terminal too narrow for both bars gets none.
func curvePlot(out io.Writer, weeks []scorecard.Week, columns int) {
	dearest := int64(0)
	for _, k := range weeks {
		dearest = max(dearest, k.CostPerSolve.Micro)
	}
	costWidth := len(dollars(dearest))
	width := (columns - len("2026-W20  1.00 |    |") - costWidth) / 2
	if width < 8 || len(weeks) == 0 {
		return
	}
	full := ""
	if dearest > 0 {
		full = fmt.Sprintf(" (full: %s)", dollars(dearest))
	}
	fmt.Fprintf(out, "%-8s  %-*s  cost a solve%s\n", "week", width+6, "solve rate (full: 1)", full)
	for i, k := range weeks {
		if i > 0 {
			if n := weeksBetween(weeks[i-1], k); n > 0 {
				fmt.Fprintf(out, "     ...  %s without an attempt\n", plural(n, "week"))
			}
		}
		part := 0.0
		if dearest > 0 && !k.CostPerSolve.Unknown {
			part = float64(k.CostPerSolve.Micro) / float64(dearest)
		}
		fmt.Fprintf(out, "%-8s  %.2f |%-*s  %*s |%s\n", k.Week, k.SolveRate, width, bar(k.SolveRate, width), costWidth, perSolve(k.Solved, money(k.CostPerSolve)), bar(part, width))
	}
	fmt.Fprintln(out)
}

// weeksBetween is how many weeks lie between two that have an attempt.
func weeksBetween(a, b scorecard.Week) int {
	from, err := time.Parse(time.DateOnly, a.Begins)
	if err != nil {
		return 0
	}
	to, err := time.Parse(time.DateOnly, b.Begins)
	if err != nil {
		return 0
	}
	return int(to.Sub(from).Hours()/(7*24)) - 1
}

// bar is a part of width, at least one stroke for anything above zero.
func bar(part float64, width int) string {
	n := int(part*float64(width) + 0.5)
	if part > 0 {
		n = max(n, 1)
	}
	return strings.Repeat("#", min(max(n, 0), width))
}
