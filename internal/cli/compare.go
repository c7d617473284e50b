package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"tallystick/internal/read/answer"
	"tallystick/internal/read/difference"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/share/importer"
)

type compareOptions struct {
	a, b          string
	acrossBenches bool
	allCases      bool
	noEvidence    bool
	divergences   int
	task, scorer  string // of imported results
}

func newCompare(env *Env) *cobra.Command {
	var o compareOptions
	cmd := &cobra.Command{
		Use:     "compare A B",
		Short:   "Two attempts side by side, case by case",
		Example: "tally compare latest~1 latest",
		Long: `Pair the cases of two attempts by id and digest: which flipped, whether that could be
chance (McNemar's exact test, paired bootstrap of the difference), what changed in cost
and latency, and where the runs of flipped cases first part, read from their evidence.
Differences are B minus A.

Attempts of different benches are refused: other cases give other numbers.
--across-benches compares the cases that are the same in both, and says so.

A and B may be result files of other harnesses, as "tally import" reads them, one of them
or both: samples and cases are paired by id. Such numbers are imported, not observed, and
the answer says so.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.a, o.b = args[0], args[1]
			return runCompare(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.acrossBenches, "across-benches", false, "compare although the benches differ, and say so")
	f.BoolVar(&o.allCases, "all-cases", false, "list also the cases that did not change")
	f.BoolVar(&o.noEvidence, "no-evidence", false, "do not look where flipped cases part")
	f.IntVar(&o.divergences, "divergences", 20, "look where at most `N` flipped cases part")
	f.StringVar(&o.task, "task", "", "compare the run of `TASK`, if the result files have several runs")
	f.StringVar(&o.scorer, "scorer", "", "compare the scores of `SCORER`, if the result files have several scorers")
	return cmd
}

func runCompare(ctx context.Context, env *Env, o compareOptions) error {
	if o.divergences < 0 {
		return refusal.Newf(refusal.Usage, "--divergences %d: expected 0 or more", o.divergences)
	}
	if dossier.AreFiles(o.a) || dossier.AreFiles(o.b) {
		return compareImported(ctx, env, o)
	}
	p, err := read(env, dossier.Ask{Want: func(a *history.Attempt) bool { return a.ID == o.a || a.ID == o.b }})
	if err != nil {
		return err
	}
	a, err := p.Attempt(o.a)
	if err != nil {
		return err
	}
	b, err := p.Attempt(o.b)
	if err != nil {
		return err
	}
	options := scorecard.CompareOptions{AcrossBenches: o.acrossBenches, AllCases: o.allCases, MaxDivergences: o.divergences}
	if !o.noEvidence {
		options.Divergence, options.Moves = b.PartingFrom(a)
	}
	c, err := scorecard.Compare(a.Attempt, b.Attempt, options)
	if err != nil {
		return p.Refused(err)
	}
	line := p.History.Line()
	c.Ledger = &line
	told := differences{parts: answer.Apart(a, b), said: map[string]*answer.Said{}}
	if !o.noEvidence {
		if err := told.read(a, b, c, o.divergences); err != nil {
			return p.Refused(err)
		}
	}
	return env.Answer(c, func(out io.Writer) { compareText(out, c, told) })
}

// differences are what the text of a comparison tells besides its numbers.
type differences struct {
	parts []answer.Part
	said  map[string]*answer.Said // of changed cases
}

// longestRead bounds the trajectories that are read for what a case was asked.
const longestRead = 32 << 20

// read reads what changed cases were answered.
func (d *differences) read(a, b *dossier.Dossier, c *scorecard.Comparison, most int) error {
	for _, x := range c.Cases {
		if x.Change == scorecard.Same || x.A.Entry < 0 || x.B.Entry < 0 {
			continue
		}
		if len(d.said) == most {
			return nil
		}
		first, err := a.Reading().FindCase(dossier.CaseQuery{Case: x.CaseID, Attempt: a.ID})
		if err != nil {
			return err
		}
		second, err := b.Reading().FindCase(dossier.CaseQuery{Case: x.CaseID, Attempt: b.ID})
		if err != nil {
			return err
		}
		if d.said[x.CaseID], err = answer.SaidIn(first, second, longestRead); err != nil {
			return err
		}
	}
	return nil
}

// maxCausesTold and maxDiffLinesTold bound what a terminal shows at once.
const (
	maxCausesTold    = 8
	maxDiffLinesTold = 40
)

// causesText tells what changed cases share, and in what else the attempts differ.
func causesText(out io.Writer, c *scorecard.Comparison, d differences) {
	causes := answer.Causes(c, d.parts)
	for i, x := range causes {
		if i == maxCausesTold {
			fmt.Fprintf(out, "and %s\n", plain.Plural(len(causes)-i, "more cause"))
			break
		}
		fmt.Fprintf(out, "%s: %s\n", changeStyle(x.Change).of(fmt.Sprintf("%d %s", len(x.Cases), x.Change)), plain.Line(x.Title))
	}
	for _, p := range d.parts {
		fmt.Fprintf(out, "differs: %s\n", plain.Line(p.Title()))
		switch {
		case p.Diff == nil:
		case p.Lines:
			lines := strings.SplitAfter(p.Diff.TerminalLines(2, paintChange), "\n")
			for i, line := range lines {
				if i == maxDiffLinesTold {
					fmt.Fprintf(out, "    … %s\n", plain.Plural(len(lines)-i, "more line"))
					break
				}
				if line != "" {
					io.WriteString(out, "    "+line)
				}
			}
		default:
			fmt.Fprintf(out, "    %s\n", behind(p.Diff.Terminal(paintChange), "    "))
		}
	}
}

// behind keeps the further lines of a text behind a margin.
func behind(text, margin string) string {
	return strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n"+margin)
}

// changeStyle is the colour of a change.
func changeStyle(change string) style {
	switch change {
	case scorecard.Lost:
		return bad
	case scorecard.Gained:
		return good
	}
	return doubtful
}

// paintChange colours what went and what came.
func paintChange(k difference.Kind, text string) string {
	switch k {
	case difference.Removed:
		return bad.of(text)
	case difference.Added:
		return good.of(text)
	}
	return text
}

// saidText tells how the answer to a case changed.
func saidText(out io.Writer, s *answer.Said) {
	switch {
	case s == nil || s.Withheld:
		return
	case s.Expected != "":
		fmt.Fprintf(out, "    expected: %s\n", behind(plain.Block(s.Expected), "      "))
	}
	switch {
	case s.A.Given && s.B.Given && s.Answer.Same():
		fmt.Fprintln(out, "    answer: the same in both")
	case s.A.Given && s.B.Given:
		fmt.Fprintf(out, "    answer: %s\n", behind(s.Answer.Terminal(paintChange), "      "))
	case s.A.Given:
		fmt.Fprintln(out, "    answer: only A gave one")
	case s.B.Given:
		fmt.Fprintln(out, "    answer: only B gave one")
	}
	if s.Note != "" {
		fmt.Fprintf(out, "    %s\n", plain.Line(s.Note))
	}
}

// importedSide is a file's run, or an attempt that stands for one.
func importedSide(ctx context.Context, env *Env, o compareOptions, name string) (*scorecard.ImportedRun, error) {
	if dossier.AreFiles(name) {
		return importer.LoadImportedRun(ctx, name, o.task, o.scorer)
	}
	p, err := read(env, dossier.Ask{Want: func(a *history.Attempt) bool { return a.ID == name }})
	if err != nil {
		return nil, err
	}
	a, err := p.Attempt(name)
	if err != nil {
		return nil, err
	}
	return scorecard.RunOfAttempt(a.Attempt), nil
}

// compareImported compares two result files, or a file and an attempt.
func compareImported(ctx context.Context, env *Env, o compareOptions) error {
	a, err := importedSide(ctx, env, o, o.a)
	if err != nil {
		return err
	}
	b, err := importedSide(ctx, env, o, o.b)
	if err != nil {
		return err
	}
	c, err := scorecard.CompareImported(a, b)
	if err != nil {
		return err
	}
	return env.Answer(c, c.Print)
}

func compareText(out io.Writer, c *scorecard.Comparison, told differences) {
	for _, side := range []struct {
		name string
		line scorecard.AttemptLine
	}{{"A", c.A}, {"B", c.B}} {
		l := side.line
		fmt.Fprintf(out, "%s  %s: number %d of %d by %s, %s%s, %s\n", side.name, plain.Line(l.ID), l.Number, l.Of, plain.Line(l.Target), l.Level, l.Labels(), l.RegisteredAt.Date())
		qualificationsText(out, "   note: ", l.Qualifications)
	}
	if c.AcrossBenches {
		fmt.Fprintf(out, "ACROSS BENCHES: A is of %s, B of %s; only cases that are the same in both are paired\n", c.A.BenchDigest, c.B.BenchDigest)
	}
	if c.ThresholdsChanged {
		fmt.Fprintln(out, scorecard.ThresholdsChanged)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "result\t%s\n", c.Headline())
	fmt.Fprintf(w, "paired\t%d cases; %d only in A, %d only in B\n", c.Paired, c.OnlyA, c.OnlyB)
	if s := c.Scores; s != nil {
		fmt.Fprintf(w, "mean score\t%s to %s: %+.4f  [%+.4f, %+.4f] at 95 %%, over %d cases with a score in both: %d higher, %d lower\n",
			plain.Score(s.Mean.A, 4), plain.Score(s.Mean.B, 4), s.Mean.Change, s.ChangeCI95[0], s.ChangeCI95[1], s.Cases, s.Higher, s.Lower)
	}
	fmt.Fprintf(w, "flips\t%d gained, %d lost; McNemar p = %.4g\n", c.Flips.Gained, c.Flips.Lost, c.McNemarP)
	fmt.Fprintf(w, "solve rate\t%s to %s: %+.4f  [%+.4f, %+.4f] at 95 %%\n", plain.Score(c.SolveRate.A, 4), plain.Score(c.SolveRate.B, 4), c.Difference, c.DifferenceCI95[0], c.DifferenceCI95[1])
	if c.Tasks.Change != 0 {
		fmt.Fprintf(w, "tasks\t%d to %d: they do not repeat cases alike, and cost and tokens are of all\n", c.Tasks.A, c.Tasks.B)
	}
	fmt.Fprintf(w, "cost\t%s to %s: %s\n", c.Cost.A, c.Cost.B, c.Cost.Change)
	before, after, change := c.TokensText()
	fmt.Fprintf(w, "tokens\t%s to %s: %s\n", before, after, change)
	fmt.Fprintf(w, "latency\tmedian %d ms to %d ms: %+d ms\n", c.Latency.A, c.Latency.B, c.Latency.Change)
	for _, x := range c.Corrected {
		fmt.Fprintf(w, "corrected\t%s; the numbers above are as recorded\n", plain.Line(x.Text()))
	}
	w.Flush()
	causesText(out, c, told)
	for _, x := range c.Cases {
		fmt.Fprintf(out, "%s%*s %s  %s to %s  entries %d, %d\n", changeStyle(x.Change).of(x.Change), max(0, 8-len(x.Change)), "", plain.Line(x.CaseID), sideText(x.A), sideText(x.B), x.A.Entry, x.B.Entry)
		for _, side := range []struct{ name, text string }{{"A", x.A.Corrected}, {"B", x.B.Corrected}} {
			if side.text != "" {
				fmt.Fprintf(out, "    %s: %s\n", side.name, plain.Line(side.text))
			}
		}
		saidText(out, told.said[x.CaseID])
		switch {
		case x.Moves != "":
			fmt.Fprintln(out, "    did differently")
			divergenceText(out, x.Moves, "      ")
		case x.Divergence != "":
			fmt.Fprintf(out, "    parts at: %s\n", strings.ReplaceAll(strings.TrimRight(plain.Block(x.Divergence), "\n"), "\n", "\n    "))
		}
		if x.DivergenceNote != "" {
			fmt.Fprintf(out, "    %s\n", plain.Line(x.DivergenceNote))
		}
	}
}

func sideText(s scorecard.Side) string {
	text := string(s.Outcome)
	if s.Tasks > 1 {
		text = fmt.Sprintf("%d of %d solved", s.Solved, s.Tasks)
	}
	if s.Score != nil {
		text += " " + plain.Score(*s.Score, 4)
	}
	return text
}
