package ledger

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
)

// Published takes up a tree where its tiles were published, so that what came since can
// be added without reading the entries before. Head is what the ledger was found to be
// at that size; every hash that a tile gives is held against its root. Read fetches a tile
// by its path. An error says that the tiles are of no use: whoever publishes then reads
// every entry.
func (v *Verified) Published(size int64, read func(path string) ([]byte, error)) (*Tree, *Leaves, error) {
	found, known := v.knownAt(size)
	since, all := v.recent.since(size, v.chain.size)
	if !known || !all || size <= 0 {
		return nil, nil, fmt.Errorf("nothing is known of the tree at %d entries, or of the entries since", size)
	}
	tree := &Tree{size: size, below: tlog.StoredHashCount(size),
		base: tlog.TileHashReader(tlog.Tree{N: size, Hash: found.Root}, tileFetcher(read))}
	leaves, err := publishedLeaves(tree, v.chain.origin, found.head, size, read)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range since {
		leaves.Add(p)
		if err := tree.Add(p.Leaf); err != nil {
			return nil, nil, err
		}
	}
	// The tiles gave the hashes at the edge; the rest was known before.
	if root, err := tree.Root(v.chain.size); err != nil || root != v.chain.Root() {
		return nil, nil, fmt.Errorf("the published tiles do not lead to the tree of %d entries", v.chain.size)
	}
	return tree, leaves, nil
}

// publishedLeaves reads the bundle that was not full at that size. Its leaves are held
// against the hashes of the tree.
func publishedLeaves(tree *Tree, origin string, head digest.ID, size int64, read func(path string) ([]byte, error)) (*Leaves, error) {
	leaves := &Leaves{Origin: origin, first: size / tileWidth * tileWidth}
	width := int(size - leaves.first)
	if width == 0 {
		return leaves, nil
	}
	data, err := read(tilePath("entries", size/tileWidth, width))
	if err != nil {
		return nil, err
	}
	for index := leaves.first; index < size; index++ {
		if len(data) < 2 || len(data)-2 < int(binary.BigEndian.Uint16(data)) {
			return nil, fmt.Errorf("the bundle of entry %d is cut", index)
		}
		record := data[2 : 2+binary.BigEndian.Uint16(data)]
		data = data[2+len(record):]
		var leaf struct {
			Content digest.Content `json:"content"`
			Index   int64          `json:"index"`
			Origin  string         `json:"origin"`
			Prev    digest.ID      `json:"prev"`
		}
		if err := canon.UnmarshalCanonical(record, &leaf); err != nil || leaf.Index != index {
			return nil, fmt.Errorf("the bundle of entry %d does not have its leaf", index)
		}
		want, err := tree.ReadHashes([]int64{tlog.StoredHashIndex(0, index)})
		if err != nil {
			return nil, err
		}
		p := Position{Index: index, Content: leaf.Content, Prev: leaf.Prev, Head: nextHead(leaf.Prev, leaf.Content), Leaf: tlog.RecordHash(record)}
		if p.Leaf != want[0] || !bytes.Equal(record, AppendLeaf(nil, origin, index, leaf.Prev, leaf.Content)) || index == size-1 && p.Head != head {
			return nil, fmt.Errorf("the bundle of entry %d has another leaf than the tree", index)
		}
		leaves.Add(p)
	}
	if len(data) > 0 {
		return nil, fmt.Errorf("bytes follow the bundle of %d entries", size)
	}
	return leaves, nil
}
