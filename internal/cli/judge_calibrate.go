package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tallystick/internal/agreement"
	"tallystick/internal/archive"
	"tallystick/internal/lab"
	"tallystick/internal/plain"
)

func newJudgeCalibrate(env *Env) *cobra.Command {
	var o lab.CalibrateOptions
	cmd := &cobra.Command{
		Use:   "calibrate CLASS",
		Short: "Compare the judge's verdicts with people's labels, and record how far they agree",
		Long: `Compare what the judge of a class said with what people said about the same cases: how
often they agree, Cohen's kappa, and who said what how often. The labels are people's
reviews in the ledger ("tally review"), or those of --labels, a file with a line for each:

  {"attempt": "tone.default.3", "case": "greeting", "label": "passed", "reviewer": "ana"}

A label is one of the words that the judge chose from; passed or failed (or a score) where
the judge has no scale; win, tie or loss where it compares two answers. Every label is a
pair, so a case that two people labelled counts twice. Cases on which the judge gave no
verdict are counted apart.

The result is a judge.calibrated entry. From then on it stands beside every score of this
judge, with these settings and templates; after a change of either the calibration is
stale, and that is said too.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Class = args[0]
			return runJudgeCalibrate(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Labels, "labels", "", "JSONL `FILE` with labels, in place of people's reviews")
	f.StringVar(&o.Attempt, "attempt", "", "only this attempt `ID`, and the judge that it had")
	f.StringVar(&o.Check, "check", "", "`NAME` of the check whose judge is meant, where a case has several")
	f.BoolVar(&o.DryRun, "dry-run", false, "show the result and record nothing")
	return cmd
}

func runJudgeCalibrate(ctx context.Context, env *Env, o lab.CalibrateOptions) error {
	p, err := openPlace(env)
	if err != nil {
		return err
	}
	c, err := p.ReadCorpus("", archive.Ask{})
	if err != nil {
		return err
	}
	defer c.Close()
	if c.Reading == nil { // there is no ledger: say so as every reader of it does
		_, err := p.Read(archive.Ask{})
		return err
	}
	a, err := lab.Calibrate(ctx, c, o)
	if err != nil {
		return err
	}
	return env.Answer(a, func(out io.Writer) { calibrationText(out, a) })
}

func calibrationText(out io.Writer, a *lab.Calibration) {
	fmt.Fprintf(out, "labels     %d compared with the judge's verdicts", a.N)
	if a.Unscored > 0 {
		fmt.Fprintf(out, "; %d more are of cases on which it gave none", a.Unscored)
	}
	fmt.Fprintf(out, "\nagreement  %.4f, %d of %d, 95 %% interval %.4f to %.4f (Wilson)\n", a.Agreement, a.Agreed, a.N, a.AgreementLow, a.AgreementHigh)
	kappaText(out, "kappa      ", a.Kappa, "")
	if a.Linear != nil || a.Quadratic != nil {
		kappaText(out, "  linear   ", a.Linear, ", neighbours on the scale count as near")
		kappaText(out, "  quadratic", a.Quadratic, "")
	}
	tableText(out, a)
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

// tableText prints who said what how often.
func tableText(out io.Writer, a *lab.Calibration) {
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
