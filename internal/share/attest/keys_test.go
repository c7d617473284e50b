package attest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

const (
	webDID    = "did:web:evals.example.com"
	webMethod = webDID + "#key-1"
)

// didDocument lists key 1 of the issuer, with members added to the method.
func didDocument(t testing.TB, more string) string {
	t.Helper()
	return fmt.Sprintf(`{"@context":["https://www.w3.org/ns/did/v1"],"id":%q,"service":[],
		"verificationMethod":[{"id":"#key-1","type":"Multikey","controller":%q,"publicKeyMultibase":%q%s},
			{"id":"#other","type":"EcdsaSecp256k1VerificationKey2019","controller":%q}],
		"assertionMethod":[%q,"#other"]}`, webDID, webDID, seal.Multikey(public(testKey(t, issuerKey))), more, webDID, webMethod)
}

func jwks(t testing.TB, n byte, more string) string {
	t.Helper()
	return fmt.Sprintf(`{"keys":[{"kty":"EC","crv":"P-256","kid":"ec"},{"kty":"OKP","crv":"Ed25519","use":"sig","kid":"key-1","x":%q%s}]}`,
		seal.NewJWK(public(testKey(t, n)), "").X, more)
}

// webCredential is issued by a did:web.
func webCredential(t testing.TB) []byte {
	t.Helper()
	text, err := Issue(Draft{Issuer: webDID, Body: []byte(exampleBody(t))}, Signer{Key: testKey(t, issuerKey), Method: webMethod, Created: now})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestDIDWebAndJWKS(t *testing.T) {
	text := webCredential(t)
	good := didDocument(t, "")
	for _, tt := range []struct {
		name     string
		did, set string
		want     refusal.Name
		words    string
	}{
		{"a DID document", good, "", "", ""},
		{"a DID document with a JWK", strings.Replace(strings.Replace(good, `"Multikey"`, `"JsonWebKey"`, 1), `"publicKeyMultibase":"`+seal.Multikey(public(testKey(t, issuerKey)))+`"`,
			fmt.Sprintf(`"publicKeyJwk":{"kty":"OKP","crv":"Ed25519","x":%q}`, seal.NewJWK(public(testKey(t, issuerKey)), "").X), 1), "", "", ""},
		{"a DID document with the method inside", fmt.Sprintf(`{"id":%q,"assertionMethod":[{"id":%q,"type":"Multikey","controller":%q,"publicKeyMultibase":%q}]}`,
			webDID, webMethod, webDID, seal.Multikey(public(testKey(t, issuerKey)))), "", "", ""},
		{"a JWKS", "", jwks(t, issuerKey, ""), "", ""},
		{"a JWKS that says current", "", jwks(t, issuerKey, `,"status":"current"`), "", ""},
		{"a JWKS with the kid in full", "", strings.Replace(jwks(t, issuerKey, ""), `"kid":"key-1"`, `"kid":"`+webMethod+`"`, 1), "", ""},
		{"both", good, jwks(t, issuerKey, ""), "", ""},
		{"not yet expired", didDocument(t, `,"expires":"2026-05-12T09:30:01Z"`), "", "", ""},

		{"neither", "", "", refusal.SignerUnknown, "none of the key documents"},
		{"a JWKS with another key", "", jwks(t, forgerKey, ""), refusal.SignatureInvalid, "does not match"},
		{"a JWKS with another kid", "", strings.Replace(jwks(t, issuerKey, ""), "key-1", "key-2", 1), refusal.SignerUnknown, ""},
		{"both, of two keys", good, jwks(t, forgerKey, ""), refusal.CredentialInvalid, "two different keys"},
		{"not for assertions", strings.Replace(good, `"assertionMethod":["`+webMethod+`",`, `"authentication":["`+webMethod+`"],"assertionMethod":[`, 1), "", refusal.SignerUnknown, ""},

		{"retired in the JWKS", "", jwks(t, issuerKey, `,"status":"retired"`), refusal.SignerNotValidThen, "is retired"},
		{"retired in the JWKS, current in the document", good, jwks(t, issuerKey, `,"status":"retired"`), refusal.SignerNotValidThen, "is retired"},
		{"revoked in the document", didDocument(t, `,"revoked":"2030-01-01T00:00:00Z"`), "", refusal.SignerNotValidThen, "is retired"},
		{"expired", didDocument(t, `,"expires":"2026-05-12T09:30:00Z"`), "", refusal.SignerNotValidThen, "is retired"},
		{"gone from the document, current in the JWKS", strings.ReplaceAll(good, "key-1", "key-9"), jwks(t, issuerKey, ""), refusal.SignerNotValidThen, "is retired"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			trusted := Trust{Now: now, Keys: keysOf(t, tt.did, tt.set)}
			_, err := Verify(text, trusted)
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantRefusal(t, err, tt.want, tt.words)
		})
	}
}

func keysOf(t testing.TB, did, set string) *Keys {
	t.Helper()
	k := &Keys{}
	if did != "" {
		if err := k.AddDID([]byte(did)); err != nil {
			t.Fatal(err)
		}
	}
	if set != "" {
		if err := k.AddJWKS(webDID, []byte(set)); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

// A key that leaked after its retirement signs whatever date its thief likes.
func TestRetiredKeyNeedsEvidenceFromOutside(t *testing.T) {
	text := webCredential(t)
	keys := keysOf(t, "", jwks(t, issuerKey, `,"status":"retired"`))
	canonical, err := canonicalize("test", text)
	if err != nil {
		t.Fatal(err)
	}
	receipts := map[digest.ID]bool{digest.IDOf(canonical): true}
	trusted := Trust{Now: now, Keys: keys, IssuedBeforeRetirement: func(i Issued) error {
		if receipts[i.Document] && i.Method == webMethod {
			return nil
		}
		return errors.New("no receipt from before")
	}}
	v, err := Verify(text, trusted)
	if err != nil || !v.IssuerProof.Retired {
		t.Fatalf("%+v, %v", v, err)
	}
	backdated, err := Issue(Draft{Issuer: webDID, Body: []byte(exampleBody(t)), ValidFrom: now.AddDate(-3, 0, 0)},
		Signer{Key: testKey(t, issuerKey), Method: webMethod, Created: now.AddDate(-3, 0, 0)})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Verify(backdated, trusted)
	wantRefusal(t, err, refusal.SignerNotValidThen, "no receipt from before")
	_, err = Verify(backdated, Trust{Now: now.AddDate(-3, 0, 0).Add(time.Hour), Keys: keys})
	wantRefusal(t, err, refusal.SignerNotValidThen, "nothing shows")

	// A wrong signature is not excused by evidence of anything.
	trusted.IssuedBeforeRetirement = func(Issued) error { return nil }
	_, err = Verify(edit(t, text, `"accuracy":0.738`, `"accuracy":0.838`), trusted)
	wantRefusal(t, err, refusal.SignatureInvalid, "")
}

func TestRetiredRunnerKey(t *testing.T) {
	body := edit(t, []byte(exampleBody(t)), didOf(testKey(t, runnerKey)), webDID)
	signed, err := SignBody(body, Signer{Key: testKey(t, runnerKey), Method: webMethod})
	if err != nil {
		t.Fatal(err)
	}
	text := issued(t, func(d *Draft) { d.Body = signed })
	if _, err := Verify(text, Trust{Now: now, Keys: keysOf(t, "", jwks(t, runnerKey, ""))}); err != nil {
		t.Error(err)
	}
	retired := Trust{Now: now, Keys: keysOf(t, "", jwks(t, runnerKey, `,"status":"retired"`))}
	_, err = Verify(text, retired)
	wantRefusal(t, err, refusal.SignerNotValidThen, "the runner's proof")
	var asked []Issued
	retired.IssuedBeforeRetirement = func(i Issued) error { asked = append(asked, i); return nil }
	v, err := Verify(text, retired)
	if err != nil || len(asked) != 1 || asked[0].Document != v.Digest || asked[0].Method != webMethod {
		t.Errorf("asked about %v, %v", asked, err)
	}
}

// jwksUsed is the set without a use, so that a test can say another.
func jwksUsed(t testing.TB, more string) string {
	return strings.Replace(jwks(t, issuerKey, ""), `,"use":"sig"`, more, 1)
}

// A registry's set also lists the key that chains its manifests. A holder of that
// one cannot issue with it, nor sign as a runner.
func TestKeyForSomethingElseIssuesNothing(t *testing.T) {
	text := webCredential(t)
	for more, purpose := range map[string]string{`,"purpose":"manifest-chain"`: "manifest-chain", `,"purpose":"credential","use":"enc"`: "enc", `,"purpose":"manifest-chain","status":"retired"`: "manifest-chain"} {
		set := jwksUsed(t, more)
		forged := Trust{Now: now, Keys: keysOf(t, "", set), IssuedBeforeRetirement: func(Issued) error { return nil }}
		_, err := Verify(text, forged)
		wantRefusal(t, err, refusal.SignerUnknown, "its key is for \""+purpose+"\"")
		// A DID document that lists it too does not make it one for credentials.
		forged.Keys = keysOf(t, didDocument(t, ""), set)
		_, err = Verify(text, forged)
		wantRefusal(t, err, refusal.SignerUnknown, purpose)
	}
	if _, err := Verify(text, Trust{Now: now, Keys: keysOf(t, "", jwksUsed(t, `,"purpose":"credential","use":"sig"`))}); err != nil {
		t.Error(err)
	}
}

func TestRetiredDIDKey(t *testing.T) {
	set := strings.Replace(jwks(t, issuerKey, `,"status":"retired"`), "key-1", seal.Multikey(public(testKey(t, issuerKey))), 1)
	k := &Keys{}
	if err := k.AddJWKS(didOf(testKey(t, issuerKey)), []byte(set)); err != nil {
		t.Fatal(err)
	}
	_, err := Verify(issued(t, nil), Trust{Now: now, Keys: k})
	wantRefusal(t, err, refusal.SignerNotValidThen, "is retired")
}

func TestForgedKeyDocuments(t *testing.T) {
	did := didDocument(t, "")
	multikey := seal.Multikey(public(testKey(t, issuerKey)))
	for name, doc := range map[string]string{
		"of another method":          strings.ReplaceAll(did, webDID, "did:ion:x"),
		"of a did:key":               strings.ReplaceAll(did, webDID, didOf(testKey(t, issuerKey))),
		"without an id":              `{"assertionMethod":[]}`,
		"a key of another owner":     strings.Replace(did, `"controller":"`+webDID, `"controller":"did:web:evil.example`, 1),
		"an id of another owner":     strings.Replace(did, `"id":"#key-1"`, `"id":"did:web:evil.example#key-1"`, 1),
		"a method twice":             strings.Replace(did, `"#other"`, `"#key-1"`, 1),
		"a method that is not there": strings.Replace(did, `["`+webMethod, `["`+webDID+`#gone`, 1),
		"a key of small order":       strings.Replace(did, multikey, seal.Multikey(make([]byte, 32)), 1),
		"a number for a method":      strings.Replace(did, `"assertionMethod":[`, `"assertionMethod":[7,`, 1),
		"expires on no date":         didDocument(t, `,"expires":"soon"`),
		"a name twice":               strings.Replace(did, `"service":[]`, `"id":"did:web:evil.example"`, 1),
		"a list":                     `[]`,
		"far too long":               strings.Repeat(" ", maxKeyDocument) + did,
	} {
		if err := new(Keys).AddDID([]byte(doc)); err == nil {
			t.Errorf("DID document, %s: accepted", name)
		}
	}
	twice := &Keys{}
	if err := twice.AddDID([]byte(did)); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, twice.AddDID([]byte(did)), refusal.Usage, "two documents")

	set := jwks(t, issuerKey, "")
	for name, doc := range map[string]string{
		"a private key":              jwks(t, issuerKey, `,"d":"AAAA"`),
		"another status":             jwks(t, issuerKey, `,"status":"revoked"`),
		"a purpose that is a number": jwks(t, issuerKey, `,"purpose":7`),
		"an empty use":               jwksUsed(t, `,"use":""`),
		"a status that is not text":  jwks(t, issuerKey, `,"status":true`),
		"without a kid":              strings.Replace(set, `"kid":"key-1",`, ``, 1),
		"a kid of another owner":     strings.Replace(set, `"kid":"key-1"`, `"kid":"did:web:evil.example#key-1"`, 1),
		"a key of small order":       strings.Replace(set, seal.NewJWK(public(testKey(t, issuerKey)), "").X, strings.Repeat("A", 43), 1),
		"a kid twice":                strings.Replace(set, `{"kty":"EC","crv":"P-256","kid":"ec"}`, set[strings.Index(set, `{"kty":"OKP"`):len(set)-2], 1),
		"a text for a key":           `{"keys":["x"]}`,
		"no keys":                    `{}`,
		"not JSON":                   `{`,
	} {
		if err := new(Keys).AddJWKS(webDID, []byte(doc)); err == nil {
			t.Errorf("JWKS, %s: accepted", name)
		}
	}
}
