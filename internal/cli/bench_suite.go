package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
	"tallystick/internal/share/gaia"
)

// suiteFlags are the flags of "bench import --suite".
type suiteFlags struct {
	name, from string
	fromHub    bool
	hub        gaia.Hub
	gaia       ceremony.GAIAOptions
}

// suiteOnly are the flags that only a suite takes.
var suiteOnly = []string{"from", "hub", "hub-url", "revision", "task-level", "scratch", "added-by", "reviewed-by"}

func (s *suiteFlags) add(f *pflag.FlagSet) {
	f.StringVar(&s.name, "suite", "", "make the class of the public suite `NAME`, with its official scoring; \"tally bench suites\" lists them")
	f.StringVar(&s.from, "from", "", "`FOLDER` with the suite's data")
	f.BoolVar(&s.fromHub, "hub", false, "download the suite's split from the hub, with the token in HF_TOKEN; this uses the network")
	f.StringVar(&s.hub.URL, "hub-url", "", "`URL` of the hub (default: "+gaia.DefaultHub+")")
	f.StringVar(&s.gaia.Revision, "revision", "", "`NAME` of the data's revision, such as a commit (default: a digest of the files)")
	f.IntVar(&s.gaia.Level, "task-level", 0, "only tasks of level `N`: 1, 2 or 3")
	f.BoolVar(&s.gaia.Scratch, "scratch", false, "a suite's class without signatures; it runs at once and can never be submitted")
	f.StringVar(&s.gaia.AddedBy, "added-by", "", "`NAME` of the curator who adds the suite's cases")
	f.StringVar(&s.gaia.ReviewedBy, "reviewed-by", "", "`NAME` of who reviews them")
}

// importedSuites are the suites that a class can be made of.
func importedSuites() []string {
	var names []string
	for _, s := range ceremony.Suites() {
		if s.Imports {
			names = append(names, s.Name)
		}
	}
	return names
}

// run makes the class of a suite.
func (s *suiteFlags) run(ctx context.Context, env *Env, path, class, split string) error {
	if path != "" && s.from != "" {
		return refusal.Newf(refusal.Usage, "the data is named twice, as %s and with --from %s", path, s.from)
	}
	o := s.gaia
	o.Path, o.Class, o.Split = cmp.Or(path, s.from), class, cmp.Or(split, gaia.Validation)
	if s.fromHub {
		s.hub.Token, s.hub.Revision = env.Getenv("HF_TOKEN"), o.Revision
		o.Hub = &s.hub
	}
	return runGAIAImport(ctx, env, o)
}

func runGAIAImport(ctx context.Context, env *Env, o ceremony.GAIAOptions) error {
	switch {
	case !slices.Contains(gaia.Splits(), o.Split):
		return refusal.Newf(refusal.Usage, "--split %s: expected %s", o.Split, strings.Join(gaia.Splits(), ", "))
	case o.Level < 0 || o.Level > 3:
		return refusal.Newf(refusal.Usage, "--task-level %d: expected 1, 2 or 3", o.Level)
	case o.Hub != nil && (o.Path != "" || o.Split == gaia.Smoke):
		return refusal.Newf(refusal.Usage, "--hub downloads a split of GAIA: leave out PATH, and --split smoke")
	case o.Hub == nil && (o.Path == "") != (o.Split == gaia.Smoke):
		return refusal.Newf(refusal.Usage, "--split %s: expected PATH with validation and test, and none with smoke", o.Split)
	}
	c, err := openCorpus(env)
	if err != nil {
		return err
	}
	defer c.Close()
	made, err := ceremony.ImportGAIA(ctx, c, o)
	if err != nil {
		return err
	}
	return env.Answer(made, func(out io.Writer) {
		fmt.Fprintf(out, "made bench/%s (%s): %s of GAIA %s, revision %s, %s\n", plain.Line(made.Class), made.Trust, plain.Plural(made.Tasks, "task"), made.Split, plain.Line(made.Revision), plain.Plural(made.Attachments, "file"))
		floorText(out, made.Floor)
		if made.Trust == bench.Signed {
			fmt.Fprintf(out, "Next: two people: tally bench sign %s --key KEY\nThen: tally run %s --target NAME --submit-intent\n", plain.Line(made.Class), plain.Line(made.Class))
		} else {
			fmt.Fprintf(out, "Run it: tally run %s --target NAME\n", plain.Line(made.Class))
		}
	})
}

func newBenchSuites(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:     "suites",
		Short:   "List the public suites that a class can be made of, and those that come along",
		Example: "tally bench suites",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runBenchSuites(cmd.Context(), env) },
	}
}

func runBenchSuites(_ context.Context, env *Env) error {
	list := ceremony.Suites()
	return env.Answer(map[string]any{"suites": list}, func(out io.Writer) {
		for _, s := range list {
			fmt.Fprintf(out, "%-22s %s\n%-22s needs %s; scored by %s\n", s.Name, s.Is, "", s.Needs, s.Scoring)
			if s.Imports {
				fmt.Fprintf(out, "%-22s tally bench import --suite %s\n", "", s.Name)
			} else {
				fmt.Fprintf(out, "%-22s tally run %s\n", "", s.Name)
			}
		}
	})
}
