package cli

import (
	"context"
	"fmt"
	"io"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/archive"
	"tallystick/internal/digest"
	"tallystick/internal/exchange/otel"
	"tallystick/internal/history"
	"tallystick/internal/plain"
	"tallystick/internal/refusal"
)

// otelFormat is OpenTelemetry spans; laterFormats are promised and not built.
const otelFormat = "otel"

var laterFormats = []string{"vc", "in-toto", "eee", "hf", "html"}

type exportOptions struct {
	attempt string
	format  string
	out     string
	glob    string

	showHeldOut bool
}

func newExport(env *Env) *cobra.Command {
	var o exportOptions
	cmd := &cobra.Command{
		Use:   "export ATTEMPT --format otel",
		Short: "Write an attempt in somebody else's format: OpenTelemetry spans",
		Long: `Write an attempt as one OTLP JSON document, for a tool that reads OpenTelemetry: a trace
for each case, with spans for its turns, model calls and tool calls, and an event
gen_ai.evaluation.result for the case and for each check. The ledger and the evidence
are verified first, and a case whose evidence is not whole stops the export.

The document itself is not signed. Whoever needs proof wants a receipt ("tally ledger
prove") or the attempt's level, which the spans carry. Ids and times follow from the
records, so the same attempt gives the same bytes. docs/formats/telemetry.md says what
is where.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.attempt = args[0]
			return runExport(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.format, "format", "", "the `FORMAT`: otel (later: "+strings.Join(laterFormats, ", ")+")")
	f.StringVarP(&o.out, "out", "o", "", "write to `FILE` in place of standard output")
	f.StringVar(&o.glob, "case", "", "only the cases whose id matches `GLOB`")
	addHeldOutFlag(cmd, &o.showHeldOut)
	return cmd
}

type exportAnswer struct {
	Attempt string    `json:"attempt"`
	Level   string    `json:"level"`
	Format  string    `json:"format"`
	File    string    `json:"file"`
	SHA256  digest.ID `json:"sha256"`
	Bytes   int       `json:"bytes"`
	Cases   int       `json:"cases"`
}

func runExport(_ context.Context, env *Env, o exportOptions) error {
	switch {
	case o.format == otelFormat:
	case slices.Contains(laterFormats, o.format):
		return refusal.Newf(refusal.Usage, "--format %s is not built yet", o.format).WithHint("--format otel works")
	default:
		return refusal.Newf(refusal.Usage, "--format %q: expected otel (later: %s)", o.format, strings.Join(laterFormats, ", "))
	}
	if _, err := path.Match(o.glob, ""); err != nil {
		return refusal.Newf(refusal.Usage, "--case %q: %w", o.glob, err)
	}
	p, err := read(env, archive.Ask{ShowHeldOut: o.showHeldOut, Want: func(a *history.Attempt) bool { return a.ID == o.attempt }})
	if err != nil {
		return err
	}
	a, err := p.Attempt(o.attempt)
	if err != nil {
		return err
	}
	answer := &exportAnswer{Attempt: a.ID, Level: a.Level.String(), Format: o.format, File: o.out}
	doc, err := otel.Export(otel.Attempt{ID: a.ID, Class: a.Class, Target: a.Target, Level: a.Level.String(), Version: archive.HarnessOf(a)}, counted(p.Exported(a, o.glob), &answer.Cases))
	if err != nil {
		return err
	}
	if answer.Cases == 0 {
		return refusal.Newf(refusal.UnknownName, "attempt %s has no case that matches %q", a.ID, o.glob).WithHint(`"tally scorecard %s" lists what it has`, a.ID)
	}
	answer.SHA256, answer.Bytes = digest.IDOf(doc), len(doc)
	if o.out == "" {
		// The document is the answer, as JSON either way.
		return env.Answer(rawJSON(doc), func(w io.Writer) { w.Write(plain.JSON(doc)) })
	}
	if err := archive.WriteOutput(o.out, doc); err != nil {
		return err
	}
	return env.Answer(answer, answer.print)
}

// rawJSON is a document that is JSON already.
type rawJSON []byte

// MarshalJSON gives the document as it is.
func (r rawJSON) MarshalJSON() ([]byte, error) { return r, nil }

// counted counts what passes by.
func counted(cases iter.Seq2[otel.Case, error], n *int) iter.Seq2[otel.Case, error] {
	return func(yield func(otel.Case, error) bool) {
		for c, err := range cases {
			*n++
			if !yield(c, err) {
				return
			}
		}
	}
}

func (a *exportAnswer) print(out io.Writer) {
	fmt.Fprintf(out, "%s: %d cases of %s (%s) as %s, %d bytes, %s\n", plain.Line(a.File), a.Cases, plain.Line(a.Attempt), a.Level, a.Format, a.Bytes, a.SHA256)
	fmt.Fprintln(out, "the document itself is not signed")
}
