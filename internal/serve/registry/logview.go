package registry

import (
	"bytes"
	"fmt"
	"sync"

	"golang.org/x/mod/sumdb/tlog"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/sequencer"
)

// A logView has every hash of the tree, about a hundred bytes an entry, and the
// last sealed checkpoint that the index has followed: what proofs and tiles are
// made of, without reading the ledger.
type logView struct {
	mu         sync.RWMutex
	tree       ledger.Tree
	leaves     ledger.Leaves
	heads      []digest.ID // after each entry
	checkpoint []byte
	size       int64 // of the checkpoint
}

func newLogView() *logView { return &logView{} }

// add notes the next entry.
func (l *logView) add(p ledger.Position) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.Index != l.tree.Size() {
		return fmt.Errorf("entry %d came after %d entries", p.Index, l.tree.Size())
	}
	l.leaves.Add(p)
	l.heads = append(l.heads, p.Head)
	return l.tree.Add(p.Leaf)
}

// set takes a sealed checkpoint of entries that were added.
func (l *logView) set(tip sequencer.Tip) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leaves.Origin, l.checkpoint, l.size = tip.Origin, tip.Checkpoint, tip.Size
}

// signed is the checkpoint and its size.
func (l *logView) signed() ([]byte, int64) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return bytes.Clone(l.checkpoint), l.size
}

// root is that of the first size entries.
func (l *logView) root(size int64) (tlog.Hash, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.tree.Root(size)
}

// receipt proves an entry, after checking that its bytes are those of the tree: a
// database may give us anything.
func (l *logView) receipt(index int64, raw []byte) ([]byte, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if index < 0 || index >= l.size {
		return nil, refusal.Newf(refusal.UnknownName, "there is no entry %d; the last is %d", index, l.size-1)
	}
	var prev digest.ID
	if index > 0 {
		prev = l.heads[index-1]
	}
	p := ledger.PositionOf(l.leaves.Origin, index, prev, raw)
	if p.Head != l.heads[index] {
		return nil, refusal.Newf(refusal.IndexDiffers, "the database has other bytes for entry %d than the ledger sealed", index).
			WithHint("the database was changed; make it again with: tally registry rebuild")
	}
	proof, err := l.tree.ProveInclusion(l.size, index)
	if err != nil {
		return nil, err
	}
	return ledger.NewReceipt(p, raw, proof, l.checkpoint).Marshal()
}

// tile is a tile of the tree as it is now, or of a smaller one that it grew from.
func (l *logView) tile(path string) ([]byte, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	t, ok := ledger.TileAt(&l.tree, &l.leaves, path)
	if !ok {
		return nil, refusal.Newf(refusal.UnknownName, "there is no tile %.100q", path)
	}
	return t.Data, nil
}
