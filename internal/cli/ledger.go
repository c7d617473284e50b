package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"tallystick/internal/archive"
	"tallystick/internal/canon"
	"tallystick/internal/digest"
	"tallystick/internal/ledger"
	"tallystick/internal/plain"
	"tallystick/internal/refusal"
	"tallystick/internal/sequencer"
	"tallystick/internal/store"
)

func newLedger(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ledger",
		Short: "The record: append, verify, show, prove, repair",
	}
	cmd.AddCommand(newLedgerAppend(env), newLedgerVerify(env), newLedgerShow(env), newLedgerProve(env), newLedgerRepair(env))
	return cmd
}

func newLedgerShow(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "show N",
		Short: "Print entry N after verifying the ledger",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := parseIndex(args[0])
			if err != nil {
				return err
			}
			return runLedgerShow(cmd.Context(), env, n)
		},
	}
}

// showAnswer is an entry and its place.
type showAnswer struct {
	Index   int64            `json:"index"`
	Head    digest.ID        `json:"head"`
	Prev    digest.ID        `json:"prev"`
	Content digest.Content   `json:"content"`
	Entry   canon.RawMessage `json:"entry"`
}

func runLedgerShow(ctx context.Context, env *Env, n int64) error {
	var found *showAnswer
	_, v, err := env.verifiedLedger(func(r ledger.Record) error {
		if r.Index == n {
			found = &showAnswer{r.Index, r.Head, r.Prev, r.Content, bytes.Clone(r.Raw)}
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	if found == nil || n >= v.Size {
		return noEntry(n, v.Size)
	}
	return env.Answer(found, func(out io.Writer) {
		fmt.Fprintf(out, "entry    %d\nhead     %s\nprev     %s\ncontent  %s\n%s\n", found.Index, found.Head, found.Prev, found.Content, plain.JSON(found.Entry))
	})
}

func noEntry(n, size int64) error {
	return refusal.Newf(refusal.UnknownName, "no entry %d: the ledger has %d entries, 0 to %d", n, size, size-1)
}

type ledgerProveOptions struct {
	index int64
	out   string
}

func newLedgerProve(env *Env) *cobra.Command {
	var o ledgerProveOptions
	cmd := &cobra.Command{
		Use:   "prove N -o FILE",
		Short: "Write a receipt that proves entry N to anybody, offline",
		Long: `Write a receipt (C2SP tlog-proof) that entry N is in this ledger. It is signed by
the operator's seal, and by the witnesses of the last anchor if that covers the
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
	tree := &ledger.Tree{}
	var pos ledger.Position
	var entry []byte
	w, v, err := env.verifiedLedger(func(r ledger.Record) error {
		if r.Index == o.index {
			pos, entry = r.Position, bytes.Clone(r.Raw)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		return tree.Add(r.Leaf)
	})
	if err != nil {
		return err
	}
	if o.index >= v.Size {
		return noEntry(o.index, v.Size)
	}
	head, checkpoint := w.BestCheckpoint(v, o.index)
	proof, err := tree.ProveInclusion(head.Size, o.index)
	if err != nil {
		return fmt.Errorf("proving entry %d: %w", o.index, err)
	}
	receipt := ledger.NewReceipt(pos, entry, proof, checkpoint)
	data, err := receipt.Marshal()
	if err != nil {
		return err
	}
	if err := store.WriteFile(store.OS{}, o.out, data, 0o644); err != nil {
		return err
	}
	a := map[string]any{"receipt": o.out, "index": o.index, "size": head.Size, "bytes": len(data)}
	if receipt.Entry == nil {
		a["entry"] = o.out + ".entry.json"
		if err := store.WriteFile(store.OS{}, o.out+".entry.json", entry, 0o644); err != nil {
			return err
		}
	}
	key := archive.SignedWith(checkpoint, v.EveryKey())
	a["key"] = key
	return env.Answer(a, func(out io.Writer) {
		fmt.Fprintf(out, "%s proves entry %d of %s (%d bytes)\n", plain.Line(o.out), o.index, v.Origin, len(data))
		if receipt.Entry == nil {
			fmt.Fprintf(out, "the entry itself is in %s.entry.json: send both\n", plain.Line(o.out))
		}
		fmt.Fprintf(out, "Check it with: tally-verify --key %s %s\n", key, plain.Line(o.out))
	})
}

func newLedgerRepair(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "repair",
		Short: "Set aside what a crash left after the last seal",
		Long: `Set aside what a crash left after the last seal. The bytes are kept in
.tally/ledger/torn. Nothing that was acknowledged is ever among them: if the memory
or an anchor says otherwise, repair refuses.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runLedgerRepair(cmd.Context(), env) },
	}
}

func runLedgerRepair(ctx context.Context, env *Env) error {
	w, err := env.open()
	if err != nil {
		return err
	}
	cfg, err := w.Config()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, archive.LockWait)
	defer cancel()
	r, err := sequencer.Repair(ctx, cfg)
	if err != nil {
		return w.Alarm(err)
	}
	return env.Answer(map[string]any{"segment": r.Segment, "bytes": r.Bytes, "kept": r.Kept, "entries": r.Entries}, func(out io.Writer) {
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

// fileExists reports whether there is something at path.
func fileExists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
