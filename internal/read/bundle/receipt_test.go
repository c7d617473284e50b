package bundle

import (
	"bytes"
	"crypto/ed25519"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

const testOrigin = "example.com/evals"

func testRecord() evidence.CaseScored {
	at := evidence.At(time.Date(2026, 5, 12, 10, 0, 0, 0, time.UTC))
	return evidence.CaseScored{
		SchemaVersion: 1, Attempt: "a1", Class: "fix", CaseID: "login", Repeat: 1, Execution: 1,
		CaseDigest: digest.ContentOf([]byte("case")), HarnessVersion: "1", IsolationClass: "gvisor",
		Outcome: evidence.Failed, Score: &evidence.Score{Breakdown: map[string]float64{}, FailureModes: []string{}},
		StartedAt: at, FinishedAt: at, Retries: 2, Vantage: "gateway", EvidenceDigests: []digest.Content{},
	}
}

// receiptOf makes the receipt of a record in a ledger of two entries.
func receiptOf(t testing.TB, record any, kind evidence.Kind, manual bool) *ledger.Receipt {
	t.Helper()
	body, err := canon.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	entry := evidence.AppendEntry(nil, body, kind, manual, testRecord().FinishedAt)
	content := digest.ContentOf(entry)
	// The first entry opens the ledger; a receipt does not say what it is.
	chain, tree := ledger.NewChain(testOrigin), &ledger.Tree{}
	first := chain.Append(digest.ContentOf([]byte("opened")))
	pos := chain.Append(content)
	for _, leaf := range []tlog.Hash{first.Leaf, pos.Leaf} {
		if err := tree.Add(leaf); err != nil {
			t.Fatal(err)
		}
	}
	proof, err := tree.ProveInclusion(2, 1)
	if err != nil {
		t.Fatal(err)
	}
	key, err := seal.NewKey(bytes.NewReader(bytes.Repeat([]byte{9}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := seal.NoteSigner(key, testOrigin)
	if err != nil {
		t.Fatal(err)
	}
	checkpoint, err := note.Sign(&note.Note{Text: ledger.TreeHead{Origin: testOrigin, Size: 2, Root: chain.Root()}.Text()}, signer)
	if err != nil {
		t.Fatal(err)
	}
	return ledger.NewReceipt(pos, entry, proof, checkpoint)
}

func ledgerKey(t testing.TB) ledger.Policy {
	t.Helper()
	key, err := seal.NewKey(bytes.NewReader(bytes.Repeat([]byte{9}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	pub, _ := key.Public().Ed25519()
	return ledger.Policy{Logs: []ledger.LogKey{{Origin: testOrigin, Key: pub}}}
}

// receipted is the sample bundle as that of a record, the record's receipt, and
// the policy that believes it.
func receipted(t testing.TB, change func(*evidence.CaseScored)) (*Bundle, []byte, ledger.Policy) {
	t.Helper()
	record := testRecord()
	b := sample()
	var err error
	if b.TaskID, err = TaskIDOf(record.Class, record.CaseID, record.CaseDigest); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&record)
	}
	data, err := receiptOf(t, record, evidence.CaseScoredKind, false).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return b, data, ledgerKey(t)
}

func TestReceiptIsVerifiedWithItsBundle(t *testing.T) {
	b, receipt, policy := receipted(t, nil)
	data := pack(t, b, Seals{HMACKey: testKey, Key: testSigner(), Receipt: receipt})
	v, err := Verify(data, Trust{HMACKey: testKey, Signers: []ed25519.PublicKey{testPublic()}, Ledger: policy})
	if err != nil {
		t.Fatal(err)
	}
	if v.Record.CaseID != "login" || v.Proved.Checkpoint.Origin != testOrigin || len(v.Unchecked()) != 0 {
		t.Errorf("verified %+v, unchecked %q", v.Record, v.Unchecked())
	}
	v, err = Verify(data, hmacTrust)
	if err != nil || strings.Join(v.Unchecked(), " ") != "ED25519 RECEIPT" {
		t.Errorf("unchecked is %v, %v", v.Unchecked(), err)
	}
	// A bundle without an Ed25519 signature may carry one too.
	if _, err := Verify(pack(t, b, Seals{HMACKey: testKey, Receipt: receipt}), Trust{HMACKey: testKey, Ledger: policy}); err != nil {
		t.Error(err)
	}
}

// A receipt of anything but this task's record is refused, by the packer
// and by the reader.
func TestReceiptOfAnotherRecordIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*evidence.CaseScored)
		text   string
	}{
		{"of another case", func(r *evidence.CaseScored) { r.CaseID = "logout" }, "is of task"},
		{"of another version of the case", func(r *evidence.CaseScored) { r.CaseDigest[0] ^= 1 }, "is of task"},
		{"of another class", func(r *evidence.CaseScored) { r.Class = "break" }, "is of task"},
		{"of a pass", func(r *evidence.CaseScored) { r.Outcome, r.Score.Passed = evidence.Passed, true }, "says passed, the header says failed"},
		{"of fewer retries", func(r *evidence.CaseScored) { r.Retries = 1 }, "counts 1 retries"},
		{"of a record that is not one", func(r *evidence.CaseScored) { r.Vantage = "" }, "vantage"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, receipt, _ := receipted(t, tt.change)
			if _, err := b.Pack(Seals{HMACKey: testKey, Receipt: receipt}); !refusal.Is(err, refusal.Malformed) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("Pack: %v, want Malformed with %q", err, tt.text)
			}
			forged := resign(insert(pack(t, b, Seals{HMACKey: testKey}), 0, TagReceipt, receipt), testKey)
			if _, err := Verify(forged, hmacTrust); !refusal.Is(err, refusal.BundleInvalid) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("Verify: %v, want BundleInvalid with %q", err, tt.text)
			}
		})
	}
	b, _, _ := receipted(t, nil)
	byHand := receiptOf(t, testRecord(), evidence.CaseScoredKind, true)
	outside := receiptOf(t, testRecord(), evidence.CaseScoredKind, false)
	outside.Entry = nil
	remark := receiptOf(t, map[string]any{"text": "a note"}, evidence.NoteKind, false)
	for text, r := range map[string]*ledger.Receipt{"appended by hand": byHand, "is not inside": outside, "is a note": remark} {
		data, err := r.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Pack(Seals{Receipt: data}); !refusal.Is(err, refusal.Malformed) || !strings.Contains(err.Error(), text) {
			t.Errorf("Pack: %v, want Malformed with %q", err, text)
		}
	}
}

// A holder of the HMAC key can put another receipt in; the ledger's key and
// the Ed25519 signature do not let it pass.
func TestReceiptThatProvesNothingIsRefused(t *testing.T) {
	b, receipt, policy := receipted(t, nil)
	trust := Trust{HMACKey: testKey, Ledger: policy}
	pub := testPublic()

	stranger := policy
	stranger.Logs = []ledger.LogKey{{Origin: testOrigin, Key: pub}}
	honest := pack(t, b, Seals{HMACKey: testKey, Receipt: receipt})
	if _, err := Verify(honest, Trust{HMACKey: testKey, Ledger: stranger}); !refusal.Is(err, refusal.CheckpointInvalid) {
		t.Errorf("a ledger that is not trusted: %v, want CheckpointInvalid", err)
	}

	// The same record with other turns: a receipt in the right form whose entry
	// is not in the tree that was signed.
	_, other, _ := receipted(t, func(r *evidence.CaseScored) { r.Turns = 7 })
	mixed, err := ledger.ParseReceipt(other)
	if err != nil {
		t.Fatal(err)
	}
	real, err := ledger.ParseReceipt(receipt)
	if err != nil {
		t.Fatal(err)
	}
	mixed.Checkpoint = real.Checkpoint
	forged, err := mixed.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(pack(t, b, Seals{HMACKey: testKey, Receipt: forged}), trust); !refusal.Is(err, refusal.ReceiptInvalid) {
		t.Errorf("an entry that is not in the ledger: %v, want ReceiptInvalid", err)
	}

	signed := pack(t, b, Seals{HMACKey: testKey, Key: testSigner(), Receipt: receipt})
	for name, swap := range map[string][]byte{
		"swapped for one of the same length": append(signed[:find(t, signed, TagReceipt)+6:find(t, signed, TagReceipt)+6], append(bytes.Clone(sameLength(t, receipt)), signed[len(signed)-hmacSize:]...)...),
		"taken out":                          remove(t, signed, TagReceipt),
	} {
		if _, err := Verify(resign(swap, testKey), ed25519Trust()); !refusal.Is(err, refusal.SignatureInvalid) {
			t.Errorf("the receipt %s: %v, want SignatureInvalid", name, err)
		}
	}
	unreceipted := pack(t, b, Seals{HMACKey: testKey, Key: testSigner()})
	if _, err := Verify(resign(insert(unreceipted, 0, TagReceipt, receipt), testKey), ed25519Trust()); !refusal.Is(err, refusal.SignatureInvalid) {
		t.Errorf("a receipt put in: %v, want SignatureInvalid", err)
	}
}

// sameLength is a receipt of another record with as many bytes.
func sameLength(t testing.TB, receipt []byte) []byte {
	t.Helper()
	_, other, _ := receipted(t, func(r *evidence.CaseScored) { r.HarnessVersion = "2" })
	if len(other) != len(receipt) || bytes.Equal(other, receipt) {
		t.Fatalf("the other receipt has %d bytes, the first %d", len(other), len(receipt))
	}
	return other
}

func TestEveryOutcomeOfARecordHasOne(t *testing.T) {
	for from, want := range map[evidence.Outcome]Outcome{
		evidence.Passed: Solved, evidence.Failed: Failed, evidence.Skipped: Skipped,
		evidence.Errored: Errored, evidence.Unscored: Errored, evidence.Truncated: Errored,
	} {
		if got := OutcomeOf(from); got != want {
			t.Errorf("OutcomeOf(%s) = %s, want %s", from, got, want)
		}
	}
	for n, want := range map[int]uint16{-1: 0, 0: 0, 7: 7, 65535: 65535, 65536: 65535, 1 << 40: 65535} {
		if got := RetriesOf(n); got != want {
			t.Errorf("RetriesOf(%d) = %d, want %d", n, got, want)
		}
	}
}

// The UUID is a promise: the same case has the same task for ever.
func TestTaskIDNeverChanges(t *testing.T) {
	id, err := TaskIDOf("fix", "login", digest.ContentOf([]byte("case")))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := id.String(), "72b6a911-2c12-82ed-886c-684a5d7cf971"; got != want {
		t.Errorf("TaskIDOf = %s, want %s", got, want)
	}
	if id[6]>>4 != 8 || id[8]>>6 != 2 {
		t.Errorf("%s is not a UUID of version 8", id)
	}
}
