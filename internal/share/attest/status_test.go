package attest

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"testing"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
)

const listURL = "https://evals.example.com/status/1"

func statusList1(t testing.TB, key byte, change func(*StatusDraft)) []byte {
	t.Helper()
	d := StatusDraft{ID: listURL, Issuer: didOf(testKey(t, key)), Purpose: Revocation, Bits: make([]byte, MinStatusBytes), ValidFrom: now.Add(-time.Minute), ValidUntil: now.Add(time.Hour)}
	if change != nil {
		change(&d)
	}
	text, err := IssueStatusList(d, signer(t, key))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func withStatus(entries ...StatusEntry) func(*Draft) {
	return func(d *Draft) { d.Status = entries }
}

func TestStatusLists(t *testing.T) {
	revoked := func(index int) func(*StatusDraft) {
		return func(d *StatusDraft) { d.Bits[index/8] |= 0x80 >> (index % 8) }
	}
	one := issued(t, withStatus(NewStatusEntry(listURL, 94567, Revocation)))
	two := issued(t, withStatus(NewStatusEntry(listURL, 94567, Revocation), NewStatusEntry(listURL+"s", 3, Suspension)))
	suspension := func(change func(*StatusDraft)) []byte {
		return statusList1(t, issuerKey, func(d *StatusDraft) {
			d.ID, d.Purpose = listURL+"s", Suspension
			if change != nil {
				change(d)
			}
		})
	}
	honest := statusList1(t, issuerKey, nil)

	for _, tt := range []struct {
		name       string
		credential []byte
		lists      [][]byte
		want       refusal.Name
		words      string
	}{
		{"not revoked", one, [][]byte{honest}, "", ""},
		{"the neighbours are revoked", one, [][]byte{statusList1(t, issuerKey, func(d *StatusDraft) { revoked(94566)(d); revoked(94568)(d) })}, "", ""},
		{"revoked", one, [][]byte{statusList1(t, issuerKey, revoked(94567))}, refusal.CredentialRevoked, "bit 94567"},
		{"an old list beside the new one", one, [][]byte{honest, statusList1(t, issuerKey, revoked(94567))}, refusal.CredentialRevoked, ""},
		{"two lists", two, [][]byte{suspension(nil), honest}, "", ""},
		{"suspended", two, [][]byte{honest, suspension(revoked(3))}, refusal.CredentialRevoked, "suspension"},
		{"one of two lists", two, [][]byte{honest}, refusal.NotFound, "was not given"},
		{"no list", one, nil, refusal.NotFound, "was not given"},
		{"the list of another address", one, [][]byte{suspension(nil)}, refusal.NotFound, "was not given"},
		{"a list for another purpose", one, [][]byte{statusList1(t, issuerKey, func(d *StatusDraft) { d.Purpose = Suspension })}, refusal.CredentialInvalid, "purpose"},
		{"a list that is over", one, [][]byte{statusList1(t, issuerKey, func(d *StatusDraft) { d.ValidUntil = now.Add(-time.Second) })}, refusal.CredentialInvalid, "not valid after"},
		{"a list from tomorrow", one, [][]byte{statusList1(t, issuerKey, func(d *StatusDraft) { d.ValidFrom = now.Add(time.Second) })}, refusal.CredentialInvalid, "not valid before"},
		{"a list of another issuer", one, [][]byte{statusList1(t, forgerKey, nil)}, refusal.SignerUnknown, ""},
		{"a list without a proof", one, [][]byte{rewrite(t, honest, func(v map[string]any) { delete(v, "proof") })}, refusal.SignatureInvalid, "no proof"},
		{"the bit flipped back", one, [][]byte{rewrite(t, statusList1(t, issuerKey, revoked(94567)), func(v map[string]any) {
			v["credentialSubject"] = decoded(t, honest)["credentialSubject"]
		})}, refusal.SignatureInvalid, "does not match"},
		{"a list with another context", one, [][]byte{resigned(t, honest, func(v map[string]any) { v["@context"] = []any{contextCredentials, contextUndefined} })}, refusal.CredentialInvalid, "@context"},
		{"a list of another type", one, [][]byte{resigned(t, honest, func(v map[string]any) { v["type"] = []any{typeCredential} })}, refusal.CredentialInvalid, "found type"},
		{"a list in another's name", one, [][]byte{resigned(t, honest, func(v map[string]any) { v["issuer"] = "did:web:a.example" })}, refusal.CredentialInvalid, "its issuer"},
		{"a member of one's own", one, [][]byte{resigned(t, honest, func(v map[string]any) { v["x"] = 1 })}, refusal.CredentialInvalid, "x"},
		{"not JSON", one, [][]byte{[]byte("x")}, refusal.Malformed, ""},
		{"an index beyond the list", issued(t, withStatus(NewStatusEntry(listURL, 8*MinStatusBytes, Revocation))), [][]byte{honest}, refusal.CredentialInvalid, "131072 bits"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v, err := Verify(tt.credential, Trust{Now: now, StatusLists: tt.lists})
			if tt.want != "" {
				wantRefusal(t, err, tt.want, tt.words)
			} else if err != nil || !v.StatusChecked {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
	if v, err := Verify(one, Trust{Now: now, UnsafeSkipStatus: true}); err != nil || v.StatusChecked {
		t.Errorf("skipped: %+v, %v", v, err)
	}
}

func decoded(t testing.TB, text []byte) map[string]any {
	t.Helper()
	var v map[string]any
	if err := canon.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// resigned changes a document and lets the issuer sign it.
func resigned(t testing.TB, text []byte, change func(map[string]any)) []byte {
	t.Helper()
	out, err := Secure(rewrite(t, text, func(v map[string]any) { delete(v, "proof"); change(v) }), signer(t, issuerKey))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A list under a retired key is an old list, whatever evidence there is of it.
func TestStatusListUnderRetiredKey(t *testing.T) {
	by := Signer{Key: testKey(t, issuerKey), Method: webMethod}
	text, err := Issue(Draft{Issuer: webDID, Body: []byte(exampleBody(t)), Status: []StatusEntry{NewStatusEntry(listURL, 1, Revocation)}}, by)
	if err != nil {
		t.Fatal(err)
	}
	list, err := IssueStatusList(StatusDraft{ID: listURL, Issuer: webDID, Purpose: Revocation, Bits: make([]byte, MinStatusBytes)}, by)
	if err != nil {
		t.Fatal(err)
	}
	trusted := Trust{Now: now, StatusLists: [][]byte{list}, Keys: keysOf(t, "", jwks(t, issuerKey, `,"status":"retired"`)),
		IssuedBeforeRetirement: func(Issued) error { return nil }}
	_, err = Verify(text, trusted)
	wantRefusal(t, err, refusal.SignerNotValidThen, "status list")
}

func TestStatusEntriesAreChecked(t *testing.T) {
	good := NewStatusEntry(listURL, 7, Revocation)
	for name, change := range map[string]func(map[string]any){
		"negative":          func(e map[string]any) { e["statusListIndex"] = "-1" },
		"a zero in front":   func(e map[string]any) { e["statusListIndex"] = "07" },
		"a plus":            func(e map[string]any) { e["statusListIndex"] = "+7" },
		"a number":          func(e map[string]any) { e["statusListIndex"] = 7 },
		"another purpose":   func(e map[string]any) { e["statusPurpose"] = "message" },
		"another type":      func(e map[string]any) { e["type"] = "StatusList2021Entry" },
		"two bits":          func(e map[string]any) { e["statusSize"] = 2 },
		"no list":           func(e map[string]any) { delete(e, "statusListCredential") },
		"an unknown member": func(e map[string]any) { e["x"] = 1 },
	} {
		text := resigned(t, issued(t, withStatus(good)), func(v map[string]any) { change(v["credentialStatus"].(map[string]any)) })
		_, err := Verify(text, Trust{Now: now, UnsafeSkipStatus: true})
		if !refusal.Is(err, refusal.CredentialInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := Verify(resigned(t, issued(t, withStatus(good)), func(v map[string]any) { v["credentialStatus"] = []any{} }), trust())
	wantRefusal(t, err, refusal.CredentialInvalid, "an empty list")
	good.Purpose = "refresh"
	if _, err := encodeStatus([]StatusEntry{good}); !refusal.Is(err, refusal.CredentialInvalid) {
		t.Errorf("issuing for another purpose: %v", err)
	}
}

func TestEncodedListIsBounded(t *testing.T) {
	pack := func(parts ...[]byte) string {
		var b bytes.Buffer
		for _, p := range parts {
			zip := gzip.NewWriter(&b)
			if _, err := zip.Write(p); err != nil {
				t.Fatal(err)
			}
			if err := zip.Close(); err != nil {
				t.Fatal(err)
			}
		}
		return "u" + base64.RawURLEncoding.EncodeToString(b.Bytes())
	}
	good := pack(make([]byte, MinStatusBytes))
	if bits, err := decodeBits(good); err != nil || len(bits) != MinStatusBytes {
		t.Errorf("%d, %v", len(bits), err)
	}
	for _, tt := range []struct {
		name, text string
		want       refusal.Name
	}{
		{"a bomb", pack(make([]byte, MaxStatusBytes+1)), refusal.TooLarge},
		{"too short", pack(make([]byte, MinStatusBytes-1)), refusal.CredentialInvalid},
		{"two streams", pack(make([]byte, MinStatusBytes), make([]byte, 1)), refusal.CredentialInvalid},
		{"cut", good[:len(good)-8], refusal.CredentialInvalid},
		{"not gzip", "uAAAA", refusal.CredentialInvalid},
		{"another base", "m" + good[1:], refusal.CredentialInvalid},
		{"padding", good + "==", refusal.CredentialInvalid},
		{"nothing", "", refusal.CredentialInvalid},
	} {
		if _, err := decodeBits(tt.text); !refusal.Is(err, tt.want) {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
	_, err := IssueStatusList(StatusDraft{Issuer: didOf(testKey(t, issuerKey)), Bits: make([]byte, 1)}, signer(t, issuerKey))
	wantRefusal(t, err, refusal.Usage, "1 bytes")
}
