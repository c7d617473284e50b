package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/app/doctor"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
)

func newDoctor(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:     "doctor",
		Short:   "Say what this machine and this workspace lack, and what to do",
		Example: "tally doctor",
		Long: `Look at this machine and at the workspace: which sandbox works, whether keys, ledger and
benches are sound, whether alarms are waiting, whether each target starts (it is started as a
run starts it, on one case), which cases of the targets in use ask what nothing recorded
answers and what recording them may cost, and whether their models, keys and prices are there.
Nothing is sent. Each line that needs something done says what to do. The exit code is 1 if there is such a line.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDoctor(cmd.Context(), env) },
	}
}

type doctorAnswer struct {
	Checks []doctor.Check `json:"checks"`
}

func runDoctor(ctx context.Context, env *Env) error {
	dir, err := workspaceDir(env)
	if err != nil {
		return err
	}
	checks := doctor.Examine(ctx, dir, worldOf(env))
	if err := env.Answer(doctorAnswer{checks}, func(out io.Writer) { doctorText(out, checks) }); err != nil {
		return err
	}
	var bad []string
	for _, c := range checks {
		if !c.OK {
			bad = append(bad, c.Name)
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return refusal.Newf(refusal.Failed, "%s: %s", plain.Plural(len(bad), "thing")+" to mend", strings.Join(bad, ", ")).WithHint("each line above says how")
}

func doctorText(out io.Writer, checks []doctor.Check) {
	for _, c := range checks {
		fmt.Fprintf(out, "%s  %-12s %s\n", verdictText(c.OK, "ok  ", "MEND"), c.Name, plain.Line(c.Detail))
		if c.Fix != "" {
			fmt.Fprintf(out, "      %-12s to do: %s\n", "", plain.Line(c.Fix))
		}
	}
}
