// Package ledger is the arithmetic of the record that cannot be changed
// unnoticed: the chain, the Merkle tree over it, seals, checkpoints, proofs,
// receipts, anchors and tiles. It reads what it is given and writes nothing;
// package sequencer keeps it on disk.
//
// An entry's canonical bytes have a content digest. Chained to the entry
// before it, that gives the head:
//
//	content = BLAKE3-256(entry)
//	head    = SHA-256(prev head || content), the first prev being 32 zero bytes
//
// Each entry is also a leaf of an RFC 6962 tree. The leaf's record is canonical
// JSON of content, index, origin and prev, so that chain and tree cannot tell
// different stories:
//
//	{"content":"blake3:…","index":7,"origin":"example.com/evals","prev":"sha256:…"}
//
// Entries lie in segments, one a line, in batches. Each batch ends in a seal:
// an operator's signature over the C2SP checkpoint of the tree so far. Bytes
// that no seal covers are not part of the ledger, so a user who can write to
// the disk and does not hold an operator's key can add nothing.
//
// Dropping whole batches from the end breaks nothing that this package can
// see in the segments alone. That is caught by comparing with a checkpoint
// from elsewhere: the memory in the user's state folder, an anchor, a witness.
package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"golang.org/x/mod/sumdb/tlog"

	"tallystick/internal/record/digest"
)

// A Chain is the growing end of a ledger: what is needed to add the next entry
// and to state the root, and nothing else.
type Chain struct {
	origin string
	size   int64
	head   digest.ID
	// edge holds the roots of the perfect subtrees, largest first: one for
	// each bit that is set in size.
	edge []tlog.Hash
	leaf []byte // scratch space for the leaf's record
}

// NewChain returns the empty chain of a ledger.
func NewChain(origin string) *Chain { return &Chain{origin: origin} }

// A Position is where an entry lies in chain and tree.
type Position struct {
	Index   int64
	Content digest.Content
	Prev    digest.ID
	Head    digest.ID
	Leaf    tlog.Hash
}

// Append adds the entry of the given content.
func (c *Chain) Append(content digest.Content) Position {
	p := Position{Index: c.size, Content: content, Prev: c.head}
	p.Head = nextHead(c.head, content)
	c.leaf = AppendLeaf(c.leaf[:0], c.origin, p.Index, p.Prev, content)
	p.Leaf = tlog.RecordHash(c.leaf)

	// Adding one to a binary number: equal subtrees merge while bits carry.
	h := p.Leaf
	for n := c.size; n&1 == 1; n >>= 1 {
		h = tlog.NodeHash(c.edge[len(c.edge)-1], h)
		c.edge = c.edge[:len(c.edge)-1]
	}
	c.edge = append(c.edge, h)
	c.head = p.Head
	c.size++
	return p
}

// Size is the number of entries.
func (c *Chain) Size() int64 { return c.size }

// Head is the chain hash of the last entry.
func (c *Chain) Head() digest.ID { return c.head }

// Root is the RFC 6962 tree hash over all entries.
func (c *Chain) Root() tlog.Hash { return rootOf(c.edge) }

// rootOf hashes the perfect subtrees together from the right.
func rootOf(edge []tlog.Hash) tlog.Hash {
	if len(edge) == 0 {
		return sha256.Sum256(nil) // RFC 6962 section 2.1
	}
	h := edge[len(edge)-1]
	for i := len(edge) - 2; i >= 0; i-- {
		h = tlog.NodeHash(edge[i], h)
	}
	return h
}

func nextHead(prev digest.ID, content digest.Content) digest.ID {
	var both [64]byte
	copy(both[:32], prev[:])
	copy(both[32:], content[:])
	return sha256.Sum256(both[:])
}

// AppendLeaf appends the record of a leaf. The origin needs no escaping:
// [evidence.CheckOrigin] allows only characters that JSON leaves alone.
func AppendLeaf(dst []byte, origin string, index int64, prev digest.ID, content digest.Content) []byte {
	dst = append(dst, `{"content":"blake3:`...)
	dst = hex.AppendEncode(dst, content[:])
	dst = append(dst, `","index":`...)
	dst = strconv.AppendInt(dst, index, 10)
	dst = append(dst, `,"origin":"`...)
	dst = append(dst, origin...)
	dst = append(dst, `","prev":"sha256:`...)
	dst = hex.AppendEncode(dst, prev[:])
	return append(dst, `"}`...)
}
