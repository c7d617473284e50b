package web

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/seal"
	"tallystick/internal/share/attest"
)

func envelope(body string) string { return `{"kind":"eval.run.attestation.v1","body":` + body + `}` }

func TestDryRunAnswersWithTheEnvelope(t *testing.T) {
	p := newPlace(t, nil)
	before := p.reg.Stats().Entries
	a := p.post("/api/credentials/dry-run", "", envelope(exampleBody)).is(200)
	if a.has("valid") != "true" || a.has("schemaUrl") != "/credentials/eval-run/v1" {
		t.Errorf("%s", a.Body)
	}
	wrong := p.post("/api/credentials/dry-run", "", envelope(strings.Replace(exampleBody, "5fa18ba4", "00000000", 1))).is(200)
	if wrong.has("valid") != "false" || wrong.has("resultsHashMismatch.computed") != "5fa18ba422f0c3c4d1f7ff09e22abd7fdc6cdc7a8718a76d930fe30cee663ecc" {
		t.Errorf("%s", wrong.Body)
	}
	if after := p.reg.Stats().Entries; after != before {
		t.Errorf("a dry run made %d entries", after-before)
	}
}

func TestTheWayOfACredential(t *testing.T) {
	p := newPlace(t, nil)
	m := p.register()
	p.post("/api/credentials/mint", m.key, envelope(strings.Replace(exampleBody, "5fa18ba4", "00000000", 1))).is(400)
	minted := p.post("/api/credentials/mint", m.key, envelope(exampleBody), "Idempotency-Key", "m1").is(201)
	if again := p.post("/api/credentials/mint", m.key, envelope(exampleBody), "Idempotency-Key", "m1").is(200); again.has("digest") != minted.has("digest") {
		t.Errorf("another credential: %s", again.Body)
	}
	address, ok := strings.CutPrefix(minted.has("id"), base)
	if !ok {
		t.Fatalf("id: %s", minted.has("id"))
	}
	fetched := p.get(address).is(200)
	credential := fetched.Body.Bytes()
	p.get(strings.Replace(address, "eval.run", "sandbox.run", 1)).is(400)
	p.get(address + "0").is(404)

	// It verifies offline with what the registry publishes, and with nothing less.
	keys := &attest.Keys{}
	if err := keys.AddDID(p.get("/.well-known/did.json").is(200).Body.Bytes()); err != nil {
		t.Fatal(err)
	}
	p.get("/did.json").is(200)
	status := p.get("/credentials/status/0").is(200)
	trust := attest.Trust{Keys: keys, Now: p.clock().Add(time.Minute), StatusLists: [][]byte{status.Body.Bytes()}}
	v, err := attest.Verify(credential, trust)
	if err != nil || !v.StatusChecked || v.Issuer != "did:web:r.example" || v.Digest.String() != minted.has("digest") {
		t.Fatalf("%v, %+v", err, v)
	}

	verify := func(document []byte) answer {
		return p.post("/credentials/verify", "", `{"verifiableCredential":`+string(document)+`}`)
	}
	verify(credential).is(200)
	if a := p.post("/api/knowledge/attestation/verify", "", `{"credential":`+string(credential)+`}`).is(200); a.has("verified") != "true" || a.has("verifiedVia") != "eddsa-jcs-2022" {
		t.Errorf("%s", a.Body)
	}
	// Every changed bit of the signature, and a raised score, are refused.
	forged := bytes.Replace(credential, []byte("0.738"), []byte("0.938"), 1)
	if a := verify(forged).is(400); a.has("verified") != "false" {
		t.Errorf("%s", a.Body)
	}
	if a := p.post("/api/knowledge/attestation/verify", "", `{"credential":`+string(forged)+`}`).is(200); a.has("verified") != "false" {
		t.Errorf("%s", a.Body)
	}

	// Badges say what is so, as JSON and as a picture.
	_, hex, _ := strings.Cut(minted.has("digest"), ":")
	badge := "/api/badge/v1/attestation/eval.run.attestation.v1/" + hex
	if got := p.get(badge).is(200).has("message"); got != "attested" {
		t.Errorf("badge: %s", got)
	}
	if svg := p.get(badge + ".svg").is(200); !strings.HasPrefix(svg.Body.String(), "<svg") || svg.Header().Get("Content-Type") != "image/svg+xml" {
		t.Errorf("%s", svg.Body)
	}
	p.get(strings.Repeat("0", 64)).is(400)
	p.get("/api/badge/v1/attestation/eval.run.attestation.v1/" + strings.Repeat("0", 64)).is(404)
	p.get("/api/badge/v1/attestation/eval.run.attestation.v1/x").is(400)
	p.get("/api/badge/v1/attestation/nonsense/" + hex).is(400)

	// Revoked by the agent that had it minted, and by no other.
	revocation := `{"credential":"` + minted.has("digest") + `","reason":"contaminated"}`
	p.post("/api/credentials/revoke", p.register().key, revocation).is(403)
	p.post("/api/credentials/revoke", m.key, `{"credential":"`+digest.IDOf([]byte("x")).String()+`","reason":"x"}`).is(404)
	verify(credential).is(200)
	p.post("/api/credentials/revoke", m.key, revocation).is(200)
	if a := verify(credential).is(400); !strings.Contains(a.Body.String(), "revo") {
		t.Errorf("%s", a.Body)
	}
	if got := p.get(badge).is(200).has("message"); got != "revoked" {
		t.Errorf("badge: %s", got)
	}
	list := p.get("/credentials/status/0").is(200)
	if list.Header().Get("ETag") == status.Header().Get("ETag") {
		t.Error("the list changed and its tag did not")
	}
	trust.StatusLists = [][]byte{list.Body.Bytes()}
	if _, err := attest.Verify(credential, trust); err == nil {
		t.Error("the status list does not say that it is revoked")
	}
	p.get("/credentials/status/99").is(404)
}

func TestOneRequestMakesRowAndCredential(t *testing.T) {
	p := newPlace(t, nil)
	m := p.register()
	p.artifacts(m)
	body := `{"kind":"ip.eval.run.attestation.v1","body":` + exampleBody + `,"artifactPath":"` + modelPath + `","evalHarnessPath":"` + harnessPath + `","datasetPath":"` + datasetPath + `"}`
	a := p.post("/api/knowledge/eval/propose", m.key, body).is(201)
	row := p.get("/api/knowledge/eval/list").is(200)
	address, ok := strings.CutPrefix(row.has("0.credential"), base)
	if !ok || row.has("0.proposalId") != a.has("proposalId") || a.has("credential") != row.has("0.credential") {
		t.Fatalf("%s", row.Body)
	}
	p.get(address).is(200)

	// A credential is public. An agent that proposes another's does not come to own it.
	thief := p.register()
	credential := p.get(address).is(200).Body.String()
	p.post("/api/knowledge/model/propose", thief.key, `{"path":"/artifacts/models/thief/own"}`).is(201)
	paths := `,"artifactPath":"/artifacts/models/thief/own","evalHarnessPath":"` + harnessPath + `","datasetPath":"` + datasetPath + `"}`
	p.post("/api/knowledge/eval/propose", thief.key, `{"credential":`+credential+paths).is(201)
	text, err := canon.Canonicalize([]byte(credential))
	if err != nil {
		t.Fatal(err)
	}
	revocation := `{"credential":"` + digest.IDOf(text).String() + `","reason":"not mine"}`
	p.post("/api/credentials/revoke", thief.key, revocation).is(403)
	p.post("/api/credentials/revoke", m.key, revocation).is(200)
}

// Nothing is fetched: a did:web of another issuer verifies with its document in the
// request, and without it not at all.
func TestDocumentsOfOthersComeWithTheRequest(t *testing.T) {
	p := newPlace(t, nil)
	key, err := seal.NewKey(fixedReader{})
	if err != nil {
		t.Fatal(err)
	}
	pub, _ := key.Public().Ed25519()
	const did = "did:web:127.0.0.1%3A1:steal"
	signed, err := attest.Issue(attest.Draft{Issuer: did, Body: []byte(exampleBody), Imported: true}, attest.Signer{Key: key, Method: did + "#k1"})
	if err != nil {
		t.Fatal(err)
	}
	document := `{"id":"` + did + `","verificationMethod":[{"id":"#k1","type":"Multikey","controller":"` + did + `","publicKeyMultibase":"` + seal.Multikey(pub) + `"}],"assertionMethod":["#k1"]}`
	without := `{"verifiableCredential":` + string(signed) + `}`
	with := `{"verifiableCredential":` + string(signed) + `,"options":{"didDocuments":[` + document + `]}}`
	p.post("/credentials/verify", "", without).is(400)
	p.post("/credentials/verify", "", with).is(200)
	// The document of another cannot stand in for the registry's own keys.
	ours := strings.ReplaceAll(document, did, "did:web:r.example")
	forged, err := attest.Issue(attest.Draft{Issuer: "did:web:r.example", Body: []byte(exampleBody), Imported: true}, attest.Signer{Key: key, Method: "did:web:r.example#k1"})
	if err != nil {
		t.Fatal(err)
	}
	if a := p.post("/credentials/verify", "", `{"verifiableCredential":`+string(forged)+`,"options":{"didDocuments":[`+ours+`]}}`); a.Code != 400 {
		t.Errorf("another issuer's key passes as the registry's: %d %s", a.Code, a.Body)
	}
	many := strings.TrimSuffix(strings.Repeat("{},", maxGiven+1), ",")
	p.post("/credentials/verify", "", `{"verifiableCredential":`+string(signed)+`,"options":{"didDocuments":[`+many+`]}}`).is(413)
	p.post("/api/knowledge/attestation/verify", "", `{"credential":`+string(signed)+`,"options":{"statusLists":[`+many+`]}}`).is(413)
	if a := p.post("/api/knowledge/attestation/verify", "", `{"credential":`+string(signed)+`,"options":{"didDocuments":[`+document+`]}}`).is(200); a.has("verified") != "true" {
		t.Errorf("%s", a.Body)
	}
	for _, body := range []string{`{}`, `{"proposalId":"x","credential":{}}`, `{"credential":1}`} {
		if a := p.post("/api/knowledge/attestation/verify", "", body); a.Code != 400 && (a.Code != 200 || a.has("verified") != "false") {
			t.Errorf("%s: %d %s", body, a.Code, a.Body)
		}
	}
	p.post("/api/knowledge/attestation/verify", "", `{"proposalId":"nonsense"}`).is(404)
}

// fixedReader makes the same key each time.
type fixedReader struct{}

func (fixedReader) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 7
	}
	return len(b), nil
}

func TestDocumentsOfARegistry(t *testing.T) {
	p := newPlace(t, nil)
	for target, want := range map[string]string{
		"/credentials/eval-run/v1":                             "ip.eval.run.attestation.v1",
		"/docs/schemas/ip.eval.run.attestation.v1.schema.json": "ip.eval.run.attestation.v1",
		"/credentials/index.json":                              `"canonicalKind":"ip.eval.run.attestation.v1"`,
		"/.well-known/jwks.json":                               `"Ed25519"`,
		"/.well-known/ip-knowledge.json":                       base + "/api/knowledge/{kind}/propose",
		"/":                                                    `"did":"did:web:r.example"`,
		"/api/knowledge/signing-keys":                          "JudgmentProof",
		"/docs/verification-recipe.md":                         base + "/receipt/INDEX",
		"/openapi.json":                                        `"openapi":"3.1.0"`,
		"/checkpoint":                                          "registry.test/log\n",
		"/healthz":                                             "ok\n",
		"/readyz":                                              "ok\n",
		"/entries?from=0&n=1":                                  `{"body":`,
		"/receipt/0":                                           "c2sp.org/tlog-proof@v1\n",
		"/api/knowledge/eval/list?status=all&runner=x":            "[]",
		"/api/knowledge/eval/list?artifact=/artifacts/models/a/b": "[]",
	} {
		if a := p.get(target); a.Code != 200 || !strings.Contains(a.Body.String(), want) {
			t.Errorf("%s: %d, no %q in %.300s", target, a.Code, want, a.Body)
		}
	}
	if a := p.get("/docs/verification-recipe.md"); strings.Contains(a.Body.String(), "{{") {
		t.Errorf("the recipe has places that were not filled: %s", a.Body)
	}
	p.get("/receipt/999999").is(404)
	p.get("/metrics").is(404)
	var set struct{ Keys []map[string]any }
	if err := json.Unmarshal(p.get("/.well-known/jwks.json").Body.Bytes(), &set); err != nil {
		t.Fatal(err)
	}
	chain := false
	for _, k := range set.Keys {
		kid, _ := k["kid"].(string)
		chain = chain || strings.Contains(kid, "ip-attestation-chain-")
	}
	if !chain {
		t.Errorf("no key of the manifest chain among %v", set.Keys)
	}
}
