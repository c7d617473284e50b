package scorecard

import (
	"fmt"
	"io"
	"strings"

	"tallystick/internal/read/agreement"
	"tallystick/internal/read/history"
	"tallystick/internal/record/plain"
)

// Print writes it for people.
func (r *ReviewReport) Print(out io.Writer) {
	fmt.Fprintf(out, "attempt    %s: %s\n", plain.Line(r.Attempt), plain.Line(r.Question))
	fmt.Fprintf(out, "labelled   %d of %d, %d by two people or more\n", r.Labelled, r.Records, r.ByTwo)
	for _, x := range r.Reviewers {
		own := ""
		if x.OwnRunner {
			own = ", who ran the attempt"
		}
		fmt.Fprintf(out, "reviewer   %s: %s, %d of them blind%s\n", plain.Line(x.By), plain.Plural(x.Labels, "label"), x.Blind, own)
	}
	for _, p := range r.Pairs {
		agreedText(out, "agreement  ", plain.Line(p.First)+" and "+plain.Line(p.Second), p.Agreed)
	}
	for _, m := range r.Automatic {
		agreedText(out, "automatic  ", plain.Line(m.By)+" and the score", m.Agreed)
		if m.Unscored > 0 {
			fmt.Fprintf(out, "  %s without an automatic score left out\n", plain.Plural(m.Unscored, "case"))
		}
	}
	for _, c := range r.Disagreements {
		var who []string
		for _, l := range c.Labels {
			who = append(who, fmt.Sprintf("%s %s", l.By, l.Label))
		}
		fmt.Fprintf(out, "differ     %s%s: %s\n  look     tally show %s\n", plain.Line(c.CaseID), history.RepeatMark(c.Repeat), plain.Line(strings.Join(who, ", ")), plain.Line(r.Attempt+":"+c.CaseID))
	}
	if r.Superseded > 0 {
		fmt.Fprintf(out, "replaced   %s by a later one of the same person\n", plain.Plural(r.Superseded, "label"))
	}
	if r.Otherwise > 0 {
		fmt.Fprintf(out, "otherwise  %s given to another question left out\n", plain.Plural(r.Otherwise, "label"))
	}
	for _, x := range r.Refused {
		fmt.Fprintf(out, "refused    entry %d does not count: %s\n", x.Index, plain.Line(x.Why))
	}
}

// agreedText shows a table with its measures. Rows are the first's.
func agreedText(out io.Writer, what, who string, a Agreed) {
	if a.Table.N == 0 {
		fmt.Fprintf(out, "%s%s: nothing in common\n", what, who)
		return
	}
	fmt.Fprintf(out, "%s%s: %d of %d alike (%.0f %%)%s%s%s\n", what, who, a.Table.Agreed(), a.Table.N, 100*a.Rate, kappaWords("kappa", a.Kappa),
		weightedText("linear", a.Linear), weightedText("quadratic", a.Quadratic))
	for i, row := range a.Table.Counts {
		var cells []string
		for j, n := range row {
			cells = append(cells, fmt.Sprintf("%d %s", n, plain.Line(a.Table.Labels[j])))
		}
		fmt.Fprintf(out, "  %s: the other said %s\n", plain.Line(a.Table.Labels[i]), strings.Join(cells, ", "))
	}
}

func kappaWords(name string, k *agreement.Kappa) string {
	if k == nil {
		return ", kappa is not defined: one label throughout"
	}
	return fmt.Sprintf(", %s %.2f (95 %%: %.2f to %.2f, %s)", name, k.Value, k.Low, k.High, k.Word())
}

func weightedText(name string, k *agreement.Kappa) string {
	if k == nil {
		return ""
	}
	return fmt.Sprintf(", %s %.2f", name, k.Value)
}
