package lab

import (
	"fmt"
	"io"
	"strings"

	"tallystick/internal/read/agreement"
	"tallystick/internal/record/plain"
)

// Print writes it for people.
func (a *Calibration) Print(out io.Writer) {
	fmt.Fprintf(out, "labels     %d compared with the judge's verdicts", a.N)
	if a.Unscored > 0 {
		fmt.Fprintf(out, "; %d more are of cases on which it gave none", a.Unscored)
	}
	if len(a.Reviewers) > 0 {
		fmt.Fprintf(out, "\npeople     %s", plain.Line(strings.Join(a.Reviewers, ", ")))
	}
	fmt.Fprintf(out, "\nagreement  %.4f, %d of %d, 95 %% interval %.4f to %.4f (Wilson)\n", a.Agreement, a.Agreed, a.N, a.AgreementLow, a.AgreementHigh)
	kappaText(out, "kappa      ", a.Kappa, "")
	if a.Linear != nil || a.Quadratic != nil {
		kappaText(out, "  linear   ", a.Linear, ", neighbours on the scale count as near")
		kappaText(out, "  quadratic", a.Quadratic, "")
	}
	a.printTable(out)
	if a.NotJudged > 0 {
		fmt.Fprintf(out, "left out   %s of cases that no model judged\n", plain.Plural(a.NotJudged, "label"))
	}
	if a.Otherwise > 0 {
		fmt.Fprintf(out, "left out   %s that answer another question than the registration asks\n", plain.Plural(a.Otherwise, "label"))
	}
	for _, f := range a.Refused {
		fmt.Fprintf(out, "not count  entry %d: %s\n", f.Index, plain.Line(f.Why))
	}
	for _, id := range a.LeftOut {
		fmt.Fprintf(out, "left out   attempt %s had another judge\n", plain.Line(id))
	}
	if a.Entry >= 0 {
		fmt.Fprintf(out, "recorded   entry %d; the pairs are %s in the evidence\n", a.Entry, a.Pairs)
	} else {
		fmt.Fprintln(out, "Nothing is recorded.")
	}
}

func kappaText(out io.Writer, label string, k *agreement.Kappa, more string) {
	if k == nil {
		fmt.Fprintf(out, "%s  not defined: chance alone would agree on everything\n", label)
		return
	}
	fmt.Fprintf(out, "%s  %.4f (%s), 95 %% interval %.4f to %.4f (large samples)%s\n", label, k.Value, k.Word(), k.Low, k.High, more)
}

// printTable prints who said what how often.
func (a *Calibration) printTable(out io.Writer) {
	width := len("judge")
	for _, c := range a.Categories {
		width = max(width, len(plain.Line(c)))
	}
	fmt.Fprintf(out, "table      rows are people, columns the judge\n  %-*s", width, "")
	for _, c := range a.Categories {
		fmt.Fprintf(out, "  %*s", width, plain.Line(c))
	}
	fmt.Fprintln(out)
	for i, c := range a.Categories {
		fmt.Fprintf(out, "  %-*s", width, plain.Line(c))
		for _, n := range a.Table[i] {
			fmt.Fprintf(out, "  %*d", width, n)
		}
		fmt.Fprintln(out)
	}
}
