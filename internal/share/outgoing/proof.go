package outgoing

import (
	"bytes"
	"context"
	"fmt"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
)

// A WrittenReceipt says where the receipt of an entry was written.
type WrittenReceipt struct {
	Bytes int `json:"bytes"`
	// Entry is the file of an entry that is too long for a receipt, or "".
	Entry   string `json:"entry,omitempty"`
	Index   int64  `json:"index"`
	Key     string `json:"key"` // that it can be checked with
	Receipt string `json:"receipt"`
	Size    int64  `json:"size"` // of the tree

	Origin string `json:"-"`
}

// WriteReceipt verifies the ledger and writes a receipt that proves an entry to
// a stranger, offline. An entry too long for a receipt is written beside it. Nothing is
// written that accept refuses, which gets the receipt, the entry if that lies beside it,
// and the ledger's key.
func WriteReceipt(ctx context.Context, p *dossier.Place, index int64, out string, accept func(receipt, entry []byte, key string) error) (*WrittenReceipt, error) {
	tree := &ledger.Tree{}
	var at ledger.Position
	var entry []byte
	v, err := p.Verify(func(r ledger.Record) error {
		if r.Index == index {
			at, entry = r.Position, bytes.Clone(r.Raw)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		return tree.Add(r.Leaf)
	})
	if err != nil {
		return nil, err
	}
	if index >= v.Size {
		return nil, dossier.NoEntry(index, v.Size)
	}
	head, checkpoint := p.BestCheckpoint(v, index)
	proof, err := tree.ProveInclusion(head.Size, index)
	if err != nil {
		return nil, fmt.Errorf("proving entry %d: %w", index, err)
	}
	receipt := ledger.NewReceipt(at, entry, proof, checkpoint)
	data, err := receipt.Marshal()
	if err != nil {
		return nil, err
	}
	w := &WrittenReceipt{Receipt: out, Index: index, Size: head.Size, Bytes: len(data), Key: ledger.SignedWith(checkpoint, v.EveryKey()), Origin: v.Origin}
	if receipt.Entry == nil {
		w.Entry = out + ".entry.json"
	} else {
		entry = nil
	}
	if err := accept(data, entry, w.Key); err != nil {
		return nil, err
	}
	if err := dossier.WriteOutput(out, data); err != nil || entry == nil {
		return w, err
	}
	return w, dossier.WriteOutput(w.Entry, entry)
}

// A WrittenProof says what a proof of a case or an attempt proves.
type WrittenProof struct {
	Attempt string `json:"attempt"`
	Case    string `json:"case,omitempty"`
	Entry   int64  `json:"entry"`
	Key     string `json:"key"` // that it can be checked with
	Bytes   int    `json:"bytes"`
	File    string `json:"file,omitempty"`
	// Corrected is what stands beside the record, or beside those of the attempt: each is
	// an entry of its own, with a receipt of its own.
	Corrected []history.CorrectedRow `json:"corrected,omitempty"`
}

// ProveAttempt makes one file that proves to a stranger, offline, how an attempt or
// one case of it ended: the receipts of its record, of its registration, and of
// the newest registration of the class, which tells how many attempts there were.
// It needs [dossier.Ask].Prove. Without a case it proves the attempt. The record of a
// held-out case is proved as it is: docs/formats/withheld.md.
func ProveAttempt(a *dossier.Public, c *history.Case) ([]byte, *WrittenProof, error) {
	w := &WrittenProof{Attempt: a.ID}
	switch {
	case c != nil:
		w.Case, w.Entry, w.Corrected = c.ID, c.Index, c.Corrections(a.ID)
	case a.Finished != nil:
		w.Entry = a.Finished.Index
		for c := range a.Cases() {
			w.Corrected = append(w.Corrected, c.Corrections(a.ID)...)
		}
	default:
		return nil, nil, refusal.Newf(refusal.NotFound, "attempt %s has not finished, so there is no total to prove", a.ID).
			WithHint("finish it with \"tally run %s --target %s --resume\", or prove one case: %s:CASE", a.Class, a.Target, a.ID)
	}
	newest := a.Index
	for _, other := range a.History().Attempts {
		if other.Class == a.Class {
			newest = max(newest, other.Index)
		}
	}
	order := []int64{w.Entry, a.Index}
	if newest != a.Index {
		order = append(order, newest)
	}
	proofs, key, err := a.Prove(order...)
	if err != nil {
		return nil, nil, err
	}
	var receipts []*ledger.Receipt
	for _, i := range order {
		x := proofs[i].Receipt()
		x.Entry = proofs[i].Raw // however long: this file is not bound to 4 KB
		receipts = append(receipts, x)
	}
	data, err := ledger.MarshalProofs(receipts)
	w.Key, w.Bytes = key, len(data)
	return data, w, err
}
