package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/archive"
	"tallystick/internal/bench"
	"tallystick/internal/digest"
	"tallystick/internal/harness"
	"tallystick/internal/plain"
	"tallystick/internal/refusal"
)

type benchVerifyOptions struct {
	classes   []string
	all       bool
	trustRoot string
}

func newBenchVerify(env *Env) *cobra.Command {
	var o benchVerifyOptions
	cmd := &cobra.Command{
		Use:   "verify CLASS... | --all",
		Short: "Verify every byte and signature of a class, or of all",
		Long: `Verify the cases, cassettes, rubric, registration, dataset, manifest and pins of a
class, who signed them, and that a run could start: every case can be read and is
graded by something. One refusal refuses the whole class. --all is what CI calls:
every class there is, and every class that the pins list.

Who is trusted comes from the verified ledger. In a checkout without a ledger it
comes from the signers folder, starting from the trust root in tally.yaml; whoever
can change that file can change who is trusted, so give CI a --trust-root that the
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

// verifiedClass is the result for one class.
type verifiedClass struct {
	Class       string          `json:"class"`
	Verified    bool            `json:"verified"`
	Level       string          `json:"level,omitempty"`
	BenchDigest string          `json:"bench_digest,omitempty"`
	Cases       int             `json:"cases"`
	Lines       int             `json:"dataset_lines"`
	Signers     []string        `json:"signers,omitempty"`
	Warnings    []bench.Warning `json:"warnings,omitempty"`
	Name        refusal.Name    `json:"name,omitempty"`
	Error       string          `json:"error,omitempty"`
}

func runBenchVerify(_ context.Context, env *Env, o benchVerifyOptions) error {
	if o.all == (len(o.classes) > 0) {
		return refusal.Newf(refusal.Usage, "tally bench verify: name classes, or give --all")
	}
	p, err := env.openCorpusFor(o.trustRoot)
	if err != nil {
		return err
	}
	defer p.Root.Close()
	if o.all {
		if o.classes, err = everyClass(p); err != nil {
			return err
		}
	}
	results, _, worst := verifyClasses(p, o.classes)
	answer := map[string]any{"ok": worst == nil, "signers_from": p.From, "classes": results}
	err = env.Answer(answer, func(out io.Writer) {
		for _, r := range results {
			r.print(out)
		}
	})
	if err != nil {
		return err
	}
	return worst
}

// everyClass lists the folders and what the pins list, so that a class that
// disappeared is missed.
func everyClass(p *archive.Corpus) ([]string, error) {
	classes, err := bench.Classes(p.Root)
	if err != nil {
		return nil, err
	}
	pins, _, err := bench.LoadPins(p.Root)
	if err != nil {
		return nil, err
	}
	if pins != nil {
		// Even with no signed class left the pins must be those that were
		// signed.
		if _, err := bench.VerifyPins(p.Root, p.Options); err != nil {
			return nil, err
		}
		classes = append(classes, pins.Classes...)
	}
	slices.Sort(classes)
	classes = slices.Compact(classes)
	if len(classes) == 0 {
		return nil, refusal.Newf(refusal.NotFound, "there is no task class to verify").
			WithHint(`"tally bench new CLASS" makes one`)
	}
	return classes, nil
}

// verifyClasses verifies each class and returns the digests of those that did,
// and the first refusal, preferring evidence that does not verify.
func verifyClasses(p *archive.Corpus, classes []string) (results []verifiedClass, digests map[string]digest.ID, worst error) {
	digests = map[string]digest.ID{}
	for _, class := range classes {
		r := verifiedClass{Class: class}
		v, err := bench.Verify(p.Root, class, p.Options)
		if err == nil {
			if err = harness.Validate(v); err != nil {
				err = fmt.Errorf("class %s: %w", class, err)
			}
		}
		if refusal.Is(err, refusal.UnknownName) && pinned(p, class) {
			err = refusal.Newf(refusal.BenchIncomplete, "class %s: %s lists it, there is no such folder", class, bench.PinsFile).
				WithHint("restore the folder; a class does not disappear without two people changing the pins")
		}
		if err != nil {
			r.Name, r.Error = refusal.Of(err).Name, err.Error()
			if worst == nil || refusal.ExitCode(worst) != refusal.ExitUnverified && refusal.ExitCode(err) == refusal.ExitUnverified {
				worst = err
			}
		} else {
			digests[class] = v.Digest()
			r.Verified, r.Level, r.BenchDigest = true, v.Level(), v.Digest().String()
			r.Cases, r.Signers, r.Warnings = len(v.Cases()), v.Signers(), v.Warnings()
			if set := v.Dataset(); set != nil {
				r.Lines = len(set.Lines)
			}
		}
		results = append(results, r)
	}
	return results, digests, worst
}

// pinned reports whether the pins list the class; whether they are signed was
// or will be looked at elsewhere.
func pinned(p *archive.Corpus, class string) bool {
	pins, _, err := bench.LoadPins(p.Root)
	return err == nil && pins != nil && slices.Contains(pins.Classes, class)
}

// caseCount counts the cases of a class: folders, and lines of its dataset.
func caseCount(cases, lines int) string {
	switch {
	case lines == 0:
		return plural(cases, "case")
	case cases == 0:
		return plural(lines, "dataset line")
	}
	return plural(cases, "case") + ", " + plural(lines, "dataset line")
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func (r verifiedClass) print(out io.Writer) {
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
