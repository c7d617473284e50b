package cli

import (
	"context"

	"github.com/spf13/cobra"

	"tallystick/internal/app/lab"
	"tallystick/internal/read/dossier"
)

func newJudgeCalibrate(env *Env) *cobra.Command {
	var o lab.CalibrateOptions
	cmd := &cobra.Command{
		Use:     "calibrate CLASS",
		Short:   "Compare the judge's verdicts with people's labels, and record how far they agree",
		Example: "tally judges calibrate support --dry-run",
		Long: `Compare what the judge of a class said with what people said about the same cases: how
often they agree, Cohen's kappa, and who said what how often. The labels are people's
reviews in the ledger ("tally review"), or those of --labels, a file with a line for each:

  {"attempt": "tone.default.3", "case": "greeting", "label": "passed", "reviewer": "ana"}

A label is one of the words that the judge chose from; passed or failed (or a score) where
the judge has no scale; win, tie or loss where it compares two answers. Every label is a
pair, so a case that two people labelled counts twice. Cases on which the judge gave no
verdict are counted apart.

The result is a judge.calibrated entry. From then on it stands beside every score of this
judge. After a change of judge.yaml, or of anything that the judge is asked (criteria,
scale, template, votes, panel, what it is shown), the calibration is stale, and that is
said too. "tally verify --recompute" makes it again.`,
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
	c, err := openRecorded(env, dossier.Ask{})
	if err != nil {
		return err
	}
	defer c.Close()
	a, err := lab.Calibrate(ctx, c, o)
	if err != nil {
		return err
	}
	return env.Answer(a, a.Print)
}
