package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/app/lab"
	"tallystick/internal/read/dossier"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/share/attest/claim"
	"tallystick/internal/share/export"
	"tallystick/internal/share/outgoing"
)

type exportOptions struct {
	attempt  string
	format   string
	out      string
	glob     string
	key      string
	withhold bool
	salts    string
	address  string
	hub      export.Hub
	attest   attestOptions
	submit   lab.SubmitOptions

	hmacKeyFile string // of a bundle
	receipt     string // of a bundle that is described
	flags       []string

	showHeldOut bool
}

func newExport(env *Env) *cobra.Command {
	var o exportOptions
	cmd := &cobra.Command{
		Use:     "export ATTEMPT[:CASE] --format FORMAT",
		Short:   "Write what leaves the workspace: proofs, and other tools' formats",
		Example: "tally export latest --format html -o report.html",
		Long: `Write an attempt as a proof of it, or for other people's tools. The ledger and the evidence
are verified first, and a case whose evidence is not whole stops the export. The same
attempt gives the same bytes.

` + formatsHelp() + `
The others carry the receipt, which proves the attempt to a reader who has the ledger's key.

receipt     goes to standard output, or to -o FILE. It holds three receipts: of the record,
            of the registration, and of the newest registration of the class at that time.
bundle      carries the receipt of its entry, and is signed with the operator's key or
            --key. docs/formats/bundle.md says what each section is made of, and how a
            folder or a JSON file describes a bundle of another system.
submission  is of an attempt that ran with --submit-intent. One that cannot be submitted, or
            whose audit is not clean, is shown and not packed (exit 4). --allow-dirty packs
            it in spite of the audit, and then the package says so.

--withhold leaves salted digests in place of inputs, answers and expected outcomes. Scores
and totals stay as they are; --salts keeps what opens each text.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.attempt = args[0]
			o.flags = givenFlags(cmd)
			return runExport(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.format, "format", "", "the `FORMAT`: "+strings.Join(export.All(), ", "))
	f.StringVarP(&o.out, "out", "o", "", "write to `FILE`, or to a folder where the format is several files")
	f.StringVar(&o.hmacKeyFile, "hmac-key-file", "", "sign a bundle with the shared key in `FILE` too, readable only by you")
	f.StringVar(&o.receipt, "receipt", "", "`FILE` with the ledger receipt of a bundle that is described")
	f.BoolVar(&o.submit.DryRun, "dry-run", false, "say what the submission package would be, and write nothing")
	f.BoolVar(&o.submit.AllowDirty, "allow-dirty", false, "make the submission package although the audit is not clean; it says so")
	f.BoolVar(&o.submit.Strict, "strict-audit", false, "warnings of the audit count too")
	f.BoolVar(&o.submit.FullHistory, "full-history", false, "carry every entry since the registration, also of other classes: shows how many attempts there were")
	f.BoolVar(&o.submit.WithoutSources, "without-sources", false, "leave the programs of target and rubric out; AUD-8 and AUD-9 then have a gap")
	f.StringVar(&o.glob, "case", "", "only the cases whose id matches `GLOB`")
	f.BoolVar(&o.withhold, "withhold", false, "leave salted digests in place of texts")
	f.StringVar(&o.salts, "salts", "", "`FILE` for the salts that open withheld texts; keep it to yourself")
	f.StringVar(&o.address, "receipt-url", "", "`URL` where the receipt can be had")
	f.StringVar(&o.hub.Dataset, "dataset-id", "", "the dataset's `ID` on the Hugging Face Hub")
	f.StringVar(&o.hub.Task, "task-id", "", "its task's `ID` there")
	f.StringVar(&o.key, "key", "", "`FILE` with the key that signs a credential or an envelope")
	f.StringVar(&o.attest.RunnerDID, "runner-did", "", "the `DID` of the runner, for vc")
	f.StringVar(&o.attest.method, "key-id", "", "`NAME` of the key among those of a did:web, for vc")
	f.StringVar(&o.attest.Content.Harness, "harness-file", "", "the harness, for vc: `FILE`, folder or SHA-256")
	f.StringVar(&o.attest.ModelID, "model-id", "", "the model's `NAME`, for vc, if several were called")
	addHeldOutFlag(cmd, &o.showHeldOut)
	return cmd
}

// literalGlob is a pattern that matches one text.
func literalGlob(text string) string {
	return strings.NewReplacer("*", `\*`, "?", `\?`, "[", `\[`, `\`, `\\`).Replace(text)
}

// formatsHelp lists the formats.
func formatsHelp() string {
	var b strings.Builder
	var folders, signed []string
	for _, f := range export.Formats() {
		lines := strings.Split(filled(78, f.Is), "\n")
		fmt.Fprintf(&b, "  %-9s  %s\n", f.Name, strings.Join(lines, "\n             "))
		if f.Folder {
			folders = append(folders, f.Name)
		}
		if f.Signed {
			signed = append(signed, f.Name)
		}
	}
	fmt.Fprintf(&b, "\n%s are several files: -o names the folder. Only %s are signed.", inWords(folders), inWords(signed))
	return b.String()
}

// inWords joins names as in "a, b and c".
func inWords(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

type exportAnswer struct {
	Attempt string    `json:"attempt"`
	Level   string    `json:"level"`
	Format  string    `json:"format"`
	File    string    `json:"file"`
	Files   []string  `json:"files,omitempty"`
	SHA256  digest.ID `json:"sha256,omitzero"`
	Bytes   int       `json:"bytes"`
	Cases   int       `json:"cases"`
	signed  bool
}

func runExport(ctx context.Context, env *Env, o exportOptions) error {
	if id, caseID, ok := strings.Cut(o.attempt, ":"); ok && o.format != export.Receipt && o.format != export.Bundle {
		if o.glob != "" {
			return refusal.Newf(refusal.Usage, "%s names a case, and --case chooses others: give one of them", o.attempt)
		}
		o.attempt, o.glob = id, literalGlob(caseID)
	}
	asked := export.Request{Format: o.format, Glob: o.glob, Out: o.out != "", File: filepath.ToSlash(o.out), Key: o.key != "", Withhold: o.withhold, Salts: o.salts != "", Flags: o.flags}
	if err := asked.Validate(); err != nil {
		return err
	}
	format, err := export.Find(o.format)
	if err != nil {
		return err
	}
	switch o.format {
	case export.Receipt:
		return exportReceipt(env, o)
	case export.Bundle:
		return exportBundle(env, o)
	case export.Submission:
		return exportSubmission(env, o)
	case export.OTel:
		return exportSpans(env, o)
	case export.HTML:
		return exportReport(env, o)
	case export.VC:
		a := o.attest
		a.what, a.key, a.out, a.record, a.attemptOnly = o.attempt, o.key, o.out, true, true
		return runAttest(ctx, env, a)
	case "badge":
		if dossier.AreFiles(o.attempt) {
			return exportImportedBadge(ctx, env, o)
		}
	}
	p, err := openPlace(env)
	if err != nil {
		return err
	}
	a, err := outgoing.ForExport(p, outgoing.ExportAsk{Attempt: o.attempt, Glob: o.glob, ShowHeldOut: o.showHeldOut, Withhold: o.withhold, Salts: o.salts})
	if err != nil {
		return err
	}
	a.Address, a.Ending = o.address, filepath.Ext(o.out)
	files, err := format.Write(a, o.hub)
	if err != nil {
		return err
	}
	if format.Signed {
		if files, err = o.signed(env, a, files); err != nil {
			return err
		}
	}
	return writeExport(env, o, &exportAnswer{Attempt: a.ID, Level: a.Level, Format: o.format, File: o.out, Cases: len(a.Samples), signed: format.Signed}, files)
}

// signed puts statements into envelopes, which are verified with the key that signed
// them and the ledger's.
func (o exportOptions) signed(env *Env, a *export.Facts, statements []export.File) ([]export.File, error) {
	signer := claim.Party{}
	if err := signer.LoadKey(o.key); err != nil {
		return nil, err
	}
	files, err := claim.Envelopes(statements, signer.Key)
	if err != nil {
		return nil, err
	}
	t, err := trustLedger(a.Key)
	if err != nil {
		return nil, err
	}
	t.Credentials.Issuers = []string{signer.DID}
	for _, f := range files {
		if err := accept(env, t, f.Data); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return files, nil
}

// writeExport writes files where they were asked for, or one to standard output.
func writeExport(env *Env, o exportOptions, a *exportAnswer, files []export.File) error {
	for _, f := range files {
		a.Bytes += len(f.Data)
		a.Files = append(a.Files, f.Name)
	}
	if f, _ := export.Find(o.format); f.Folder {
		if err := outgoing.WriteOutputs(o.out, files); err != nil {
			return err
		}
		return env.Answer(a, a.print)
	}
	data := files[0].Data
	if a.Files, a.SHA256 = nil, digest.IDOf(data); o.out != "" {
		if err := dossier.WriteOutput(o.out, data); err != nil {
			return err
		}
		return env.Answer(a, a.print)
	}
	if strings.HasSuffix(files[0].Name, ".svg") {
		return env.Answer(map[string]string{"svg": string(data)}, func(w io.Writer) { w.Write(data) })
	}
	return env.Answer(rawJSON(data), func(w io.Writer) { w.Write(plain.JSON(data)) })
}

// exportImportedBadge draws the badge of another harness's results.
func exportImportedBadge(ctx context.Context, env *Env, o exportOptions) error {
	files, samples, err := outgoing.ImportedBadge(ctx, o.attempt)
	if err != nil {
		return err
	}
	return writeExport(env, o, &exportAnswer{Attempt: o.attempt, Level: "imported", Format: o.format, File: o.out, Cases: samples}, files)
}

func exportSpans(env *Env, o exportOptions) error {
	place, err := openPlace(env)
	if err != nil {
		return err
	}
	a, err := place.ReadAttempt(o.attempt, dossier.Ask{ShowHeldOut: o.showHeldOut})
	if err != nil {
		return err
	}
	answer := &exportAnswer{Attempt: a.ID, Level: a.Level.String(), Format: o.format, File: o.out}
	doc, cases, err := outgoing.Spans(a, o.glob)
	if err != nil {
		return err
	}
	answer.Cases = cases
	return writeExport(env, o, answer, []export.File{{Name: "spans.json", Data: doc}})
}

// exportReport writes the page of an attempt.
func exportReport(env *Env, o exportOptions) error {
	place, err := openPlace(env)
	if err != nil {
		return err
	}
	page, found, err := outgoing.Report(place, outgoing.ExportAsk{Attempt: o.attempt, Glob: o.glob, ShowHeldOut: o.showHeldOut})
	if err != nil {
		return err
	}
	if err := acceptProof(env, page.Key, page.HTML); err != nil {
		return err
	}
	answer := &exportAnswer{Attempt: found.ID, Level: found.Level.String(), Format: o.format, File: o.out, Cases: page.Cases}
	return writeExport(env, o, answer, []export.File{{Name: "report.html", Data: page.HTML}})
}

// rawJSON is a document that is JSON already.
type rawJSON []byte

// MarshalJSON gives the document as it is.
func (r rawJSON) MarshalJSON() ([]byte, error) { return r, nil }

func (a *exportAnswer) print(out io.Writer) {
	fmt.Fprintf(out, "%s: %d cases of %s (%s) as %s, %d bytes", plain.Line(a.File), a.Cases, plain.Line(a.Attempt), a.Level, a.Format, a.Bytes)
	if len(a.Files) > 0 {
		fmt.Fprintf(out, ": %s\n", plain.Line(strings.Join(a.Files, ", ")))
	} else {
		fmt.Fprintf(out, ", %s\n", a.SHA256)
	}
	if !a.signed {
		fmt.Fprintln(out, "the document itself is not signed")
	}
}
