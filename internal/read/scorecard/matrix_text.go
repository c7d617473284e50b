package scorecard

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"tallystick/internal/read/history"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
)

// Print writes the matrix for people: the table of cases by targets, the totals of
// each target, and each two compared. Outside of a terminal it is ASCII.
func (x *Matrix) Print(out io.Writer, terminal bool) {
	m := plainMarks
	if terminal {
		m = terminalMarks
	}
	for i, t := range x.Targets {
		fmt.Fprintf(out, "%d  %s  %s\n", i+1, plain.Line(t.Target), plain.Line(strings.TrimSpace(t.Attempt+"  "+t.Error)))
	}
	fmt.Fprintln(out)
	x.printTable(out, m)
	fmt.Fprintln(out)
	x.printTotals(out)
	x.printPairs(out)
}

// A marks is how outcomes are drawn in a table.
type marks struct{ passed, failed, broken, none, mixed, asks string }

var (
	terminalMarks = marks{"✓", "✗", "E", "–", "~", "?"}
	plainMarks    = marks{"+", "x", "E", "-", "~", "?"}
)

func (m marks) of(c MatrixCell, there bool) string {
	mark := m.broken
	switch {
	case c.Unanswered:
		mark = m.asks
	case !there || c.Outcome == history.NotRun || c.Outcome == evidence.Skipped:
		mark = m.none
	case c.Outcome == evidence.Passed:
		mark = m.passed
	case c.Outcome == evidence.Failed:
		mark = m.failed
	case c.Outcome == Mixed:
		mark = m.mixed
	}
	if c.Of > 1 {
		mark += fmt.Sprintf(" %d/%d", c.Passed, c.Of)
	}
	return mark
}

// shortTable is how many cases are shown whatever came of them; longTable how many
// of those that did not pass everywhere.
const (
	shortTable = 20
	longTable  = 200
)

func (x *Matrix) printTable(out io.Writer, m marks) {
	if len(x.Cases) > shortTable && x.Cases[0].AllPassed() { // the others come first
		fmt.Fprintf(out, "%d cases, all passed\n", len(x.Cases))
		return
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "case")
	for i := range x.Targets {
		fmt.Fprintf(w, "\t%d", i+1)
	}
	fmt.Fprintln(w)
	shown := 0
	for _, c := range x.Cases {
		if len(x.Cases) > shortTable && (c.AllPassed() || shown == longTable) {
			break
		}
		shown++
		fmt.Fprint(w, plain.Line(c.Case))
		for _, t := range x.Targets {
			cell, there := c.Results[t.Target]
			fmt.Fprintf(w, "\t%s", m.of(cell, there))
		}
		fmt.Fprintln(w)
	}
	w.Flush()
	passed := 0
	for _, c := range x.Cases[shown:] {
		if c.AllPassed() {
			passed++
		}
	}
	if left := len(x.Cases) - shown - passed; left > 0 {
		fmt.Fprintf(out, "%d more that did not pass everywhere\n", left)
	}
	if passed > 0 {
		fmt.Fprintf(out, "%d more, all passed\n", passed)
	}
	for _, c := range x.Cases {
		for i, t := range x.Targets {
			if text := c.Results[t.Target].Corrected; text != "" {
				fmt.Fprintf(out, "corrected  %s of %d: %s\n", plain.Line(c.Case), i+1, plain.Line(text))
			}
		}
	}
	fmt.Fprintf(out, "%s passed  %s failed  %s error, truncated or unscored  %s not run or skipped  %s some repetitions passed", m.passed, m.failed, m.broken, m.none, m.mixed)
	if slices.ContainsFunc(x.Targets, func(t MatrixTarget) bool { return t.Unanswered > 0 }) {
		fmt.Fprintf(out, "  %s asks something new", m.asks)
	}
	fmt.Fprintln(out)
}

func (x *Matrix) printTotals(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "target\tsolved\trate\tat 95 %\tmean score\tat 95 %\tcost\ttime")
	for i, t := range x.Targets {
		if t.Attempt == "" {
			fmt.Fprintf(w, "%d\t-\n", i+1)
			continue
		}
		if t.Unanswered > 0 {
			fmt.Fprintf(w, "%d\tnot answered\n", i+1)
			continue
		}
		mean, interval := "-", "-"
		if t.MeanScore != nil {
			mean, interval = plain.Score(*t.MeanScore, 4), fmt.Sprintf("[%.4f, %.4f]", t.MeanCI95[0], t.MeanCI95[1])
		}
		took := "-"
		if t.RuntimeMS != nil {
			took = (time.Duration(*t.RuntimeMS) * time.Millisecond).Round(100 * time.Millisecond).String()
		}
		fmt.Fprintf(w, "%d\t%d of %d\t%s\t[%.4f, %.4f]\t%s\t%s\t%s\t%s\n", i+1, t.Solved, t.Tasks, plain.Score(t.SolveRate, 4), t.CI95[0], t.CI95[1], mean, interval, t.Cost, took)
	}
	w.Flush()
}

func (x *Matrix) printPairs(out io.Writer) {
	if len(x.Pairs) == 0 {
		return
	}
	number := map[string]int{}
	for i, t := range x.Targets {
		number[t.Target] = i + 1
	}
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "pair\tgained\tlost\tMcNemar p\tHolm p\tdifference\tat 95 %\tcases")
	for _, p := range x.Pairs {
		fmt.Fprintf(w, "%d to %d\t%d\t%d\t%.4g\t%.4g\t%+.4f\t[%+.4f, %+.4f]\t%d\n", number[p.A], number[p.B], len(p.Gained), len(p.Lost), p.McNemarP, p.HolmP, p.Difference, p.DifferenceCI95[0], p.DifferenceCI95[1], p.Paired)
	}
	w.Flush()
	if n := len(x.Targets); n > MaxPaired {
		fmt.Fprintf(out, "of %d targets only the first is compared with each; \"tally compare A B\" compares two others\n", n)
	}
	if len(x.Pairs) > 1 {
		fmt.Fprintf(out, "Holm p is corrected for %d comparisons, McNemar p is not: expect one in twenty of those below 0.05 by chance\n", len(x.Pairs))
	}
}
