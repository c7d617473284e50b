package verify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/share/attest"
)

// receipts makes a ledger of entries with the operator's key, and a receipt of
// each.
func receipts(t *testing.T, origin string, bodies ...evidence.Body) [][]byte {
	t.Helper()
	chain, tree := ledger.NewChain(origin), &ledger.Tree{}
	var entries [][]byte
	var at []ledger.Position
	for _, b := range append([]evidence.Body{&evidence.Opened{Origin: origin, Signers: "x"}}, bodies...) {
		text, err := canon.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		entry := evidence.AppendEntry(nil, text, b.Kind(), false, when)
		p := chain.Append(digest.ContentOf(entry))
		if err := tree.Add(p.Leaf); err != nil {
			t.Fatal(err)
		}
		entries, at = append(entries, entry), append(at, p)
	}
	signer, err := seal.NoteSigner(key(t, 1), origin)
	if err != nil {
		t.Fatal(err)
	}
	checkpoint, err := note.Sign(&note.Note{Text: ledger.TreeHead{Origin: origin, Size: chain.Size(), Root: chain.Root()}.Text()}, signer)
	if err != nil {
		t.Fatal(err)
	}
	var out [][]byte
	for i, entry := range entries {
		proof, err := tree.ProveInclusion(chain.Size(), int64(i))
		if err != nil {
			t.Fatal(err)
		}
		text, err := ledger.NewReceipt(at[i], entry, proof, checkpoint).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, text)
	}
	return out[1:]
}

func trusted(t *testing.T) Trust {
	pub, _ := key(t, 1).Public().Ed25519()
	return Trust{Logs: []ledger.LogKey{{Origin: origin, Key: pub}, {Origin: "example.com/other", Key: pub}}}
}

func didOf(t *testing.T, n byte) string {
	pub, _ := key(t, n).Public().Ed25519()
	return seal.DIDKey(pub)
}

// credentialOf issues a credential about an attempt, with a receipt in it.
func credentialOf(t *testing.T, receipt []byte, passed int) []byte {
	t.Helper()
	results := fmt.Sprintf(`{"c":{"passed":%d}}`, passed)
	sum, err := attest.ResultsHash([]byte(results))
	if err != nil {
		t.Fatal(err)
	}
	body := fmt.Sprintf(`{"runId":"00000000-0000-4000-8000-000000000000","harnessId":"tallystick","harnessVersionSha":"%[1]s","evalCodeSha":"%[1]s","modelId":"m","datasetSha":"%[1]s","runnerDid":%[2]q,"submittedAt":1767225600000,"results":%[3]s,"resultsHash":%[4]q,"extra":{"observed":{"attempt":"c.t.1","ledger":%[5]q,"number":1}}}`,
		strings.Repeat("0", 64), didOf(t, 9), results, sum, origin)
	item, err := json.Marshal(map[string]any{"type": []string{"LedgerReceipt"}, "receipt": string(receipt)})
	if err != nil {
		t.Fatal(err)
	}
	text, err := attest.Issue(attest.Draft{Issuer: didOf(t, 9), Body: []byte(body), Evidence: []canon.RawMessage{item}}, attest.Signer{Key: key(t, 9)})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func finished(attempt string, passed int) *evidence.AttemptFinished {
	return &evidence.AttemptFinished{SchemaVersion: 1, Attempt: attempt, Outcomes: map[evidence.Outcome]int{evidence.Passed: passed},
		RubricDigests: []digest.Content{}, ImageDigests: []digest.Content{}, FailureModes: []string{}}
}

// TestForgedReceiptInACredential: the issuer signs whatever they like; the receipt
// inside must be of this attempt, of this ledger, and not of a worse result.
func TestForgedReceiptInACredential(t *testing.T) {
	good := receipts(t, origin, finished("c.t.1", 3), finished("c.t.2", 3), &evidence.Note{})
	elsewhere := receipts(t, "example.com/other", finished("c.t.1", 3))
	for _, tt := range []struct {
		name    string
		receipt []byte
		passed  int
		want    refusal.Name
		words   string
	}{
		{"honest", good[0], 3, "", ""},
		{"a record that does not count", good[0], 2, "", ""},
		{"more passed than the ledger has", good[0], 4, refusal.CredentialInvalid, "passed 4, the receipt 3"},
		{"of another attempt", good[1], 3, refusal.CredentialInvalid, "c.t.2"},
		{"of another kind of entry", good[2], 3, refusal.CredentialInvalid, "note"},
		{"of another ledger", elsewhere[0], 3, refusal.CredentialInvalid, "example.com/other"},
		{"changed", bytes.Replace(good[0], []byte("index 1"), []byte("index 2"), 1), 3, refusal.ReceiptInvalid, ""},
		{"not a receipt", []byte("x"), 3, refusal.Malformed, ""},
	} {
		c, err := VerifyCredential(credentialOf(t, tt.receipt, tt.passed), trusted(t))
		if tt.want == "" {
			if err != nil || c.Observed == nil {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		if !refusal.Is(err, tt.want) || !strings.Contains(err.Error(), tt.words) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	// A verifier who trusts no ledger is not told that the run was observed.
	c, err := VerifyCredential(credentialOf(t, good[0], 3), Trust{})
	if err != nil || c.Observed != nil || !strings.Contains(c.Detail(), "not checked") {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestRetiredKeyIsBelievedOnlyWithReceipts, in the right order, of one ledger, of
// this credential and this key.
func TestRetiredKeyIsBelievedOnlyWithReceipts(t *testing.T) {
	const did, method = "did:web:a.example", "did:web:a.example#k1"
	pub, _ := key(t, 9).Public().Ed25519()
	set := func(status, more string) []byte {
		jwk, err := json.Marshal(seal.NewJWK(pub, "k1"))
		if err != nil {
			t.Fatal(err)
		}
		return []byte(`{"keys":[` + strings.TrimSuffix(string(jwk), "}") + `,"status":"` + status + `"}` + more + `]}`)
	}
	text, err := attest.Issue(attest.Draft{Issuer: did, Imported: true, Body: []byte(imported)}, attest.Signer{Key: key(t, 9), Method: method, Created: time.Unix(1, 0)})
	if err != nil {
		t.Fatal(err)
	}
	id := digest.IDOf(text)
	issued := func(change func(*evidence.CredentialIssued)) *evidence.CredentialIssued {
		e := &evidence.CredentialIssued{Credential: id, Issuer: did, Method: method, Run: "r"}
		if change != nil {
			change(e)
		}
		return e
	}
	retired := &evidence.KeyPublished{Purpose: "credential", Key: method, Retired: true}
	inOrder := receipts(t, origin, issued(nil), retired)
	for _, tt := range []struct {
		name     string
		receipts [][]byte
		good     bool
	}{
		{"issued, then retired", inOrder, true},
		{"the receipts in another order", [][]byte{inOrder[1], inOrder[0]}, true},
		{"none", nil, false},
		{"only the issue", inOrder[:1], false},
		{"only the retirement", inOrder[1:], false},
		{"retired, then issued", receipts(t, origin, retired, issued(nil)), false},
		{"another credential", receipts(t, origin, issued(func(e *evidence.CredentialIssued) { e.Credential[0] ^= 1 }), retired), false},
		{"another key", receipts(t, origin, issued(func(e *evidence.CredentialIssued) { e.Method = method + "x" }), retired), false},
		{"the retirement of another key", receipts(t, origin, issued(nil), &evidence.KeyPublished{Purpose: "credential", Key: method + "x", Retired: true}), false},
		{"the key published, not retired", receipts(t, origin, issued(nil), &evidence.KeyPublished{Purpose: "credential", Key: method}), false},
		{"two ledgers", [][]byte{inOrder[0], receipts(t, "example.com/other", &evidence.Note{}, &evidence.Note{}, retired)[2]}, false},
		{"an untrusted ledger", receipts(t, "example.com/unknown", issued(nil), retired), false},
	} {
		trust := trusted(t)
		trust.Credentials.Receipts = tt.receipts
		if err := trust.Credentials.Keys.AddJWKS(did, set("retired", "")); err != nil {
			t.Fatal(err)
		}
		_, err := VerifyCredential(text, trust)
		if (err == nil) != tt.good || err != nil && refusal.ExitCode(err) != refusal.ExitUnverified {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	trust := trusted(t)
	if err := trust.Credentials.Keys.AddJWKS(did, set("current", "")); err != nil {
		t.Fatal(err)
	}
	if _, err := VerifyCredential(text, trust); err != nil {
		t.Errorf("under a current key: %v", err)
	}
	trust.Credentials.Receipts = receipts(t, origin, &evidence.CredentialRevoked{Credential: id, Reason: "wrong"})
	if _, err := VerifyCredential(text, trust); !refusal.Is(err, refusal.CredentialRevoked) {
		t.Errorf("revoked: %v", err)
	}
}

const imported = `{"runId":"00000000-0000-4000-8000-000000000000","harnessId":"helm","harnessVersionSha":"0000000000000000000000000000000000000000000000000000000000000000","evalCodeSha":"0000000000000000000000000000000000000000000000000000000000000000","modelId":"m","datasetSha":"0000000000000000000000000000000000000000000000000000000000000000","runnerDid":"did:web:a.example","submittedAt":1767225600000,"results":{},"resultsHash":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"}`

// TestCredentialsAreRecognised among everything else.
func TestCredentialsAreRecognised(t *testing.T) {
	for text, want := range map[string]bool{
		`{"type":["VerifiableCredential"]}`: true,
		" \n" + imported:                    true,
		`["VerifiableCredential"]`:          false,
		`{"results":{}}`:                    false,
		``:                                  false,
		`{"checkpoint":"x","published_at":"y","n":1}`: false,
	} {
		if got := isCredential([]byte(text)); got != want {
			t.Errorf("%.60s: %v", text, got)
		}
	}
}

// TestEnvelopesNeedANamedSigner: the keyid in an envelope proves nothing.
func TestEnvelopesNeedANamedSigner(t *testing.T) {
	statement := []byte(`{"_type":"https://in-toto.io/Statement/v1","predicate":{},"predicateType":"p","subject":[{"digest":{"sha256":"0"},"name":"s"}]}`)
	signed, err := attest.SignEnvelope(attest.PayloadInToto, statement, key(t, 9))
	if err != nil {
		t.Fatal(err)
	}
	other, err := attest.SignEnvelope(attest.PayloadInToto, []byte(`{}`), key(t, 9))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		data    []byte
		issuers []string
		want    refusal.Name
	}{
		{"honest", signed, []string{didOf(t, 9)}, ""},
		{"no signer named", signed, nil, refusal.SignerUnknown},
		{"only a did:web named", signed, []string{"did:web:a.example"}, refusal.SignerUnknown},
		{"another signer", signed, []string{didOf(t, 8)}, refusal.SignatureInvalid},
		{"two must have signed", signed, []string{didOf(t, 9), didOf(t, 8)}, refusal.SignatureInvalid},
		{"the same one twice", signed, []string{didOf(t, 9), didOf(t, 9)}, refusal.SignatureInvalid},
		{"not a statement", other, []string{didOf(t, 9)}, refusal.CredentialInvalid},
		{"changed", bytes.Replace(signed, []byte(`"payload":"ey`), []byte(`"payload":"fy`), 1), []string{didOf(t, 9)}, refusal.SignatureInvalid},
	} {
		if !isEnvelope(tt.data) {
			t.Errorf("%s: not recognised", tt.name)
		}
		_, _, err := envelope(tt.data, Trust{Credentials: Credentials{Issuers: tt.issuers}})
		if (err == nil) != (tt.want == "") || err != nil && !refusal.Is(err, tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// Results are as recorded: with a correction in the place of a recorded score they
// contradict the receipt, up or down, in a count or only in the mean.
func TestResultsAreThoseOfTheReceipt(t *testing.T) {
	mean := 0.5
	entry := &evidence.AttemptFinished{Outcomes: map[evidence.Outcome]int{evidence.Passed: 2, evidence.Failed: 1, evidence.Unscored: 1}, MeanScore: &mean}
	for _, tt := range []struct {
		name, results string
		fewer         int
		want          string
	}{
		{"as recorded", `{"passed":2,"failed":1,"unscored":1,"mean_score":0.5}`, 0, ""},
		{"one record does not count", `{"passed":1,"failed":1,"unscored":1,"mean_score":0.4}`, 1, ""},
		{"corrected up", `{"passed":3,"failed":0,"unscored":1,"mean_score":0.75}`, 0, "passed 3, the receipt 2"},
		{"corrected down", `{"passed":1,"failed":2,"unscored":1,"mean_score":0.25}`, 0, "failed 2, the receipt 1"},
		{"one up and one down", `{"passed":2,"failed":1,"unscored":1,"mean_score":0.6}`, 0, "mean_score 0.6, the receipt 0.5"},
		{"filled in", `{"passed":3,"failed":1,"unscored":0,"mean_score":0.66}`, 0, "passed 3, the receipt 2"},
		{"without the mean", `{"passed":2,"failed":1,"unscored":1}`, 0, "the receipt 0.5"},
		{"fewer than none", `{"passed":-1,"failed":1,"unscored":1}`, 0, "the receipt 2"},
		{"in words", `{"passed":"2","failed":1,"unscored":1,"mean_score":0.5}`, 0, "the receipt 2"},
	} {
		var said map[string]canon.RawMessage
		if err := json.Unmarshal([]byte(tt.results), &said); err != nil {
			t.Fatal(err)
		}
		fewer, err := sameTotals(said, entry)
		if tt.want == "" && (err != nil || fewer != tt.fewer) || tt.want != "" && (!refusal.Is(err, refusal.CredentialInvalid) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %d fewer, %v", tt.name, fewer, err)
		}
	}
}
