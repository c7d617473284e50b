package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/read/answer"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/grade"
)

type whyOptions struct {
	caseID  string
	attempt string
	class   string
	row     string

	showHeldOut bool
}

func newWhy(env *Env) *cobra.Command {
	var o whyOptions
	cmd := &cobra.Command{
		Use:     "why [ATTEMPT:]CASE | FILE",
		Short:   "Why a case failed: what was compared, where it diverged, what changed",
		Example: "tally why latest:refund-7",
		Long: `Tell why a case ended as it did in the newest attempt that ran it, or in --attempt, or
in the newest of --class if several classes have a case of that name; ATTEMPT:CASE names the
attempt too, and ATTEMPT alone is enough if one case of it did not pass. Told is what each grader
compared with what, where the run first parted from its golden trace or from the last
attempt that passed, what has changed since then, and how the score was amended.

Of a FILE it tells what the file says, and verifies nothing. In a bundle (RVF) that is the
outcome, the calls that the policy did not allow, the postmortem and the end of the test log.
In results or a trajectory of another harness it is the one row that is not right, or the one
of --row: its error, its scores with their reasons, what was asked, got and wanted.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.caseID = args[0]
			if o.row != "" || dossier.AreFiles(o.caseID) {
				return whyFile(cmd.Context(), env, o)
			}
			if attempt, caseID, ok := strings.Cut(args[0], ":"); ok {
				if cmd.Flags().Changed("attempt") {
					return refusal.Newf(refusal.Usage, "%s names an attempt, and so does --attempt", args[0]).WithHint("leave one of them out")
				}
				o.attempt, o.caseID = attempt, caseID
			}
			return runWhy(cmd.Context(), env, o)
		},
	}
	cmd.Flags().StringVar(&o.attempt, "attempt", "", "the attempt `ID` to look at, in place of the newest")
	cmd.Flags().StringVar(&o.class, "class", "", "the newest attempt of this task `CLASS`")
	cmd.Flags().StringVar(&o.row, "row", "", "the row with this `ID` of FILE")
	addHeldOutFlag(cmd, &o.showHeldOut)
	return cmd
}

func whyFile(ctx context.Context, env *Env, o whyOptions) error {
	if err := o.refuseCaseFlags(); err != nil {
		return err
	}
	if isBundle(o.caseID) {
		return whyBundle(env, o.caseID)
	}
	return whyImported(ctx, env, o.caseID, o.row)
}

func runWhy(_ context.Context, env *Env, o whyOptions) error {
	if o.attempt != "" && o.class != "" {
		return refusal.Newf(refusal.Usage, "an attempt is named, and --class chooses one").WithHint("give one or the other")
	}
	if looksLikeFile(o.caseID) {
		if _, err := openNames(env); err != nil { // without a workspace it is not a case
			return noSuchFile(o.caseID)
		}
	}
	p, err := read(env, dossier.Ask{Again: true, ShowHeldOut: o.showHeldOut})
	if err != nil {
		return err
	}
	c, err := p.FindCase(dossier.CaseQuery{Case: o.caseID, Attempt: o.attempt, Class: o.class})
	if refusal.Is(err, refusal.UnknownName) && o.attempt == "" {
		c, err = onlyFailure(p, o, err)
	}
	if refusal.Is(err, refusal.UnknownName) && looksLikeFile(o.caseID) {
		return noSuchFile(o.caseID)
	}
	if err != nil {
		return err
	}
	a, err := answer.WhyOf(c)
	if err != nil {
		return err
	}
	return env.Answer(a, func(out io.Writer) { whyText(out, a) })
}

// onlyFailure takes what was named as an attempt: if one case of it did not pass, that
// one is meant. Otherwise the refusal of the case stands.
func onlyFailure(r *dossier.Reading, o whyOptions, noCase error) (*dossier.Case, error) {
	a, err := r.History.Find(o.caseID, history.Scope{Class: o.class})
	if err != nil {
		return nil, noCase
	}
	var failed []string
	for c := range a.Cases() {
		if c.Index >= 0 && c.Outcome() != evidence.Passed && !slices.Contains(failed, c.ID) {
			failed = append(failed, c.ID)
		}
	}
	switch len(failed) {
	case 0:
		return nil, refusal.Newf(refusal.Usage, "every case of attempt %s that has a record passed", a.ID).WithHint("name the case that you mean: tally why %s:CASE", a.ID)
	case 1:
		return r.FindCase(dossier.CaseQuery{Case: failed[0], Attempt: a.ID})
	}
	const most = 10
	listed := strings.Join(failed[:min(len(failed), most)], ", ")
	return nil, refusal.Newf(refusal.Usage, "attempt %s has %d cases that did not pass: %s", a.ID, len(failed), listed).
		WithHint("name one of them: tally why %s:%s", a.ID, failed[0])
}

func sameText(v grade.SecondView) string {
	switch {
	case v.Unknown:
		return "not known"
	case v.Same:
		return "same"
	}
	return "not the same"
}

func whyText(out io.Writer, a *answer.Why) {
	outcome := outcomeText(string(a.Outcome))
	if a.Unanswered {
		outcome = "asks something new, which is not recorded,"
	}
	fmt.Fprintf(out, "case     %s: %s in attempt %s (%s), entry %d\n", plain.Line(a.Case), outcome, plain.Line(a.Attempt), a.Level, a.Entry)
	if a.HeldOut && a.Salt == "" {
		fmt.Fprintln(out, "held out what it asks and wants is shown by salted digest; --show-held-out shows it")
	} else if a.HeldOut {
		fmt.Fprintf(out, "held out salt %s\n", a.Salt)
	}
	if a.Reason != "" {
		fmt.Fprintf(out, "reason   %s\n", plain.Lines(a.Reason, said))
	}
	if len(a.FailureModes) > 0 {
		fmt.Fprintf(out, "modes    %s\n", plain.Line(strings.Join(a.FailureModes, ", ")))
	}
	printChecks(out, a.Checks)
	for _, v := range a.SecondViews {
		fmt.Fprintf(out, "view     %s: %s: %s\n", v.View, sameText(v), plain.Line(v.Why))
	}
	printCalls(out, a)
	for line := range strings.Lines(a.RubricSaid) {
		fmt.Fprintf(out, "rubric   %s\n", plain.Line(strings.TrimSuffix(line, "\n")))
	}
	if r := a.Reviewed; r != nil {
		fmt.Fprintf(out, "reviewed %s\n", plain.Line(r.Text()))
		for _, l := range r.Labels {
			fmt.Fprintf(out, "  %s said %s (entry %d) %s\n", plain.Line(l.By), plain.Line(l.Label), l.Index, plain.Line(l.Note))
		}
	}
	if m := a.Amendment; m != nil {
		word, counts := "failed", ""
		if m.Passed {
			word = "passed"
		}
		if m.Raises {
			counts = "; it is more than the record has, so it does not count"
		}
		fmt.Fprintf(out, "amended  by %s at %s from %s to %s with score %v: %s%s\n", plain.Line(m.Author), m.At, m.Was.Text(), word, m.Score, plain.Line(m.Reason), counts)
		printChecks(out, m.Checks)
	}
	if c := a.Correction; c != nil {
		fmt.Fprintf(out, "corrected %s (entry %d)\n", plain.Line(c.Text()), c.Index)
	}
	if a.Missing != "" {
		fmt.Fprintf(out, "evidence could not be read: %s\n", plain.Line(a.Missing))
	}
	if a.Divergence != "" {
		fmt.Fprintln(out, "parted   first here:")
		divergenceText(out, a.Divergence, "  ")
	}
	switch {
	case a.LastPassed != "" && len(a.Changed) == 0:
		fmt.Fprintf(out, "since    %s, when it last passed, nothing that is recorded has changed\n", plain.Line(a.LastPassed))
	case a.LastPassed != "":
		fmt.Fprintf(out, "since    %s, when it last passed, these have changed:\n", plain.Line(a.LastPassed))
		for _, c := range a.Changed {
			if c.Diff != "" {
				fmt.Fprintf(out, "  %s: %s\n", plain.Line(c.What), plain.Line(c.Diff))
				continue
			}
			fmt.Fprintf(out, "  %s: %s, now %s\n", plain.Line(c.What), plain.Line(c.Was), plain.Line(c.Now))
		}
	}
}

// printCalls shows the tool calls that were denied, and those that were not
// executed here.
func printCalls(out io.Writer, a *answer.Why) {
	for _, d := range a.Denied[:min(len(a.Denied), 10)] {
		fmt.Fprintf(out, "denied   %s in turn %d by %s: %s\n  change %s\n", plain.Line(d.Name), d.Turn, plain.Line(d.Rule), plain.Line(d.Reason), plain.Line(d.Change))
	}
	if more := len(a.Denied) - 10; more > 0 {
		fmt.Fprintf(out, "denied   %d more\n", more)
	}
	for _, c := range a.ToolCalls {
		how := vantageText(string(c.Vantage))
		if c.Denied {
			how += ", denied by the policy"
		}
		name := c.Name
		if name == "" {
			name = "a tool without a name"
		}
		fmt.Fprintf(out, "call     %s in turn %d, %s\n", plain.Line(name), c.Turn, how)
	}
	if a.Unseen != "" {
		fmt.Fprintf(out, "calls    not all were seen: %s\n", plain.Line(a.Unseen))
	}
}

// printChecks shows what each check compared with what.
func printChecks(out io.Writer, checks []grade.Detail) {
	for _, c := range checks {
		fmt.Fprintf(out, "check    %s %s: %s\n", plain.Line(strings.TrimSpace(c.Check+" "+string(c.Grader))), c.Outcome, plain.Line(c.Why))
		if c.Extracted != nil {
			fmt.Fprintf(out, "  got    %s\n", plain.Line(short(c.Extracted.Head)))
		}
		if c.Missing != "" {
			fmt.Fprintf(out, "  got    nothing: %s\n", plain.Line(c.Missing))
		}
		if c.Expected != nil {
			fmt.Fprintf(out, "  want   %s\n", plain.Line(short(c.Expected.Head)))
		}
	}
}
