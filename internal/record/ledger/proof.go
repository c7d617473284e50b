package ledger

import (
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// A Tree holds every hash of a ledger's Merkle tree, to make proofs from. It
// takes about 64 bytes an entry.
type Tree struct {
	size   int64
	hashes rows[tlog.Hash] // in the storage order of package tlog

	// Of a tree that was not built from its first leaf: the reader of the hashes before,
	// and how many those are. See [Published].
	base  tlog.HashReader
	below int64
}

// A rows is a long list, kept in pieces, so that it is never copied to a larger
// place: the copies of a list of a million hashes would be most of the memory.
type rows[T any] struct {
	chunks [][]T
	n      int64
}

const rowsInChunk = 4096

func (r *rows[T]) add(v T) {
	if r.n%rowsInChunk == 0 {
		r.chunks = append(r.chunks, make([]T, 0, rowsInChunk))
	}
	last := &r.chunks[len(r.chunks)-1]
	*last = append(*last, v)
	r.n++
}

func (r *rows[T]) at(i int64) T { return r.chunks[i/rowsInChunk][i%rowsInChunk] }

// Add appends the leaf of the next entry.
func (t *Tree) Add(leaf tlog.Hash) error {
	hashes, err := tlog.StoredHashesForRecordHash(t.size, leaf, t)
	if err != nil {
		return fmt.Errorf("adding leaf %d: %w", t.size, err)
	}
	for _, h := range hashes {
		t.hashes.add(h)
	}
	t.size++
	return nil
}

// Size is the number of leaves.
func (t *Tree) Size() int64 { return t.size }

// ReadHashes is for package tlog.
func (t *Tree) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	var below, places []int64
	for i, n := range indexes {
		switch {
		case n >= 0 && n < t.below:
			below, places = append(below, n), append(places, int64(i))
		case n < 0 || n-t.below >= t.hashes.n:
			return nil, fmt.Errorf("hash %d of a tree with %d", n, t.below+t.hashes.n)
		default:
			out[i] = t.hashes.at(n - t.below)
		}
	}
	if len(below) == 0 {
		return out, nil
	}
	read, err := t.base.ReadHashes(below)
	if err != nil {
		return nil, err
	}
	for i, place := range places {
		out[place] = read[i]
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
