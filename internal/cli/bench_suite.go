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
	"tallystick/internal/app/mine"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/sandbox"
	"tallystick/internal/share/gaia"
)

// suiteFlags are the flags of "bench import --suite".
type suiteFlags struct {
	name, from string
	fromHub    bool
	hub        gaia.Hub
	gaia       ceremony.GAIAOptions
	coding     mine.ImportOptions
	class      string // of sandbox
}

// suiteOnly are the flags that only a suite takes.
var suiteOnly = []string{"from", "hub", "hub-url", "revision", "task-level", "scratch", "added-by", "reviewed-by", "repos", "image", "test-seconds", "sandbox"}

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
	f.StringVar(&s.coding.Repos, "repos", "", "of swe-bench, the `FOLDER` with clones of the repositories")
	f.StringArrayVar(&s.coding.Images, "image", nil, "of coding suites, the `DIGEST` of the image that tests run in, or TASK=DIGEST (may be repeated)")
	f.IntVar(&s.coding.Seconds, "test-seconds", 0, "of coding suites, `N` seconds for a test that does not say (default: 300; swe-bench: 1800)")
	f.StringVar(&s.class, "sandbox", "", "of coding suites, `CLASS` of sandbox to check in, which the class then demands (default: gvisor, else namespace)")
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
	if slices.Contains(mine.CodingSuites, s.name) {
		return s.runCoding(ctx, env, cmp.Or(path, s.from), class)
	}
	o := s.gaia
	o.Path, o.Class, o.Split = cmp.Or(path, s.from), class, cmp.Or(split, gaia.Validation)
	if s.fromHub {
		s.hub.Token, s.hub.Revision = env.Getenv("HF_TOKEN"), o.Revision
		o.Hub = &s.hub
	}
	return runGAIAImport(ctx, env, o)
}

// runCoding makes the class of coding tasks that other people wrote.
func (s *suiteFlags) runCoding(ctx context.Context, env *Env, path, class string) error {
	if path == "" {
		return refusal.Newf(refusal.Usage, "expected the tasks of %s: a file of instances, or a folder", s.name)
	}
	c, err := openCorpus(env)
	if err != nil {
		return err
	}
	defer c.Close()
	o := s.coding
	o.Suite, o.Path, o.Class, o.Sandbox = s.name, path, class, sandbox.Class(s.class)
	o.Scratch, o.AddedBy, o.ReviewedBy = s.gaia.Scratch, s.gaia.AddedBy, s.gaia.ReviewedBy
	made, err := mine.ImportTasks(ctx, c, o)
	if err != nil {
		return err
	}
	return env.Answer(made, func(out io.Writer) {
		fmt.Fprintf(out, "made bench/%s (%s): %s of %s, checked in %s\n", plain.Line(made.Class), made.Trust, plain.Plural(made.Tasks, "task"), made.Suite, made.Sandbox)
		for _, n := range made.Notes {
			fmt.Fprintf(out, "note      %s\n", plain.Line(n))
		}
		for _, l := range made.LeftOut {
			fmt.Fprintf(out, "left out  %s\n", plain.Line(l))
		}
		fmt.Fprintf(out, "Run it: tally run %s --target %s-reference\n", plain.Line(made.Class), plain.Line(made.Class))
	})
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
