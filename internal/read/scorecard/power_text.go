package scorecard

import (
	"fmt"
	"io"
	"text/tabwriter"

	"tallystick/internal/record/cost"
	"tallystick/internal/record/plain"
)

// Print writes it for people.
func (p *Power) Print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "attempt\tcases\truns\tmean\tstandard error\tbetween cases\tbetween runs")
	for _, a := range p.Attempts {
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%.4f\t%s\t%s\n", a.Attempt, a.Cases, a.Runs, plain.Score(a.Mean, 4), a.Error, varianceText(a.Variance.Case), varianceText(a.Variance.Run))
	}
	w.Flush()
	for _, a := range p.Attempts {
		for _, x := range a.Corrected {
			fmt.Fprintf(out, "corrected   %s; the table is as recorded\n", plain.Line(x.Text()))
		}
	}
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
	BasisPairs:       "as these attempts do",
	BasisRepetitions: "as the repetitions of one case do",
	BasisAssumed:     "assumed: run with --repeat, or name two attempts, to measure it",
}

func varianceText(v *float64) string {
	if v == nil {
		return "unknown"
	}
	return fmt.Sprintf("%.4f", *v)
}

func printPowerPairs(out io.Writer, pairs []PowerPair) {
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

func printBudgets(out io.Writer, attempts []PowerLine) {
	for _, a := range attempts {
		if len(a.ByTokens) == 0 {
			continue
		}
		fmt.Fprintf(out, "\nsolved within, of all tasks of %s\n", a.Attempt)
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		for _, kind := range []struct {
			name   string
			points []Budget
			amount func(int64) string
		}{
			{"cost", a.ByCost, cost.USD},
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
