package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
)

type ledgerAppendOptions struct {
	kind string
	wait time.Duration
}

func newLedgerAppend(env *Env) *cobra.Command {
	var o ledgerAppendOptions
	cmd := &cobra.Command{
		Use:     "append --kind KIND",
		Short:   "Append records from standard input, one JSON body a line",
		Example: "tally ledger append --kind note < notes.jsonl",
		Long: `Append records from standard input, one JSON body a line. Each is answered with
its index and head after it is on disk. A bad line ends the command; those before it
are on disk and answered. The records are marked as made by hand and never count as
scores. --kind note takes any JSON object.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runLedgerAppend(cmd.Context(), env, o) },
	}
	cmd.Flags().StringVar(&o.kind, "kind", "", "`KIND` of the records")
	cmd.Flags().DurationVar(&o.wait, "wait", dossier.LockWait, "`DURATION` to wait for another writer to finish, as in 30s")
	cmd.MarkFlagRequired("kind")
	return cmd
}

func runLedgerAppend(ctx context.Context, env *Env, o ledgerAppendOptions) error {
	kind := evidence.Kind(o.kind)
	if _, err := evidence.DecodeBody(kind, []byte(`{}`)); refusal.Is(err, refusal.UnknownKind) {
		return err
	}
	if kind == evidence.LedgerOpened {
		return refusal.Newf(refusal.Usage, "a ledger is opened once, by its first entry").WithHint(`"tally init" writes it`)
	}
	w, err := openPlace(env)
	if err != nil {
		return err
	}
	return w.AppendLines(ctx, kind, env.Stdin, o.wait, func(a dossier.Appended) error {
		return env.Answer(a, func(out io.Writer) { fmt.Fprintf(out, "%d %s\n", a.Index, a.Head) })
	})
}
