package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/app/lab"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/outline"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/harness"
)

type goldenOptions struct {
	spec  harness.Spec
	level string
}

func newGolden(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "golden",
		Short:   "Canonical traces of cases: update them, or find the first divergence",
		Example: "tally golden check support",
		Long: `A golden file says what an agent did in a case, as text for people to review:
golden/CLASS/TARGET/CASE.golden. "update" writes them. "check" drives every case again and
names what differs, step by step: a step that the run dropped (missing), added (new), moved
(reordered) or replaced, one that is denied now, and other arguments, results, verdicts,
memory, descriptions of tools, errors and answers. What is compared and what is noise is in
docs/formats/trajectory.md. A changed prompt is shown word by word and fails nothing if the
agent did the same. With --level exact "update" writes every event, and "check" reports the
first that differs, by turn and step.
"update" writes only cases that ran to their own end and have a score. It leaves the file of
any other case as it is, names the case, and exits 1 (GoldenRefused): find out why with
"tally run CLASS --case CASE" and "tally why", mend it, then update again.
Model and tools are answered from recordings, and nothing is recorded. A held-out case
has no golden trace unless --show-held-out is given: the file would tell what it asks.`,
	}
	for _, sub := range []struct {
		use, short string
		run        func(context.Context, *Env, goldenOptions) error
	}{
		{"check CLASS", "Compare every case with its golden trace; exit 4 on the first difference", runGoldenCheck},
		{"update CLASS", "Write the golden trace of every case that ran to its end, for review", runGoldenUpdate},
	} {
		var o goldenOptions
		c := &cobra.Command{Use: sub.use, Short: sub.short, Example: "tally golden " + strings.Replace(sub.use, "CLASS", "support --target default", 1), Args: cobra.ExactArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
			if err := completeSpec(cmd, &o.spec, args[0]); err != nil {
				return err
			}
			return sub.run(cmd.Context(), env, o)
		}}
		addTargetFlag(c, &o.spec)
		c.Flags().Var((*single)(&o.spec.Cases), "case", "only cases whose id matches `GLOB`")
		c.Flags().IntVar(&o.spec.Jobs, "jobs", 0, "drive `N` cases at once")
		c.Flags().StringVar(&o.level, "level", "", "compare `LEVEL`: structure (turns, calls, arguments), behaviour (and what came of them; the default) or exact (every event and prompt)")
		addHeldOutFlag(c, &o.spec.ShowHeldOut)
		cmd.AddCommand(c)
	}
	return cmd
}

// words are the arguments that name the same cases and agent again.
func (o goldenOptions) words() string {
	if target := o.spec.Target(); target != agent.DefaultTarget {
		return o.spec.Class + " --target " + target
	}
	return o.spec.Class
}

// open finds the class and the target of the command. The caller closes the
// corpus.
func (o goldenOptions) open(env *Env) (*dossier.Corpus, *lab.Setup, error) {
	if o.level != "" && !slices.Contains(outline.Levels(), outline.Level(o.level)) {
		return nil, nil, refusal.Newf(refusal.Usage, "--level %s: expected structure, behaviour or exact", o.level)
	}
	c, err := openCorpus(env)
	if err != nil {
		return nil, nil, err
	}
	s, err := lab.New(c, o.spec)
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	return c, s, nil
}

func runGoldenCheck(ctx context.Context, env *Env, o goldenOptions) error {
	c, s, err := o.open(env)
	if err != nil {
		return err
	}
	defer c.Close()
	check, err := s.CheckGolden(ctx, outline.Level(o.level))
	if err != nil {
		return err
	}
	if err := env.Answer(check, func(out io.Writer) { printGolden(out, check) }); err != nil || check.Met {
		return err
	}
	return refusal.Newf(refusal.GoldenDiverged, "class %s: %d of %d cases diverge from their golden traces", o.spec.Class, len(check.Problems), check.Checked).
		WithHint(`if the change is meant, run "tally golden update %s" and have the files reviewed`, o.words())
}

func printGolden(out io.Writer, a *lab.GoldenCheck) {
	for _, p := range a.Problems {
		at := ""
		switch {
		case p.Step > 0:
			at = fmt.Sprintf(" at turn %d, step %d", p.Turn, p.Step)
		case p.Turn > 0:
			at = fmt.Sprintf(" at turn %d", p.Turn)
		}
		fmt.Fprintf(out, "%s: %s%s\n", plain.Line(p.Case), p.Change, at)
		detail := p.Detail
		if p.Step > 0 {
			_, detail, _ = strings.Cut(detail, "\n") // the first line says it again
		}
		divergenceText(out, detail, "    ")
	}
	for _, p := range a.Prompts {
		fmt.Fprintf(out, "%s: the prompt of %s changed: %s\n", plain.Line(p.Case), plain.Line(p.Model), p.Words)
	}
	fmt.Fprintf(out, "%d of %d cases equal their golden traces%s\n", a.Equal, a.Checked, plain.OfWhich(plain.Count{N: a.HeldOut, What: "held out: not looked at"}))
}

func runGoldenUpdate(ctx context.Context, env *Env, o goldenOptions) error {
	c, s, err := o.open(env)
	if err != nil {
		return err
	}
	defer c.Close()
	u, err := s.UpdateGolden(ctx, outline.Level(o.level))
	if err != nil {
		return err
	}
	err = env.Answer(u, func(out io.Writer) {
		for _, id := range u.Written {
			file, _ := filepath.Rel(c.Dir, c.GoldenFile(o.spec.Class, u.Target, id))
			fmt.Fprintf(out, "wrote %s\n", plain.Line(file))
		}
		for _, p := range u.Refused {
			fmt.Fprintf(out, "%s: not written: %s\n", plain.Line(p.Case), plain.Line(p.Detail))
		}
		if u.HeldOut > 0 {
			fmt.Fprintf(out, "%d held out: not written\n", u.HeldOut)
		}
		fmt.Fprintf(out, "%d written, %d unchanged\n", len(u.Written), u.Same)
		if len(u.Refused) == 0 {
			fmt.Fprintf(out, "Next: review them and commit; \"tally golden check %s\" compares from now on\n", plain.Line(o.words()))
		}
	})
	if err != nil || len(u.Refused) == 0 {
		return err
	}
	first := u.Refused[0]
	return refusal.Newf(refusal.GoldenRefused, "class %s: %d cases did not run to their own end with a score, so their golden traces are not written; the first: %s: %s", o.spec.Class, len(u.Refused), plain.Line(first.Case), plain.Line(first.Detail)).
		WithHint(`"tally run %s --case %s", then "tally why", tells what went wrong; mend it, then run "tally golden update %s" again`, o.words(), plain.Line(first.Case), o.words())
}
