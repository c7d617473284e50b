package ledger

import (
	"bytes"
	"slices"
	"sync"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/seal"
)

// eachFlip calls check with every copy of data that differs in one bit.
func eachFlip(data []byte, check func(at int, flipped []byte)) (cases int) {
	flipped := slices.Clone(data)
	for i := range flipped {
		for bit := range 8 {
			flipped[i] ^= 1 << bit
			check(i, flipped)
			flipped[i] ^= 1 << bit
			cases++
		}
	}
	return cases
}

// TestVerifyLocatesEveryBitFlip: no single changed bit of a segment goes
// unnoticed, and the problem names the entry whose line it is in; for a seal,
// the last entry that it covers or the one after it.
func TestVerifyLocatesEveryBitFlip(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and one goroutine has nothing to race with")
	}
	data := render(honest(t))
	full := mustVerify(t, one(data), trust(t))
	o := trust(t)
	o.Expect = []Expectation{{TreeHead: full.TreeHead, Source: "the memory"}}

	// For each byte: the entry of its line, or for seals how many are before.
	entryAt, sealed := make([]int64, len(data)), make([]bool, len(data))
	var index int64
	pos := 0
	for line := range bytes.Lines(data) {
		isSealLine := line[checkLen+1] == sealMark
		for range line {
			entryAt[pos], sealed[pos] = index, isSealLine
			pos++
		}
		if !isSealLine {
			index++
		}
	}

	halves := [][2]int{{0, len(data) / 2}, {len(data) / 2, len(data)}}
	cases := make([]int, len(halves))
	torn := make([]int, len(halves))
	var wg sync.WaitGroup
	for h, half := range halves {
		wg.Go(func() {
			flipped := slices.Clone(data)
			for i := half[0]; i < half[1]; i++ {
				if testing.Short() && i%8 != 0 {
					continue
				}
				for bit := range 8 {
					flipped[i] ^= 1 << bit
					cases[h]++
					_, err := Verify(one(flipped), o)
					p, ok := err.(*Problem)
					if !ok {
						t.Errorf("byte %d bit %d: %v", i, bit, err)
						return
					}
					low, high := entryAt[i], entryAt[i]
					if sealed[i] {
						low--
					}
					// Damage in the last batch that could be a crash's shows
					// where the ledger without that batch ends.
					if p.Kind == "rollback" && entryAt[i] >= 8 {
						low = 8
						torn[h]++
					}
					if p.Index < low || p.Index > high {
						t.Errorf("byte %d bit %d: located at entry %d, is in %d to %d: %v", i, bit, p.Index, low, high, p)
					}
					flipped[i] ^= 1 << bit
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d flips over %d bytes; %d of them in the last seal look torn and are caught by the memory",
		cases[0]+cases[1], len(data), torn[0]+torn[1])
}

// TestWithoutMemoryOnlyTheLastSealCanLookTorn: without anything from outside
// every flip is still refused, but for those that break the last seal itself,
// which leave what a crash could have left: the batch is not counted, and the
// result says so.
func TestWithoutMemoryOnlyTheLastSealCanLookTorn(t *testing.T) {
	l := honest(t)
	data := render(l)
	start := len(render(l[:len(l)-1]))
	from := len(render(l[:at(l, 8)]))
	cases, torn := 0, 0
	flipped := slices.Clone(data)
	for i := from; i < len(data); i++ {
		if testing.Short() && i%8 != 0 {
			continue
		}
		for bit := range 8 {
			flipped[i] ^= 1 << bit
			v, err := Verify(one(flipped), trust(t))
			flipped[i] ^= 1 << bit
			cases++
			switch {
			case err == nil && v.Size == 8 && v.Tail.Torn == int64(len(data)-from) && i >= start-1:
				torn++
			case err == nil:
				t.Fatalf("byte %d bit %d (last seal begins at %d): accepted with %d entries, %d torn", i, bit, start, v.Size, v.Tail.Torn)
			}
		}
	}
	t.Logf("%d flips in the last batch, %d of them look torn", cases, torn)
}

// proofs is a receipt, an anchor and the checkpoint of the honest ledger.
func proofs(t testing.TB) (receipt, anchor, checkpoint []byte, p Policy) {
	t.Helper()
	l := honest(t)
	tree := &Tree{}
	var third Record
	o := trust(t)
	o.Visit = func(r Record) error {
		if r.Index == 3 {
			third = r
			third.Raw = slices.Clone(r.Raw)
		}
		return tree.Add(r.Leaf)
	}
	v := mustVerify(t, one(render(l)), o)
	proof, err := tree.ProveInclusion(v.Size, 3)
	if err != nil {
		t.Fatal(err)
	}
	if receipt, err = NewReceipt(third.Position, third.Raw, proof, v.Checkpoint).Marshal(); err != nil {
		t.Fatal(err)
	}
	a := NewAnchor(v.TreeHead, v.Head, v.Checkpoint, testTime.Go())
	anchor = signAnchor(t, a, olga)
	return receipt, anchor, v.Checkpoint, Policy{Logs: []LogKey{{testOrigin, pub(t, olga)}}}
}

func signAnchor(t testing.TB, a *Anchor, key byte) []byte {
	t.Helper()
	message, err := a.Message()
	if err != nil {
		t.Fatal(err)
	}
	sig, err := seal.SignWith(testKey(t, key).Signer(), seal.NamespaceAnchor, message)
	if err != nil {
		t.Fatal(err)
	}
	a.Signature = string(sig)
	data, err := a.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestEveryBitFlipOfProofsIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and one goroutine has nothing to race with")
	}
	receipt, anchor, checkpoint, p := proofs(t)
	if _, err := VerifyReceipt(receipt, nil, p); err != nil {
		t.Fatal(err)
	}
	if _, err := VerifyAnchor(anchor, p); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		data   []byte
		verify func([]byte) error
	}{
		{"receipt", receipt, func(b []byte) error { _, err := VerifyReceipt(b, nil, p); return err }},
		{"anchor", anchor, func(b []byte) error { _, err := VerifyAnchor(b, p); return err }},
		{"checkpoint", checkpoint, func(b []byte) error { _, err := VerifyCheckpoint(b, p); return err }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.verify(tt.data); err != nil {
				t.Fatal(err)
			}
			cases := eachFlip(tt.data, func(i int, flipped []byte) {
				if err := tt.verify(flipped); err == nil {
					t.Errorf("a flip in byte %d is accepted", i)
				}
			})
			// Nor is any shorter or longer file.
			for n := range len(tt.data) {
				if err := tt.verify(tt.data[:n]); err == nil {
					t.Errorf("cut to %d bytes it is accepted", n)
				}
			}
			if err := tt.verify(append(slices.Clone(tt.data), '\n')); err == nil {
				t.Error("with a newline more it is accepted")
			}
			t.Logf("%d flips, %d cuts", cases, len(tt.data))
		})
	}
}

func TestEveryBitFlipOfATileIsLocated(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and one goroutine has nothing to race with")
	}
	tree, leaves := treeOf(t, 20)
	tiles := tilesOf(t, tree, leaves)
	cases := 0
	for _, tile := range tiles {
		if CheckTile(tile, slices.Clone(tile.Data)) != nil {
			t.Errorf("%s: the tile itself is refused", tile.Path)
		}
		cases += eachFlip(tile.Data, func(i int, flipped []byte) {
			if CheckTile(tile, flipped) == nil {
				t.Fatalf("%s: a flip in byte %d is accepted", tile.Path, i)
			}
		})
	}
	t.Logf("%d flips in %d tiles", cases, len(tiles))
}

// tilesOf is all tiles of a tree.
func tilesOf(t testing.TB, tree *Tree, leaves *Leaves) (tiles []Tile) {
	t.Helper()
	for tile, err := range Tiles(tree, leaves, 0, tree.Size()) {
		if err != nil {
			t.Fatal(err)
		}
		tiles = append(tiles, tile)
	}
	return tiles
}

// treeOf is the tree of n made-up entries.
func treeOf(t testing.TB, n int) (*Tree, *Leaves) {
	t.Helper()
	c := NewChain(testOrigin)
	tree, leaves := &Tree{}, &Leaves{Origin: testOrigin}
	for i := range n {
		p := c.Append(digest.ContentOf([]byte{byte(i), byte(i >> 8), byte(i >> 16)}))
		leaves.Add(p)
		if err := tree.Add(p.Leaf); err != nil {
			t.Fatal(err)
		}
	}
	if root, err := tree.Root(int64(n)); err != nil || root != c.Root() {
		t.Fatalf("the tree's root is %v (%v), the chain's %v", root, err, c.Root())
	}
	return tree, leaves
}
