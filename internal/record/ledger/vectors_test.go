package ledger

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/seal"
	"tallystick/internal/testing/rules"
)

var update = flag.Bool("update", false, "write docs/formats/vectors")

// A forged is an example that is refused, made of a good one.
type forged struct{ name, reason, old, new string }

// vectorsOf makes the vectors of one format: the good file, and forgeries of it
// by text.
func vectorsOf(t *testing.T, as, ending string, good []byte, forgeries []forged) []rules.Vector {
	t.Helper()
	out := []rules.Vector{{Name: as + ending, As: as, Data: good}}
	for _, f := range forgeries {
		if strings.Count(string(good), f.old) != 1 {
			t.Fatalf("%s: %s: %q is there %d times, want once", as, f.name, f.old, strings.Count(string(good), f.old))
		}
		out = append(out, rules.Vector{Name: f.name + ending, As: as, Reason: f.reason, Data: []byte(strings.Replace(string(good), f.old, f.new, 1))})
	}
	return out
}

func compareVectors(t *testing.T, folder string, index rules.Index, vectors []rules.Vector, read func([]byte) error) {
	t.Helper()
	for _, v := range vectors {
		if err := read(v.Data); (err == nil) != (v.Reason == "") {
			t.Errorf("%s: the program says %v, the vector says %q", v.Name, err, v.Reason)
		}
	}
	files, err := rules.Files(index, vectors)
	if err != nil {
		t.Fatal(err)
	}
	var write func(string, []byte) error
	if *update {
		write = func(path string, data []byte) error {
			return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644))
		}
	}
	for _, wrong := range rules.Compare(filepath.Join("..", "..", "..", "docs", "formats", "vectors", folder), files, write) {
		t.Error(wrong)
	}
}

// TestLedgerVectors writes docs/formats/vectors/ledgers and compares. A vector
// is the first and only segment of a ledger.
func TestLedgerVectors(t *testing.T) {
	l := honest(t)
	vectors := vectorsOf(t, "ledger", ".log", render(l), []forged{
		{"an-entry-edited", "an entry was changed: the check of its line does not fit the chain", `{"n":4}`, `{"n":5}`},
		{"an-entry-dropped", "an entry was dropped: the next line does not fit the chain", segmentLine(t, 4), ""},
		{"entries-swapped", "two entries changed places", segmentLine(t, 3) + segmentLine(t, 4), segmentLine(t, 4) + segmentLine(t, 3)},
		{"another-size", "the seal is for another number of entries", "~10 ", "~11 "},
	})
	add := func(name, reason string, items []item) {
		vectors = append(vectors, rules.Vector{Name: name + ".log", As: "ledger", Reason: reason, Data: render(items)})
	}
	start := []item{genesisItem(t)}
	start = append(start, sealItem(t, start, olga))
	grow := func(by byte, its ...item) []item {
		items := append(append([]item{}, start...), its...)
		return append(items, sealItem(t, items, by))
	}
	add("sealed-by-a-stranger", "the seal is by a key that is not an operator's", grow(stranger, noteItem(1)))
	add("an-unknown-kind", "no record has this kind", grow(olga, entryItem("novelty", []byte("{}"), testTime)))
	add("a-bad-record", "the record breaks a rule of rules/records.json", grow(olga, entryItem(evidence.CaseStartedKind, []byte(`{"attempt":"a","case_id":"c","execution":0,"repeat":1}`), testTime)))
	add("time-goes-back", "an entry is older than the one before it", grow(olga, entryItem(evidence.NoteKind, []byte("{}"), evidence.At(testTime.Go().Add(-1e9)))))
	add("opened-twice", "ledger.opened is the first entry and no other", grow(olga, genesisItem(t)))
	add("one-person-changes-signers", "the change of signers has one person's signature, twice", grow(olga, changeItem(t, []byte{olga}, alice, alice)))
	compareVectors(t, "ledgers", rules.Index{What: "Segments of ledgers: each is the first and only one.", Trust: map[string]string{"signers": string(version1(t))}},
		vectors, func(data []byte) error {
			_, err := Verify(one(data), trust(t))
			return err
		})
}

// TestOperatorVectors writes docs/formats/vectors/operators and compares: ledgers
// whose signers file names an operator and no other signer.
func TestOperatorVectors(t *testing.T) {
	lone := func(key byte) seal.Entry {
		return seal.Entry{Principals: "olga", Key: testKey(t, key).Public(), Roles: []seal.Role{seal.Operator}}
	}
	file, err := seal.Compose(1, digest.ID{}, []seal.Entry{lone(olga)})
	if err != nil {
		t.Fatal(err)
	}
	first, err := seal.Root("signers", file, digest.IDOf(file))
	if err != nil {
		t.Fatal(err)
	}
	next, err := first.WithOperatorKey(testKey(t, omar).Public())
	if err != nil {
		t.Fatal(err)
	}
	start := []item{entryItem(evidence.LedgerOpened, mustMarshal(t, evidence.Opened{Origin: testOrigin, Signers: string(file)}), testTime)}
	start = append(start, sealItem(t, start, olga))
	var vectors []rules.Vector
	add := func(name, reason string, next []byte, then byte, by ...byte) {
		change := evidence.SignersChanged{Version: 2, Signers: string(next)}
		for _, n := range by {
			sig, err := seal.SignWith(testKey(t, n).Signer(), seal.NamespaceSigners, next)
			if err != nil {
				t.Fatal(err)
			}
			change.Signatures = append(change.Signatures, string(sig))
		}
		items := append(append([]item{}, start...), entryItem(evidence.SignersChangedKind, mustMarshal(t, change), testTime))
		items = append(items, sealItem(t, items, olga), noteItem(1))
		vectors = append(vectors, rules.Vector{Name: name + ".log", As: "ledger", Reason: reason, Data: render(append(items, sealItem(t, items, then)))})
	}
	edited := func(old, new string) []byte { return []byte(strings.Replace(string(next), old, new, 1)) }
	add("the-operator-changes-the-key", "", next, omar, olga, omar)
	add("sealed-by-the-key-before", "the key that was replaced seals no more", next, olga, olga, omar)
	add("a-stranger-takes-over", "the key in force did not sign the change", next, omar, stranger, omar)
	add("without-the-new-key", "the new key did not sign the change", next, omar, olga, olga)
	add("in-another-order", "the key in force signs first", next, omar, omar, olga)
	add("another-name", "a lone operator changes the key and nothing else", edited("\nolga ", "\nolaf "), omar, olga, omar)
	add("a-newer-format", "the file is in a newer format", edited("signers/1-draft", "signers/2"), omar, olga, omar)
	compareVectors(t, "operators", rules.Index{What: "Segments of ledgers whose signers file names an operator and nobody else.", Trust: map[string]string{"signers": string(file)}},
		vectors, func(data []byte) error {
			_, err := Verify(one(data), Options{Origin: testOrigin, TrustRoot: digest.IDOf(file), Decode: true})
			return err
		})
}

// TestProofVectors writes docs/formats/vectors/receipts, checkpoints and
// anchors, and compares.
func TestProofVectors(t *testing.T) {
	receipt, anchor, checkpoint, p := proofs(t)
	key := map[string]string{"key": seal.VKey(pub(t, olga), testOrigin)}
	receipts := vectorsOf(t, "receipt", ".receipt", receipt, []forged{
		{"another-index", "the proof of another entry leads to another root", "index 3", "index 2"},
		{"another-size", "the checkpoint is not the one that was signed", "\n10\n", "\n11\n"},
		{"another-origin", "the checkpoint is of another ledger", "\n\nexample.com/evals\n", "\n\nexample.com/other\n"},
	})
	for name, its := range map[string][]item{
		"opened-later": {noteItem(1), genesisItem(t)}, "not-opened": {noteItem(1)},
		"another-name": {entryItem(evidence.LedgerOpened, mustMarshal(t, evidence.Opened{Origin: "example.com/other", Signers: "x"}), testTime)},
	} {
		receipts = append(receipts, rules.Vector{Name: name + ".receipt", As: "receipt",
			Reason: "ledger.opened is entry 0 and no other, and names the ledger", Data: receiptOfLast(t, its)})
	}
	compareVectors(t, "receipts", rules.Index{What: "Receipts with their entries inside.", Trust: key}, receipts, func(data []byte) error {
		_, err := VerifyReceipt(data, nil, p)
		return err
	})
	compareVectors(t, "checkpoints", rules.Index{What: "Checkpoints.", Trust: key}, vectorsOf(t, "checkpoint", ".txt", checkpoint, []forged{
		{"another-size", "the signature is over another size", "\n10\n", "\n11\n"},
		{"a-zero-before", "the size has one spelling", "\n10\n", "\n010\n"},
		{"another-line", "a checkpoint has three lines", "\n10\n", "\n10\nmore\n"},
		{"no-signature", "nobody signed it", strings.SplitAfterN(string(checkpoint), "\n\n", 2)[1], ""},
		{"an-origin-in-capitals", "this cannot be the name of a ledger", "example.com/evals\n10", "Example.com/evals\n10"},
	}), func(data []byte) error {
		_, err := VerifyCheckpoint(data, p)
		return err
	})
	anchors := vectorsOf(t, "anchor", ".json", anchor, []forged{
		{"another-head", "the operator's signature is over another head", `"head":"sha256:7`, `"head":"sha256:3`},
		{"another-size", "the anchor and its checkpoint disagree", `"size":10`, `"size":9`},
		{"another-day", "it was not published on its date", `"date":"2026-05-12"`, `"date":"2026-05-13"`},
		{"a-blank", "it is not canonical JSON", `"size":10`, `"size": 10`},
		{"newer", "it is in a newer format", `"tallystick-anchor/1-draft"`, `"tallystick-anchor/2"`},
	})
	zero := *mustAnchor(t, anchor)
	zero.Head = digest.ID{}
	anchors = append(anchors, rules.Vector{Name: "no-head.json", As: "anchor", Reason: "a head of zeros is the head of no ledger with an entry", Data: signAnchor(t, &zero, olga)})
	compareVectors(t, "anchors", rules.Index{What: "Anchors.", Trust: key}, anchors, func(data []byte) error {
		_, err := VerifyAnchor(data, p)
		return err
	})
}

func mustAnchor(t *testing.T, data []byte) *Anchor {
	t.Helper()
	a, err := ParseAnchor(data)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// receiptOfLast is a receipt of the last of some entries, whatever they are,
// under the operator's signature.
func receiptOfLast(t *testing.T, items []item) []byte {
	t.Helper()
	chain, tree := NewChain(testOrigin), &Tree{}
	var last Position
	for _, it := range items {
		last = chain.Append(digest.ContentOf(it.entry))
		if err := tree.Add(last.Leaf); err != nil {
			t.Fatal(err)
		}
	}
	proof, err := tree.ProveInclusion(chain.Size(), last.Index)
	if err != nil {
		t.Fatal(err)
	}
	note := AssembleCheckpoint(TreeHead{testOrigin, chain.Size(), chain.Root()}, sealChain(t, chain, olga, testOrigin).sig)
	data, err := NewReceipt(last, items[len(items)-1].entry, proof, note).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestSignersVectors writes docs/formats/vectors/signers and compares.
func TestSignersVectors(t *testing.T) {
	good := version1(t)
	vectors := vectorsOf(t, "signers", ".txt", good, []forged{
		{"no-header", "the first line is not the header", "# tallystick-signers/1-draft\n", ""},
		{"newer", "it is in a newer format", "signers/1-draft", "signers/2"},
		{"version-0", "versions count from 1", "# version: 1", "# version: 0"},
		{"no-newline-at-the-end", "the last line has no newline", strings.SplitAfter(string(good), "\n")[4], strings.TrimSuffix(strings.SplitAfter(string(good), "\n")[4], "\n")},
		{"a-second-version", "a comment tells a reader another version", "# version: 1\n", "# version: 1\n# # version: 7\n"},
		{"an-unknown-role", "there is no such role", "roles=curator,security", "roles=curator,king"},
		{"an-unknown-option", "there is no such option", "bob@example.com ", "bob@example.com no-touch-required "},
		{"names-alike", "two names that differ only in case", "bob@example.com", "Alice@example.com"},
		{"a-pattern", "a line is for one person", "bob@example.com", "*@example.com"},
	})
	compareVectors(t, "signers", rules.Index{What: "Files of signers, version 1."}, vectors, func(data []byte) error {
		_, err := seal.Root("signers", data, digest.IDOf(data))
		return err
	})
}
