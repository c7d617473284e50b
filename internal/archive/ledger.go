package archive

import (
	"bytes"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"tallystick/internal/ledger"
	"tallystick/internal/seal"
	"tallystick/internal/sequencer"
	"tallystick/internal/store"
)

// Expectations gathers what the workspace's ledger must contain: the published
// anchors and this machine's memory. The memory is read before the ledger, so
// a writer at work meanwhile cannot make it look ahead.
func (p *Place) Expectations() ([]sequencer.AnchorFile, []ledger.Expectation, error) {
	place, err := p.Sequencer()
	if err != nil {
		return nil, nil, err
	}
	remembered, err := sequencer.Remembered(place.FS, place.StateDir, p.Settings.Origin)
	if err != nil {
		return nil, nil, err
	}
	anchors, err := sequencer.LoadAnchors(place.FS, place.Anchors)
	if err != nil {
		return nil, nil, p.Alarm(err)
	}
	expect := sequencer.AnchorExpectations(anchors)
	if remembered != nil {
		expect = append(expect, sequencer.MemoryExpectation(*remembered))
	}
	return anchors, expect, nil
}

// Verify verifies the workspace's ledger against everything known. Every entry
// is decoded strictly and shown to visit, which may be nil.
func (p *Place) Verify(visit func(ledger.Record) error) (*ledger.Verified, error) {
	return p.verify(ledger.Options{Decode: true, Visit: visit})
}

// Walk verifies the hashes and seals of the ledger, without decoding entries.
func (p *Place) Walk(visit func(ledger.Record) error) (*ledger.Verified, error) {
	return p.verify(ledger.Options{Visit: visit})
}

func (p *Place) verify(o ledger.Options) (*ledger.Verified, error) {
	place, err := p.Sequencer()
	if err != nil {
		return nil, err
	}
	if _, o.Expect, err = p.Expectations(); err != nil {
		return nil, err
	}
	o.Origin, o.TrustRoot = p.Settings.Origin, p.Settings.TrustRoot
	v, err := place.Verify(o)
	if err != nil {
		return nil, p.Alarm(err)
	}
	return v, nil
}

// A Proof is an entry of the verified ledger and what proves it.
type Proof struct {
	Position   ledger.Position
	Raw        []byte
	Proof      tlog.RecordProof
	Checkpoint []byte
}

// Receipt is the proof as a file for a stranger.
func (x Proof) Receipt() *ledger.Receipt {
	return ledger.NewReceipt(x.Position, x.Raw, x.Proof, x.Checkpoint)
}

// Prove proves that entries are in the ledger. It also returns the key with
// which the proofs can be checked.
func (p *Place) Prove(indexes []int64) (map[int64]Proof, string, error) {
	proofs := make(map[int64]Proof, len(indexes))
	for _, i := range indexes {
		proofs[i] = Proof{}
	}
	tree := &ledger.Tree{}
	v, err := p.Walk(func(r ledger.Record) error {
		if _, ok := proofs[r.Index]; ok {
			proofs[r.Index] = Proof{Position: r.Position, Raw: bytes.Clone(r.Raw)}
		}
		return tree.Add(r.Leaf)
	})
	if err != nil {
		return nil, "", err
	}
	head, checkpoint := p.BestCheckpoint(v, slices.Max(indexes))
	for i, x := range proofs {
		if x.Proof, err = tree.ProveInclusion(head.Size, i); err != nil {
			return nil, "", fmt.Errorf("proving entry %d: %w", i, err)
		}
		x.Checkpoint = checkpoint
		proofs[i] = x
	}
	return proofs, SignedWith(checkpoint, v.EveryKey()), nil
}

// SignedWith finds the key that signed a checkpoint, as a verifier is given it.
// Right after a change of operators that is the former one's.
func SignedWith(checkpoint []byte, keys []ledger.LogKey) string {
	for _, k := range keys {
		if _, err := ledger.VerifyCheckpoint(checkpoint, ledger.Policy{Logs: []ledger.LogKey{k}}); err == nil {
			return seal.VKey(k.Key, k.Origin)
		}
	}
	return ""
}

// BestCheckpoint prefers the last anchor, whose checkpoint witnesses may have
// cosigned, and falls back to the last seal.
func (p *Place) BestCheckpoint(v *ledger.Verified, index int64) (ledger.TreeHead, []byte) {
	anchors, err := sequencer.LoadAnchors(store.OS{}, p.AnchorsDir())
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
