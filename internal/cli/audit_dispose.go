package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tallystick/internal/app/lab"
	"tallystick/internal/read/audit"
	"tallystick/internal/read/audit/disposition"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

// maxReport bounds a report of any origin.
const maxReport = 256 << 20

func newAuditShow(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:         "show REPORT",
		Annotations: readOnlyCommands,
		Short:       "Show a report, and what people said about its findings",
		Example:     "tally audit show report.json",
		Long: `Show the report of an audit with the dispositions beside it, in REPORT.dispositions.jsonl.
Each must be signed, and be about a finding of this very report; otherwise the exit code is
3. A disposition changes nothing: a check that failed stays failed. It says which key
signed, and not whose key that is.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runAuditShow(cmd.Context(), env, args[0]) },
	}
}

type auditShown struct {
	Report       *audit.Report        `json:"report"`
	Dispositions []disposition.Signed `json:"dispositions"`
}

func runAuditShow(_ context.Context, env *Env, name string) error {
	data, file, err := readReport(name)
	if err != nil {
		return err
	}
	report, err := audit.ParseReport(data)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	list, err := disposition.Verify(data, file)
	if err != nil {
		return fmt.Errorf("%s: %w", disposition.File(name), err)
	}
	return env.Answer(auditShown{report, list}, func(w io.Writer) {
		report.Print(w)
		for _, s := range list {
			d := s.Disposition
			fmt.Fprintf(w, "disposition of %.12s (%s), which stays failed: %s\n       signed by %s\n", d.Finding, d.Check, plain.Line(d.Reason), plain.Line(s.Key))
		}
	})
}

// readReport reads a report and the dispositions beside it, if there are any.
func readReport(name string) (report, dispositions []byte, err error) {
	if report, err = dossier.ReadInput(name, maxReport); err != nil {
		return nil, nil, err
	}
	if dossier.AreFiles(disposition.File(name)) {
		dispositions, err = dossier.ReadInput(disposition.File(name), maxReport)
	}
	return report, dispositions, err
}

type disposeOptions struct {
	report, finding, reason, key string
}

func newAuditDispose(env *Env) *cobra.Command {
	var o disposeOptions
	cmd := &cobra.Command{
		Use:         "dispose ATTEMPT | REPORT --finding ID --reason TEXT --key FILE",
		Annotations: readOnlyCommands,
		Short:       "Sign what you say about a finding",
		Example:     `tally audit dispose latest --finding AUD-4-1 --reason "the file is public" --key ~/.ssh/id_ed25519`,
		Long: `Sign a disposition of a finding: why it is what it is. The signature is over the digest of
the report, the finding and the reason, in the namespace tallystick-disposition.

Of an attempt it is recorded as an entry of the ledger, audit.disposed, and the key must be
that of a person whom the signers file names. Reports and packages of the attempt list it
from then on. Of a report in a file it goes to REPORT.dispositions.jsonl.

A disposition is listed, and never turns a failed check into one that passes. "tally audit"
and "tally audit show" list the findings with their ids.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.report = args[0]
			return runAuditDispose(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.finding, "finding", "", "the `ID` of the finding, or its first characters")
	f.StringVar(&o.reason, "reason", "", "why, in a sentence `TEXT`; it is signed")
	f.StringVar(&o.key, "key", "", "SSH key `FILE` of the person who says so")
	return cmd
}

func runAuditDispose(ctx context.Context, env *Env, o disposeOptions) error {
	if o.finding == "" || o.reason == "" || o.key == "" {
		return refusal.Newf(refusal.Usage, "--finding, --reason and --key are needed")
	}
	if !dossier.AreFiles(o.report) {
		return disposeAttempt(ctx, env, o)
	}
	report, file, err := readReport(o.report)
	if err != nil {
		return err
	}
	// What is there already must verify, or the new line would stand behind a
	// forged one.
	if _, err := disposition.Verify(report, file); err != nil {
		return fmt.Errorf("%s: %w", disposition.File(o.report), err)
	}
	key, err := seal.LoadKey(o.key)
	if err != nil {
		return err
	}
	s, err := disposition.New(report, "", o.finding, o.reason, key)
	if err != nil {
		return err
	}
	if file, err = disposition.Append(file, s); err != nil {
		return err
	}
	if err := dossier.WriteOutput(disposition.File(o.report), file); err != nil {
		return err
	}
	return env.Answer(s, func(w io.Writer) {
		fmt.Fprintf(w, "%s: finding %.12s of %s, which stays failed\n", plain.Line(disposition.File(o.report)), s.Disposition.Finding, s.Disposition.Check)
	})
}

// disposeAttempt records a disposition in the ledger.
func disposeAttempt(ctx context.Context, env *Env, o disposeOptions) error {
	p, err := openPlace(env)
	if err != nil {
		return err
	}
	c, err := p.ReadCorpus("", dossier.Ask{Prove: true, Want: func(a *history.Attempt) bool { return a.ID == o.report }})
	if err != nil {
		return err
	}
	defer c.Close()
	d, err := lab.Dispose(ctx, c, lab.DisposeOptions{Attempt: o.report, Finding: o.finding, Reason: o.reason, Key: o.key})
	if err != nil {
		return err
	}
	return env.Answer(d, func(w io.Writer) {
		fmt.Fprintf(w, "entry %d: %s on finding %.12s of %s, which stays failed\n", d.Entry, plain.Line(d.By), d.Disposition.Finding, plain.Line(d.Disposition.Check))
	})
}
