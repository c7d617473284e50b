package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/app/lab"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/plain"
)

func newSubmit(env *Env) *cobra.Command {
	var o lab.SubmitOptions
	cmd := &cobra.Command{
		Use:   "submit ATTEMPT",
		Short: "Make the submission package of an attempt",
		Long: `Make the package of an attempt that was run with --submit-intent: results.jsonl,
trajectories.jsonl, metadata.json, the audit's report, receipts of registration, every
record and the end, and a manifest that the operator signs. All of it is derived from the
ledger and the evidence, so the same attempt gives the same bytes; "tally verify" and
"tally-verify" derive it again and compare.

An attempt that cannot be submitted, or whose audit is not clean, is shown and not packed
(exit 4). --allow-dirty packs it in spite of the audit, and then the package says so.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Attempt = args[0]
			return runSubmit(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.DryRun, "dry-run", false, "say what the package would be, and write nothing")
	f.BoolVar(&o.AllowDirty, "allow-dirty", false, "make the package although the audit is not clean; it says so")
	f.BoolVar(&o.Strict, "strict-audit", false, "warnings of the audit count too")
	f.BoolVar(&o.FullHistory, "full-history", false, "carry every entry since the registration, also of other classes: shows how many attempts there were")
	f.BoolVar(&o.WithoutSources, "without-sources", false, "leave the programs of target and rubric out; AUD-8 and AUD-9 then have a gap")
	f.StringVarP(&o.Out, "out", "o", "", "`FOLDER` to make, or one file if the name ends in .zip (default: submission-DATE-ATTEMPT)")
	addHeldOutFlag(cmd, &o.ShowHeldOut)
	return cmd
}

func runSubmit(_ context.Context, env *Env, o lab.SubmitOptions) error {
	place, err := openPlace(env)
	if err != nil {
		return err
	}
	c, err := place.ReadCorpus("", dossier.Ask{Prove: true, ShowHeldOut: o.ShowHeldOut, Want: func(a *history.Attempt) bool { return a.ID == o.Attempt }})
	if err != nil {
		return err
	}
	defer c.Close()
	s, err := lab.Submit(c, o)
	if s == nil {
		return err
	}
	if aerr := env.Answer(s, func(out io.Writer) { submitText(out, s) }); aerr != nil {
		return aerr
	}
	return err
}

func submitText(out io.Writer, s *lab.Submitted) {
	word := "submittable"
	if !s.Submittable {
		word = "NOT submittable"
	}
	fmt.Fprintf(out, "attempt  %s, %s (%s): %s\n", plain.Line(s.Attempt.ID), s.Attempt.Text(), s.Attempt.Level, word)
	fmt.Fprintf(out, "because  %s\n", plain.Line(s.Reason))
	if s.PassRate != nil {
		fmt.Fprintf(out, "result   pass rate %.4f, n %d, 95 %% interval %.4f to %.4f", *s.PassRate, s.N, s.CI95[0], s.CI95[1])
	} else {
		fmt.Fprintf(out, "result   unscored, n %d", s.N)
	}
	fmt.Fprintf(out, "; mean steps %.2f, empty %.4f\n", s.MeanSteps, s.EmptyRate)
	if s.Corrected != nil {
		fmt.Fprintf(out, "as corrected  %s; the result above is as recorded\n", s.Corrected.Text(s.N))
	}
	fmt.Fprintf(out, "audit    clean %t, strictly %t, complete %t\n", s.Audit.Clean, s.Audit.StrictClean, s.Audit.Complete)
	if len(s.Audit.HarnessGaps) > 0 {
		fmt.Fprintf(out, "gaps     %s\n", plain.Line(strings.Join(s.Audit.HarnessGaps, "; ")))
	}
	if s.Package == "" {
		fmt.Fprintf(out, "nothing written; it would have %d files, %d bytes\n", s.Files, s.Bytes)
		return
	}
	fmt.Fprintf(out, "package  %s: %d files, %d bytes\nCheck it with: tally-verify --key %s %s\n", plain.Line(s.Package), s.Files, s.Bytes, s.LedgerKey, plain.Line(s.Package))
}
