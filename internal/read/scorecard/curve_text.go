package scorecard

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"tallystick/internal/record/cost"
	"tallystick/internal/record/plain"
)

// tokensPerSolve are the tokens that were told for a solve.
func (k *Week) tokensPerSolve() string {
	if k.Solved == 0 || k.TokensPerSolve.Unknown {
		return perSolve(k.Solved, k.TokensPerSolve)
	}
	return leastTold(perSolve(k.Solved, k.TokensPerSolve), k.Unpriced)
}

// PrintWeeks writes a line for each week.
func PrintWeeks(out io.Writer, weeks []Week) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "week\ttasks\tsolved\trate\tcost a solve\ttokens a solve\tretries\tregressions\tattempts\tlevel")
	for _, k := range weeks {
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%s\t%s\t%d\t%d\t%s\n", k.Week, k.Tasks, k.Solved, plain.Score(k.SolveRate, 4), perSolve(k.Solved, k.CostPerSolve), k.tokensPerSolve(), k.Retries, k.Regressions, k.Attempts, k.Level)
	}
	w.Flush()
	for _, k := range weeks {
		for _, x := range k.Corrected {
			fmt.Fprintf(out, "corrected in %s: %s\n", k.Week, plain.Line(x.Text()))
		}
		if k.AsCorrected != nil {
			fmt.Fprintf(out, "as corrected %s: %s; the table is as recorded\n", k.Week, k.AsCorrected.CorrectedText())
		}
	}
}

// perSolve is what a solve took. Where nothing is solved there is no such
// number, and the 0 of the format would look like a bargain.
func perSolve(solved int, amount fmt.Stringer) string {
	if solved == 0 {
		return "-"
	}
	return amount.String()
}

// PlotWeeks draws a bar for the solve rate and one for the cost of a solve, in
// letters that every terminal has, and tells of weeks in between that have no
// attempt. A terminal too narrow for both bars gets none.
func PlotWeeks(out io.Writer, weeks []Week, columns int) {
	dearest, costWidth := int64(0), 0
	for _, k := range weeks {
		dearest = max(dearest, k.CostPerSolve.MicroUSD)
		costWidth = max(costWidth, len(cost.USD(dearest)), len(perSolve(k.Solved, k.CostPerSolve)))
	}
	width := (columns - len("2026-W20  1.00 |    |") - costWidth) / 2
	if width < 8 || len(weeks) == 0 {
		return
	}
	full := ""
	if dearest > 0 {
		full = fmt.Sprintf(" (full: %s)", cost.USD(dearest))
	}
	fmt.Fprintf(out, "%-8s  %-*s  cost a solve%s\n", "week", width+6, "solve rate (full: 1)", full)
	for i, k := range weeks {
		if i > 0 {
			if n := weeksBetween(weeks[i-1], k); n > 0 {
				fmt.Fprintf(out, "     ...  %s without an attempt\n", plain.Plural(n, "week"))
			}
		}
		part := 0.0
		if dearest > 0 && k.CostPerSolve.Known() {
			part = float64(k.CostPerSolve.MicroUSD) / float64(dearest)
		}
		fmt.Fprintf(out, "%-8s  %s |%-*s  %*s |%s\n", k.Week, plain.Score(k.SolveRate, 2), width, bar(k.SolveRate, width), costWidth, perSolve(k.Solved, k.CostPerSolve), bar(part, width))
	}
	fmt.Fprintln(out)
}

// weeksBetween is how many weeks lie between two that have an attempt.
func weeksBetween(a, b Week) int {
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
