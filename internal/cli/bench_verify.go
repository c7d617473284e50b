package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
)

type benchVerifyOptions struct {
	classes   []string
	all       bool
	trustRoot string
}

func newBenchVerify(env *Env) *cobra.Command {
	var o benchVerifyOptions
	cmd := &cobra.Command{
		Use:     "verify CLASS... | --all",
		Short:   "Verify every byte and signature of a class, or of all",
		Example: "tally bench verify --all",
		Long: `Verify the cases, cassettes, rubric, registration, dataset, manifest and pins of a
class, who signed them, and that a run could start: every case can be read and is
graded by something. One refusal refuses the whole class. --all is what CI calls:
every class there is, and every class that the pins list.

Who is trusted comes from the verified ledger. In a checkout without a ledger it
comes from the signers folder, starting from the trust root in tally.yaml; every user
who can change that file can change who is trusted, so give CI a --trust-root that the
checkout does not bring, such as a variable of the repository.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.classes = args
			return runBenchVerify(cmd.Context(), env, o)
		},
	}
	cmd.Flags().BoolVar(&o.all, "all", false, "verify every class, and that none is missing")
	addTrustRootFlag(cmd, &o.trustRoot)
	return cmd
}

func runBenchVerify(_ context.Context, env *Env, o benchVerifyOptions) error {
	if o.all == (len(o.classes) > 0) {
		return refusal.Newf(refusal.Usage, "tally bench verify: name classes, or give --all")
	}
	p, err := openCorpusFor(env, o.trustRoot)
	if err != nil {
		return err
	}
	defer p.Root.Close()
	if o.all {
		if o.classes, err = ceremony.EveryClass(p); err != nil {
			return err
		}
	}
	results, _, worst := ceremony.VerifyClasses(p, o.classes)
	answer := map[string]any{"ok": worst == nil, "signers_from": p.From, "classes": results}
	err = env.Answer(answer, func(out io.Writer) {
		for _, r := range results {
			printVerified(out, r)
		}
	})
	if err != nil {
		return err
	}
	return worst
}

// caseCount counts the cases of a class: folders, and lines of its dataset.
func caseCount(cases, lines int) string {
	switch {
	case lines == 0:
		return plain.Plural(cases, "case")
	case cases == 0:
		return plain.Plural(lines, "dataset line")
	}
	return plain.Plural(cases, "case") + ", " + plain.Plural(lines, "dataset line")
}

func printVerified(out io.Writer, r ceremony.VerifiedClass) {
	if !r.Verified {
		fmt.Fprintf(out, "REFUSED   %s\n          %s: %s\n", plain.Line(r.Class), r.Name, plain.Line(r.Error))
		return
	}
	fmt.Fprintf(out, "verified  %s (%s) %s\n          %s", plain.Line(r.Class), r.Level, r.BenchDigest, caseCount(r.Cases, r.Lines))
	if len(r.Signers) > 0 {
		fmt.Fprintf(out, ", signed by %s", plain.Line(strings.Join(r.Signers, ", ")))
	}
	fmt.Fprintln(out)
	for _, w := range r.Warnings {
		where := ""
		if w.Case != "" {
			where = "case " + w.Case + ": "
		}
		fmt.Fprintf(out, "warning   %s%s\n", plain.Line(where), plain.Line(w.Detail))
	}
}
