package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/read/answer"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/gate"
	"tallystick/internal/read/history"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
)

type gateOptions struct {
	attempt string
	class   string
	files   answer.ReportFiles
	across  bool

	showHeldOut  bool
	trustRoot    string
	requireLevel string
}

func newGate(env *Env) *cobra.Command {
	var o gateOptions
	cmd := &cobra.Command{
		Use:     "gate [ATTEMPT]",
		Short:   "Compare an attempt with the thresholds of the signed registration",
		Example: "tally gate latest --require-level signed",
		Long: `Compare an attempt with the gates of its class: thresholds per tag and in all, written
in the signed registration. Without ATTEMPT it is the newest finished one, of --class if
there are several classes. The exit code is 4 when a gate is not met.

The bench and the ledger are verified first. A tag without a scored case fails. Cases
that errored or have no score fail a gate unless its max_errors and max_unscored allow
them. A gate is for the whole class: an attempt that left out cases of it does not decide
it, and the exit code is 4 too.

If the cases or the rubric of the class have changed since the attempt, it is refused,
because it says nothing about the class as it is now. After "tally rescore" you can allow
it with --across-benches.

--junit and --tap write the cases and the gates for a test reporter.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.attempt = args[0]
			}
			return runGate(cmd.Context(), env, o)
		},
	}
	cmd.Flags().StringVar(&o.class, "class", "", "the newest finished attempt of this task `CLASS`")
	cmd.Flags().BoolVar(&o.across, "across-benches", false, "take an attempt although cases or rubric have changed since")
	cmd.Flags().StringVar(&o.files.JUnit, "junit", "", "write JUnit XML to `FILE`")
	cmd.Flags().StringVar(&o.files.TAP, "tap", "", "write TAP to `FILE`")
	addHeldOutFlag(cmd, &o.showHeldOut)
	cmd.Flags().StringVar(&o.requireLevel, "require-level", "", "exit 4 unless the attempt is of `LEVEL`: signed, pinned, witnessed or reproduced, or several with commas")
	addTrustRootFlag(cmd, &o.trustRoot)
	return cmd
}

func runGate(_ context.Context, env *Env, o gateOptions) error {
	if o.attempt != "" && o.class != "" {
		return refusal.Newf(refusal.Usage, "an attempt is named, and --class chooses one").WithHint("give one or the other")
	}
	required, err := requiredLevel(o.requireLevel)
	if err != nil {
		return err
	}
	place, err := openPlace(env)
	if err != nil {
		return err
	}
	// A report tells where a case left the run in which it last passed, and for
	// that the other attempts are needed too.
	ask := dossier.Ask{ShowHeldOut: o.showHeldOut, Again: o.files.Any(), Want: func(a *history.Attempt) bool {
		return a.ID == o.attempt || o.attempt == "" && (o.class == "" || a.Class == o.class) || o.files.Any()
	}}
	p, err := place.ReadCorpus(o.trustRoot, ask)
	if err != nil {
		return err
	}
	defer p.Close()
	if p.Reading == nil { // no ledger: say so as every reader of it does
		_, err := place.Read(ask)
		return err
	}
	past := p.Reading
	a, err := o.choose(past)
	if err != nil {
		return err
	}
	v, err := p.Bench(a.Class)
	if err != nil {
		return fmt.Errorf("gate of attempt %s: %w", a.ID, err)
	}
	if err := gate.Gated(v); err != nil {
		return err
	}
	in, err := gate.NewInput(v, a)
	if err != nil {
		return err
	}
	in.AcrossBenches = o.across
	decision, err := gate.Decide(in)
	if err != nil {
		return err
	}
	level := past.RequireProperties(required, a.Attempt)
	refused := cmp.Or(decision.Demand(a.Attempt), level)
	if err := answer.WriteReports(a, answer.Decided{Decision: decision, Refused: refused, Level: level}, o.files); err != nil {
		return err
	}
	if a.Plan.BenchDigest != v.Digest() {
		env.Note("attempt %s ran against another version of class %s", a.ID, a.Class)
	}
	answer := gate.AnswerOf(past.History, a.Attempt, decision)
	if err := env.Answer(answer, func(out io.Writer) { gateText(out, answer) }); err != nil {
		return err
	}
	return refused
}

func gateText(out io.Writer, g gate.Answer) {
	fmt.Fprintf(out, "%s  %s (number %d of %d, %s)\n", stateText(g), plain.Line(g.Attempt), g.Number, g.Of, history.LevelText(g.Level.String(), g.Properties))
	for _, r := range g.Gates {
		fmt.Fprintf(out, "  %s  %s\n", stateWord(r.State(), "ok  ", "FAIL", "open"), plain.Line(r.Text()))
	}
	qualificationsText(out, "  note  ", g.Qualifications)
	othersLines(out, g.Others, 10)
	for _, c := range g.Corrected {
		fmt.Fprintf(out, "  corrected  %s\n", plain.Line(c.Text()))
	}
}

// choose finds the attempt: the named one, or the newest finished one of the
// class that is meant.
func (o gateOptions) choose(p *dossier.Reading) (*dossier.Dossier, error) {
	if o.attempt != "" {
		a, err := p.Attempt(o.attempt)
		isClass := func(a *history.Attempt) bool { return a.Class == o.attempt }
		if refusal.Is(err, refusal.UnknownName) && slices.ContainsFunc(p.History.Attempts, isClass) {
			return nil, refusal.Newf(refusal.UnknownName, "%w", err).WithHint("it is a class: tally gate --class %s", o.attempt)
		}
		return a, err
	}
	var newest *history.Attempt
	var classes []string
	for _, a := range p.History.Attempts {
		if a.Finished == nil || o.class != "" && a.Class != o.class {
			continue
		}
		newest = a
		if !slices.Contains(classes, a.Class) {
			classes = append(classes, a.Class)
		}
	}
	switch {
	case newest == nil && o.class != "":
		return nil, refusal.Newf(refusal.NotFound, "class %s has no finished attempt", o.class).WithHint(`"tally run %s" makes one`, o.class)
	case newest == nil:
		return nil, refusal.Newf(refusal.NotFound, "there is no finished attempt").WithHint(`"tally run CLASS" makes one`)
	case len(classes) > 1:
		return nil, refusal.Newf(refusal.Usage, "there are attempts of %d classes", len(classes)).WithHint("name an attempt, or one of them with --class: %s", strings.Join(classes, ", "))
	}
	return p.Dossier(newest), nil
}
