package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tallystick/internal/app/lab"
	"tallystick/internal/read/dossier"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
)

func newJudgeShow(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:     "show ATTEMPT",
		Short:   "How the judges of an attempt behaved: disagreement, position bias, calibration",
		Example: "tally judges show latest",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return runJudgeShow(cmd.Context(), env, args[0]) },
	}
}

func runJudgeShow(_ context.Context, env *Env, attempt string) error {
	r, err := read(env, dossier.Ask{})
	if err != nil {
		return err
	}
	a, err := r.Attempt(attempt)
	if err != nil {
		return err
	}
	j, err := lab.Judged(a)
	if err != nil {
		return err
	}
	if j == nil {
		return refusal.Newf(refusal.NotFound, "no model judged a case of attempt %s", attempt)
	}
	return env.Answer(j, func(out io.Writer) { judgedText(out, j) })
}

func judgedText(out io.Writer, j *lab.JudgedSummary) {
	fmt.Fprintf(out, "attempt      %s: %d checks by a model, %d unscored\n", plain.Line(j.Attempt), j.Checks, j.Unscored)
	if j.Calibration != "" {
		fmt.Fprintf(out, "calibration  %s\n", plain.Line(j.Calibration))
	}
	if len(j.Members) > 0 {
		fmt.Fprintf(out, "panel        %d checks; on average %.4f of the pairs of judges differ, the scores range over %.4f at most\n", j.Panels, j.Differ, j.Range)
	}
	for _, m := range j.Members {
		fmt.Fprintf(out, "  %-10s %d verdicts, mean score %s, %d without a verdict\n", plain.Line(m.Judge), m.Verdicts, plain.Score(m.Mean, 4), m.Unscored)
	}
	if j.Votes > 0 {
		fmt.Fprintf(out, "votes        %d verdicts of several votes, which differ in %d, by %.4f at most\n", j.Votes, j.Split, j.Spread)
	}
	fmt.Fprintf(out, "cost         %s\n", j.Cost())
	if j.Compared > 0 {
		fmt.Fprintf(out, "position     %d comparisons in both orders: the first place was preferred in both of %d, the second of %d\n", j.Compared, j.First, j.Second)
	}
	if j.LeftOut > 0 {
		fmt.Fprintf(out, "left out     %d cases whose evidence is not here\n", j.LeftOut)
	}
}
