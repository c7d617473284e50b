package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
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

// logColumns are the columns of the log, in their order. What a narrow terminal has no
// room for is left out, in the order of logDropped; the last column is cut where it ends.
var (
	logColumns = []string{"attempt", "passed", "gate", "when", "cost", "level", "about"}
	logDropped = []string{"level", "cost", "when"}
)

// logAbout is how much room the last column has before others are left out for it.
const logAbout = 28

func logText(env *Env, out io.Writer, attempts []answer.Logged) {
	if len(attempts) == 0 {
		fmt.Fprintln(out, `no attempts yet; "tally run CLASS" makes one`)
		return
	}
	rows := make([][]string, len(attempts))
	for i, a := range attempts {
		rows[i] = []string{unstyled.of(plain.Line(a.ID)), unstyled.of(passedText(a)), stateText(a.Decision),
			unstyled.of(a.StartedAt.Go().Format("2006-01-02 15:04")), unstyled.of(a.Cost.String()), unstyled.of(a.Level.String()), attemptMarks(a) + paidMark(a) + nameMark(a)}
	}
	left := 0
	if isTerminal(env.Stdout) {
		_, columns := terminalSize(env.Stdout)
		for left < len(logDropped) && widest(logTable(rows, logDropped[:left], logAbout)) > columns {
			left++
		}
	}
	fit(env, out, logTable(rows, logDropped[:left], 0))
	if left > 0 {
		fmt.Fprintf(out, "left out for want of room: %s\n", strings.Join(logDropped[:left], ", "))
	}
	for _, a := range attempts {
		correctedText(out, a)
	}
}

// logTable draws the log without the columns that are left out, its last column cut to
// about letters; 0 is all of them. Words in a style take two characters more: so do all
// of their column.
func logTable(rows [][]string, without []string, about int) string {
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	titles := make([]string, len(logColumns))
	for i, title := range logColumns {
		titles[i] = heading.of(title)
	}
	for _, row := range append([][]string{titles}, rows...) {
		var cells []string
		for i, cell := range row {
			if slices.Contains(without, logColumns[i]) {
				continue
			}
			if r := []rune(cell); about > 0 && i == len(row)-1 && len(r) > about {
				cell = string(r[:about])
			}
			cells = append(cells, cell)
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	w.Flush()
	return table.String()
}

// widest is how many columns the widest line takes, without the marks of styles.
func widest(text string) int {
	most := 0
	for line := range strings.Lines(text) {
		n := 0
		for _, r := range strings.TrimRight(line, " \n\x0e") {
			if !isStyle(r) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// nameMark is what people call an attempt, with which one of how many it is: a name may
// have been chosen after many attempts.
func nameMark(a answer.Logged) string {
	s := ""
	if a.Name != "" {
		s = fmt.Sprintf(", %q, %d of %d", plain.Line(a.Name), a.Number, a.Of)
	}
	if a.Note != "" {
		s += ", noted: " + plain.Line(short(a.Note))
	}
	return s
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

// passedText tells how many cases passed, or that the attempt was not answered.
func passedText(a answer.Logged) string {
	if a.Unanswered > 0 {
		return fmt.Sprintf("not answered (%d of %d ask something new)", a.Unanswered, a.Total)
	}
	return fmt.Sprintf("%d of %d%s", a.Passed, a.Total, notPassed(a))
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
