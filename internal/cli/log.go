package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"tallystick/internal/read/answer"
	"tallystick/internal/read/dossier"
	"tallystick/internal/record/plain"
)

func newLog(env *Env) *cobra.Command {
	var o answer.LogOptions
	cmd := &cobra.Command{
		Use:     "log",
		Short:   "List the attempts, the newest first",
		Example: "tally log --class support",
		Long: `List the attempts that the ledger knows, the newest first: when, how well vouched for,
how many cases passed, whether the gates were met, and what it cost. The ledger is
verified first.

"NOT DECIDED" means that the gates are neither met nor missed: the attempt did not finish
or left cases out, or the class has changed since. Without gates every case must pass.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runLog(cmd.Context(), env, o) },
	}
	cmd.Flags().StringVar(&o.Class, "class", "", "only attempts of this task `CLASS`")
	cmd.Flags().StringVar(&o.Target, "target", "", "only attempts of the target `NAME`")
	return cmd
}

type logAnswer struct {
	Attempts []answer.Logged `json:"attempts"`
}

func runLog(_ context.Context, env *Env, o answer.LogOptions) error {
	p, err := read(env, dossier.Ask{})
	if err != nil {
		return err
	}
	attempts, err := answer.Log(p, o)
	if err != nil {
		return err
	}
	return env.Answer(logAnswer{attempts}, func(out io.Writer) { logText(env, out, attempts) })
}

func logText(env *Env, out io.Writer, attempts []answer.Logged) {
	if len(attempts) == 0 {
		fmt.Fprintln(out, `no attempts yet; "tally run CLASS" makes one`)
		return
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	// What matters most comes first: a narrow terminal shows no more than that.
	// Words in a style take two characters more: so do all of their column.
	for i, title := range []string{"attempt", "passed", "gate", "when", "cost", "level", ""} {
		if i > 0 {
			fmt.Fprint(w, "\t")
		}
		fmt.Fprint(w, heading.of(title))
	}
	fmt.Fprintln(w)
	for _, a := range attempts {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", unstyled.of(plain.Line(a.ID)), unstyled.of(fmt.Sprintf("%d of %d%s", a.Passed, a.Total, notPassed(a))), stateText(a.Decision),
			unstyled.of(a.StartedAt.Go().Format("2006-01-02 15:04")), unstyled.of(a.Cost.String()), unstyled.of(a.Level.String()), attemptMarks(a)+paidMark(a))
	}
	w.Flush()
	fit(env, out, table.String())
	for _, a := range attempts {
		correctedText(out, a)
	}
}

// correctedText tells what stands beside the recorded scores of an attempt.
func correctedText(out io.Writer, a answer.Logged) {
	for _, c := range a.Corrected {
		fmt.Fprintf(out, "corrected  %s\n", plain.Line(c.Text()))
	}
	if n := a.PassedAsCorrected; n != nil {
		fmt.Fprintf(out, "as corrected  %s: %d of %d passed; the list is as recorded\n", plain.Line(a.ID), *n, a.Total)
	}
}

// notPassed tells what became of the cases that neither passed nor failed.
func notPassed(a answer.Logged) string {
	return plain.OfWhich(plain.Count{N: a.Errors, What: "errors"}, plain.Count{N: a.Unscored, What: "unscored"}, plain.Count{N: a.Truncated, What: "truncated"}, plain.Count{N: a.Skipped, What: "skipped"}, plain.Count{N: a.NotRun, What: "not run"})
}

// paidMark tells what was paid where that is not what was scored.
func paidMark(a answer.Logged) string {
	if a.Paid.Beside(a.Cost) == "" {
		return ""
	}
	s := fmt.Sprintf(", $%.6f paid", a.Paid.CostUSD)
	if a.Paid.UnknownCalls > 0 {
		s += ", " + plain.Plural(a.Paid.UnknownCalls, "unknown call")
	}
	return s
}

// attemptMarks are what a reader must not miss about an attempt.
func attemptMarks(a answer.Logged) string {
	s := a.Mode
	if !a.Finished {
		s += ", NOT FINISHED"
	}
	switch {
	case a.Retries != "":
		s += ", ERRORS OF " + plain.Line(a.Retries)
	case a.Filtered:
		s += ", FILTERED"
	}
	if a.Reduce != "" {
		s += ", REDUCED by " + string(a.Reduce)
	}
	if n := len(a.Problems); n > 0 {
		s += ", " + plain.Plural(n, "problem")
	}
	return s
}
