package web

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/seal"
	"tallystick/internal/serve/registry"
	"tallystick/internal/share/attest"
)

// The tests of this file restate, with documents of our own, what the W3C suites ask
// over the VC-API: w3c/vc-di-eddsa-test-suite for eddsa-jcs-2022 (create, verify,
// algorithms, data model) and w3c/vc-data-model-2.0-test-suite. The suites are on
// GitHub only; here nothing is fetched.

const alumni = `{
	"@context": ["https://www.w3.org/ns/credentials/v2", {"alumniOf": "https://a.example/alumniOf"}],
	"id": "urn:uuid:86294362-4254-4f36-854f-3952fe42555d",
	"type": ["VerifiableCredential"],
	"issuer": "did:web:r.example",
	"credentialSubject": {"id": "did:example:subject", "alumniOf": "The School of Examples"}
}`

func issueBody(credential string) string { return `{"credential":` + credential + `,"options":{}}` }

// edit changes members of a document; nil removes one.
func edit(t *testing.T, doc string, change func(map[string]any)) string {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(doc), &v); err != nil {
		t.Fatal(err)
	}
	change(v)
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestVCAPIIssuesAsTheSuiteWants(t *testing.T) {
	p := newPlace(t, nil)
	m := p.register()
	a := p.post("/credentials/issue", m.key, issueBody(alumni)).is(201)
	var issued struct {
		VerifiableCredential struct {
			Proof json.RawMessage
		}
	}
	if err := json.Unmarshal(a.Body.Bytes(), &issued); err != nil {
		t.Fatal(err)
	}
	var proof struct {
		Type, Cryptosuite, ProofPurpose, ProofValue, Created, VerificationMethod string
	}
	if err := json.Unmarshal(issued.VerifiableCredential.Proof, &proof); err != nil {
		t.Fatal(err)
	}
	if proof.Type != "DataIntegrityProof" || proof.Cryptosuite != "eddsa-jcs-2022" || proof.ProofPurpose != "assertionMethod" {
		t.Errorf("proof: %v", proof)
	}
	if value, err := seal.DecodeMultibase(proof.ProofValue); err != nil || len(value) != 64 || proof.ProofValue[0] != 'z' {
		t.Errorf("proofValue: %v, %d bytes", err, len(value))
	}
	if created := proof.Created; created != "" {
		if _, err := time.Parse(time.RFC3339, created); err != nil {
			t.Errorf("created: %v", err)
		}
	}
	// The verification method is in the DID document, as a Multikey in base58.
	did := p.get("/.well-known/did.json").is(200).Body.String()
	if !strings.Contains(did, proof.VerificationMethod) || !strings.Contains(did, `"publicKeyMultibase":"z6Mk`) {
		t.Errorf("%s is not in %s", proof.VerificationMethod, did)
	}
	// A second request with the same idempotency key is the same credential.
	one := p.post("/credentials/issue", m.key, issueBody(alumni), "Idempotency-Key", "v1").is(201)
	two := p.post("/credentials/issue", m.key, issueBody(alumni), "Idempotency-Key", "v1")
	if two.Code != 201 || one.Body.String() != two.Body.String() {
		t.Errorf("%d %s", two.Code, two.Body)
	}
}

func TestVCAPIRefusesToIssue(t *testing.T) {
	p := newPlace(t, nil)
	m := p.register()
	for name, change := range map[string]func(map[string]any){
		"no context":                 func(d map[string]any) { delete(d, "@context") },
		"another first context":      func(d map[string]any) { d["@context"] = []any{"https://a.example/v1"} },
		"no type":                    func(d map[string]any) { delete(d, "type") },
		"an unmapped type":           func(d map[string]any) { d["type"] = []any{"VerifiableCredential", "Unmapped"} },
		"no subject":                 func(d map[string]any) { delete(d, "credentialSubject") },
		"an empty subject":           func(d map[string]any) { d["credentialSubject"] = map[string]any{} },
		"no issuer":                  func(d map[string]any) { delete(d, "issuer") },
		"another issuer":             func(d map[string]any) { d["issuer"] = "did:web:victim.example" },
		"an issuer that is a number": func(d map[string]any) { d["issuer"] = 7 },
		"an id that is not a URL":    func(d map[string]any) { d["id"] = "not a url" },
		"a date without a zone":      func(d map[string]any) { d["validFrom"] = "2026-01-01T00:00:00" },
		"until before from": func(d map[string]any) {
			d["validFrom"], d["validUntil"] = "2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"
		},
		"a status without type":   func(d map[string]any) { d["credentialStatus"] = map[string]any{"id": "https://a.example/s"} },
		"a schema without id":     func(d map[string]any) { d["credentialSchema"] = map[string]any{"type": "JsonSchema"} },
		"evidence without type":   func(d map[string]any) { d["evidence"] = []any{map[string]any{"id": "https://a.example/e"}} },
		"a proof that is there":   func(d map[string]any) { d["proof"] = map[string]any{} },
		"a name with more in it":  func(d map[string]any) { d["name"] = map[string]any{"@value": "n", "x": "y"} },
		"a number beyond doubles": func(d map[string]any) { d["credentialSubject"] = map[string]any{"n": json.Number("1e999")} },
	} {
		if a := p.post("/credentials/issue", m.key, issueBody(edit(t, alumni, change))); a.Code != 400 {
			t.Errorf("%s: %d %s", name, a.Code, a.Body)
		}
	}
	for name, body := range map[string]string{
		"no credential": `{}`, "a list": `[]`, "another member": `{"credential":` + alumni + `,"x":1}`, "a text": `{"credential":"x"}`,
		"another suite": `{"credential":` + alumni + `,"options":{"cryptosuite":"eddsa-rdfc-2022"}}`, "another type": `{"credential":` + alumni + `,"options":{"type":"Ed25519Signature2020"}}`,
		"a date of the caller's": `{"credential":` + alumni + `,"options":{"created":"2001-01-01T00:00:00Z"}}`,
	} {
		if a := p.post("/credentials/issue", m.key, body); a.Code != 400 {
			t.Errorf("%s: %d %s", name, a.Code, a.Body)
		}
	}
	// Unless the operator turned it on, nothing is signed for clients.
	closed := newPlace(t, func(_ string, s *registry.Settings) { s.IssueDocuments = false })
	closed.post("/credentials/issue", closed.register().key, issueBody(alumni)).is(403)

	// What only the registry says cannot be had through this door: a forged
	// attestation, a forged status list.
	for _, kind := range reservedTypes {
		forged := edit(t, alumni, func(d map[string]any) {
			d["@context"] = []any{"https://www.w3.org/ns/credentials/v2", "https://www.w3.org/ns/credentials/undefined-terms/v2"}
			d["type"] = []any{"VerifiableCredential", kind}
		})
		if a := p.post("/credentials/issue", m.key, issueBody(forged)); a.Code != 403 {
			t.Errorf("%s: %d %s", kind, a.Code, a.Body)
		}
	}
}

func TestVCAPIVerifiesAsTheSuiteWants(t *testing.T) {
	p := newPlace(t, nil)
	m := p.register()
	a := p.post("/credentials/issue", m.key, issueBody(alumni)).is(201)
	var issued map[string]json.RawMessage
	if err := json.Unmarshal(a.Body.Bytes(), &issued); err != nil {
		t.Fatal(err)
	}
	vc := string(issued["verifiableCredential"])
	verify := func(doc string) answer {
		return p.post("/credentials/verify", "", `{"verifiableCredential":`+doc+`,"options":{"checks":["proof"]}}`)
	}
	if ok := verify(vc).is(200); ok.has("verified") != "true" || !strings.Contains(ok.has("checks"), "proof") {
		t.Errorf("%s", ok.Body)
	}
	proof := func(change func(map[string]any)) func(map[string]any) {
		return func(d map[string]any) {
			switch p := d["proof"].(type) {
			case map[string]any:
				change(p)
			case []any:
				change(p[0].(map[string]any))
			}
		}
	}
	set := func(name string, value any) func(map[string]any) {
		return proof(func(p map[string]any) {
			if p[name] = value; value == nil {
				delete(p, name)
			}
		})
	}
	for name, change := range map[string]func(map[string]any){
		"no proof":                             func(d map[string]any) { delete(d, "proof") },
		"no type of the proof":                 set("type", nil),
		"another type of the proof":            set("type", "Ed25519Signature2020"),
		"no cryptosuite":                       set("cryptosuite", nil),
		"another cryptosuite":                  set("cryptosuite", "eddsa-rdfc-2022"),
		"no proofValue":                        set("proofValue", nil),
		"a proofValue in another base":         set("proofValue", "uAAAA"),
		"a proofValue that is too short":       set("proofValue", "z2HnFSSPPBzR36zdDgK8PbE"),
		"a proofValue that is 32 bytes longer": proof(func(p map[string]any) { p["proofValue"] = p["proofValue"].(string) + strings.Repeat("2", 44) }),
		"no verificationMethod":                set("verificationMethod", nil),
		"another verificationMethod":           set("verificationMethod", "did:key:z6MkrJVnaZkeFzdQyMZu1cgjg7k1pZZ6pvBQ7XJPt4swbTQ2#z6MkrJVnaZkeFzdQyMZu1cgjg7k1pZZ6pvBQ7XJPt4swbTQ2"),
		"another proofPurpose":                 set("proofPurpose", "authentication"),
		"created that is not a date":           set("created", "yesterday"),
		"expired":                              set("expires", "2001-01-01T00:00:00Z"),
		"another context in the document":      func(d map[string]any) { d["@context"] = append(d["@context"].([]any), "https://a.example/v1") },
		"another claim":                        func(d map[string]any) { d["credentialSubject"] = map[string]any{"alumniOf": "Mars"} },
		"another issuer":                       func(d map[string]any) { d["issuer"] = "did:web:victim.example" },
		"one more claim":                       func(d map[string]any) { d["https://a.example/x"] = true },
		"no type":                              func(d map[string]any) { delete(d, "type") },
	} {
		if a := verify(edit(t, vc, change)); a.Code != 400 || a.has("verified") != "false" {
			t.Errorf("%s: %d %s", name, a.Code, a.Body)
		}
	}
	for name, body := range map[string]string{
		"nothing": `{}`, "a text": `{"verifiableCredential":"x"}`, "a document that does not conform": `{"verifiableCredential":{"type":["NonconformingDocument"]}}`,
		"the credential without its envelope": vc, "another check": `{"verifiableCredential":` + vc + `,"options":{"checks":["vibes"]}}`,
	} {
		if a := p.post("/credentials/verify", "", body); a.Code != 400 {
			t.Errorf("%s: %d %s", name, a.Code, a.Body)
		}
	}
	// A document in our name that another key signed, well.
	thief, err := seal.NewKey(fixedReader{})
	if err != nil {
		t.Fatal(err)
	}
	forged, err := attest.Secure([]byte(alumni), attest.Signer{Key: thief})
	if err != nil {
		t.Fatal(err)
	}
	if a := verify(string(forged)); a.Code != 400 {
		t.Errorf("another key signs in our name: %d %s", a.Code, a.Body)
	}
	// The same document under the thief's own name is fine: it claims nothing of ours.
	pub, _ := thief.Public().Ed25519()
	own, err := attest.Secure([]byte(strings.Replace(alumni, "did:web:r.example", seal.DIDKey(pub), 1)), attest.Signer{Key: thief})
	if err != nil {
		t.Fatal(err)
	}
	verify(string(own)).is(200)

	// What was issued can be revoked, by the agent that it was issued for.
	text, err := canon.Canonicalize([]byte(vc))
	if err != nil {
		t.Fatal(err)
	}
	p.post("/api/credentials/revoke", m.key, `{"credential":"`+digest.IDOf(text).String()+`","reason":"mistaken"}`).is(200)
	verify(vc).is(400)

	// Dates count.
	until := edit(t, alumni, func(d map[string]any) { d["validUntil"] = p.clock().Add(time.Hour).UTC().Format(time.RFC3339) })
	var short map[string]json.RawMessage
	if err := json.Unmarshal(p.post("/credentials/issue", m.key, issueBody(until)).is(201).Body.Bytes(), &short); err != nil {
		t.Fatal(err)
	}
	verify(string(short["verifiableCredential"])).is(200)
	p.later(48 * time.Hour)
	verify(string(short["verifiableCredential"])).is(400)
}

// A context in the document may not change what a term of the base context means: not
// in what is signed here, and not in what is said to verify.
func TestVCAPIRefusesContextsThatRedefineATerm(t *testing.T) {
	p := newPlace(t, nil)
	m := p.register()
	key, err := seal.NewKey(fixedReader{})
	if err != nil {
		t.Fatal(err)
	}
	pub, _ := key.Public().Ed25519()
	for name, context := range map[string]any{
		"the issuer":   map[string]any{"issuer": "https://e.example#i", "alumniOf": "https://a.example/alumniOf"},
		"another word": map[string]any{"says": "https://www.w3.org/2018/credentials#issuer", "alumniOf": "https://a.example/alumniOf"},
	} {
		document := edit(t, alumni, func(v map[string]any) {
			v["@context"] = []any{"https://www.w3.org/ns/credentials/v2", context}
		})
		p.post("/credentials/issue", m.key, issueBody(document)).is(400)
		foreign := edit(t, document, func(v map[string]any) { v["issuer"] = seal.DIDKey(pub) })
		signed, err := attest.Secure([]byte(foreign), attest.Signer{Key: key, Method: seal.DIDKeyMethod(pub), Created: p.clock()})
		if err != nil {
			t.Fatal(err)
		}
		a := p.post("/credentials/verify", "", `{"verifiableCredential":`+string(signed)+`}`).is(400)
		if !strings.Contains(a.Body.String(), "/@context/1/") {
			t.Errorf("%s: %s", name, a.Body)
		}
	}
}
