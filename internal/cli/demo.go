package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/app/demo"
	"tallystick/internal/read/dossier"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/harness"
)

func newDemo(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:     "demo [DIR]",
		Short:   "Offline, in seconds: run a bench, then try to forge the result in many ways",
		Example: "tally demo",
		Long: `Make a workspace in DIR (default: a temporary folder, removed afterwards), have two
example people sign a small bench, run it, print the scorecard and why a case failed,
and then forge bench, ledger, evidence and totals in many ways. Exit 0 only if every
forgery is refused.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := ""
			if len(args) == 1 {
				dir = args[0]
			}
			return runDemo(cmd.Context(), env, dir)
		},
	}
}

func runDemo(ctx context.Context, env *Env, dir string) error {
	a, err := demo.Show(ctx, demo.Options{Dir: dir, World: worldOf(env), Run: runQuietly})
	if err != nil {
		return err
	}
	if err := env.Answer(a, func(out io.Writer) { demoText(out, a) }); err != nil {
		return err
	}
	if !a.OK {
		return refusal.Newf(refusal.ChainTamperDetected, "a forgery was not refused as it should be").WithHint("this is a bug in tally; please report it")
	}
	return nil
}

// runQuietly is "tally run CLASS" without its answer.
func runQuietly(ctx context.Context, dir, class string, world dossier.World) error {
	env := &Env{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Now: world.Now, Getenv: world.Getenv, Quiet: true, WorkspaceDir: dir}
	return runRun(ctx, env, runOptions{spec: harness.Spec{Class: class, Version: thisBuild().Harness()}})
}

func demoText(w io.Writer, a *demo.Answer) {
	c := a.Scorecard
	coverage := 0.0
	if c.EvidenceCoverage != nil {
		coverage = *c.EvidenceCoverage
	}
	fmt.Fprintf(w, "\nattempt %s (%s): %d of %d solved, %s [%.2f, %.2f] at 95 %%\n", plain.Line(a.Attempt), c.Level, c.Solved, c.TotalTasks, plain.Score(c.SolveRate, 2), c.SolveRateCI95[0], c.SolveRateCI95[1])
	fmt.Fprintf(w, "  %s, %s tokens, %s policy violations, evidence of %.0f %% of what was solved\n", c.TotalCost, c.TotalTokens, c.PolicyViolations, 100*coverage)
	fmt.Fprintf(w, "%s failed: %s\n", plain.Line(a.Why.Case), plain.Line(strings.Join(a.Why.Modes, ", ")))
	fmt.Fprintf(w, "  check %s, %s: %s\n", plain.Line(a.Why.Failed.Check), plain.Line(a.Why.Failed.Extractor), plain.Line(a.Why.Failed.Why))
	fmt.Fprintf(w, "All of it is in a ledger of %d entries, sealed and anchored:\n  %s\n\nNow forge it:\n", a.Entries, a.Head)
	for _, f := range a.Forgeries {
		word := "refused"
		if !f.Refused {
			word = "ACCEPTED"
		}
		fmt.Fprintf(w, "  %-8s %-58s %s\n", word, f.Forgery, f.Name)
	}
	if a.OK {
		fmt.Fprintf(w, "\nAll %d forgeries were refused.\n", len(a.Forgeries))
	}
}
