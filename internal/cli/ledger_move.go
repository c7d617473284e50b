package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
)

type ledgerMoveOptions struct {
	to       string
	toFolder bool
}

func newLedgerMove(env *Env) *cobra.Command {
	var o ledgerMoveOptions
	cmd := &cobra.Command{
		Use:     "move s3://BUCKET/PREFIX?endpoint=URL&region=NAME",
		Short:   "Move the ledger into an object store, or back into the folder",
		Example: `tally ledger move "s3://evals/ledger?endpoint=https://s3.example.com&region=eu"`,
		Long: `Move the ledger with its evidence into an S3-compatible object store, so that
several machines share it, or with --to-folder back into this workspace. Everything
is copied, read back, verified and compared; only then tally.yaml is changed, which
you commit. The old place says where the ledger went and takes no more entries.
Interrupted at any point, run it again: nothing is lost.

Credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the AWS
credentials file. The bucket must exist and refuse to overwrite objects when asked
to (If-None-Match). This command needs the program tally-fleet.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == o.toFolder {
				return refusal.Newf(refusal.Usage, "give an address s3://BUCKET/PREFIX, or --to-folder").WithHint("tally ledger move --help")
			}
			if len(args) == 1 {
				o.to = args[0]
			}
			return runLedgerMove(cmd.Context(), env, o)
		},
	}
	cmd.Flags().BoolVar(&o.toFolder, "to-folder", false, "move the ledger from its store into this workspace")
	return cmd
}

func runLedgerMove(ctx context.Context, env *Env, o ledgerMoveOptions) error {
	if env.beyond == nil {
		return handOver(ctx, env, "moving a ledger")
	}
	p, err := openPlace(env)
	if err != nil {
		return err
	}
	proof, err := ceremony.MoveLedger(ctx, p, o.to)
	if err != nil {
		return err
	}
	return env.Answer(proof, func(out io.Writer) {
		fmt.Fprintf(out, "moved    %s\nto       %s\nentries  %d in %d batches, before and after\nhead     %s, before and after\nroot     %s, before and after\n",
			plain.Line(proof.From), plain.Line(proof.To), proof.Entries, proof.Batches, proof.Head, proof.Root)
		fmt.Fprintf(out, "Commit %s: every clone finds the ledger by it.\n", settingsFile)
	})
}
