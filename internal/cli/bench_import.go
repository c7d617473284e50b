package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/record/plain"
	"tallystick/internal/run/bench"
)

func newBenchImport(env *Env) *cobra.Command {
	var o ceremony.DatasetOptions
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Make a class of a table, a data set or a promptfoo configuration",
		Long: `Make bench/CLASS with one case for each row of FILE: CSV, TSV, JSON, JSON lines, Parquet, an
Inspect data set, the folder of a Hugging Face data set, or the tests of a promptfoo
configuration (YAML).

Which column is what is guessed from the names and printed; --input, --expected, --id
and --choices say otherwise. Other columns become metadata of the case. A row without an
expected answer, and a test that cannot be converted, are left out and listed.

The class is a scratch class: it runs at once. --signed makes one that two people sign.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Path = args[0]
			return runBenchImport(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Class, "class", "", "`NAME` of the class (default: that of the file)")
	f.StringVar(&o.Split, "split", "", "`NAME` of the split of a folder (default: test, else validation, else train)")
	f.StringVar(&o.Mapping.Input, "input", "", "`COLUMN` that the agent is given")
	f.StringVar(&o.Mapping.Expected, "expected", "", "`COLUMN` with the right answer")
	f.StringVar(&o.Mapping.ID, "id", "", "`COLUMN` with the name of the case")
	f.StringVar(&o.Mapping.Choices, "choices", "", "`COLUMN` with the options of a multiple choice")
	f.StringVar(&o.Mapping.Grade, "grade", "", "`KIND` of grader (default: number if every answer is one, else contains)")
	f.BoolVar(&o.Signed, "signed", false, "a class that two people sign, in place of a scratch class")
	return cmd
}

func runBenchImport(_ context.Context, env *Env, o ceremony.DatasetOptions) error {
	c, err := openCorpus(env)
	if err != nil {
		return err
	}
	defer c.Close()
	made, err := ceremony.ImportDataset(c, o)
	if err != nil {
		return err
	}
	return env.Answer(made, func(out io.Writer) { benchImportText(out, made) })
}

func benchImportText(out io.Writer, made *ceremony.NewDataset) {
	fmt.Fprintf(out, "made bench/%s (%s): %s of %s\n", plain.Line(made.Class), made.Trust, plain.Plural(made.Count, "case"), made.Format)
	if m := made.Mapping; m != nil {
		fmt.Fprintf(out, "input     the column %s\nexpected  the column %s, graded by %s\n", plain.Line(m.Input), plain.Line(m.Expected), m.Grade)
		for _, x := range []struct{ what, column string }{{"id", m.ID}, {"choices", m.Choices}, {"metadata", strings.Join(m.Metadata, ", ")}} {
			if x.column != "" {
				fmt.Fprintf(out, "%-9s %s\n", x.what, plain.Line(x.column))
			}
		}
	}
	for i, l := range made.LeftOut {
		if i == 10 {
			fmt.Fprintf(out, "left out  and %d more; --json lists them all\n", len(made.LeftOut)-i)
			break
		}
		fmt.Fprintf(out, "left out  %s\n", plain.Line(l))
	}
	if made.Trust == bench.Scratch {
		fmt.Fprintf(out, "Run it: tally run %s --target NAME\n", plain.Line(made.Class))
	} else {
		fmt.Fprintf(out, "Next: tally bench digest %s, then two people: tally bench sign %s --key KEY\n", plain.Line(made.Class), plain.Line(made.Class))
	}
}
