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
	"tallystick/internal/share/dataset"
)

func newBenchImport(env *Env) *cobra.Command {
	var o ceremony.DatasetOptions
	var suite suiteFlags
	cmd := &cobra.Command{
		Use:     "import FILE | import --suite NAME [FOLDER]",
		Short:   "Make a class of a table, a data set, a promptfoo configuration or a public suite",
		Example: "tally bench import questions.csv --class support",
		Long: `Make bench/CLASS with one case for each row of FILE: CSV, TSV, JSON, JSON lines, Parquet, an
Inspect data set, the folder of a Hugging Face data set, or the tests of a promptfoo
configuration (YAML).

Which column is what is guessed from the names and printed; --input-column,
--expected-column, --id-column and --choices-column say otherwise. Other columns become
metadata of the case. A row without an expected answer, and a test that cannot be
converted, are left out and listed.

The options of a multiple choice get letters, stand in the question, and the letter that
the agent ends with is compared. They are a column with a list, or a column for each
(A to D, choice_1, option_a); a few expected answers that repeat, such as yes and no, are
options too. Other short answers must stand in the agent's answer as whole words.

Null answers (an empty one, a constant one, the question, the first option, the most
frequent expected answer) are graded on up to 50 cases. The one that passes most is the
floor of the class: it is written into its registration, and every scorecard says it. If
it passes nine of ten cases, the class is refused without --weak.

The class is a scratch class: it runs at once. --signed makes one that two people sign.

--suite makes the class of a public suite, graded by its official scorer; its registration
has the split, the revision and the SHA-256 of every file that was read. gaia: FOLDER is
that of the data set, or a metadata.jsonl or Parquet file with the tasks' files beside it.
--split test has no public answers: its cases run and are unscored. --split smoke needs no
FOLDER: five tasks that come with the program, with the model's words. A suite's class is
signed by two people unless --scratch is given. docs/gaia.md has the whole way.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.Path = args[0]
			}
			if suite.name != "" {
				for _, name := range []string{"input-column", "expected-column", "id-column", "choices-column", "answer-is", "grade", "signed"} {
					if cmd.Flags().Changed(name) {
						return refusal.Newf(refusal.Usage, "--%s is for tables: a suite says itself what is what", name)
					}
				}
				suite.gaia.Weak = o.Weak
				return suite.run(cmd.Context(), env, o.Path, o.Class, o.Split)
			}
			for _, name := range suiteOnly {
				if cmd.Flags().Changed(name) {
					return refusal.Newf(refusal.Usage, "--%s is for --suite, which is not given", name)
				}
			}
			if o.Path == "" {
				return refusal.Newf(refusal.Usage, "expected a FILE to import, or --suite NAME").WithHint("tally bench import questions.csv")
			}
			return runBenchImport(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Class, "class", "", "`CLASS` to make (default: that of the file)")
	f.StringVar(&o.Split, "split", "", "`NAME` of the split of a folder (default: test, else validation, else train)")
	f.StringVar(&o.Mapping.Input, "input-column", "", "`COLUMN` that the agent is given")
	f.StringVar(&o.Mapping.Expected, "expected-column", "", "`COLUMN` with the right answer")
	f.StringVar(&o.Mapping.ID, "id-column", "", "`COLUMN` with the name of the case")
	f.StringVar(&o.Mapping.Choices, "choices-column", "", "`COLUMN` with the options of a multiple choice, or one column for each option, with commas between")
	f.StringVar(&o.Mapping.AnswerIs, "answer-is", "", "`KIND` in which the expected answer names an option: "+strings.Join(dataset.AnswerKinds(), ", "))
	f.StringVar(&o.Mapping.Grade, "grade", "", "`KIND` of grader of answers that are not choices (default: number if every answer is one, else words)")
	suite.add(f)
	f.BoolVar(&o.Weak, "weak", false, "make the class even if an answer that takes no work passes nine of ten cases")
	f.BoolVar(&o.Signed, "signed", false, "a class that two people sign, in place of a scratch class")
	return cmd
}

func runBenchImport(ctx context.Context, env *Env, o ceremony.DatasetOptions) error {
	c, err := openCorpus(env)
	if err != nil {
		return err
	}
	defer c.Close()
	made, err := ceremony.ImportDataset(ctx, c, o)
	if err != nil {
		return err
	}
	return env.Answer(made, func(out io.Writer) { benchImportText(out, made) })
}

func benchImportText(out io.Writer, made *ceremony.NewDataset) {
	fmt.Fprintf(out, "made bench/%s (%s): %s of %s\n", plain.Line(made.Class), made.Trust, plain.Plural(made.Count, "case"), made.Format)
	if m := made.Mapping; m != nil {
		fmt.Fprintf(out, "input     the column %s\nexpected  the column %s, graded by %s\n", plain.Line(m.Input), plain.Line(m.Expected), m.Grade)
		choices := strings.Join(slices.Concat([]string{m.Choices}, m.ChoiceColumns, m.WrongColumns, m.Labels), ", ")
		if m.AnswerIs != "" {
			choices = strings.TrimPrefix(choices, ", ") + "; the expected answer is " + answerIs[m.AnswerIs]
		}
		for _, x := range []struct{ what, column string }{{"id", m.ID}, {"choices", choices}, {"metadata", strings.Join(m.Metadata, ", ")}} {
			if x.column != "" {
				fmt.Fprintf(out, "%-9s %s\n", x.what, plain.Line(x.column))
			}
		}
	}
	floorText(out, made.Floor)
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

// answerIs says in words how an expected answer names an option.
var answerIs = map[string]string{"label": "its label", "letter": "its letter", "text": "its text", "index0": "its place, from 0", "index1": "its place, from 1"}

// floorText says what null answers score in a class that was imported.
func floorText(out io.Writer, f ceremony.Floor) {
	if f.Floor != nil {
		fmt.Fprintf(out, "floor     %s\n", f.Floor.Text())
	}
	if f.NotTried != "" {
		fmt.Fprintf(out, "floor     %s\n", plain.Line(f.NotTried))
	}
}
