package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/app/lab"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/sandbox/isolation"
)

func newTry(env *Env) *cobra.Command {
	var o lab.TryOptions
	cmd := &cobra.Command{
		Use:     "try [-f FILE | --case 'INPUT=EXPECTED']... -- COMMAND [ARG...]",
		Short:   "Try any program on a handful of cases; nothing is signed or recorded",
		Example: "tally try --case 'ping=ping' -- cat",
		Long: `Run a program on a few cases and say which answers are right. The program gets the
input on standard input and answers on standard output; it runs in a sandbox that
shows it the current folder, read-only, and a working folder of its own. Of a folder
with keys or the answers of a bench in it (a workspace, a home folder) it shows only
the files that the command names, and the folders they are in if those have none.

  tally try --case 'ping=ping' -- cat
  tally try -f cases.yaml -- python3 agent.py

cases.yaml:

  cases:
    - {input: "What is 2 plus 2?", expect: "4"}
    - {input: "Name a prime above 10", matches: "1[1379]"}
    - {input: "Greet me", contains: hello, model: [{text: "hello"}]}

"expect" compares without regard to case, white space and punctuation, "contains" and
"matches" look inside the answer; "grade" takes any grader. "model" answers the
program's model calls. A result of this command is scratch: it counts for nothing.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Command = args
			if err := completeSpec(cmd, &o.Spec, ""); err != nil {
				return err
			}
			return runTry(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.File, "file", "f", "", "YAML `FILE` with the cases")
	f.StringArrayVar(&o.Cases, "case", nil, "a case as `INPUT=EXPECTED`; may be given several times")
	f.StringArrayVar(&o.Mounts, "mount", nil, "a further `FOLDER` that the program may read")
	f.BoolVar(&o.Spec.UnsafeAgent, "unsafe-agent", false, "run the program without a sandbox")
	return cmd
}

type tryAnswer struct {
	Level  string      `json:"level"` // always scratch
	Total  int         `json:"total"`
	Passed int         `json:"passed"`
	Cases  []lab.Tried `json:"cases"`
}

func runTry(ctx context.Context, env *Env, o lab.TryOptions) error {
	a := &tryAnswer{Level: string(bench.Scratch), Cases: []lab.Tried{}}
	err := lab.Try(ctx, worldOf(env), o, func(c lab.Tried) error {
		a.Cases = append(a.Cases, c)
		a.Total++
		if c.Outcome == string(evidence.Passed) {
			a.Passed++
		}
		if !env.JSON && !env.Quiet {
			return env.Answer(c, func(out io.Writer) { printTried(out, c) })
		}
		return nil
	})
	if err != nil {
		return err
	}
	if a.neverStarted() && !o.Spec.Unsafe() {
		env.Note("the sandbox shows the program /usr and the current folder; give it more with --mount FOLDER, or none of the isolation with --unsafe-agent")
	}
	if err := env.Answer(a, a.print); err != nil || a.Passed == a.Total {
		return err
	}
	return refusal.Newf(refusal.GateNotMet, "%d of %d cases did not pass", a.Total-a.Passed, a.Total)
}

func printTried(out io.Writer, c lab.Tried) {
	if c.Outcome == string(evidence.Passed) {
		fmt.Fprintf(out, "%s    %-12s %s -> %s\n", good.of("ok"), plain.Line(c.Case), plain.Line(short(c.Input)), plain.Line(short(c.Answer)))
		return
	}
	fmt.Fprintf(out, "%s  %-12s %s -> %s\n", bad.of("FAIL"), plain.Line(c.Case), plain.Line(short(c.Input)), plain.Line(short(c.Answer)))
	if c.Why != "" {
		fmt.Fprintf(out, "      %s\n", plain.Lines(c.Why, said))
	}
}

func short(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 60 {
		return strings.ToValidUTF8(s[:57], "") + "..."
	}
	return s
}

func (a *tryAnswer) neverStarted() bool {
	return slices.ContainsFunc(a.Cases, func(c lab.Tried) bool { return strings.Contains(c.Why, "could not be started") })
}

func (a *tryAnswer) print(out io.Writer) {
	fmt.Fprintf(out, "%d of %d passed. SCRATCH: nothing was signed or recorded.\n", a.Passed, a.Total)
	if len(a.Cases) > 0 && isolation.IsWeaker(a.Cases[0].Agent) {
		fmt.Fprintf(out, "The program ran in the weaker class %s: gvisor does not start here.\n", a.Cases[0].Agent)
	}
	fmt.Fprintln(out, `Next: "tally init" makes a workspace whose results can be proved`)
}
