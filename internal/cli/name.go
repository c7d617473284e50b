package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/read/dossier"
	"tallystick/internal/record/plain"
)

func newName(env *Env) *cobra.Command {
	var n ceremony.Naming
	cmd := &cobra.Command{
		Use:     "name ATTEMPT [NAME]",
		Short:   "Give an attempt a name or a note that people find it by",
		Example: `tally name latest "prompt v9"`,
		Long: `Record a name for an attempt, a note about it, or both, sealed by the operator's key. From
then on NAME addresses the attempt wherever an id does, and stands beside the id where
attempts are shown. It decides nothing: exports, receipts and gates always show the id and
which attempt of how many it is. The newest attempt that was given a name has it.

A name is of one script. One that looks like an id, a number or "latest" is refused.

  tally name latest "prompt v9"
  tally name 14 --note "temperature was 0.7 by mistake"`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			n.Attempt = args[0]
			if len(args) > 1 {
				n.Name = args[1]
			}
			return runName(cmd.Context(), env, n)
		},
	}
	cmd.Flags().StringVar(&n.Note, "note", "", "a note `TEXT` about the attempt")
	return cmd
}

func runName(ctx context.Context, env *Env, n ceremony.Naming) error {
	c, err := openRecorded(env, dossier.Ask{})
	if err != nil {
		return err
	}
	defer c.Close()
	named, err := ceremony.Name(ctx, c, n)
	if err != nil {
		return err
	}
	return env.Answer(named, func(out io.Writer) {
		fmt.Fprintf(out, "named    %s, attempt %d of %d of its class, entry %d\n", plain.Line(named.Attempt), named.Number, named.Of, named.Index)
		if named.Name != "" {
			fmt.Fprintf(out, "name     %s\n", plain.Line(named.Name))
		}
		if named.Note != "" {
			fmt.Fprintf(out, "note     %s\n", plain.Lines(named.Note, said))
		}
		if named.Was != "" {
			fmt.Fprintf(out, "before   %s had this name\n", plain.Line(named.Was))
		}
	})
}
