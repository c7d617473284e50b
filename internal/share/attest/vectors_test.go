package attest

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

// The example of w3c/vc-di-eddsa, TestVectors (W3C Recommendation of 2025-05-15,
// appendix B.3), restated.
const (
	w3cDocument = `{"@context":["https://www.w3.org/ns/credentials/v2","https://www.w3.org/ns/credentials/examples/v2"],"id":"urn:uuid:58172aac-d8ba-11ed-83dd-0b3aef56cc33","type":["VerifiableCredential","AlumniCredential"],"name":"Alumni Credential","description":"A minimum viable example of an Alumni Credential.","issuer":"https://vc.example/issuers/5678","validFrom":"2023-01-01T00:00:00Z","credentialSubject":{"id":"did:example:abcdefgh","alumniOf":"The School of Examples"}}`
	w3cSecret   = "z3u2en7t5LR2WtQH5PfFqMqwVHBeXouLzo6haApm8XHqvjxq"
	w3cHash     = "66ab154f5c2890a140cb8388a22a160454f80575f6eae09e5a097cabe539a1db59b7cb6251b8991add1ce0bc83107e3db9dbbab5bd2c28f687db1a03abc92f19"
	w3cValue    = "z2HnFSSPPBzR36zdDgK8PbEHeXbR56YF24jwMpt3R1eHXQzJDMWS93FCzpvJpwTWd3GAVFuUfjoJdcnTMuVor51aX"
)

func w3cSigner(t testing.TB, secret string) Signer {
	t.Helper()
	data, err := seal.DecodeMultibase(secret)
	if err != nil {
		t.Fatal(err)
	}
	key, err := seal.NewKey(bytes.NewReader(data[2:])) // without the prefix 8026
	if err != nil {
		t.Fatal(err)
	}
	return Signer{Key: key, Created: time.Date(2023, 2, 24, 23, 36, 38, 0, time.UTC)}
}

func TestW3CVector(t *testing.T) {
	s := w3cSigner(t, w3cSecret)
	signed, err := Secure([]byte(w3cDocument), s)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(signed, []byte(`"proofValue":"`+w3cValue+`"`)) {
		t.Errorf("got %s", signed)
	}
	d, err := openDocument(signed)
	if err != nil {
		t.Fatal(err)
	}
	config := without(d.proofs[0], "proofValue")
	if hash := d.hash(config); hex.EncodeToString(hash) != w3cHash {
		t.Errorf("hash %x", hash)
	}
	secured, err := VerifyDocument(signed, trust())
	if err != nil {
		t.Fatal(err)
	}
	if p := secured.Proofs[0]; p.Controller != didOf(s.Key) || p.Created != "2023-02-24T23:36:38Z" || p.Retired {
		t.Errorf("got %+v", p)
	}
	// It is not one of ours: another context, another type, an issuer who did not
	// sign.
	_, err = Verify(signed, trust())
	wantRefusal(t, err, refusal.CredentialInvalid, "")
}

// The files themselves, byte for byte.
func TestSharedW3CVectors(t *testing.T) {
	const dir = "../../../../shared/vectors/vc-di-eddsa"
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			t.Skip("the vectors are not here")
		}
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	var pair struct {
		Public string `json:"publicKeyMultibase"`
		Secret string `json:"privateKeyMultibase"`
	}
	if err := canon.Unmarshal(read("keyPair.json"), &pair); err != nil {
		t.Fatal(err)
	}
	s := w3cSigner(t, pair.Secret)
	if got := seal.Multikey(public(s.Key)); got != pair.Public {
		t.Errorf("key %s, want %s", got, pair.Public)
	}
	unsigned, err := canon.Canonicalize(read("unsigned.json"))
	if err != nil || !bytes.Equal(unsigned, read("eddsa-jcs-2022/canonDocJCS.txt")) {
		t.Errorf("canonical document %s, %v", unsigned, err)
	}
	signed, err := Secure(read("unsigned.json"), s)
	if err != nil {
		t.Fatal(err)
	}
	want, err := canon.Canonicalize(read("eddsa-jcs-2022/signedJCS.json"))
	if err != nil || !bytes.Equal(signed, want) {
		t.Errorf("signed\n%s, want\n%s, %v", signed, want, err)
	}
	d, err := openDocument(signed)
	if err != nil {
		t.Fatal(err)
	}
	var p proof
	if err := canon.Unmarshal(d.proofs[0], &p); err != nil {
		t.Fatal(err)
	}
	config := without(d.proofs[0], "proofValue")
	if !bytes.Equal(config, read("eddsa-jcs-2022/proofCanonJCS.txt")) {
		t.Errorf("proof options %s", config)
	}
	if hash := d.hash(config); hex.EncodeToString(hash) != string(read("eddsa-jcs-2022/combinedHashJCS.txt")) {
		t.Errorf("hash %x", hash)
	}
	value, err := seal.DecodeMultibase(p.ProofValue)
	if err != nil || hex.EncodeToString(value) != string(read("eddsa-jcs-2022/sigHexJCS.txt")) || p.ProofValue != string(read("eddsa-jcs-2022/sigBTC58JCS.txt")) {
		t.Errorf("signature %x, %v", value, err)
	}
	// The file as it is published, with its white space.
	if _, err := VerifyDocument(read("eddsa-jcs-2022/signedJCS.json"), trust()); err != nil {
		t.Error(err)
	}
}

// DSSE, protocol.md v1.0.2.
func TestPAEVector(t *testing.T) {
	const want = "DSSEv1 29 http://example.com/HelloWorld 11 hello world"
	if got := PAE("http://example.com/HelloWorld", []byte("hello world")); string(got) != want {
		t.Errorf("got %q", got)
	}
	data, err := os.ReadFile("../../../../shared/vectors/dsse/pae-vector.txt")
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the vector is not here")
	}
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]string{}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		fields[name] = value
	}
	if got := PAE(fields["payloadType"], []byte(fields["body"])); string(got) != fields["PAE"] || fields["PAE"] != want {
		t.Errorf("got %q, want %q", got, fields["PAE"])
	}
}
