package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/app/lab"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/extract"
	"tallystick/internal/run/grade"
	"tallystick/internal/share/exchange"
)

type gradeOptions struct {
	trajectory string
	pick       string
	with       string
	expected   string

	showHeldOut bool
}

func newGrade(env *Env) *cobra.Command {
	var o gradeOptions
	cmd := &cobra.Command{
		Use:         "grade TRAJECTORY --with GRADING",
		Annotations: readOnlyCommands,
		Short:       "Grade one trajectory, ours or another system's, with a grading.yaml",
		Example:     "tally grade latest:refund-7 --with grading.yaml",
		Long: `Grade a trajectory with the extractors and graders of a grading.yaml and show what each
check compared with what. TRAJECTORY is a file of ours, a file or folder of OpenTelemetry
GenAI or OpenInference spans (OTLP in JSON or protobuf, a Phoenix export), an ATIF file, or
ATTEMPT:CASE for one of the evidence.
Nothing is recorded and nothing is signed: the result is SCRATCH and never counts.

A rubric, a judge and files of the working folder are not at hand here, so a grading
that needs the first two is refused, and a check that needs a file is unscored.
Exit code 4 says that the trajectory did not pass, or is unscored.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.trajectory = args[0]
			return runGrade(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.with, "with", "", "the `FILE` that says how to grade (docs/formats/grading.md)")
	f.StringVar(&o.expected, "expected", "", "a `FILE` with what is expected: JSON, or a text")
	f.StringVar(&o.pick, "pick", "", pickUsage)
	addHeldOutFlag(cmd, &o.showHeldOut)
	return cmd
}

type gradeAnswer struct {
	Source       string             `json:"source"`
	Imported     *exchange.Imported `json:"imported,omitempty"`
	Pinned       bool               `json:"pinned"`
	Head         digest.ID          `json:"head"`
	Level        string             `json:"level"` // always scratch
	Passed       bool               `json:"passed"`
	Score        *float64           `json:"score,omitempty"`
	Unscored     string             `json:"unscored,omitempty"`
	Breakdown    map[string]float64 `json:"breakdown"`
	FailureModes []string           `json:"failure_modes"`
	Checks       []grade.Detail     `json:"checks"`
}

func runGrade(ctx context.Context, env *Env, o gradeOptions) error {
	if o.with == "" {
		return refusal.Newf(refusal.Usage, "--with is missing").WithHint("name the grading.yaml to grade with; docs/formats/grading.md has the format")
	}
	grader, err := lab.LoadGrader(o.with, o.expected)
	if err != nil {
		return err
	}
	loaded, err := loadTrajectory(env, o.trajectory, o.pick, o.showHeldOut)
	if err != nil {
		return err
	}
	v := loaded.Verified
	result := grader.Grade(grade.Input{Source: &extract.Source{Context: ctx, Trajectory: v, Content: loaded.Content}})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	a := &gradeAnswer{Source: o.trajectory, Imported: loaded.Imported, Pinned: v.Pinned(), Head: v.Head(), Level: "scratch", Unscored: result.Unscored,
		Breakdown: map[string]float64{}, FailureModes: append([]string{}, result.FailureModes...), Checks: append([]grade.Detail{}, result.Details...)}
	for name, score := range result.Breakdown {
		a.Breakdown[name] = score
	}
	if result.Unscored == "" {
		a.Passed, a.Score = result.Passed, &result.Score
	}
	if err := env.Answer(a, a.print); err != nil {
		return err
	}
	switch {
	case a.Unscored != "":
		return refusal.Newf(refusal.GateNotMet, "%s: unscored: %s", o.trajectory, a.Unscored)
	case !a.Passed:
		return refusal.Newf(refusal.GateNotMet, "%s: did not pass, score %v", o.trajectory, result.Score)
	}
	return nil
}

func (a *gradeAnswer) print(out io.Writer) {
	trust := "nothing vouches for its head"
	if a.Pinned {
		trust = "the ledger vouches for its head"
	}
	fmt.Fprintf(out, "%s: %s\n", plain.Line(a.Source), trust)
	importedText(out, a.Imported)
	printChecks(out, a.Checks)
	switch {
	case a.Unscored != "":
		fmt.Fprintf(out, "unscored %s\n", plain.Line(a.Unscored))
	case a.Passed:
		fmt.Fprintf(out, "passed   with score %v\n", *a.Score)
	default:
		fmt.Fprintf(out, "failed   with score %v (%s)\n", *a.Score, plain.Line(strings.Join(a.FailureModes, ", ")))
	}
	fmt.Fprintln(out, "SCRATCH: nothing is recorded or signed; the result never counts for promotion")
}
