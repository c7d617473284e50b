package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
	"tallystick/internal/share/gaia"
)

func newGAIA(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gaia",
		Short: "Run the GAIA benchmark, with its splits and its official scorer",
		Long: `Make a class of the GAIA benchmark and run it. docs/gaia.md has the way from the data set
to a submission.`,
	}
	run := newRun(env)
	run.Short = "Run a class that was made of GAIA: the same as \"tally run\""
	cmd.AddCommand(newGAIAImport(env), run)
	return cmd
}

func newGAIAImport(env *Env) *cobra.Command {
	var o ceremony.GAIAOptions
	var fromHub bool
	var hub gaia.Hub
	cmd := &cobra.Command{
		Use:   "import [PATH]",
		Short: "Make a class of a split of GAIA",
		Long: `Make bench/CLASS with one case for each task of a split of GAIA: its file in input/, its
level as a tag, graded by the official scorer. PATH is the folder of the data set, or a
metadata.jsonl or Parquet file with the tasks' files beside it. The registration, which two
people sign, has the split, the revision and the SHA-256 of every file that was read.

--split test has no public answers: its cases run and are unscored. --split smoke needs no
PATH: five tasks that come with the program, with the model's words, to see that all works.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.Path = args[0]
			}
			if fromHub {
				hub.Token, hub.Revision = env.Getenv("HF_TOKEN"), o.Revision
				o.Hub = &hub
			}
			return runGAIAImport(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Split, "split", gaia.Validation, "`SPLIT`: "+strings.Join(gaia.Splits(), ", "))
	f.BoolVar(&fromHub, "hub", false, "download the split from the hub, with the token in HF_TOKEN; this uses the network")
	f.StringVar(&hub.URL, "hub-url", "", "`URL` of the hub (default: "+gaia.DefaultHub+")")
	f.StringVar(&o.Revision, "revision", "", "`NAME` of the data set's revision, such as a commit (default: a digest of the files)")
	f.IntVar(&o.Level, "level", 0, "only tasks of level `N`: 1, 2 or 3")
	f.StringVar(&o.Class, "class", "", "`NAME` of the class (default: gaia-SPLIT, with -lN for one level)")
	f.BoolVar(&o.Scratch, "scratch", false, "a class that nobody signs; it runs at once and can never be submitted")
	f.StringVar(&o.AddedBy, "added-by", "", "`IDENTITY` of the curator who adds the cases")
	f.StringVar(&o.ReviewedBy, "reviewed-by", "", "`IDENTITY` of who reviews them")
	return cmd
}

func runGAIAImport(ctx context.Context, env *Env, o ceremony.GAIAOptions) error {
	switch {
	case !slices.Contains(gaia.Splits(), o.Split):
		return refusal.Newf(refusal.Usage, "--split %s: expected %s", o.Split, strings.Join(gaia.Splits(), ", "))
	case o.Level < 0 || o.Level > 3:
		return refusal.Newf(refusal.Usage, "--level %d: expected 1, 2 or 3", o.Level)
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
		if made.Trust == bench.Signed {
			fmt.Fprintf(out, "Next: two people: tally bench sign %s --key KEY\nThen: tally gaia run %s --target NAME --submit-intent\n", plain.Line(made.Class), plain.Line(made.Class))
		} else {
			fmt.Fprintf(out, "Run it: tally gaia run %s --target NAME\n", plain.Line(made.Class))
		}
	})
}
