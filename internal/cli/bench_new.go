package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/record/plain"
	"tallystick/internal/run/bench"
)

func newBenchNew(env *Env) *cobra.Command {
	var o ceremony.ClassOptions
	cmd := &cobra.Command{
		Use:     "new CLASS",
		Short:   "Make a task class with a small real example",
		Example: "tally bench new support --scratch",
		Long: `Make bench/CLASS with a registration, a Starlark rubric and one case, ready to run.
With --dataset the cases are lines of dataset.jsonl instead, graded by built-in
graders: quick to write, signed as a whole, and not counted towards a tier.
Its tier is bronze. A second class of the same name, or of one that looks like it,
is refused. templates/CODEOWNERS is written if there is none.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Class = args[0]
			return runBenchNew(cmd.Context(), env, o)
		},
	}
	cmd.Flags().BoolVar(&o.Scratch, "scratch", false, "no signatures, runs at once, never counts for promotion")
	cmd.Flags().BoolVar(&o.Dataset, "light", false, "the light form: cases are lines of dataset.jsonl, no rubric")
	addPeopleFlags(cmd, &o.AddedBy, &o.ReviewedBy)
	return cmd
}

func addPeopleFlags(cmd *cobra.Command, added, reviewed *string) {
	cmd.Flags().StringVar(added, "added-by", "", "`NAME` of the curator who adds the case (may be left out together with --reviewed-by if only two people can sign)")
	cmd.Flags().StringVar(reviewed, "reviewed-by", "", "`NAME` of the curator or security person who reviews it")
}

func newBenchAdd(env *Env) *cobra.Command {
	var o ceremony.CaseOptions
	cmd := &cobra.Command{
		Use:     "add CLASS ID",
		Short:   "Add a case to fill in, and say what it still needs",
		Example: `tally bench add support refund-8 --title "A refund after 30 days"`,
		Long: `Add bench/CLASS/cases/ID with a case.yaml to fill in, input/ and expected/. If the
case exists already, nothing is written: the answer says what it still needs and
who may sign it.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Class, o.ID = args[0], args[1]
			return runBenchAdd(cmd.Context(), env, o)
		},
	}
	cmd.Flags().StringVar(&o.Title, "title", "", "one line that says what the case is about")
	cmd.Flags().StringVar(&o.Input, "input", "", "`FILE` to copy into input/")
	addPeopleFlags(cmd, &o.AddedBy, &o.ReviewedBy)
	return cmd
}

func runBenchNew(_ context.Context, env *Env, o ceremony.ClassOptions) error {
	c, err := openCorpus(env)
	if err != nil {
		return err
	}
	defer c.Close()
	trust, err := ceremony.NewClass(c, o)
	if err != nil {
		return err
	}
	dir := filepath.Join(bench.Dir, o.Class)
	return env.Answer(map[string]any{"class": o.Class, "trust": trust, "folder": dir}, func(out io.Writer) {
		made := "rubric.star, cases/greeting"
		if o.Dataset {
			made = bench.DatasetFile
		}
		fmt.Fprintf(out, "made %s (%s, bronze): registration.yaml, %s\n", plain.Line(dir), trust, made)
		if o.Scratch {
			fmt.Fprintf(out, "It is a SCRATCH class: it is not signed and never counts for promotion.\nNext: tally run %s\n", plain.Line(o.Class))
			return
		}
		fmt.Fprintf(out, "Next: tally bench digest %s, then two people run \"tally bench sign %s --key THEIR-SSH-KEY\"\n", plain.Line(o.Class), plain.Line(o.Class))
	})
}

func runBenchAdd(_ context.Context, env *Env, o ceremony.CaseOptions) error {
	c, err := openCorpus(env)
	if err != nil {
		return err
	}
	defer c.Close()
	added, err := ceremony.AddCase(c, o)
	if err != nil {
		return err
	}
	dir := filepath.Join(bench.Dir, o.Class, bench.CasesDir, o.ID)
	missing := missingList(added.Missing)
	return env.Answer(map[string]any{"class": o.Class, "case": o.ID, "folder": dir, "made": added.Made, "missing": missing}, func(out io.Writer) {
		if added.Made {
			fmt.Fprintf(out, "made %s\n", plain.Line(dir))
			fmt.Fprintf(out, "1. fill in case.yaml (title, disposition, source_ref, expected) and put files into input/ and expected/\n2. tally bench digest %s\n", plain.Line(o.Class))
			if added.Trust == bench.Signed {
				fmt.Fprintf(out, "3. two people run \"tally bench sign %s %s --key THEIR-SSH-KEY\"\n", plain.Line(o.Class), plain.Line(o.ID))
			}
		}
		missing.print(out)
		if !added.Made && len(missing) == 0 {
			fmt.Fprintf(out, "case %s has all it needs\n", plain.Line(o.ID))
		}
	})
}
