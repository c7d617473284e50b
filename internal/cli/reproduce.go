package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tallystick/internal/app/lab"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/harness"
)

type reproduceOptions struct {
	attempt string
	spec    harness.Spec // class, target and repetitions are those of the attempt
}

func newReproduce(env *Env) *cobra.Command {
	var o reproduceOptions
	cmd := &cobra.Command{
		Use:     "reproduce ATTEMPT",
		Short:   "Run an attempt again under another key, and record whether it agrees",
		Example: "tally reproduce latest",
		Long: `Run every case of a recorded attempt again, with its recordings from the evidence or
the bench, under an operator's key that is not the one that ran it (TALLY_OPERATOR_KEY).
Scores, outcomes and canonical traces must be the same. The agreement, or the first
divergence, is signed and recorded.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.attempt = args[0]
			if err := completeSpec(cmd, &o.spec, ""); err != nil {
				return err
			}
			return runReproduce(cmd.Context(), env, o)
		},
	}
	cmd.Flags().IntVar(&o.spec.Jobs, "jobs", 0, "run `N` cases at once")
	return cmd
}

func runReproduce(ctx context.Context, env *Env, o reproduceOptions) error {
	p, err := read(env, dossier.Ask{Want: func(a *history.Attempt) bool { return a.ID == o.attempt }})
	if err != nil {
		return err
	}
	original, err := p.Attempt(o.attempt)
	if err != nil {
		return err
	}
	c, err := p.Corpus()
	if err != nil {
		return err
	}
	defer c.Close()
	answer, err := lab.Reproduce(ctx, c, lab.Original{Attempt: original.Attempt, Read: p.Piece}, o.spec)
	if err != nil {
		return err
	}
	if err := env.Answer(answer, func(out io.Writer) { printReproduced(out, answer) }); err != nil || answer.Agrees {
		return err
	}
	return refusal.Newf(refusal.NotReproduced, "attempt %s does not reproduce: %s", original.ID, answer.Divergence)
}

func printReproduced(out io.Writer, a *lab.Reproduced) {
	if a.Agrees {
		fmt.Fprintf(out, "attempt %s reproduces: %d cases, same outcomes, scores and traces (entry %d)\n", plain.Line(a.Original), a.Cases, a.Entry)
		return
	}
	fmt.Fprintf(out, "attempt %s does NOT reproduce: %s (entry %d)\n", plain.Line(a.Original), plain.Line(a.Divergence), a.Entry)
}
