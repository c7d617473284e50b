package seal

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"tallystick/internal/record/refusal"
)

// The first two of w3c-ccg/did-method-key, test-vectors/ed25519-x25519.json, and
// the key pair of w3c/vc-di-eddsa, TestVectors/keyPair.json.
func TestDIDKeyVectors(t *testing.T) {
	for seed, did := range map[string]string{
		"0000000000000000000000000000000000000000000000000000000000000000": "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp",
		"0000000000000000000000000000000000000000000000000000000000000001": "did:key:z6MkjchhfUsD6mmvni8mCdXHw216Xrm9bQe2mBH1P5RDjVJG",
	} {
		checkDIDKey(t, seed, did, did+"#"+strings.TrimPrefix(did, "did:key:"))
	}
	secret, err := DecodeMultibase("z3u2en7t5LR2WtQH5PfFqMqwVHBeXouLzo6haApm8XHqvjxq")
	if err != nil || len(secret) != 34 || !bytes.HasPrefix(secret, []byte{0x80, 0x26}) {
		t.Fatalf("secret Multikey: %x, %v", secret, err)
	}
	const want = "z6MkrJVnaZkeFzdQyMZu1cgjg7k1pZZ6pvBQ7XJPt4swbTQ2"
	if got := Multikey(ed25519.NewKeyFromSeed(secret[2:]).Public().(ed25519.PublicKey)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestSharedDIDKeyVectors(t *testing.T) {
	data, err := os.ReadFile("../../../../shared/vectors/did-key/ed25519.json")
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the vectors are not here")
	}
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Seed   string `json:"ed25519_seed_hex"`
		DID    string `json:"did"`
		Method string `json:"verificationMethod"`
	}
	if err := json.Unmarshal(data, &vectors); err != nil || len(vectors) == 0 {
		t.Fatalf("%d vectors, %v", len(vectors), err)
	}
	for _, v := range vectors {
		checkDIDKey(t, v.Seed, v.DID, v.Method)
	}
}

func checkDIDKey(t *testing.T, seedHex, did, method string) {
	t.Helper()
	seed, err := hex.DecodeString(seedHex)
	if err != nil {
		t.Fatal(err)
	}
	pub := ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
	if got := DIDKey(pub); got != did {
		t.Errorf("got %s, want %s", got, did)
	}
	if got := DIDKeyMethod(pub); got != method {
		t.Errorf("got %s, want %s", got, method)
	}
	if back, err := ParseDIDKey(did); err != nil || !back.Equal(pub) {
		t.Errorf("%s reads as %x, %v", did, back, err)
	}
}

func TestMultikeyRefusals(t *testing.T) {
	smallOrder := Multikey(make(ed25519.PublicKey, 32))
	notReduced := bytes.Repeat([]byte{0xff}, 32)
	for _, tt := range []struct {
		name, text string
		want       refusal.Name
	}{
		{"nothing", "", refusal.Malformed},
		{"another base", "uAAAA", refusal.Malformed},
		{"a character that is not base58", "z6Mk0", refusal.Malformed},
		{"a secret key", "z3u2en7t5LR2WtQH5PfFqMqwVHBeXouLzo6haApm8XHqvjxq", refusal.Malformed},
		{"a byte too few", EncodeMultibase(append([]byte{0xed, 0x01}, make([]byte, 31)...)), refusal.Malformed},
		{"a byte too many", EncodeMultibase(append([]byte{0xed, 0x01}, make([]byte, 33)...)), refusal.Malformed},
		{"a zero in front", "z1" + Multikey(notReduced)[1:], refusal.Malformed},
		{"far too long", "z" + strings.Repeat("2", maxBase58+1), refusal.TooLarge},
		{"small order", smallOrder, refusal.WeakKey},
		{"not reduced", Multikey(notReduced), refusal.WeakKey},
	} {
		if pub, err := ParseMultikey(tt.text); !refusal.Is(err, tt.want) {
			t.Errorf("%s: got %x, %v, want %s", tt.name, pub, err, tt.want)
		}
	}
	if _, err := ParseDIDKey("did:web:example.com"); !refusal.Is(err, refusal.Malformed) {
		t.Errorf("did:web as did:key: %v", err)
	}
}

// RFC 8037, appendix A.2.
func TestJWKVector(t *testing.T) {
	const x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
	pub, err := JWK{KeyType: "OKP", Curve: "Ed25519", X: x}.Ed25519()
	if err != nil || hex.EncodeToString(pub) != "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a" {
		t.Fatalf("got %x, %v", pub, err)
	}
	if got := NewJWK(pub, "a"); got != (JWK{"Ed25519", "a", "OKP", x}) {
		t.Errorf("got %+v", got)
	}
	for name, k := range map[string]JWK{
		"another curve":   {KeyType: "OKP", Curve: "X25519", X: x},
		"another type":    {KeyType: "EC", Curve: "Ed25519", X: x},
		"a line break":    {KeyType: "OKP", Curve: "Ed25519", X: x + "\n"},
		"stray bits":      {KeyType: "OKP", Curve: "Ed25519", X: x[:42] + "p"},
		"padding":         {KeyType: "OKP", Curve: "Ed25519", X: x + "="},
		"too short":       {KeyType: "OKP", Curve: "Ed25519", X: x[:40]},
		"small order":     NewJWK(make([]byte, 32), ""),
		"nothing at all":  {},
		"standard base64": {KeyType: "OKP", Curve: "Ed25519", X: strings.ReplaceAll(x, "_", "/")},
	} {
		if pub, err := k.Ed25519(); err == nil {
			t.Errorf("%s: got %x, want a refusal", name, pub)
		}
	}
}

func FuzzMultibase(f *testing.F) {
	f.Add("z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp", []byte{0, 0, 1})
	f.Add("z", []byte{})
	f.Add("z111", []byte{0})
	f.Fuzz(func(t *testing.T, text string, data []byte) {
		if back, err := DecodeMultibase(text); err == nil && EncodeMultibase(back) != text {
			t.Errorf("%q has a second spelling %q", text, EncodeMultibase(back))
		}
		encoded := EncodeMultibase(data)
		if len(encoded) <= maxBase58 {
			if back, err := DecodeMultibase(encoded); err != nil || !bytes.Equal(back, data) {
				t.Errorf("%x comes back as %x, %v", data, back, err)
			}
		}
	})
}
