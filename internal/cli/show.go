package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"tallystick/internal/read/answer"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
)

type showOptions struct {
	name   string
	events bool
	steps  bool
	full   bool
	sample string

	showHeldOut bool
}

func newShow(env *Env) *cobra.Command {
	var o showOptions
	cmd := &cobra.Command{
		Use:     "show ATTEMPT[:CASE] | FILE",
		Short:   "Show one attempt, or one case of it step by step",
		Example: "tally show latest:refund-7 --events",
		Long: `Show an attempt with what its failures have in common and its cases, those that did not
pass first; or with ATTEMPT:CASE one case: its outcome, what was compared, and what was
said and done, each with the number of its event. The ledger is verified first, and the
trajectory against the head that the ledger holds.

Long texts are folded; --full prints them whole. --steps lists every event in a line of its
own.

--events prints the trajectory as JSON lines, each exactly as it was hashed.

A FILE may be a bundle (RVF): its header, sections and tool calls are printed. The form is
checked and no signature, so it may still be a forgery; "tally verify" verifies it. Any
other FILE or folder is a result of another harness, as "tally import" reads it: its rows
are shown, those that are not right first. It was imported, not observed.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = args[0]
			return runShow(cmd.Context(), env, o)
		},
	}
	cmd.Flags().BoolVar(&o.events, "events", false, "print the events of ATTEMPT:CASE as JSON lines, as hashed")
	cmd.Flags().BoolVar(&o.steps, "steps", false, "list the events of ATTEMPT:CASE, a line for each")
	cmd.Flags().BoolVar(&o.full, "full", false, "print long texts of ATTEMPT:CASE whole")
	cmd.Flags().StringVar(&o.sample, "row", "", "only the row with this `ID` of FILE")
	addHeldOutFlag(cmd, &o.showHeldOut)
	return cmd
}

func runShow(ctx context.Context, env *Env, o showOptions) error {
	if isBundle(o.name) {
		return showBundle(env, o.name)
	}
	if o.sample != "" || dossier.AreFiles(o.name) {
		return showImported(ctx, env, o)
	}
	p, err := read(env, dossier.Ask{Again: true, ShowHeldOut: o.showHeldOut})
	if err != nil {
		return err
	}
	id, caseID, _ := strings.Cut(o.name, ":")
	attempt, err := p.Attempt(id)
	if err != nil {
		return err
	}
	if caseID == "" {
		return showAttempt(env, attempt, o)
	}
	c, err := p.FindCase(dossier.CaseQuery{Case: caseID, Attempt: id})
	if err != nil {
		return err
	}
	if o.events {
		lines, err := c.Events()
		if err != nil {
			return err
		}
		return env.Lines(lines)
	}
	a, err := answer.ShowCase(c)
	if err != nil {
		return err
	}
	return env.showPaged(ctx, a, func(out io.Writer) { showCaseText(env, out, a, o) })
}

func showAttempt(env *Env, attempt *dossier.Dossier, o showOptions) error {
	for name, given := range map[string]bool{"events": o.events, "steps": o.steps, "full": o.full} {
		if given {
			return refusal.Newf(refusal.Usage, "--%s is about one case", name).WithHint("name it as %s:CASE", attempt.ID)
		}
	}
	a, err := answer.ShowAttempt(attempt)
	if err != nil {
		return err
	}
	return env.Answer(a, func(out io.Writer) { showAttemptText(env, out, a) })
}

func showAttemptText(env *Env, out io.Writer, a *answer.Listing) {
	fmt.Fprintf(out, "attempt  %s (%s), number %d of %d, %s\n", plain.Line(a.ID), a.Level, a.Number, a.Of, attemptMarks(a.Logged))
	namedText(out, a.Name, a.Note)
	fmt.Fprintf(out, "class    %s, target %s, begun %s\n", plain.Line(a.Class), plain.Line(a.Target), a.StartedAt)
	if a.Unanswered > 0 {
		fmt.Fprintf(out, "partial  %d of %d cases could be answered: %d passed; gate %s; %s\n", a.Total-a.Unanswered-a.NotRun, a.Total, a.Passed, stateText(a.Decision), a.Cost)
		fmt.Fprintf(out, "new      %d of %d cases ask something new: \"tally run %s --target %s --live\" asks the model\n", a.Unanswered, a.Total, plain.ShellWord(a.Class), plain.ShellWord(a.Target))
	} else {
		fmt.Fprintf(out, "cases    %d: %d passed, %d failed%s; gate %s; %s\n", a.Total, a.Passed, a.Failed, notPassed(a.Logged), stateText(a.Decision), a.Cost)
	}
	decisionText(out, a.Decision)
	paidText(out, a.Paid, a.Cost)
	for _, u := range a.Endpoints {
		fmt.Fprintf(out, "models   %s, as the operator's machine saw it\n", plain.Line(u.Text()))
	}
	qualificationsText(out, "note     ", a.Qualifications)
	for _, problem := range a.Problems {
		fmt.Fprintf(out, "problem  %s\n", plain.Line(problem))
	}
	fit(env, out, modesText(a.Cases))
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "case\t"+heading.of("outcome")+"\tscore\tturns\tms\twhy")
	for _, c := range a.Cases {
		fmt.Fprintf(w, "%s%s\t%s\t%s\t%d\t%d\t%s\n", plain.Line(c.Case), history.RepeatMark(c.Repeat), outcomeOrNew(string(c.Outcome), c.Unanswered), scoreText(c.Score), c.Turns, c.LatencyMS,
			whyInShort(env, c))
	}
	w.Flush()
	fit(env, out, table.String())
	correctedText(out, a.Logged)
	fmt.Fprintf(out, "One case: tally show %s\n", plain.Line(a.ID+":CASE"))
}

// outcomeOrNew is the outcome of a case, or that it asks something new: an edit is a
// question and not an error.
func outcomeOrNew(outcome string, unanswered bool) string {
	if unanswered {
		return unstyled.of("new")
	}
	return outcomeText(outcome)
}

// namedText tells what people call an attempt, beside the id that decides.
func namedText(out io.Writer, name, note string) {
	if name != "" {
		fmt.Fprintf(out, "name     %s\n", plain.Line(name))
	}
	if note != "" {
		fmt.Fprintf(out, "noted    %s\n", plain.Lines(note, said))
	}
}

// modesText groups the cases that did not pass by what went wrong, the most frequent
// first. A case with two failure modes stands in both lines.
func modesText(cases []answer.ShownRow) string {
	byMode := map[string][]string{}
	for _, c := range cases {
		for _, mode := range c.Modes {
			byMode[mode] = append(byMode[mode], plain.Line(c.Case)+history.RepeatMark(c.Repeat))
		}
	}
	modes := slices.SortedFunc(maps.Keys(byMode), func(x, y string) int {
		return cmp.Or(len(byMode[y])-len(byMode[x]), cmp.Compare(x, y))
	})
	var b strings.Builder
	for _, mode := range modes {
		names := byMode[mode]
		more := ""
		if len(names) > namesOfMode {
			names, more = names[:namesOfMode], fmt.Sprintf(" and %d more", len(names)-namesOfMode)
		}
		fmt.Fprintf(&b, "mode     %s: %s: %s%s\n", plain.Line(mode), plain.Plural(len(byMode[mode]), "case"), strings.Join(names, ", "), more)
	}
	return b.String()
}

// namesOfMode is how many cases the line of a failure mode names.
const namesOfMode = 8

// whyInShort is the reason of a case in its row: the exception, where that is the
// end of several lines. On a terminal the line is cut where it ends.
func whyInShort(env *Env, c answer.ShownRow) string {
	reason := strings.TrimSpace(c.Reason)
	if i := strings.LastIndexByte(reason, '\n'); i >= 0 {
		reason = "… " + reason[i+1:]
	}
	text := strings.TrimSpace(strings.Join(c.Modes, ", ") + " " + reason)
	if isTerminal(env.Stdout) {
		return plain.Line(text)
	}
	return plain.Line(short(text))
}

func scoreText(score *float64) string {
	if score == nil {
		return "-"
	}
	return plain.Score(*score, 4)
}

func showCaseText(env *Env, out io.Writer, a *answer.ShownRun, o showOptions) {
	whyText(out, a.Why)
	fmt.Fprintf(out, "score    %s, %s, %s; class %s, target %s\n", scoreText(a.Score), plain.Plural(a.Turns, "turn"), a.Cost, plain.Line(a.Class), plain.Line(a.Target))
	paidText(out, a.Paid, a.Cost)
	if a.Resumed > 0 {
		fmt.Fprintf(out, "resumed  %s from its journal of paid calls\n", plain.Plural(a.Resumed, "time"))
	}
	if a.Worker != nil {
		fmt.Fprintf(out, "worker   %s, %s\n", plain.Line(a.Worker.Key), plain.Line(a.Worker.HarnessVersion))
	}
	if a.Conversation != nil && !o.steps {
		t := talk{out: out, full: o.full}
		if isTerminal(env.Stdout) {
			_, t.columns = terminalSize(env.Stdout)
		}
		t.print(a.Conversation)
		if t.folded > 0 {
			fmt.Fprintf(out, "\n%s folded: tally show %s --full\n", plain.Plural(t.folded, "long text"), plain.Line(a.Attempt+":"+a.Case))
		}
		return
	}
	turn := -1
	for _, s := range a.Steps {
		if s.Turn != turn {
			turn = s.Turn
			fmt.Fprintf(out, "\nturn %d\n", turn)
		}
		fmt.Fprintf(out, "  %4d  %-22s %s\n", s.Seq, s.Type, plain.Line(short(s.Text)))
	}
}
