package ledger

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"fmt"
	"io"
	"testing"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

const testOrigin = "example.com/evals"

// The people of the test ledger. Olga and omar are operators at first; the
// change of signers in the middle takes omar out.
const (
	olga     = 1
	alice    = 2
	bob      = 3
	omar     = 4
	stranger = 5
)

var testTime = evidence.At(time.Date(2026, 5, 12, 14, 0, 0, 0, time.UTC))

// testKey returns the n-th of a fixed row of keys.
func testKey(t testing.TB, n byte) *seal.Key {
	t.Helper()
	k, err := seal.NewKey(bytes.NewReader(bytes.Repeat([]byte{n}, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func pub(t testing.TB, n byte) ed25519.PublicKey {
	t.Helper()
	key, _ := testKey(t, n).Public().Ed25519()
	return key
}

func signersFile(t testing.TB, version int, previous digest.ID, operators ...byte) []byte {
	t.Helper()
	entries := []seal.Entry{
		{Principals: "alice@example.com", Key: testKey(t, alice).Public(), Roles: []seal.Role{seal.Curator}},
		{Principals: "bob@example.com", Key: testKey(t, bob).Public(), Roles: []seal.Role{seal.Curator, seal.Security}},
	}
	for _, n := range operators {
		entries = append(entries, seal.Entry{Principals: fmt.Sprintf("operator%d@example.com", n), Key: testKey(t, n).Public(), Roles: []seal.Role{seal.Operator}})
	}
	data, err := seal.Compose(version, previous, entries)
	if err != nil {
		t.Fatal(err)
	}
	// The ledgers here are those that were promised first, under the first rules.
	return bytes.Replace(data, []byte("signers v2"), []byte("signers v1"), 1)
}

func version1(t testing.TB) []byte { return signersFile(t, 1, digest.ID{}, olga, omar) }

func mustMarshal(t testing.TB, v any) []byte {
	t.Helper()
	data, err := canon.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// An item is one line of a segment before it is written: an entry, or a seal
// when it has a signature.
type item struct {
	entry []byte
	size  int64
	sig   []byte
}

func entryItem(kind evidence.Kind, body []byte, at evidence.Time) item {
	return item{entry: evidence.AppendEntry(nil, body, kind, false, at)}
}

func noteItem(n int) item {
	return entryItem(evidence.NoteKind, fmt.Appendf(nil, `{"n":%d}`, n), testTime)
}

// changeItem removes omar, or whom else the operators leave out, signed by
// the people given.
func changeItem(t testing.TB, operators []byte, by ...byte) item {
	t.Helper()
	next := signersFile(t, 2, digest.IDOf(version1(t)), operators...)
	change := evidence.SignersChanged{Version: 2, Signers: string(next), Signatures: []string{}}
	for _, n := range by {
		sig, err := seal.SignWith(testKey(t, n).Signer(), seal.NamespaceSigners, next)
		if err != nil {
			t.Fatal(err)
		}
		change.Signatures = append(change.Signatures, string(sig))
	}
	return entryItem(evidence.SignersChangedKind, mustMarshal(t, change), testTime)
}

func genesisItem(t testing.TB) item {
	t.Helper()
	return entryItem(evidence.LedgerOpened, mustMarshal(t, evidence.Opened{Origin: testOrigin, Signers: string(version1(t))}), testTime)
}

// sealItem seals the items before it with a key.
func sealItem(t testing.TB, before []item, key byte) item { return sealAs(t, before, key, testOrigin) }

func sealAs(t testing.TB, before []item, key byte, origin string) item {
	t.Helper()
	return sealChain(t, chainOf(before), key, origin)
}

func sealChain(t testing.TB, c *Chain, key byte, origin string) item {
	t.Helper()
	signer, err := seal.NoteSigner(testKey(t, key), origin)
	if err != nil {
		t.Fatal(err)
	}
	sig, err := signer.Sign([]byte(TreeHead{Origin: origin, Size: c.Size(), Root: c.Root()}.Text()))
	if err != nil {
		t.Fatal(err)
	}
	return item{size: c.Size(), sig: append(binary.BigEndian.AppendUint32(nil, signer.KeyHash()), sig...)}
}

func chainOf(items []item) *Chain {
	c := NewChain(testOrigin)
	for _, it := range items {
		if it.sig == nil {
			c.Append(digest.ContentOf(it.entry))
		}
	}
	return c
}

// honest is a ledger of ten entries in five batches. Entry 5 takes omar, who
// sealed the third batch, out.
func honest(t testing.TB) []item {
	t.Helper()
	items := []item{genesisItem(t)}
	add := func(its ...item) { items = append(items, its...) }
	add(sealItem(t, items, olga))
	add(noteItem(1), noteItem(2))
	add(sealItem(t, items, olga))
	add(noteItem(3), noteItem(4), changeItem(t, []byte{olga}, alice, bob))
	add(sealItem(t, items, omar))
	add(noteItem(6), noteItem(7))
	add(sealItem(t, items, olga))
	add(noteItem(8), noteItem(9))
	add(sealItem(t, items, olga))
	return items
}

// at returns where the n-th entry, or after it the n-th seal, stands.
func at(items []item, entry int) int {
	for i, it := range items {
		if it.sig == nil {
			if entry == 0 {
				return i
			}
			entry--
		}
	}
	panic("no such entry")
}

func sealAt(items []item, n int) int {
	for i, it := range items {
		if it.sig != nil {
			if n == 0 {
				return i
			}
			n--
		}
	}
	panic("no such seal")
}

// render writes the lines as a forger would: every check is right, whatever
// the items are.
func render(items []item) []byte {
	var out []byte
	c := NewChain(testOrigin)
	for _, it := range items {
		if it.sig != nil {
			out = AppendSealLine(out, it.size, c.Head(), it.sig)
			continue
		}
		p := c.Append(digest.ContentOf(it.entry))
		out = AppendEntryLine(out, it.entry, p.Head)
	}
	return out
}

func segment(first int64, data []byte) Segment {
	return Segment{Name: fmt.Sprintf("%016d.log", first), First: first, Size: int64(len(data)),
		Open: func(from int64) (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(data[min(from, int64(len(data))):])), nil
		}}
}

func one(data []byte) []Segment { return []Segment{segment(0, data)} }

func trust(t testing.TB) Options {
	t.Helper()
	return Options{Origin: testOrigin, TrustRoot: digest.IDOf(version1(t)), Decode: true}
}

func mustVerify(t testing.TB, segments []Segment, o Options) *Verified {
	t.Helper()
	v, err := Verify(segments, o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// refusedAt insists on a problem of that name at that entry.
func refusedAt(t testing.TB, err error, name refusal.Name, index int64) {
	t.Helper()
	p, ok := err.(*Problem)
	if !ok {
		t.Errorf("got %v, want a problem called %s", err, name)
		return
	}
	if p.Name != name || p.Index != index {
		t.Errorf("refused as %s at entry %d, want %s at %d: %v", p.Name, p.Index, name, index, p)
	}
}
