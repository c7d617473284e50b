package attest

import (
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
)

// FuzzVerify: a credential that verifies is, but for its spelling, one that was
// signed here.
func FuzzVerify(f *testing.F) {
	signed := [][]byte{
		issued(f, nil),
		issued(f, withStatus(NewStatusEntry(listURL, 7, Revocation))),
		webCredential(f),
	}
	endorsed, err := Secure(signed[0], signer(f, judgeKey))
	if err != nil {
		f.Fatal(err)
	}
	signed = append(signed, endorsed)
	known := map[string]bool{}
	for _, text := range signed {
		f.Add(text)
		d, err := openDocument(text)
		if err != nil {
			f.Fatal(err)
		}
		known[string(d.rest)] = true
	}
	trusted := Trust{Now: now, Keys: keysOf(f, didDocument(f, ""), ""), StatusLists: [][]byte{statusList1(f, issuerKey, nil)}}
	for _, text := range signed {
		if _, err := Verify(text, trusted); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := Verify(data, trusted)
		if err != nil {
			if v != nil {
				t.Fatal("a value beside the error")
			}
			return
		}
		text, err := canon.Canonicalize(data)
		if err != nil || v.Digest != digest.IDOf(text) {
			t.Fatalf("verified, and is not canonical JSON: %v", err)
		}
		d, err := openDocument(text)
		if err != nil || !known[string(d.rest)] {
			t.Fatalf("no key signed %s", text)
		}
	})
}

func FuzzKeyDocuments(f *testing.F) {
	f.Add([]byte(didDocument(f, "")), []byte(jwks(f, issuerKey, "")))
	f.Fuzz(func(t *testing.T, did, set []byte) {
		k := &Keys{}
		_ = k.AddDID(did)
		_ = k.AddJWKS(webDID, set)
		for _, l := range k.listed {
			if _, _, err := splitMethod(l.method); err != nil || len(l.key) != 32 {
				t.Errorf("%q is listed with a key of %d bytes: %v", l.method, len(l.key), err)
			}
		}
	})
}
