package ledger

import (
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// A Tree holds every hash of a ledger's Merkle tree, to make proofs from. It
// takes about 64 bytes an entry.
type Tree struct {
	size   int64
	hashes []tlog.Hash // in the storage order of package tlog
}

// Add appends the leaf of the next entry.
func (t *Tree) Add(leaf tlog.Hash) error {
	hashes, err := tlog.StoredHashesForRecordHash(t.size, leaf, t)
	if err != nil {
		return fmt.Errorf("adding leaf %d: %w", t.size, err)
	}
	t.hashes = append(t.hashes, hashes...)
	t.size++
	return nil
}

// Size is the number of leaves.
func (t *Tree) Size() int64 { return t.size }

// ReadHashes is for package tlog.
func (t *Tree) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, n := range indexes {
		if n < 0 || n >= int64(len(t.hashes)) {
			return nil, fmt.Errorf("hash %d of a tree with %d", n, len(t.hashes))
		}
		out[i] = t.hashes[n]
	}
	return out, nil
}

// Root is the root over the first size leaves.
func (t *Tree) Root(size int64) (tlog.Hash, error) { return tlog.TreeHash(size, t) }

// ProveInclusion proves that the entry of that index is in the tree of that
// size.
func (t *Tree) ProveInclusion(size, index int64) (tlog.RecordProof, error) {
	return tlog.ProveRecord(size, index, t)
}

// ProveConsistency proves that the tree of the new size begins with the tree
// of the old one. From an empty tree the proof is empty.
func (t *Tree) ProveConsistency(oldSize, newSize int64) (tlog.TreeProof, error) {
	if oldSize == 0 {
		return nil, nil
	}
	return tlog.ProveTree(newSize, oldSize, t)
}

// CheckConsistency checks such a proof.
func CheckConsistency(proof tlog.TreeProof, newer, older TreeHead) error {
	if older.Size == 0 {
		if len(proof) != 0 {
			return fmt.Errorf("a proof from the empty tree has no hashes, this one has %d", len(proof))
		}
		return nil
	}
	return tlog.CheckTree(proof, newer.Size, newer.Root, older.Size, older.Root)
}
