package ledger

import (
	"encoding/hex"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/seal"
)

// A Frontier is the end of a verified ledger in a form that outlives the process that
// verified it: what is needed to verify what comes after, and to extend chain and tree.
//
// It is as good as the word of who kept it. What it says of chain and tree is held
// against the last seal that stands in the ledger, so a wrong frontier is refused; that
// the entries before it are still what they were is not seen from it.
type Frontier struct {
	Origin string        `json:"origin"`
	Size   int64         `json:"size"`
	Head   digest.ID     `json:"head"`
	Edge   []treeHash    `json:"edge"`
	Time   evidence.Time `json:"time"` // of the last entry
	// The last seal: what stands in it, and how many entries came before the version of
	// the signers that was in force when its batch began.
	Signature string `json:"signature"`
	InForce   int64  `json:"in_force"`
	Seals     int64  `json:"seals"`
	// What the verification looked at.
	Decoded   bool `json:"decoded"`
	EverySeal bool `json:"every_seal"`

	Segments []SegmentAsSeen `json:"segments"`
	Batch    int64           `json:"batch"` // where in the last segment the last batch begins
	Good     int64           `json:"good"`  // bytes of it up to and including the last seal

	Met    []Milestone `json:"met"`
	Recent []Milestone `json:"recent"` // without roots: the last entries, each with its head
}

// A SegmentAsSeen is a segment as it was.
type SegmentAsSeen struct {
	Name  string `json:"name"`
	First int64  `json:"first"`
	Size  int64  `json:"size"`
	File  FileID `json:"file"`
}

// A Milestone is what the ledger was found to be at some size.
type Milestone struct {
	Size    int64           `json:"size"`
	Head    digest.ID       `json:"head"`
	Root    *treeHash       `json:"root,omitempty"`
	Content *digest.Content `json:"content,omitempty"` // of the last entry
}

// A treeHash is a hash of the tree as JSON has it.
type treeHash tlog.Hash

// MarshalText spells it in hexadecimal.
func (h treeHash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText reads what MarshalText spells.
func (h *treeHash) UnmarshalText(text []byte) error {
	raw, err := hex.DecodeString(string(text))
	if again, _ := treeHash(raw32(raw)).MarshalText(); err != nil || len(raw) != tlog.HashSize || string(again) != string(text) {
		return fmt.Errorf("%q is not a hash", text)
	}
	copy(h[:], raw)
	return nil
}

func raw32(raw []byte) (h tlog.Hash) {
	copy(h[:], raw)
	return h
}

// Frontier gives the end of the ledger to be kept. It is nil if another process could
// not tell from the files that they are still the same, or if a crash left something
// behind the last seal.
func (v *Verified) Frontier() *Frontier {
	if v.Tail.Torn > 0 || v.Tail.GoodSize == 0 || !v.RootPinned {
		return nil
	}
	f := &Frontier{
		Origin: v.chain.origin, Size: v.chain.size, Head: v.chain.head, Time: v.LastTime, Seals: v.Seals,
		Signature: hex.EncodeToString(v.lastSeal.signature), Decoded: v.decoded, EverySeal: v.everySeal,
		Batch: v.Tail.Batch, Good: v.Tail.GoodSize,
	}
	for _, h := range v.chain.edge {
		f.Edge = append(f.Edge, treeHash(h))
	}
	for _, version := range v.history {
		if version.signers == v.lastSeal.signers {
			f.InForce = version.index
		}
	}
	for _, s := range v.files {
		if !s.File.Lasting() {
			return nil
		}
		f.Segments = append(f.Segments, SegmentAsSeen{s.Name, s.First, s.Size, s.File})
	}
	// What stands behind the last seal when the file was looked at is not in Size.
	f.Segments[len(f.Segments)-1].Size = v.Tail.GoodSize
	for _, k := range v.met {
		root := treeHash(k.Root)
		f.Met = append(f.Met, Milestone{Size: k.Size, Head: k.head, Root: &root})
	}
	last, _ := v.recent.since(v.chain.size-keptRecent, v.chain.size)
	for _, p := range last {
		f.Recent = append(f.Recent, Milestone{Size: p.Index + 1, Head: p.Head, Content: &p.Content})
	}
	return f
}

// Resume makes a verification of what a process kept of an earlier one, for
// [Options.From]. Turns are the entries that begin the ledger, change its signers, or
// stand only once, in their order; they are judged as [Verify] judges them.
func (f *Frontier) Resume(turns []Record, o Options) (*Verified, error) {
	w := newWalk(Options{Origin: o.Origin, TrustRoot: o.TrustRoot})
	for i, r := range turns {
		if err := w.turn(r, i == 0); err != nil {
			return nil, err
		}
	}
	if w.chain == nil || f.Origin != o.Origin || f.Size < 1 || len(f.Segments) == 0 {
		return nil, fmt.Errorf("the frontier of %s is not one of %s", f.Origin, o.Origin)
	}
	signature, err := hex.DecodeString(f.Signature)
	if err != nil || len(signature) < 5 {
		return nil, fmt.Errorf("the frontier of %s has no seal", f.Origin)
	}
	v := &Verified{
		Head: f.Head, LastTime: f.Time, Signers: w.signers, RootPinned: true, Seals: f.Seals,
		Tail:  Tail{Segment: f.Segments[len(f.Segments)-1].Name, Batch: f.Batch, GoodSize: f.Good},
		chain: Chain{origin: f.Origin, size: f.Size, head: f.Head}, history: w.history, once: w.once,
		decoded: f.Decoded, everySeal: f.EverySeal,
	}
	for _, h := range f.Edge {
		v.chain.edge = append(v.chain.edge, tlog.Hash(h))
	}
	v.TreeHead = TreeHead{Origin: f.Origin, Size: f.Size, Root: v.chain.Root()}
	v.Checkpoint = AssembleCheckpoint(v.TreeHead, signature)
	v.lastSeal = pendingSeal{head: v.TreeHead, edge: v.chain.edge, signature: signature, keyHash: keyHashOf(signature), signers: v.versionOf(f.InForce), at: f.Time}
	for _, s := range f.Segments {
		v.files = append(v.files, Segment{Name: s.Name, First: s.First, Size: s.Size, File: s.File})
	}
	for _, m := range f.Met {
		if m.Root == nil {
			return nil, fmt.Errorf("the frontier of %s met no root at %d entries", f.Origin, m.Size)
		}
		v.met = append(v.met, known{TreeHead{Origin: f.Origin, Size: m.Size, Root: tlog.Hash(*m.Root)}, m.Head})
	}
	v.recent = f.recent()
	// Chain and tree are those that an operator sealed, or nothing of it is believed.
	if err := w.checkSeal(&v.lastSeal); err != nil {
		return nil, err
	}
	return v, nil
}

// turn judges an entry that begins the ledger, changes its signers, or stands only once.
func (w *walk) turn(r Record, first bool) error {
	switch {
	case first:
		if err := w.genesis(r.Envelope); err != nil {
			return err
		}
	case r.Envelope.Kind == evidence.SignersChangedKind:
		w.chain.size = r.Index
		if err := w.changeSigners(r.Envelope); err != nil {
			return err
		}
	}
	if r.Envelope.Manual {
		return nil
	}
	return w.once.Add(r.Envelope.Kind, r.Envelope.Body, r.Index)
}

// versionOf is the version of the signers that an entry brought, or the first.
func (v *Verified) versionOf(index int64) *seal.Signers {
	i := slices.IndexFunc(v.history, func(version version) bool { return version.index == index })
	return v.history[max(0, i)].signers
}

// recent are the last entries. What does not follow from the one before it ends them.
func (f *Frontier) recent() (r recent) {
	for i := len(f.Recent) - 1; i > 0; i-- {
		m, before := f.Recent[i], f.Recent[i-1]
		if m.Content == nil || m.Size != before.Size+1 || nextHead(before.Head, *m.Content) != m.Head || i == len(f.Recent)-1 && (m.Size != f.Size || m.Head != f.Head) {
			break
		}
		p := Position{Index: m.Size - 1, Content: *m.Content, Prev: before.Head, Head: m.Head}
		p.Leaf = tlog.RecordHash(AppendLeaf(nil, f.Origin, p.Index, p.Prev, p.Content))
		r.ring = append(r.ring, p)
	}
	slices.Reverse(r.ring)
	return r
}

// IsTurn reports whether [Frontier.Resume] needs entries of this kind.
func IsTurn(kind evidence.Kind) bool {
	return kind == evidence.LedgerOpened || kind == evidence.SignersChangedKind || kind == evidence.AttemptReproducedKind
}
