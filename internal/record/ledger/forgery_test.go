package ledger

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
)

func TestAnHonestLedgerVerifies(t *testing.T) {
	items := honest(t)
	var seen int64
	o := trust(t)
	o.EverySeal = true
	o.Visit = func(r Record) error {
		if r.Index != seen || digest.ContentOf(r.Raw) != r.Content || r.Body == nil {
			t.Errorf("record %d: %+v", seen, r)
		}
		seen++
		return nil
	}
	v := mustVerify(t, one(render(items)), o)
	want := chainOf(items)
	if v.Size != 10 || v.Seals != 5 || v.Tail.Torn != 0 || seen != 10 || v.Root != want.Root() || v.Head != want.Head() || !v.RootPinned {
		t.Errorf("verified as %+v", v)
	}
	if v.Signers.Version() != 2 || len(v.EveryKey()) != 2 {
		t.Errorf("signers version %d, %d operators ever", v.Signers.Version(), len(v.EveryKey()))
	}
	if _, err := VerifyCheckpoint(v.Checkpoint, Policy{Logs: []LogKey{{testOrigin, pub(t, olga)}}}); err != nil {
		t.Errorf("the last seal as a checkpoint: %v", err)
	}
}

// A forgery changes the honest ledger.
type forgery struct {
	name  string
	forge func([]item) []item
	want  refusal.Name
	index int64 // the entry at which it shows
}

// TestForgeriesAreRefused changes the ledger as a forger could who can write to
// the disk and computes all checks again.
func TestForgeriesAreRefused(t *testing.T) {
	for _, tt := range forgeries(t) {
		t.Run(tt.name, func(t *testing.T) {
			data := render(tt.forge(honest(t)))
			for _, everySeal := range []bool{false, true} {
				o := trust(t)
				o.EverySeal = everySeal
				_, err := Verify(one(data), o)
				refusedAt(t, err, tt.want, tt.index)
			}
		})
	}
}

// Rows that sign do it with the named key; the others have none.
func forgeries(t *testing.T) []forgery {
	insert := func(items []item, i int, its ...item) []item { return slices.Insert(slices.Clone(items), i, its...) }
	without := func(items []item, i, n int) []item { return slices.Delete(slices.Clone(items), i, i+n) }
	later := evidence.At(testTime.Go().Add(time.Hour))
	return []forgery{
		{"entry changed", func(l []item) []item { l[at(l, 3)] = noteItem(33); return l }, refusal.ChainTamperDetected, 5},
		{"last entry changed", func(l []item) []item { l[at(l, 9)] = noteItem(99); return l }, refusal.ChainTamperDetected, 9},
		{"entry dropped", func(l []item) []item { return without(l, at(l, 3), 1) }, refusal.SealInvalid, 5},
		{"entry dropped, sizes of seals made to fit", func(l []item) []item {
			l = without(l, at(l, 3), 1)
			for i := at(l, 3); i < len(l); i++ {
				l[i].size--
			}
			return l
		}, refusal.ChainTamperDetected, 4},
		{"entry duplicated", func(l []item) []item { return insert(l, at(l, 3), l[at(l, 3)]) }, refusal.SealInvalid, 7},
		{"entries swapped", func(l []item) []item { l[at(l, 3)], l[at(l, 4)] = l[at(l, 4)], l[at(l, 3)]; return l }, refusal.ChainTamperDetected, 5},
		{"entry inserted", func(l []item) []item { return insert(l, at(l, 7), noteItem(77)) }, refusal.SealInvalid, 9},
		{"entry appended with an old seal", func(l []item) []item { return append(l, noteItem(10), l[sealAt(l, 4)]) }, refusal.SealInvalid, 11},
		{"entry appended with an old seal of the right size", func(l []item) []item {
			s := l[sealAt(l, 4)]
			s.size = 11
			return append(l, noteItem(10), s)
		}, refusal.ChainTamperDetected, 10},
		{"entries from the fourth on rewritten", func(l []item) []item {
			for i := at(l, 6); i < len(l); i++ {
				if l[i].sig == nil {
					l[i] = noteItem(100 + i)
				}
			}
			return l
		}, refusal.ChainTamperDetected, 7},
		{"rewritten and sealed by a stranger", func(l []item) []item {
			l = l[:at(l, 6)]
			l = append(l, noteItem(60))
			return append(l, sealItem(t, l, stranger))
		}, refusal.SealInvalid, 6},
		{"sealed by a curator who is not an operator", func(l []item) []item {
			l = append(l, noteItem(10))
			return append(l, sealItem(t, l, alice))
		}, refusal.SealInvalid, 10},
		{"sealed by an operator who was taken out before", func(l []item) []item {
			l = append(l, noteItem(10))
			return append(l, sealItem(t, l, omar))
		}, refusal.SealInvalid, 10},
		{"sealed by an operator who takes himself out, with more behind it", func(l []item) []item {
			l = l[:at(l, 5)]
			l = append(l, changeItem(t, []byte{olga}, alice, bob), noteItem(6))
			return append(l, sealItem(t, l, omar))
		}, refusal.SealInvalid, 6},
		{"sealed by the operator for another ledger", func(l []item) []item {
			l = append(l, noteItem(10))
			return append(l, sealAs(t, l, olga, "example.com/other"))
		}, refusal.SealInvalid, 10},
		{"sealed with the operator's key hash and another key", func(l []item) []item {
			l = append(l, noteItem(10))
			s := sealItem(t, l, stranger)
			copy(s.sig, l[sealAt(l, 4)].sig[:4])
			return append(l, s)
		}, refusal.ChainTamperDetected, 10},
		{"seal of the change of signers stripped", func(l []item) []item { return without(l, sealAt(l, 2), 1) }, refusal.SealInvalid, 6},
		{"seal twice", func(l []item) []item { return insert(l, sealAt(l, 1), l[sealAt(l, 1)]) }, refusal.ChainTamperDetected, 3},
		{"seal of another size", func(l []item) []item { l[sealAt(l, 3)] = l[sealAt(l, 1)]; return l }, refusal.SealInvalid, 8},
		{"seal before everything", func(l []item) []item { return insert(l, 0, l[sealAt(l, 0)]) }, refusal.ChainTamperDetected, 0},
		{"time goes back, sealed by the operator", func(l []item) []item {
			l = append(l, entryItem(evidence.NoteKind, []byte(`{}`), later), noteItem(11))
			return append(l, sealItem(t, l, olga))
		}, refusal.TimeWentBack, 11},
		{"not canonical, sealed by the operator", func(l []item) []item {
			l = append(l, entryItem(evidence.NoteKind, []byte(`{"b":1,"a":2}`), testTime))
			return append(l, sealItem(t, l, olga))
		}, refusal.EntryInvalid, 10},
		{"deeper than an entry may be, sealed by the operator", func(l []item) []item {
			l = append(l, entryItem(evidence.NoteKind, []byte(strings.Repeat(`{"a":`, 63)+"{}"+strings.Repeat("}", 63)), testTime))
			return append(l, sealItem(t, l, olga))
		}, refusal.EntryInvalid, 10},
		{"unknown kind, sealed by the operator", func(l []item) []item {
			l = append(l, entryItem("novelty", []byte(`{}`), testTime))
			return append(l, sealItem(t, l, olga))
		}, refusal.EntryInvalid, 10},
		{"genesis replaced", func(l []item) []item {
			l[0] = entryItem(evidence.LedgerOpened, mustMarshal(t, evidence.Opened{Origin: testOrigin, Signers: string(signersFile(t, 1, digest.ID{}, stranger))}), testTime)
			return append(l[:1], sealItem(t, l[:1], stranger))
		}, refusal.SignersChainBroken, 0},
		{"genesis of another ledger", func(l []item) []item {
			l[0] = entryItem(evidence.LedgerOpened, mustMarshal(t, evidence.Opened{Origin: "example.com/other", Signers: string(version1(t))}), testTime)
			return append(l[:1], sealAs(t, l[:1], olga, "example.com/other"))
		}, refusal.HistoryForked, 0},
		{"genesis dropped", func(l []item) []item { return l[2:] }, refusal.EntryInvalid, 0},
		{"second genesis, sealed by the operator", func(l []item) []item {
			l = append(l, entryItem(evidence.LedgerOpened, mustMarshal(t, evidence.Opened{Origin: testOrigin, Signers: string(signersFile(t, 1, digest.ID{}, stranger))}), testTime))
			l = append(l, sealItem(t, l, olga), noteItem(11))
			return append(l, sealItem(t, l, stranger))
		}, refusal.EntryInvalid, 10},
		{"change of signers by one person twice", func(l []item) []item {
			l = l[:at(l, 5)]
			l = append(l, changeItem(t, []byte{stranger}, alice, alice))
			return append(l, sealItem(t, l, omar))
		}, refusal.TwoPersonRule, 5},
		{"change of signers that says another version", func(l []item) []item {
			l = l[:at(l, 5)]
			change := changeItem(t, []byte{olga}, alice, bob)
			change.entry = bytes.Replace(change.entry, []byte(`"version":2}`), []byte(`"version":3}`), 1)
			l = append(l, change)
			return append(l, sealItem(t, l, omar))
		}, refusal.SignersChainBroken, 5},
		{"change of signers by an operator and a stranger", func(l []item) []item {
			l = l[:at(l, 5)]
			l = append(l, changeItem(t, []byte{stranger}, alice, stranger))
			return append(l, sealItem(t, l, omar))
		}, refusal.SignerUnknown, 5},
	}
}

// TestBytesWithoutASealAreNotPartOfTheLedger appends what any user of the disk
// could: lines with the right checks and no seal. They are reported as torn,
// not counted and not shown.
func TestBytesWithoutASealAreNotPartOfTheLedger(t *testing.T) {
	l := honest(t)
	whole := render(l)
	tails := map[string][]byte{
		"entries":       render(append(l, noteItem(10), noteItem(11)))[len(whole):],
		"half an entry": render(append(l, noteItem(10)))[len(whole) : len(render(append(l, noteItem(10))))-5],
		"noise":         []byte("noise\nand more noise"),
		"zeros":         make([]byte, 700),
	}
	for name, tail := range tails {
		t.Run(name, func(t *testing.T) {
			var seen int64
			o := trust(t)
			o.Visit = func(r Record) error { seen++; return nil }
			v := mustVerify(t, one(slices.Concat(whole, tail)), o)
			if v.Size != 10 || seen != 10 || v.Tail.Torn != int64(len(tail)) || v.Tail.GoodSize != int64(len(whole)) {
				t.Errorf("size %d, seen %d, tail %+v", v.Size, seen, v.Tail)
			}
		})
	}
	o := trust(t)
	_, err := Verify(one(slices.Concat(whole, bytes.Repeat([]byte(strings.Repeat("x", 1023)+"\n"), maxBatchBytes/1024+1))), o)
	refusedAt(t, err, refusal.ChainTamperDetected, 10)
}

// TestBytesWithoutASealAreBounded: a forger can compute the checks of lines
// without end, and no verifier may hold them all. Neither are so many taken for
// what a crash left, nor is a seal far behind looked for.
func TestBytesWithoutASealAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("hashes 200 MB")
	}
	long := entryItem(evidence.NoteKind, fmt.Appendf(nil, `{"pad":"%s"}`, strings.Repeat("p", 1<<20-2048)), testTime)
	tail := func(n int) []item { return append(honest(t), slices.Repeat([]item{long}, n)...) }
	for name, repairing := range map[string]bool{"verifying": false, "repairing": true} {
		o := trust(t)
		o.Salvage = repairing
		v := mustVerify(t, one(render(tail(16))), o)
		if v.Size != 10 || v.Tail.Torn < 15<<20 {
			t.Errorf("%s: a batch that was never finished: %+v", name, v)
		}
		_, err := Verify(one(render(tail(18))), o)
		refusedAt(t, err, refusal.ChainTamperDetected, 27)
		_, err = Verify(one(append(render(tail(16)), bytes.Repeat([]byte("x"), 1<<20)...)), o)
		refusedAt(t, err, refusal.ChainTamperDetected, 26)
		_, err = Verify(one(append(render(tail(9)), bytes.Repeat([]byte("noise\n"), 9<<20/6)...)), o)
		refusedAt(t, err, refusal.ChainTamperDetected, 19)
		sealed := tail(18)
		_, err = Verify(one(render(append(sealed, sealItem(t, sealed, olga)))), o)
		refusedAt(t, err, refusal.ChainTamperDetected, 27)
	}
}

// TestALostSectorIsATornTail: a power cut may keep the seal of the batch that
// was being written and lose any sector before it. That is not tampering; the
// same zeros anywhere else are.
func TestALostSectorIsATornTail(t *testing.T) {
	l := honest(t)
	good := len(render(l))
	for i := range 4 {
		l = append(l, entryItem(evidence.NoteKind, fmt.Appendf(nil, `{"i":%d,"pad":"%s"}`, i, strings.Repeat("p", 700)), testTime))
	}
	l = append(l, sealItem(t, l, olga))
	data := render(l)
	lost := 0
	for sector := good / 512 * 512; sector+512 < len(data)-200; sector += 512 {
		torn := slices.Clone(data)
		clear(torn[max(sector, good) : sector+512])
		v := mustVerify(t, one(torn), trust(t))
		if v.Size != 10 || v.Tail.Torn != int64(len(data)-good) {
			t.Errorf("sector %d lost: size %d, tail %+v", sector/512, v.Size, v.Tail)
		}
		lost++

		forged := slices.Clone(data)
		clear(forged[max(sector, good)+3 : sector+500]) // no sector is like that
		if _, err := Verify(one(forged), trust(t)); err == nil {
			t.Errorf("zeros inside sector %d are taken for a lost sector", sector/512)
		}
	}
	if lost < 5 {
		t.Errorf("only %d sectors", lost)
	}
	before := slices.Clone(data)
	clear(before[1024:1536]) // sealed long ago, with seals behind it
	if _, err := Verify(one(before), trust(t)); err == nil {
		t.Error("zeros in a batch with whole batches behind it are accepted")
	}
}

// TestCutTailIsCaughtOnlyFromOutside states the limit: the segments alone do
// not show that whole batches are missing from the end.
func TestCutTailIsCaughtOnlyFromOutside(t *testing.T) {
	l := honest(t)
	full := mustVerify(t, one(render(l)), trust(t))
	cut := render(l[:at(l, 8)])
	if v := mustVerify(t, one(cut), trust(t)); v.Size != 8 {
		t.Fatalf("size %d after the cut", v.Size)
	}
	o := trust(t)
	o.Expect = []Expectation{{TreeHead: full.TreeHead, Source: "the memory"}}
	_, err := Verify(one(cut), o)
	refusedAt(t, err, refusal.HistoryRolledBack, 8)

	// Unsealed bytes that reach as far do not make up for it.
	_, err = Verify(one(render(l[:len(l)-1])), o)
	refusedAt(t, err, refusal.HistoryRolledBack, 8)

	// Another end, signed by the operator himself, is a fork.
	other := append(slices.Clone(l[:at(l, 9)]), noteItem(99))
	other = append(other, sealItem(t, other, olga), noteItem(10))
	other = append(other, sealItem(t, other, olga))
	_, err = Verify(one(render(other)), o)
	refusedAt(t, err, refusal.HistoryForked, 9)
	if p := err.(*Problem); p.Fork == nil || p.Fork.Expected != full.TreeHead {
		t.Errorf("the fork does not show both sides: %+v", p.Fork)
	}

	// The right root with a wrong chain head does not agree either.
	o.Expect[0].Head = digest.IDOf(nil)
	_, err = Verify(one(render(l)), o)
	refusedAt(t, err, refusal.HistoryForked, 9)
	o.Expect[0].Head = full.Head
	mustVerify(t, one(render(l)), o)
}

// TestExpectationsAreCompared: a tree head from elsewhere must agree in every
// part, regardless of its signer.
func TestExpectationsAreCompared(t *testing.T) {
	data := render(honest(t))
	v := mustVerify(t, one(data), trust(t))
	for name, change := range map[string]func(*Expectation){
		"another root":   func(e *Expectation) { e.Root[0] ^= 1 },
		"another head":   func(e *Expectation) { e.Head[0] ^= 1 },
		"another ledger": func(e *Expectation) { e.Origin = "example.com/other" },
	} {
		e := Expectation{TreeHead: v.TreeHead, Head: v.Head, Source: "the anchor"}
		o := trust(t)
		o.Expect = []Expectation{e}
		mustVerify(t, one(data), o)
		change(&o.Expect[0])
		if _, err := Verify(one(data), o); err == nil || err.(*Problem).Name != refusal.HistoryForked || err.(*Problem).Fork == nil {
			t.Errorf("%s: got %v, want HistoryForked with both sides", name, err)
		} else if name == "another ledger" && !strings.Contains(err.Error(), "the anchor is of the ledger example.com/other, this is example.com/evals") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestASealStrippedChangesNothing(t *testing.T) {
	l := honest(t)
	full := mustVerify(t, one(render(l)), trust(t))
	v := mustVerify(t, one(render(slices.Delete(slices.Clone(l), sealAt(l, 1), sealAt(l, 1)+1))), trust(t))
	if v.TreeHead != full.TreeHead || v.Head != full.Head || v.Seals != full.Seals-1 {
		t.Errorf("verified as %+v", v)
	}
	v = mustVerify(t, one(render(l[:len(l)-1])), trust(t))
	if v.Size != 8 || v.Tail.Torn == 0 {
		t.Errorf("without the last seal: size %d, tail %+v", v.Size, v.Tail)
	}
}

// TestBase64HasOneSpelling: the decoder of the standard library skips carriage
// returns, so a seal, a checkpoint or a receipt could be written in many ways.
func TestBase64HasOneSpelling(t *testing.T) {
	data := render(honest(t))
	var out []byte
	c := NewChain(testOrigin)
	for line := range bytes.Lines(data) {
		text := bytes.TrimSuffix(line[checkLen+1:], []byte("\n"))
		if !isSeal(text) {
			c.Append(digest.ContentOf(text))
		}
		if !bytes.HasPrefix(text, []byte("~3 ")) {
			out = append(out, line...)
			continue
		}
		text = append(text[:len(text):len(text)], '\r')
		out = append(append(append(appendSealCheck(out, c.Head(), text), ' '), text...), '\n')
	}
	_, err := Verify(one(out), trust(t))
	refusedAt(t, err, refusal.ChainTamperDetected, 3)

	receipt, _, checkpoint, p := proofs(t)
	for name, n := range map[string]int{"extra": 40, "proof": bytes.Index(receipt, []byte("index 3\n")) + 12, "checkpoint": len(receipt) - 10} {
		if _, err := VerifyReceipt(slices.Insert(bytes.Clone(receipt), n, '\r'), nil, p); err == nil {
			t.Errorf("a carriage return in the receipt's %s is accepted", name)
		}
	}
	if _, err := VerifyCheckpoint(slices.Insert(bytes.Clone(checkpoint), len(checkpoint)-10, '\r'), p); err == nil {
		t.Error("a carriage return in a checkpoint's signature is accepted")
	}
}

func TestVerifyNeedsTheTrustRoot(t *testing.T) {
	data := render(honest(t))
	_, err := Verify(one(data), Options{Origin: testOrigin})
	if !refusal.Is(err, refusal.Usage) {
		t.Errorf("without a trust root: %v", err)
	}
	o := trust(t)
	o.TrustRoot = digest.IDOf([]byte("another"))
	_, err = Verify(one(data), o)
	refusedAt(t, err, refusal.SignersChainBroken, 0)
	v := mustVerify(t, one(data), Options{UnsafeAnyRoot: true})
	if v.RootPinned {
		t.Error("a ledger without a trust root claims a pinned root")
	}
}

func TestSegmentsMustFollowEachOther(t *testing.T) {
	l := honest(t)
	a, b, c := render(l[:at(l, 3)]), render(l[:at(l, 6)]), render(l)
	b, c = b[len(a):], c[len(b):]
	parts := []Segment{segment(0, a), segment(3, b), segment(6, c)}
	mustVerify(t, parts, trust(t))
	mustVerify(t, append(slices.Clone(parts), segment(10, nil)), trust(t)) // rotated, then killed
	noisy := slices.Clone(parts)
	noisy[1] = segment(3, append(slices.Clone(b), "noise"...))
	for _, tt := range []struct {
		name     string
		segments []Segment
		want     refusal.Name
		index    int64
	}{
		{"first missing", parts[1:], refusal.ChainTamperDetected, 0},
		{"middle missing", []Segment{parts[0], parts[2]}, refusal.ChainTamperDetected, 3},
		{"middle empty", []Segment{parts[0], segment(3, nil), parts[2]}, refusal.ChainTamperDetected, 3},
		{"middle twice", []Segment{parts[0], parts[1], parts[1], parts[2]}, refusal.ChainTamperDetected, 6},
		{"renamed", []Segment{parts[0], segment(4, b), parts[2]}, refusal.ChainTamperDetected, 3},
		{"contents swapped", []Segment{parts[0], segment(3, c), segment(6, b)}, refusal.ChainTamperDetected, 3},
		{"noise at the end of the middle", noisy, refusal.ChainTamperDetected, 6},
		{"seal of the middle cut off", []Segment{parts[0], segment(3, b[:len(b)-100]), parts[2]}, refusal.ChainTamperDetected, 6},
		{"extra, empty, elsewhere", append(slices.Clone(parts), segment(11, nil)), refusal.ChainTamperDetected, 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Verify(tt.segments, trust(t))
			refusedAt(t, err, tt.want, tt.index)
		})
	}
	_, err := Verify(nil, trust(t))
	if !refusal.Is(err, refusal.NotFound) {
		t.Errorf("no segment: %v", err)
	}
}
