package attest

import (
	"bytes"
	"crypto/ed25519"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

func TestCredentialVerifies(t *testing.T) {
	text := issued(t, nil)
	v, err := Verify(text, trust())
	if err != nil {
		t.Fatal(err)
	}
	if v.Issuer != didOf(testKey(t, issuerKey)) || v.Imported || v.RunnerProof == nil || v.RunnerProof.Controller != v.Body.RunnerDID ||
		v.Body.ResultsHash[:8] != "5fa18ba4" || len(v.Endorsements) != 0 || v.IssuerProof.Retired || v.StatusChecked {
		t.Errorf("got %+v", v)
	}
	var pretty canon.RawMessage = bytes.Clone(text)
	if err := pretty.Indent(); err != nil {
		t.Fatal(err)
	}
	again, err := Verify(pretty, trust())
	if err != nil || again.Digest != v.Digest {
		t.Errorf("with white space: %v", err)
	}
	if v, err := Verify(issued(t, func(d *Draft) { d.Imported = true }), trust()); err != nil || !v.Imported {
		t.Errorf("imported: %+v, %v", v, err)
	}
	// Without the runner's proof.
	if v, err := Verify(issued(t, func(d *Draft) { d.Body = []byte(exampleBody(t)) }), trust()); err != nil || v.RunnerProof != nil {
		t.Errorf("without a runner's proof: %+v, %v", v, err)
	}
}

// smallBody has the members that a body must have, and no more.
func smallBody(t testing.TB) []byte {
	t.Helper()
	return rewrite(t, []byte(exampleBody(t)), func(v map[string]any) {
		delete(v, "samplingParams")
		delete(v, "schemaVersion")
	})
}

// everyByte is the step that visits every byte. Under the race detector, with
// -short, a few bytes race as well as all of them.
func everyByte() int {
	if testing.Short() {
		return 61
	}
	return 1
}

// No single changed bit goes unnoticed.
func TestVerifyRefusesEveryBitFlip(t *testing.T) {
	t.Parallel()
	text := issued(t, func(d *Draft) { d.Body = smallBody(t) })
	if _, err := Verify(text, trust()); err != nil {
		t.Fatal(err)
	}
	forged := bytes.Clone(text)
	for i := 0; i < len(forged); i += everyByte() {
		for bit := range 8 {
			forged[i] ^= 1 << bit
			if _, err := Verify(forged, trust()); err == nil {
				t.Errorf("byte %d, bit %d: %q for %q verifies", i, bit, forged[i], text[i])
			}
			forged[i] ^= 1 << bit
		}
	}
}

func TestVerifyBodyRefusesEveryBitFlip(t *testing.T) {
	t.Parallel()
	text, err := SignBody(smallBody(t), signer(t, runnerKey))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := VerifyBody(text, trust()); err != nil || b.Proof.Controller != b.Body.RunnerDID {
		t.Fatalf("%+v, %v", b, err)
	}
	forged := bytes.Clone(text)
	for i := 0; i < len(forged); i += everyByte() {
		for bit := range 8 {
			forged[i] ^= 1 << bit
			if _, err := VerifyBody(forged, trust()); err == nil {
				t.Errorf("byte %d, bit %d: %q for %q verifies", i, bit, forged[i], text[i])
			}
			forged[i] ^= 1 << bit
		}
	}
}

func TestForgedCredentials(t *testing.T) {
	honest := issued(t, nil)
	other := issued(t, func(d *Draft) { d.Imported = true })
	members := func(text []byte) map[string]any {
		var v map[string]any
		if err := canon.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	subject := func(v map[string]any) map[string]any { return v["credentialSubject"].(map[string]any) }
	// resign lets the forger put a proof of their own.
	resign := func(text []byte) []byte {
		out, err := Secure(text, signer(t, forgerKey))
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	// byIssuer lets the issuer sign anything.
	byIssuer := func(change func(map[string]any)) []byte {
		out, err := Secure(rewrite(t, honest, func(v map[string]any) { delete(v, "proof"); change(v) }), signer(t, issuerKey))
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	contexts := func(list ...any) func(map[string]any) {
		return func(v map[string]any) { v["@context"] = list }
	}

	for _, tt := range []struct {
		name  string
		text  []byte
		want  refusal.Name
		words string
	}{
		{"the proof is gone", rewrite(t, honest, func(v map[string]any) { delete(v, "proof") }), refusal.SignatureInvalid, "no proof"},
		{"an empty list of proofs", rewrite(t, honest, func(v map[string]any) { v["proof"] = []any{} }), refusal.SignatureInvalid, "no proof"},
		{"the proof is null", rewrite(t, honest, func(v map[string]any) { v["proof"] = nil }), refusal.CredentialInvalid, ""},
		{"the proof of another credential", rewrite(t, honest, func(v map[string]any) { v["proof"] = members(other)["proof"] }), refusal.SignatureInvalid, "does not match"},
		{"the runner's proof as the issuer's", rewrite(t, honest, func(v map[string]any) { v["proof"] = subject(v)["proof"] }), refusal.SignatureInvalid, "does not match"},
		{"a good proof and a bad one", rewrite(t, honest, func(v map[string]any) { v["proof"] = []any{v["proof"], members(resign(other))["proof"].([]any)[1]} }), refusal.SignatureInvalid, "proof 2 of 2"},
		{"a bad proof and a good one", rewrite(t, honest, func(v map[string]any) { v["proof"] = []any{members(resign(other))["proof"].([]any)[1], v["proof"]} }), refusal.SignatureInvalid, "proof 1 of 2"},
		{"the same proof twice", rewrite(t, honest, func(v map[string]any) { v["proof"] = []any{v["proof"], v["proof"]} }), refusal.DuplicateKey, "another proof"},
		{"33 proofs", rewrite(t, honest, func(v map[string]any) { v["proof"] = slicesRepeat(v["proof"], 33) }), refusal.TooLarge, "33 proofs"},

		{"signed by another key", resign(rewrite(t, honest, func(v map[string]any) { delete(v, "proof") })), refusal.SignerUnknown, "no proof is by a key of"},
		{"another issuer's name", rewrite(t, honest, func(v map[string]any) { v["issuer"] = didOf(testKey(t, forgerKey)) }), refusal.SignatureInvalid, ""},
		{"the issuer as an object", byIssuer(func(v map[string]any) { v["issuer"] = map[string]any{"id": v["issuer"]} }), refusal.CredentialInvalid, "issuer"},

		{"a context injected after signing", rewrite(t, honest, func(v map[string]any) { v["@context"] = append(v["@context"].([]any), "https://evil.example/v1") }), refusal.CredentialInvalid, "@context"},
		{"a context injected before", rewrite(t, honest, func(v map[string]any) {
			v["@context"] = append([]any{"https://evil.example/v1"}, v["@context"].([]any)...)
		}), refusal.CredentialInvalid, "@context"},
		{"a context injected by the issuer", byIssuer(contexts(contextCredentials, contextUndefined, "https://evil.example/v1")), refusal.CredentialInvalid, "@context"},
		{"the contexts swapped by the issuer", byIssuer(contexts(contextUndefined, contextCredentials)), refusal.CredentialInvalid, "@context"},
		{"one context only", byIssuer(contexts(contextCredentials)), refusal.CredentialInvalid, "@context"},
		{"a context with definitions", byIssuer(contexts(contextCredentials, map[string]any{"results": "https://evil.example/lies"})), refusal.CredentialInvalid, "@context"},
		{"a context within the subject", byIssuer(func(v map[string]any) { subject(v)["@context"] = "https://evil.example/v1" }), refusal.CredentialInvalid, "/@context must NOT have additional properties"},

		{"another type", byIssuer(func(v map[string]any) { v["type"] = []any{typeCredential, typeAttestation} }), refusal.CredentialInvalid, "found type"},
		{"both types", byIssuer(func(v map[string]any) {
			v["type"] = []any{typeCredential, typeAttestation, typeImported, typeObserved}
		}), refusal.CredentialInvalid, "found type"},
		{"imported made observed", edit(t, other, `"`+typeImported+`"`, `"`+typeObserved+`"`), refusal.SignatureInvalid, ""},

		{"a member of one's own", byIssuer(func(v map[string]any) { v["remark"] = "x" }), refusal.CredentialInvalid, "remark"},
		{"a member of one's own in the body", byIssuer(func(v map[string]any) { subject(v)["gpu"] = "x" }), refusal.CredentialInvalid, "/gpu must NOT have additional properties"},
		{"no subject", byIssuer(func(v map[string]any) { delete(v, "credentialSubject") }), refusal.CredentialInvalid, "no credentialSubject"},
		{"a list of subjects", byIssuer(func(v map[string]any) { v["credentialSubject"] = []any{subject(v)} }), refusal.CredentialInvalid, ""},
		{"evidence that is not an object", byIssuer(func(v map[string]any) { v["evidence"] = []any{"x"} }), refusal.CredentialInvalid, "evidence 1"},
		{"a schema of another type", byIssuer(func(v map[string]any) { v["credentialSchema"] = map[string]any{"id": "x", "type": "Xml"} }), refusal.CredentialInvalid, "credentialSchema"},

		{"a better score", edit(t, honest, `"accuracy":0.738`, `"accuracy":0.938`), refusal.SignatureInvalid, ""},
		{"a better score, signed by the issuer", byIssuer(func(v map[string]any) { subject(v)["results"] = map[string]any{"mmlu_pro": 1} }), refusal.ResultsHashMismatch, "must be the sha256"},
		{"a better score with its hash, signed by the issuer but not the runner", byIssuer(func(v map[string]any) {
			subject(v)["results"] = map[string]any{"a": 738}
			subject(v)["resultsHash"] = "b6135ecb7af2e9a745a1f8ce51f56a1c0138efd09970345cfcb31444faabcf79"
		}), refusal.SignatureInvalid, "the runner's proof"},
		{"another runner's name", byIssuer(func(v map[string]any) { subject(v)["runnerDid"] = didOf(testKey(t, forgerKey)) }), refusal.SignatureInvalid, "the runner's proof"},
		{"a proof by a key that is not the runner's", byIssuer(func(v map[string]any) {
			delete(subject(v), "proof")
			text, err := canon.Marshal(subject(v))
			if err != nil {
				t.Fatal(err)
			}
			v["credentialSubject"] = members(resign(text))
		}), refusal.SignerUnknown, "the runner's proof"},
		{"an empty list of proofs over the body", byIssuer(func(v map[string]any) { subject(v)["proof"] = []any{} }), refusal.SignatureInvalid, "the runner's proof"},
		{"null for the runner's proof", byIssuer(func(v map[string]any) { subject(v)["proof"] = nil }), refusal.CredentialInvalid, "the runner's proof"},
		{"a second proof over the body", byIssuer(func(v map[string]any) {
			text, err := canon.Marshal(subject(v))
			if err != nil {
				t.Fatal(err)
			}
			v["credentialSubject"] = members(resign(text))
		}), refusal.CredentialInvalid, "found 2 proofs"},

		{"not yet valid", byIssuer(func(v map[string]any) { v["validFrom"] = "2026-05-12T09:30:01Z" }), refusal.CredentialInvalid, "not valid before"},
		{"no longer valid", byIssuer(func(v map[string]any) { v["validUntil"] = "2026-05-12T09:29:59Z" }), refusal.CredentialInvalid, "not valid after"},
		{"a date that is not one", byIssuer(func(v map[string]any) { v["validFrom"] = "yesterday" }), refusal.CredentialInvalid, "validFrom"},

		{"a name twice", edit(t, honest, `"issuer":`, `"issuer":"did:web:a.example","issuer":`), refusal.Malformed, ""},
		{"bytes after", append(bytes.Clone(honest), "{}"...), refusal.Malformed, ""},
		{"a list", []byte(`[]`), refusal.Malformed, ""},
		{"nothing", nil, refusal.Malformed, ""},
		{"far too much", make([]byte, MaxDocument+1), refusal.TooLarge, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v, err := Verify(tt.text, trust())
			if v != nil {
				t.Error("a value beside the error")
			}
			wantRefusal(t, err, tt.want, tt.words)
		})
	}
}

func slicesRepeat(v any, n int) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = v
	}
	return out
}

// Numbers that canon spells alike are the same number; others are not.
func TestResultsRetypedOrReordered(t *testing.T) {
	body := rewrite(t, []byte(exampleBody(t)), func(v map[string]any) {
		v["results"] = map[string]any{"stats": []any{map[string]any{"mean": 738, "n": 1}, map[string]any{"mean": 42, "n": 2}}}
	})
	report, err := CheckBody(body)
	if err != nil {
		t.Fatal(err)
	}
	body = rewrite(t, body, func(v map[string]any) { v["resultsHash"] = report.Mismatch.Computed })
	text := issued(t, func(d *Draft) { d.Body = body })
	for _, tt := range []struct {
		name, old, new string
		good           bool
	}{
		{"738.0 is 738", `"mean":738`, `"mean":738.0`, true},
		{"7.38e2 is 738", `"mean":738`, `"mean":7.38e2`, true},
		{"members in another order", `{"mean":42,"n":2}`, `{"n":2,"mean":42}`, true},
		{"a text is not a number", `"mean":738`, `"mean":"738"`, false},
		{"738.1", `"mean":738`, `"mean":738.1`, false},
		{"a number that would be rounded", `"mean":738`, `"mean":9007199254740993`, false},
		{"the list in another order", `{"mean":738,"n":1},{"mean":42,"n":2}`, `{"mean":42,"n":2},{"mean":738,"n":1}`, false},
		{"null for a number", `"mean":42`, `"mean":null`, false},
		{"an item twice", `{"mean":42,"n":2}`, `{"mean":42,"n":2},{"mean":42,"n":2}`, false},
	} {
		_, err := Verify(edit(t, text, tt.old, tt.new), trust())
		if (err == nil) != tt.good {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// Every part of a proof is covered or checked.
func TestForgedProofs(t *testing.T) {
	honest := issued(t, nil)
	// sign makes a proof with anything in it, correctly signed.
	sign := func(change func(*proof)) []byte {
		d, err := openDocument(honest)
		if err != nil {
			t.Fatal(err)
		}
		key := testKey(t, issuerKey)
		p := proof{Context: d.context, Cryptosuite: cryptosuite, ProofPurpose: proofPurpose, Type: proofType, VerificationMethod: seal.DIDKeyMethod(public(key))}
		change(&p)
		config, err := canon.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		value := seal.EncodeMultibase(ed25519.Sign(key.Ed25519(), d.hash(config)))
		d.proofs = []canon.RawMessage{with(config, "proofValue", []byte(`"`+value+`"`))}
		text, err := d.encode()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for _, tt := range []struct {
		name   string
		change func(*proof)
		want   refusal.Name
		words  string
	}{
		{"nothing", func(*proof) {}, "", ""},
		{"without a context", func(p *proof) { p.Context = nil }, "", ""},
		{"that has not expired", func(p *proof) { p.Expires = "2026-05-12T09:30:01Z" }, "", ""},
		{"that has expired", func(p *proof) { p.Expires = "2026-05-12T09:30:00Z" }, refusal.CredentialInvalid, "expired"},
		{"with an id", func(p *proof) { p.ID = "urn:uuid:1" }, "", ""},
		{"created on no date", func(p *proof) { p.Created = "2026-13-01T00:00:00Z" }, refusal.CredentialInvalid, "created"},
		{"created without a zone", func(p *proof) { p.Created = "2026-05-12T00:00:00" }, refusal.CredentialInvalid, "created"},
		{"created with a comma", func(p *proof) { p.Created = "2026-05-12T00:00:00,5Z" }, refusal.CredentialInvalid, "created"},
		{"of another type", func(p *proof) { p.Type = "Ed25519Signature2020" }, refusal.CredentialInvalid, "type"},
		{"of another suite", func(p *proof) { p.Cryptosuite = "eddsa-rdfc-2022" }, refusal.CredentialInvalid, "cryptosuite"},
		{"for another purpose", func(p *proof) { p.ProofPurpose = "authentication" }, refusal.CredentialInvalid, "proofPurpose"},
		{"for fewer contexts", func(p *proof) { p.Context = canon.RawMessage(`["https://www.w3.org/ns/credentials/v2"]`) }, refusal.CredentialInvalid, "@context"},
		{"by a key without a name", func(p *proof) { p.VerificationMethod = didOf(testKey(t, issuerKey)) }, refusal.CredentialInvalid, "did:…#…"},
		{"by another name of a did:key", func(p *proof) { p.VerificationMethod = didOf(testKey(t, issuerKey)) + "#key-1" }, refusal.CredentialInvalid, "one method"},
		{"by a did:key of small order", func(p *proof) { p.VerificationMethod = seal.DIDKeyMethod(make([]byte, 32)) }, refusal.WeakKey, "small order"},
		{"by a did:web that was not given", func(p *proof) { p.VerificationMethod = "did:web:a.example#k" }, refusal.SignerUnknown, "none of the key documents"},
		{"by a URL", func(p *proof) { p.VerificationMethod = "https://a.example/k#1" }, refusal.CredentialInvalid, "did:…#…"},
	} {
		_, err := Verify(sign(tt.change), trust())
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.want != "":
			wantRefusal(t, err, tt.want, tt.words)
		}
	}

	signed := sign(func(*proof) {})
	value := func(change func(string) string) []byte {
		return rewrite(t, signed, func(v map[string]any) {
			p := v["proof"].(map[string]any)
			p["proofValue"] = change(p["proofValue"].(string))
		})
	}
	for name, text := range map[string][]byte{
		"an unknown member":              rewrite(t, signed, func(v map[string]any) { v["proof"].(map[string]any)["proofScope"] = "all" }),
		"an empty id that is not hashed": rewrite(t, signed, func(v map[string]any) { v["proof"].(map[string]any)["id"] = "" }),
		"previousProof":                  rewrite(t, signed, func(v map[string]any) { v["proof"].(map[string]any)["previousProof"] = "urn:uuid:1" }),
		"no value":                       rewrite(t, signed, func(v map[string]any) { delete(v["proof"].(map[string]any), "proofValue") }),
		"a value in another base":        value(func(s string) string { return "m" + s[1:] }),
		"a value with a zero in front":   value(func(s string) string { return "z1" + s[1:] }),
		"a value cut short":              value(func(s string) string { return s[:len(s)-1] }),
		"a value far too long":           value(func(s string) string { return s + strings.Repeat("2", 1000) }),
		"a list of a list":               rewrite(t, signed, func(v map[string]any) { v["proof"] = []any{[]any{v["proof"]}} }),
		"a text":                         rewrite(t, signed, func(v map[string]any) { v["proof"] = "z" }),
	} {
		if _, err := Verify(text, trust()); refusal.ExitCode(err) != refusal.ExitUnverified {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEndorsements(t *testing.T) {
	text, err := Secure(issued(t, nil), signer(t, judgeKey))
	if err != nil {
		t.Fatal(err)
	}
	v, err := Verify(text, trust())
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Endorsements) != 1 || v.Endorsements[0].Controller != didOf(testKey(t, judgeKey)) || v.IssuerProof.Controller != v.Issuer {
		t.Errorf("got %+v", v)
	}
	// Without the issuer's, the judge's proof does not make a credential.
	alone := rewrite(t, text, func(v map[string]any) { v["proof"] = v["proof"].([]any)[1] })
	_, err = Verify(alone, trust())
	wantRefusal(t, err, refusal.SignerUnknown, "no proof is by a key of")
}

func TestASignerCannotSignAsAnother(t *testing.T) {
	_, err := Issue(Draft{Issuer: "did:web:a.example", Body: []byte(exampleBody(t))}, signer(t, issuerKey))
	wantRefusal(t, err, refusal.Usage, "no verifier could accept")
	_, err = SignBody([]byte(exampleBody(t)), signer(t, issuerKey))
	wantRefusal(t, err, refusal.Usage, "no verifier could accept")
	s := signer(t, issuerKey)
	s.Method = seal.DIDKeyMethod(public(testKey(t, forgerKey)))
	_, err = Secure([]byte(`{}`), s)
	wantRefusal(t, err, refusal.Usage, "the key is")
	_, err = Issue(Draft{Issuer: didOf(testKey(t, issuerKey)), Body: []byte(`{}`)}, signer(t, issuerKey))
	wantRefusal(t, err, refusal.Malformed, "must have required property 'runId'")
}

func TestVerifyNeedsATime(t *testing.T) {
	_, err := Verify(issued(t, nil), Trust{})
	wantRefusal(t, err, refusal.Usage, "no time")
	_, err = Verify(issued(t, func(d *Draft) { d.ValidUntil = now.Add(time.Hour) }), Trust{Now: now.Add(2 * time.Hour)})
	wantRefusal(t, err, refusal.CredentialInvalid, "not valid after")
}
