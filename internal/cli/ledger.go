package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/tlog"

	"tallystick/internal/canon"
	"tallystick/internal/digest"
	"tallystick/internal/ledger"
	"tallystick/internal/plain"
	"tallystick/internal/refusal"
	"tallystick/internal/sequencer"
	"tallystick/internal/store"
	"tallystick/internal/workspace"
)

func newLedger(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ledger",
		Short: "The record: append, verify, show, prove, repair",
	}
	cmd.AddCommand(newLedgerAppend(env), newLedgerVerify(env), newLedgerShow(env), newLedgerProve(env), newLedgerRepair(env))
	return cmd
}

// expectations gathers what the workspace's ledger must contain: the published
// anchors and this machine's memory. The memory is read before the ledger, so
// a writer at work meanwhile cannot make it look ahead.
func (e *Env) expectations(w *workspace.Workspace, place sequencer.Place) ([]sequencer.AnchorFile, []ledger.Expectation, error) {
	remembered, err := sequencer.Remembered(place.FS, place.StateDir, w.Settings.Origin)
	if err != nil {
		return nil, nil, err
	}
	anchors, err := sequencer.LoadAnchors(place.FS, place.Anchors)
	if err != nil {
		return nil, nil, e.alarm(w, err)
	}
	expect := sequencer.AnchorExpectations(anchors)
	if remembered != nil {
		expect = append(expect, sequencer.MemoryExpectation(*remembered))
	}
	return anchors, expect, nil
}

// verifiedLedger verifies the workspace's ledger against everything known.
func (e *Env) verifiedLedger() (*workspace.Workspace, *ledger.Verified, error) {
	return e.visitLedger(nil)
}

func (e *Env) visitLedger(visit func(ledger.Record) error) (*workspace.Workspace, *ledger.Verified, error) {
	w, err := e.loadWorkspace()
	if err != nil {
		return nil, nil, err
	}
	place, err := e.place(w)
	if err != nil {
		return nil, nil, err
	}
	_, expect, err := e.expectations(w, place)
	if err != nil {
		return nil, nil, err
	}
	v, err := place.Verify(ledger.Options{Origin: w.Settings.Origin, TrustRoot: w.Settings.TrustRoot, Expect: expect, Decode: true, Visit: visit})
	if err != nil {
		return nil, nil, e.alarm(w, err)
	}
	return w, v, nil
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
	_, v, err := env.visitLedger(func(r ledger.Record) error {
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
	w, v, err := env.visitLedger(func(r ledger.Record) error {
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
	head, checkpoint := env.bestCheckpoint(w, v, o.index)
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
	key := signedWith(checkpoint, v.EveryKey())
	a["key"] = key
	return env.Answer(a, func(out io.Writer) {
		fmt.Fprintf(out, "%s proves entry %d of %s (%d bytes)\n", plain.Line(o.out), o.index, v.Origin, len(data))
		if receipt.Entry == nil {
			fmt.Fprintf(out, "the entry itself is in %s.entry.json: send both\n", plain.Line(o.out))
		}
		fmt.Fprintf(out, "Check it with: tally-verify --key %s %s\n", key, plain.Line(o.out))
	})
}

// An entryProof is an entry of the verified ledger and what proves it.
type entryProof struct {
	pos        ledger.Position
	raw        []byte
	proof      tlog.RecordProof
	checkpoint []byte
}

// proveEntries proves that entries are in the ledger. It also returns the key
// with which the proofs can be checked.
func (e *Env) proveEntries(w *workspace.Workspace, indexes []int64) (map[int64]entryProof, string, error) {
	proofs := make(map[int64]entryProof, len(indexes))
	for _, i := range indexes {
		proofs[i] = entryProof{}
	}
	tree := &ledger.Tree{}
	v, err := e.walkLedger(w, func(r ledger.Record) error {
		if _, ok := proofs[r.Index]; ok {
			proofs[r.Index] = entryProof{pos: r.Position, raw: bytes.Clone(r.Raw)}
		}
		return tree.Add(r.Leaf)
	})
	if err != nil {
		return nil, "", err
	}
	head, checkpoint := e.bestCheckpoint(w, v, slices.Max(indexes))
	for i, x := range proofs {
		if x.proof, err = tree.ProveInclusion(head.Size, i); err != nil {
			return nil, "", fmt.Errorf("proving entry %d: %w", i, err)
		}
		x.checkpoint = checkpoint
		proofs[i] = x
	}
	return proofs, signedWith(checkpoint, v.EveryKey()), nil
}

// signedWith finds the key that signed a checkpoint. Right after a change of
// operators that is the former one's.
func signedWith(checkpoint []byte, keys []ledger.LogKey) string {
	for _, k := range keys {
		if _, err := ledger.VerifyCheckpoint(checkpoint, ledger.Policy{Logs: []ledger.LogKey{k}}); err == nil {
			return vkeyOf(k)
		}
	}
	return ""
}

// bestCheckpoint prefers the last anchor, whose checkpoint witnesses may have
// cosigned, and falls back to the last seal.
func (e *Env) bestCheckpoint(w *workspace.Workspace, v *ledger.Verified, index int64) (ledger.TreeHead, []byte) {
	anchors, err := sequencer.LoadAnchors(store.OS{}, w.AnchorsDir())
	if err == nil {
		for i := len(anchors) - 1; i >= 0; i-- {
			if a := anchors[i]; a.Size > index && a.Size <= v.Size {
				if head, err := a.TreeHead(); err == nil {
					return head, []byte(a.Checkpoint)
				}
			}
		}
	}
	return v.TreeHead, v.Checkpoint
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
	w, err := env.loadWorkspace()
	if err != nil {
		return err
	}
	cfg, err := env.config(w)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	r, err := sequencer.Repair(ctx, cfg)
	if err != nil {
		return env.alarm(w, err)
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
