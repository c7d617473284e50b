package dossier

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"tallystick/internal/read/history"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
)

// Entries reads entries again that were verified, by their index: the history
// keeps of them only what numbers need. It needs [Ask].Again.
func (r *Reading) Entries(indexes ...int64) (map[int64]Entry, error) {
	place, err := r.Sequencer()
	if err != nil {
		return nil, err
	}
	segments, err := place.Segments()
	if err != nil {
		return nil, err
	}
	raw, err := r.finder.UnverifiedEntries(segments, indexes)
	if err != nil {
		return nil, err
	}
	out := make(map[int64]Entry, len(indexes))
	for _, i := range indexes {
		at := ledger.PositionOf(r.History.Origin, i, r.History.HeadAfter(i), raw[i])
		if want := r.History.HeadAfter(i + 1); want.IsZero() || at.Head != want {
			return nil, refusal.Newf(refusal.Unreadable, "entry %d is not the one that was verified a moment ago", i).
				WithHint("another process is writing to the ledger's files; verify it again when that has ended")
		}
		out[i] = Entry{at, raw[i]}
	}
	return out, nil
}

// An Entry is one of the verified ledger.
type Entry struct {
	Position ledger.Position
	Raw      []byte
}

// Record is the whole record of a case.
func (r *Reading) Record(c *history.Case) (*evidence.CaseScored, error) {
	records, err := r.Records(func(yield func(*history.Case) bool) { yield(c) })
	if err != nil {
		return nil, err
	}
	return records[c.Index], nil
}

// Records are the whole records of cases, by their index.
func (r *Reading) Records(cases func(yield func(*history.Case) bool)) (map[int64]*evidence.CaseScored, error) {
	var indexes []int64
	for c := range cases {
		if c.Index >= 0 {
			indexes = append(indexes, c.Index)
		}
	}
	entries, err := r.Entries(indexes...)
	if err != nil {
		return nil, err
	}
	out := make(map[int64]*evidence.CaseScored, len(entries))
	for i, e := range entries {
		b, err := BodyOf[*evidence.CaseScored](i, e)
		if err != nil {
			return nil, err
		}
		out[i] = b
	}
	return out, nil
}

// BodyOf decodes an entry that is known to be of a kind.
func BodyOf[T evidence.Body](index int64, e Entry) (T, error) {
	var none T
	_, b, err := evidence.DecodeEntry(e.Raw)
	if err != nil {
		return none, &ledger.Problem{Index: index, Kind: "entry", Detail: err.Error(), Name: refusal.EntryInvalid}
	}
	body, ok := b.(T)
	if !ok {
		return none, refusal.Newf(refusal.EntryInvalid, "entry %d is of another kind than it was", index)
	}
	return body, nil
}

// A Proof is an entry of the verified ledger and what proves it.
type Proof struct {
	Entry
	Proof      tlog.RecordProof
	Checkpoint []byte
}

// Receipt is the proof as a file for a stranger.
func (x Proof) Receipt() *ledger.Receipt {
	return ledger.NewReceipt(x.Position, x.Raw, x.Proof, x.Checkpoint)
}

// Prove proves that entries are in the ledger. It also returns the key with
// which the proofs can be checked. It needs [Ask].Prove.
func (r *Reading) Prove(indexes ...int64) (map[int64]Proof, string, error) {
	entries, err := r.Entries(indexes...)
	if err != nil {
		return nil, "", err
	}
	head, checkpoint := r.BestCheckpoint(r.verified, slices.Max(indexes))
	proofs := make(map[int64]Proof, len(indexes))
	for i, e := range entries {
		x := Proof{Entry: e, Checkpoint: checkpoint}
		if x.Proof, err = r.tree.ProveInclusion(head.Size, i); err != nil {
			return nil, "", fmt.Errorf("proving entry %d: %w", i, err)
		}
		proofs[i] = x
	}
	return proofs, ledger.SignedWith(checkpoint, r.verified.EveryKey()), nil
}

// ProvedBy verifies a receipt of this ledger and returns of which entry.
func (r *Reading) ProvedBy(receipt string) (int64, error) {
	parsed, err := ledger.ParseReceipt([]byte(receipt))
	if err != nil {
		return 0, err
	}
	entry := parsed.Entry
	if entry == nil {
		// Too long for a receipt; the proof is of its content, and the ledger
		// that was verified has it.
		index := min(parsed.Index, r.History.Entries-1)
		entries, err := r.Entries(index)
		if err != nil {
			return 0, err
		}
		entry = entries[index].Raw
	}
	p, err := ledger.VerifyReceipt([]byte(receipt), entry, ledger.Policy{Logs: r.verified.EveryKey()})
	if err != nil {
		return 0, err
	}
	return p.Index, nil
}

// A ShownEntry is an entry and its place.
type ShownEntry struct {
	Index   int64            `json:"index"`
	Head    digest.ID        `json:"head"`
	Prev    digest.ID        `json:"prev"`
	Content digest.Content   `json:"content"`
	Entry   canon.RawMessage `json:"entry"`
}

// Show finds an entry after verifying the ledger.
func (p *Place) Show(ctx context.Context, index int64) (*ShownEntry, error) {
	var found *ShownEntry
	v, err := p.Verify(func(r ledger.Record) error {
		if r.Index == index {
			found = &ShownEntry{r.Index, r.Head, r.Prev, r.Content, bytes.Clone(r.Raw)}
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	if found == nil || index >= v.Size {
		return nil, NoEntry(index, v.Size)
	}
	return found, nil
}

// NoEntry refuses an index that a ledger of so many entries does not have.
func NoEntry(n, size int64) error {
	return refusal.Newf(refusal.UnknownName, "no entry %d: the ledger has %d entries, 0 to %d", n, size, size-1)
}
