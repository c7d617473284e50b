package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"tallystick/internal/archive"
	"tallystick/internal/bench"
	"tallystick/internal/plain"
	"tallystick/internal/refusal"
	"tallystick/internal/store"
)

func sortedNames(files map[string][]byte) []string { return slices.Sorted(maps.Keys(files)) }

type benchNewOptions struct {
	class            string
	scratch, dataset bool
	added, reviewed  string
}

func newBenchNew(env *Env) *cobra.Command {
	var o benchNewOptions
	cmd := &cobra.Command{
		Use:   "new CLASS",
		Short: "Make a task class with a small real example",
		Long: `Make bench/CLASS with a registration, a Starlark rubric and one case, ready to run.
With --dataset the cases are lines of dataset.jsonl instead, graded by built-in
graders: quick to write, signed as a whole, and not counted towards a tier.
Its tier is bronze. A second class of the same name, or of one that looks like it,
is refused. templates/CODEOWNERS is written if there is none.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.class = args[0]
			return runBenchNew(cmd.Context(), env, o)
		},
	}
	cmd.Flags().BoolVar(&o.scratch, "scratch", false, "no signatures, runs at once, never counts for promotion")
	cmd.Flags().BoolVar(&o.dataset, "dataset", false, "the light form: cases are lines of dataset.jsonl, no rubric")
	addPeopleFlags(cmd, &o.added, &o.reviewed)
	return cmd
}

func addPeopleFlags(cmd *cobra.Command, added, reviewed *string) {
	cmd.Flags().StringVar(added, "added-by", "", "`NAME` of the curator who adds the case (default: if only one choice exists)")
	cmd.Flags().StringVar(reviewed, "reviewed-by", "", "`NAME` of the curator or security person who reviews it")
}

func runBenchNew(_ context.Context, env *Env, o benchNewOptions) error {
	if err := bench.CheckID(o.class); err != nil {
		return refusal.Newf(refusal.Usage, "class: %w", err)
	}
	p, err := env.openCorpus()
	if err != nil {
		return err
	}
	defer p.Root.Close()
	if taken, err := bench.Taken(p.Root, o.class); err != nil {
		return err
	} else if taken != "" {
		return refusal.Newf(refusal.TaskClassAlreadyRegistered, "class %s: class %s is registered already", o.class, taken).
			WithHint("choose a name that differs in more than case, 0 and O, 1 and l and I, rn and m, vv and w, - and _")
	}
	trust := bench.Signed
	added, reviewed, err := bench.People(o.added, o.reviewed, p.Options)
	if err != nil {
		return err
	}
	if o.scratch {
		trust, added, reviewed = bench.Scratch, nil, nil
	}
	files := bench.Example(o.class, trust, added, reviewed, env.Now())
	if o.dataset {
		files = bench.ExampleDataset(o.class, trust)
	}
	if err := writeFiles(p.ClassDir(o.class), files); err != nil {
		return err
	}
	if err := store.MakeDir(store.OS{}, p.Path("templates"), 0o755); err != nil {
		return err
	}
	if err := writeIfMissing(p.Path("templates", "CODEOWNERS"), []byte(bench.CodeOwners), 0o644); err != nil {
		return err
	}
	if !o.scratch {
		if _, err := pinClass(p, o.class, benchDigestOptions{}); err != nil {
			return err
		}
	}
	dir := filepath.Join(bench.Dir, o.class)
	return env.Answer(map[string]any{"class": o.class, "trust": trust, "folder": dir}, func(out io.Writer) {
		made := "rubric.star, cases/greeting"
		if o.dataset {
			made = bench.DatasetFile
		}
		fmt.Fprintf(out, "made %s (%s, bronze): registration.yaml, %s\n", plain.Line(dir), trust, made)
		if o.scratch {
			fmt.Fprintf(out, "It is a SCRATCH class: nobody signs it and it never counts for promotion.\nNext: tally run %s\n", plain.Line(o.class))
			return
		}
		fmt.Fprintf(out, "Next: tally bench digest %s, then two people run \"tally bench sign %s --key THEIR-SSH-KEY\"\n", plain.Line(o.class), plain.Line(o.class))
	})
}

type benchAddOptions struct {
	class, id       string
	title           string
	from            string
	added, reviewed string
}

func newBenchAdd(env *Env) *cobra.Command {
	var o benchAddOptions
	cmd := &cobra.Command{
		Use:   "add CLASS ID",
		Short: "Add a case to fill in, and say what it still needs",
		Long: `Add bench/CLASS/cases/ID with a case.yaml to fill in, input/ and expected/. If the
case exists already, nothing is written: the answer says what it still needs and
who may sign it.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.class, o.id = args[0], args[1]
			return runBenchAdd(cmd.Context(), env, o)
		},
	}
	cmd.Flags().StringVar(&o.title, "title", "", "one line that says what the case is about")
	cmd.Flags().StringVar(&o.from, "input", "", "`FILE` to copy into input/")
	addPeopleFlags(cmd, &o.added, &o.reviewed)
	return cmd
}

func runBenchAdd(_ context.Context, env *Env, o benchAddOptions) error {
	if err := bench.CheckID(o.id); err != nil {
		return refusal.Newf(refusal.Usage, "case: %w", err)
	}
	p, err := env.openCorpus()
	if err != nil {
		return err
	}
	defer p.Root.Close()
	d, err := bench.Load(p.Root, o.class)
	if err != nil {
		return err
	}
	_, err = d.Case(o.id)
	if err != nil && !refusal.Is(err, refusal.UnknownName) {
		return err
	}
	made := false
	if err != nil {
		if other := d.LooksTaken(o.id); other != "" {
			return refusal.Newf(refusal.AlreadyExists, "class %s: case %s looks like %s, which exists already", o.class, o.id, other)
		}
		if err := addCase(env, p, o, d.Rubric.Main == ""); err != nil {
			return err
		}
		made = true
		if d, err = bench.Load(p.Root, o.class); err != nil {
			return err
		}
	}
	c, err := d.Case(o.id)
	if err != nil {
		return err
	}
	var missing missingList
	if d.Registration.Trust == bench.Signed {
		missing = c.Status(p.Options)
	}
	dir := filepath.Join(bench.Dir, o.class, bench.CasesDir, o.id)
	return env.Answer(map[string]any{"class": o.class, "case": o.id, "folder": dir, "made": made, "missing": missing}, func(out io.Writer) {
		if made {
			fmt.Fprintf(out, "made %s\n", plain.Line(dir))
			fmt.Fprintf(out, "1. fill in case.yaml (title, disposition, source_ref, expected) and put files into input/ and expected/\n2. tally bench digest %s\n", plain.Line(o.class))
			if d.Registration.Trust == bench.Signed {
				fmt.Fprintf(out, "3. two people run \"tally bench sign %s %s --key THEIR-SSH-KEY\"\n", plain.Line(o.class), plain.Line(o.id))
			}
		}
		missing.print(out)
		if !made && len(missing) == 0 {
			fmt.Fprintf(out, "case %s has all it needs\n", plain.Line(o.id))
		}
	})
}

// addCase writes the files of a case to fill in; graded says that it needs a
// grading.yaml of its own, because the class has no rubric.
func addCase(env *Env, p *archive.Corpus, o benchAddOptions, graded bool) error {
	added, reviewed, err := bench.People(o.added, o.reviewed, p.Options)
	if err != nil {
		return err
	}
	t := bench.NewCase(o.id, o.title, added, reviewed, env.Now())
	if t.Title == "" {
		t.Title = o.id
	}
	if err := t.Check(); err != nil {
		return err
	}
	files := map[string][]byte{
		bench.CaseFile:      t.YAML(),
		"input/prompt.txt":  []byte("Replace this with what the agent is given.\n"),
		"expected/note.txt": []byte("Replace this with what a right answer is, or remove it.\n"),
	}
	if graded {
		files[bench.GradingFile] = []byte(bench.ExampleGrading)
	}
	if o.from != "" {
		data, err := store.ReadFile(store.OS{}, o.from, 64<<20)
		if err != nil {
			return err
		}
		delete(files, "input/prompt.txt")
		files["input/"+filepath.Base(o.from)] = data
	}
	return writeFiles(p.ClassDir(o.class, bench.CasesDir, o.id), files)
}
