package cli

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tallystick/internal/app/lab"
	"tallystick/internal/read/audit"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/refusal"
	"tallystick/internal/share/intake"
)

type auditOptions struct {
	what      string
	files     intake.Files
	strict    bool
	auditedAt string
	out       string

	showHeldOut bool
	wholeTexts  bool
}

func newAudit(env *Env) *cobra.Command {
	var o auditOptions
	cmd := &cobra.Command{
		Use:         "audit ATTEMPT | PATH | --results FILE",
		Annotations: readOnlyCommands,
		Short:       "Look for signs of cheating in a run, ours or of another harness (AUD-1 to AUD-12)",
		Example:     "tally audit latest",
		Long: `Run the ten checks of the GAIA submission audit and two of ours: answers fetched from an answer database,
answers without work, answers in the prompt, calls that touch the grader, answers that
match anything, undisclosed voting, an unknown split, reads of answer keys, programs that
run texts, answers that speak to the judge, answers in the files of the agent, answers that
no model said and no tool gave.

ATTEMPT is an attempt of this workspace: its ledger and evidence are verified first, and
the report is the one that its package has, byte for byte. With --whole-texts the texts
that the evidence keeps whole are read too, which a package may not have. PATH is the log of another harness, recognised by what is in it: an Inspect log, the folder of a
Harbor job or trial, ATIF, OpenTelemetry and OpenInference traces in a file or a folder,
in which each conversation is a task. --results with --trajectories and
--metadata are files of any origin in the shapes of docs/formats/audit.md. Nothing is fetched
and no clock is read: the same input gives the same report.

A check passes, fails or is skipped. A skip is never a pass: it is a harness gap if evidence
was not recorded, and the gap names it. "clean" means that no critical check failed in what
was recorded, "complete" that no evidence is missing: a report that is clean and not complete
says so in its last line. What is recorded only in part may be demanded whole:
bodies_demanded lists it, and --bodies DIR has the texts, each named by its SHA-256.

Exit code 0 clean, complete or not; 4 not clean, and with --strict also for failed checks of
severity warn and for gaps: use it in CI. 1 for input that is unreadable or contradicts
itself, 3 for a body that has another digest.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.what = args[0]
			}
			return runAudit(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.files.Results, "results", "", "`FILE` with the results")
	f.StringVar(&o.files.Trajectories, "trajectories", "", "`FILE` with the trajectories, a line for each task")
	f.StringVar(&o.files.Metadata, "metadata", "", "`FILE` that describes the run")
	f.StringVar(&o.files.Source, "source", "", "`DIR` with the programs that decide the score")
	f.StringVar(&o.files.Bodies, "bodies", "", "`DIR` with whole texts, each named by its SHA-256")
	f.BoolVar(&o.strict, "strict", false, "failed checks of severity warn, and gaps, count too")
	f.StringVar(&o.auditedAt, "audited-at", "", "`TIME` of the audit, in RFC 3339 (default: that of the input)")
	f.StringVarP(&o.out, "out", "o", "", "write the report to `FILE` too")
	f.BoolVar(&o.wholeTexts, "whole-texts", false, "of an attempt: read whole texts from its evidence too, as bodies")
	addHeldOutFlag(cmd, &o.showHeldOut)
	cmd.AddCommand(newAuditShow(env), newAuditDispose(env))
	return cmd
}

func runAudit(ctx context.Context, env *Env, o auditOptions) error {
	at, err := time.Parse(time.RFC3339, o.auditedAt)
	if err != nil && o.auditedAt != "" {
		return refusal.Newf(refusal.Usage, "--audited-at %s: expected a time as 2026-07-03T00:00:00Z", o.auditedAt)
	}
	in, err := auditInput(env, o)
	if err != nil {
		return err
	}
	if in.Strict = o.strict; o.auditedAt != "" {
		in.AuditedAt = at
	}
	report, err := audit.Run(ctx, in)
	if err != nil {
		return err
	}
	if o.out != "" {
		doc, err := report.Encode()
		if err != nil {
			return err
		}
		if err := dossier.WriteOutput(o.out, doc); err != nil {
			return err
		}
	}
	if err := env.Answer(report, func(w io.Writer) { report.Print(w) }); err != nil || report.Met() {
		return err
	}
	failed := append(append([]string{}, report.Attestation.CriticalFailures...), report.Attestation.WarnFailures...)
	if len(failed) == 0 {
		gaps := report.Attestation.HarnessGaps
		return refusal.Newf(refusal.AuditNotComplete, "the audit is not complete: %d checks did not see all the evidence: %s", len(gaps), gaps[0]).
			WithHint("give the evidence that the gaps name; without --strict what was recorded is judged alone")
	}
	return refusal.Newf(refusal.AuditNotClean, "the audit is not clean: %s", strings.Join(failed, ", ")).
		WithHint("each finding is in the report, under its check")
}

// auditInput opens what the command line names.
func auditInput(env *Env, o auditOptions) (audit.Input, error) {
	switch {
	case o.what == "" && o.files.Results == "":
		return audit.Input{}, refusal.Newf(refusal.Usage, "nothing to audit").WithHint("name an attempt, a log, or files with --results")
	case o.what != "" && (o.files.Results != "" || o.files.Trajectories != "" || o.files.Metadata != ""):
		return audit.Input{}, refusal.Newf(refusal.Usage, "%s and --results, --trajectories or --metadata: one or the other is audited", o.what)
	case o.wholeTexts && (o.what == "" || dossier.AreFiles(o.what)):
		return audit.Input{}, refusal.Newf(refusal.Usage, "--whole-texts is for an attempt of this workspace").WithHint("--bodies names a folder with whole texts of other logs")
	case o.what == "":
		return o.files.Input()
	case dossier.AreFiles(o.what):
		return o.files.Log(o.what)
	}
	p, err := openPlace(env)
	if err != nil {
		return audit.Input{}, err
	}
	c, err := p.ReadCorpus("", dossier.Ask{Prove: true, ShowHeldOut: o.showHeldOut, Want: func(a *history.Attempt) bool { return a.ID == o.what }})
	if err != nil {
		return audit.Input{}, err
	}
	defer c.Close()
	return lab.AuditInput(c, o.what, o.wholeTexts)
}
