package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/share/outgoing"
)

func newLedger(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ledger",
		Short:   "The record: verify, show, prove, append, repair, move, anchor, cosign",
		Example: "tally ledger verify",
	}
	cmd.AddCommand(newLedgerAppend(env), newLedgerVerify(env), newLedgerShow(env), newLedgerProve(env), newLedgerRepair(env), newLedgerMove(env), newAnchor(env), newCosigner(env))
	return cmd
}

func newLedgerShow(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:     "show N",
		Short:   "Print entry N after verifying the ledger",
		Example: "tally ledger show 12",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := parseIndex(args[0])
			if err != nil {
				return err
			}
			return runLedgerShow(cmd.Context(), env, n)
		},
	}
}

func runLedgerShow(ctx context.Context, env *Env, n int64) error {
	p, err := openPlace(env)
	if err != nil {
		return err
	}
	found, err := p.Show(ctx, n)
	if err != nil {
		return err
	}
	return env.Answer(found, func(out io.Writer) {
		fmt.Fprintf(out, "entry    %d\nhead     %s\nprev     %s\ncontent  %s\n%s\n", found.Index, found.Head, found.Prev, found.Content, plain.JSON(found.Entry))
	})
}

type ledgerProveOptions struct {
	index int64
	out   string
}

func newLedgerProve(env *Env) *cobra.Command {
	var o ledgerProveOptions
	cmd := &cobra.Command{
		Use:     "prove N -o FILE",
		Short:   "Write a receipt that proves entry N to every reader, offline",
		Example: "tally ledger prove 12 -o entry.receipt",
		Long: `Write a receipt (C2SP tlog-proof) that entry N is in this ledger. It is signed by
the operator's seal, and by the cosigners of the last anchor if that covers the
entry. An entry too long for a receipt of 4 KB is written beside it.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := parseIndex(args[0])
			if err != nil {
				return err
			}
			o.index = n
			return runLedgerProve(cmd.Context(), env, o)
		},
	}
	cmd.Flags().StringVarP(&o.out, "out", "o", "", "`FILE` to write the receipt to")
	cmd.MarkFlagRequired("out")
	return cmd
}

func runLedgerProve(ctx context.Context, env *Env, o ledgerProveOptions) error {
	p, err := openPlace(env)
	if err != nil {
		return err
	}
	a, err := outgoing.WriteReceipt(ctx, p, o.index, o.out, acceptReceipt(env))
	if err != nil {
		return err
	}
	return env.Answer(a, func(out io.Writer) {
		fmt.Fprintf(out, "%s proves entry %d of %s (%d bytes)\n", plain.Line(o.out), o.index, a.Origin, a.Bytes)
		if a.Entry != "" {
			fmt.Fprintf(out, "the entry itself is in %s: send both\n", plain.Line(a.Entry))
		}
		fmt.Fprintf(out, "Check it with: tally-verify --key %s %s\n", a.Key, plain.Line(o.out))
	})
}

func newLedgerRepair(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:     "repair",
		Short:   "Set aside what a crash left after the last seal",
		Example: "tally ledger repair",
		Long: `Set aside what a crash left after the last seal. The bytes are kept in
.tally/ledger/torn. Nothing that was acknowledged is ever among them: if the memory
or an anchor says otherwise, repair refuses.

Lists of events (.tally/runs/ATTEMPT/events.jsonl) that are gone are written again
from the evidence. One that was changed stays as it is.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runLedgerRepair(cmd.Context(), env) },
	}
}

func runLedgerRepair(ctx context.Context, env *Env) error {
	w, err := openPlace(env)
	if err != nil {
		return err
	}
	r, err := w.Repair(ctx)
	if err != nil {
		return err
	}
	return env.Answer(map[string]any{"segment": r.Segment, "bytes": r.Bytes, "kept": r.Kept, "entries": r.Entries, "events": r.Events}, func(out io.Writer) {
		if r.Events > 0 {
			fmt.Fprintf(out, "wrote %s again from the evidence\n", plain.Plural(r.Events, "list of events"))
		}
		if r.Segment == "" {
			return
		}
		fmt.Fprintf(out, "set aside %d bytes of %s, kept in %s; the ledger has %d entries\n", r.Bytes, r.Segment, plain.Line(r.Kept), r.Entries)
	})
}

func parseIndex(s string) (int64, error) {
	var n int64
	if _, err := fmt.Sscanf(s, "%d", &n); err != nil || n < 0 || fmt.Sprint(n) != s {
		return 0, refusal.Newf(refusal.Usage, "%q is not the index of an entry", s).WithHint("entries count from 0")
	}
	return n, nil
}
