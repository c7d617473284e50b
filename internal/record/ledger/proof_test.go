package ledger

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

func TestForgedReceiptsAreRefused(t *testing.T) {
	data, _, _, p := proofs(t)
	for _, tt := range []struct {
		name  string
		forge func(*Receipt) (given []byte)
		want  refusal.Name
	}{
		{"entry changed", func(r *Receipt) []byte {
			r.Entry = bytes.Replace(r.Entry, []byte(`"n":3`), []byte(`"n":4`), 1)
			return nil
		}, refusal.ReceiptInvalid},
		{"entry and content changed", func(r *Receipt) []byte {
			r.Entry = bytes.Replace(r.Entry, []byte(`"n":3`), []byte(`"n":4`), 1)
			r.Content = digest.ContentOf(r.Entry)
			return nil
		}, refusal.ReceiptInvalid},
		{"chain disagrees with the tree: another prev", func(r *Receipt) []byte { r.Prev = digest.IDOf(nil); return nil }, refusal.ReceiptInvalid},
		{"another index", func(r *Receipt) []byte { r.Index = 2; return nil }, refusal.ReceiptInvalid},
		{"an index beyond the tree", func(r *Receipt) []byte { r.Index = 10; return nil }, refusal.ReceiptInvalid},
		{"proof cut", func(r *Receipt) []byte { r.Proof = r.Proof[1:]; return nil }, refusal.ReceiptInvalid},
		{"proof longer", func(r *Receipt) []byte { r.Proof = append(r.Proof, r.Proof[0]); return nil }, refusal.ReceiptInvalid},
		{"no entry anywhere", func(r *Receipt) []byte { r.Entry = nil; return nil }, refusal.Usage},
		{"another entry beside it", func(r *Receipt) []byte { r.Entry = nil; return []byte(`{}`) }, refusal.ReceiptInvalid},
		{"another entry beside the one inside", func(r *Receipt) []byte { return []byte(`{}`) }, refusal.ReceiptInvalid},
		{"checkpoint by a stranger", func(r *Receipt) []byte {
			text, _, _ := strings.Cut(string(r.Checkpoint), "\n\n")
			signer, _ := seal.NoteSigner(testKey(t, stranger), testOrigin)
			r.Checkpoint, _ = note.Sign(&note.Note{Text: text + "\n"}, signer)
			return nil
		}, refusal.CheckpointInvalid},
		{"checkpoint of another ledger by the same key", func(r *Receipt) []byte {
			text, _, _ := strings.Cut(string(r.Checkpoint), "\n\n")
			signer, _ := seal.NoteSigner(testKey(t, olga), "example.com/other")
			r.Checkpoint, _ = note.Sign(&note.Note{Text: text + "\n"}, signer)
			return nil
		}, refusal.CheckpointInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := ParseReceipt(data)
			if err != nil {
				t.Fatal(err)
			}
			given := tt.forge(r)
			forged, err := r.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := VerifyReceipt(forged, given, p); !refusal.Is(err, tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
	r, _ := ParseReceipt(data)
	given := r.Entry
	r.Entry = nil
	beside, _ := r.Marshal()
	if _, err := VerifyReceipt(beside, given, p); err != nil {
		t.Errorf("the entry beside the receipt: %v", err)
	}
	if _, err := VerifyReceipt(data, nil, Policy{}); !refusal.Is(err, refusal.Usage) {
		t.Errorf("no trusted key: %v", err)
	}
	if _, err := ParseReceipt(append(bytes.Clone(data), make([]byte, maxReceiptRead)...)); !refusal.Is(err, refusal.TooLarge) {
		t.Errorf("a receipt without end: %v", err)
	}
}

// TestAReceiptOfAnEntryThatCannotBeReadIsRefused: the operator's signature over
// it does not make an entry one.
func TestAReceiptOfAnEntryThatCannotBeReadIsRefused(t *testing.T) {
	_, _, _, p := proofs(t)
	entry := entryItem("novelty", []byte(`{}`), testTime).entry
	chain, tree := NewChain(testOrigin), &Tree{}
	pos := chain.Append(digest.ContentOf(entry))
	if err := tree.Add(pos.Leaf); err != nil {
		t.Fatal(err)
	}
	proof, err := tree.ProveInclusion(1, 0)
	if err != nil {
		t.Fatal(err)
	}
	note := AssembleCheckpoint(TreeHead{testOrigin, 1, chain.Root()}, sealChain(t, chain, olga, testOrigin).sig)
	receipt, err := NewReceipt(pos, entry, proof, note).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := VerifyReceipt(receipt, nil, p); !refusal.Is(err, refusal.EntryInvalid) {
		t.Errorf("got %v, want EntryInvalid", err)
	}
}

// TestTheExtraOfAReceiptHasOneSpelling: no member more or less, none twice or in
// another order, nothing that canonical JSON does not allow.
func TestTheExtraOfAReceiptHasOneSpelling(t *testing.T) {
	data, _, _, _ := proofs(t)
	r, err := ParseReceipt(data)
	if err != nil {
		t.Fatal(err)
	}
	c, p := `"content":"`+r.Content.String()+`"`, `"prev":"`+r.Prev.String()+`"`
	deep := func(n int) string { return `"entry":` + strings.Repeat("[", n) + strings.Repeat("]", n) }
	for extra, ok := range map[string]bool{
		"{" + c + "," + p + "}":                       true,
		"{" + c + `,"entry":{},` + p + "}":            true,
		"{" + c + "," + deep(63) + "," + p + "}":      true,
		"{" + c + "," + deep(64) + "," + p + "}":      false,
		"{" + c + `,"entry":{},"fake":1,` + p + "}":   false,
		"{" + c + `,"entry":,` + p + "}":              false,
		"{" + c + `,"entry":{},{},` + p + "}":         false,
		"{" + c + `,"entry":{ },` + p + "}":           false,
		"{" + c + `,"entry":{"b":1,"a":2},` + p + "}": false,
		"{" + c + `,"extra":{},` + p + "}":            false,
		`{"a":1,` + c + "," + p + "}":                 false,
		"{" + c + "," + p + `,"z":1}`:                 false,
		"{" + c + "," + c + "," + p + "}":             false,
		"{" + c + "," + p + "," + p + "}":             false,
		"{" + p + "," + c + "}":                       false,
		"{" + c + "}":                                 false,
		"{" + p + "}":                                 false,
		"{}":                                          false,
		"":                                            false,
		"[{" + c + "," + p + "}]":                     false,
		"{" + c + "," + p + "} ":                      false,
		"{" + c + ", " + p + "}":                      false,
		"{" + strings.ToUpper(c) + "," + p + "}":      false,
		"{" + strings.Replace(c, "blake3", "sha256", 1) + "," + p + "}": false,
		"{" + c + "," + strings.Replace(p, "sha256", "blake3", 1) + "}": false,
		"{" + c + "," + p[:len(p)-1] + `0"}`:                            false,
		"{" + c + "," + p[:len(p)-2] + `"}`:                             false,
	} {
		file := bytes.Replace(data, bytes.Split(data, []byte("\n"))[1], []byte("extra "+base64.StdEncoding.EncodeToString([]byte(extra))), 1)
		r, err := ParseReceipt(file)
		if (err == nil) != ok || err != nil && !refusal.Is(err, refusal.Malformed) {
			t.Errorf("%s: %v", extra, err)
		}
		if err == nil {
			if again, err := r.Marshal(); err != nil || !bytes.Equal(again, file) {
				t.Errorf("%s is written again as %q (%v)", extra, again, err)
			}
		}
	}
}

// TestAReceiptOfAnOpeningThatNoLedgerHasIsRefused: an operator can sign a tree
// of anything; what no ledger could hold proves nothing (trials F8).
func TestAReceiptOfAnOpeningThatNoLedgerHasIsRefused(t *testing.T) {
	_, _, _, p := proofs(t)
	opened := func(origin string) []byte {
		return entryItem(evidence.LedgerOpened, mustMarshal(t, evidence.Opened{Origin: origin, Signers: string(version1(t))}), testTime).entry
	}
	note := entryItem(evidence.NoteKind, []byte(`{}`), testTime).entry
	for _, tt := range []struct {
		name    string
		entries [][]byte
		index   int64
		ok      bool
	}{
		{"an honest one", [][]byte{opened(testOrigin), note}, 0, true},
		{"opened a second time", [][]byte{opened(testOrigin), opened(testOrigin)}, 1, false},
		{"opened under another name", [][]byte{opened("example.com/other"), note}, 0, false},
		{"never opened", [][]byte{note, note}, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			chain, tree := NewChain(testOrigin), &Tree{}
			var pos Position
			for i, e := range tt.entries {
				x := chain.Append(digest.ContentOf(e))
				if err := tree.Add(x.Leaf); err != nil {
					t.Fatal(err)
				}
				if int64(i) == tt.index {
					pos = x
				}
			}
			size := int64(len(tt.entries))
			proof, err := tree.ProveInclusion(size, tt.index)
			if err != nil {
				t.Fatal(err)
			}
			signed := AssembleCheckpoint(TreeHead{testOrigin, size, chain.Root()}, sealChain(t, chain, olga, testOrigin).sig)
			receipt, err := NewReceipt(pos, tt.entries[tt.index], proof, signed).Marshal()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := VerifyReceipt(receipt, tt.entries[tt.index], p); tt.ok != (err == nil) || !tt.ok && !refusal.Is(err, refusal.EntryInvalid) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestForgedAnchorsAreRefused(t *testing.T) {
	_, data, _, p := proofs(t)
	for _, tt := range []struct {
		name  string
		forge func(*Anchor) []byte
		want  refusal.Name
	}{
		{"root changed", func(a *Anchor) []byte {
			a.Root = base64.StdEncoding.EncodeToString(make([]byte, 32))
			return nil
		}, refusal.AnchorMismatch},
		{"root changed and signed by a stranger", func(a *Anchor) []byte {
			a.Root = base64.StdEncoding.EncodeToString(make([]byte, 32))
			return signAnchor(t, a, stranger)
		}, refusal.AnchorMismatch},
		{"larger than its checkpoint", func(a *Anchor) []byte { a.Size++; return signAnchor(t, a, olga) }, refusal.AnchorMismatch},
		{"of nothing", func(a *Anchor) []byte { a.Size = 0; return signAnchor(t, a, olga) }, refusal.Malformed},
		{"a head of zeros, signed by the operator", func(a *Anchor) []byte { a.Head = digest.ID{}; return signAnchor(t, a, olga) }, refusal.Malformed},
		{"head changed", func(a *Anchor) []byte { a.Head = digest.IDOf(nil); return nil }, refusal.AnchorSignatureInvalid},
		{"day changed", func(a *Anchor) []byte { a.Date = "2026-05-13"; return nil }, refusal.Malformed},
		{"day and time changed", func(a *Anchor) []byte {
			a.Date, a.PublishedAt = "2026-05-13", evidence.At(testTime.Go().Add(24*time.Hour))
			return nil
		}, refusal.AnchorSignatureInvalid},
		{"signature stripped", func(a *Anchor) []byte { a.Signature = ""; return nil }, refusal.AnchorSignatureInvalid},
		{"signed by a curator", func(a *Anchor) []byte { return signAnchor(t, a, alice) }, refusal.AnchorSignatureInvalid},
		{"signed for another act", func(a *Anchor) []byte {
			message, _ := a.Message()
			sig, _ := seal.SignWith(testKey(t, olga).Signer(), seal.NamespaceAttempt, message)
			a.Signature = string(sig)
			return nil
		}, refusal.AnchorSignatureInvalid},
		{"of another ledger", func(a *Anchor) []byte { a.Origin = "example.com/other"; return signAnchor(t, a, olga) }, refusal.AnchorMismatch},
		{"checkpoint without signature", func(a *Anchor) []byte {
			text, _, _ := strings.Cut(a.Checkpoint, "\n\n")
			a.Checkpoint = text + "\n\n"
			return signAnchor(t, a, olga)
		}, refusal.AnchorSignatureInvalid},
		{"another schema", func(a *Anchor) []byte { a.Schema = "tallystick-anchor/2"; return nil }, refusal.NewerFormat},
		{"no anchor's schema", func(a *Anchor) []byte { a.Schema = "tallystick-anchors/2"; return nil }, refusal.Malformed},
		{"not canonical", func(*Anchor) []byte { return bytes.Replace(data, []byte(`,"`), []byte(`, "`), 1) }, refusal.Malformed},
		{"too large", func(*Anchor) []byte { return make([]byte, MaxAnchorBytes+1) }, refusal.TooLarge},
		{"empty", func(*Anchor) []byte { return []byte{} }, refusal.Malformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, err := ParseAnchor(data)
			if err != nil {
				t.Fatal(err)
			}
			forged := tt.forge(a)
			if forged == nil {
				if forged, err = a.Marshal(); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := VerifyAnchor(forged, p); !refusal.Is(err, tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestCheckpointPolicy(t *testing.T) {
	_, _, checkpoint, p := proofs(t)
	cosign := func(key byte, name string) []byte {
		signer, err := seal.CosignatureSigner(testKey(t, key), name, testTime.Go)
		if err != nil {
			t.Fatal(err)
		}
		text, _, _ := bytes.Cut(checkpoint, []byte("\n\n"))
		text = append(slices.Clone(text), '\n')
		sig, err := signer.Sign(text)
		if err != nil {
			t.Fatal(err)
		}
		h := signer.KeyHash()
		return fmt.Appendf(nil, "— %s %s\n", name, base64.StdEncoding.EncodeToString(append([]byte{byte(h >> 24), byte(h >> 16), byte(h >> 8), byte(h)}, sig...)))
	}
	witness, err := seal.CosignatureVerifier(seal.CosignatureVKey(pub(t, 7), "w1"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := seal.CosignatureVerifier(seal.CosignatureVKey(pub(t, 8), "w2"))
	if err != nil {
		t.Fatal(err)
	}
	p.Witnesses = []note.Verifier{witness, other}
	with := func(quorum int) Policy { q := p; q.Quorum = quorum; return q }
	one, two := cosign(7, "w1"), cosign(8, "w2")
	bad := slices.Clone(one)
	bad[len(bad)-20] ^= 1 // a base64 digit still, of another signature
	text, logLine, _ := bytes.Cut(checkpoint, []byte("\n\n"))
	for _, tt := range []struct {
		name   string
		note   []byte
		policy Policy
		want   refusal.Name
	}{
		{"two of two", slices.Concat(checkpoint, one, two), with(2), ""},
		{"one of two", slices.Concat(checkpoint, one), with(2), refusal.WitnessQuorumMissing},
		{"one key twice", slices.Concat(checkpoint, one, one), with(2), refusal.CheckpointInvalid},
		{"a strange cosignature does not count", slices.Concat(checkpoint, one, cosign(9, "w3")), with(2), refusal.WitnessQuorumMissing},
		{"a strange key under a known name does not count", slices.Concat(checkpoint, one, cosign(9, "w2")), with(2), refusal.WitnessQuorumMissing},
		{"a strange cosignature does no harm", slices.Concat(checkpoint, cosign(9, "w3"), one), with(1), ""},
		{"a broken cosignature by a known key", slices.Concat(checkpoint, bad), with(0), refusal.CheckpointInvalid},
		{"witnesses alone", slices.Concat(text, []byte("\n\n"), one, two), with(0), refusal.CheckpointInvalid},
		{"log signature twice", slices.Concat(checkpoint, logLine), with(0), refusal.CheckpointInvalid},
		{"too large", slices.Concat(checkpoint, bytes.Repeat([]byte("x"), maxCheckpointBytes)), with(0), refusal.TooLarge},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := VerifyCheckpoint(tt.note, tt.policy)
			if tt.want == "" && err != nil || tt.want != "" && !refusal.Is(err, tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// TestProofsOfEverySize makes and checks both kinds of proofs for every pair
// of sizes up to 70, and checks that a proof for one leaf fits no other.
func TestProofsOfEverySize(t *testing.T) {
	const n = 70
	tree, leaves := treeOf(t, n)
	head := func(size int64) TreeHead {
		root, err := tree.Root(size)
		if err != nil {
			t.Fatal(err)
		}
		return TreeHead{testOrigin, size, root}
	}
	for newer := int64(1); newer <= n; newer++ {
		for older := int64(0); older <= newer; older++ {
			proof, err := tree.ProveConsistency(older, newer)
			if err != nil {
				t.Fatal(err)
			}
			if err := CheckConsistency(proof, head(newer), head(older)); err != nil {
				t.Fatalf("from %d to %d: %v", older, newer, err)
			}
			if older > 0 {
				wrong := head(older)
				wrong.Root[0] ^= 1
				if CheckConsistency(proof, head(newer), wrong) == nil {
					t.Fatalf("from %d to %d: another old root is accepted", older, newer)
				}
			}
		}
	}
	if CheckConsistency(make([]tlog.Hash, 1), head(n), TreeHead{}) == nil {
		t.Error("a proof from the empty tree with a hash in it is accepted")
	}
	if leaves.cont.n != n {
		t.Errorf("%d leaves", leaves.cont.n)
	}
}

// TestReceiptStaysBelowFourKilobytes measures a typical entry of 1.2 KB in a
// ledger of a million entries.
func TestReceiptStaysBelowFourKilobytes(t *testing.T) {
	const n = 1 << 20
	body := fmt.Appendf(nil, `{"pad":"%s"}`, strings.Repeat("z", 1130))
	entry := evidence.AppendEntry(nil, body, evidence.NoteKind, false, testTime)
	r := &Receipt{Index: n - 1, Content: digest.ContentOf(entry), Entry: entry, Proof: make([]tlog.Hash, 20)}
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range r.Proof {
		for j := range r.Proof[i] {
			r.Proof[i][j] = byte(rng.Uint32())
		}
	}
	signature := make([]byte, sealSignatureLen)
	r.Checkpoint = AssembleCheckpoint(TreeHead{Origin: testOrigin, Size: n}, signature)
	data, err := r.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("entry %d bytes, receipt %d bytes", len(entry), len(data))
	if len(data) > MaxReceiptBytes {
		t.Errorf("the receipt has %d bytes", len(data))
	}
	// A larger entry stays outside.
	large := slices.Concat([]byte(`{"pad":"`), bytes.Repeat([]byte("z"), 4000), []byte(`"}`))
	if r := NewReceipt(Position{}, evidence.AppendEntry(nil, large, evidence.NoteKind, false, testTime), r.Proof, r.Checkpoint); r.Entry != nil {
		t.Error("an entry of 4,000 bytes went inside")
	}
}

// Package tlog loops for ever over sizes above 1<<62, so a checkpoint that
// claims one must be refused before any proof is looked at.
func TestCheckpointOfImpossibleSizeIsRefused(t *testing.T) {
	for _, size := range []string{"9007199254740992", "4611686018427387905", "9223372036854775807"} {
		text := "example.com/evals\n" + size + "\njDvBoieSJKkcrEOrQM8vnVP310JA5Ltt2StVucNlORI=\n"
		if _, err := ParseTreeHead(text); err == nil {
			t.Errorf("size %s was accepted", size)
		}
	}
}
