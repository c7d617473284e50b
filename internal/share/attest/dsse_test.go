package attest

import (
	"bytes"
	"crypto/ed25519"
	"testing"

	"tallystick/internal/record/refusal"
)

func TestEnvelope(t *testing.T) {
	payload := []byte(`{"_type":"https://in-toto.io/Statement/v1"}`)
	one, two, forger := testKey(t, 1), testKey(t, 2), testKey(t, 4)
	text, err := SignEnvelope(PayloadInToto, payload, one, two)
	if err != nil {
		t.Fatal(err)
	}
	keys := []ed25519.PublicKey{public(one), public(two)}
	got, err := VerifyEnvelope(text, PayloadInToto, keys, 2)
	if err != nil || !bytes.Equal(got, payload) {
		t.Fatalf("%s, %v", got, err)
	}

	// A key counts once, however often it signed or is listed.
	twice := rewrite(t, text, func(v map[string]any) {
		list := v["signatures"].([]any)
		v["signatures"] = []any{list[0], list[0]}
	})
	_, err = VerifyEnvelope(twice, PayloadInToto, []ed25519.PublicKey{public(one), public(one)}, 2)
	wantRefusal(t, err, refusal.SignatureInvalid, "1 of the given keys")
	// The keyid is only its author's hint.
	renamed := rewrite(t, text, func(v map[string]any) { v["signatures"].([]any)[0].(map[string]any)["keyid"] = "x" })
	if _, err := VerifyEnvelope(renamed, PayloadInToto, keys, 2); err != nil {
		t.Errorf("another keyid: %v", err)
	}
	// URL-safe base64 is allowed, but not two spellings of the same bytes.
	for name, payload := range map[string]string{"stray bits": "aGVsbG9=", "no padding": "aGVsbG8", "a line break": "aGVs\nbG8=", "both alphabets": "+_8="} {
		_, err := VerifyEnvelope(rewrite(t, text, func(v map[string]any) { v["payload"] = payload }), PayloadInToto, keys, 1)
		if !refusal.Is(err, refusal.CredentialInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	odd, err := SignEnvelope("x", []byte{0xfb, 0xff}, one)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := VerifyEnvelope(edit(t, odd, `"+/8="`, `"-_8="`), "x", keys, 1); err != nil {
		t.Errorf("URL-safe base64: %v", err)
	}

	for _, tt := range []struct {
		name  string
		text  []byte
		typ   string
		keys  []ed25519.PublicKey
		least int
		want  refusal.Name
	}{
		{"other keys", text, PayloadInToto, []ed25519.PublicKey{public(forger)}, 1, refusal.SignatureInvalid},
		{"no keys", text, PayloadInToto, nil, 1, refusal.SignatureInvalid},
		{"more than there are", text, PayloadInToto, keys, 3, refusal.SignatureInvalid},
		{"a threshold of nothing", text, PayloadInToto, keys, 0, refusal.Usage},
		{"another type", text, "application/json", keys, 1, refusal.CredentialInvalid},
		{"the type changed", rewrite(t, text, func(v map[string]any) { v["payloadType"] = "x" }), "x", keys, 1, refusal.SignatureInvalid},
		{"the payload changed", rewrite(t, text, func(v map[string]any) { v["payload"] = "e30=" }), PayloadInToto, keys, 1, refusal.SignatureInvalid},
		{"no signatures", rewrite(t, text, func(v map[string]any) { v["signatures"] = []any{} }), PayloadInToto, keys, 1, refusal.SignatureInvalid},
		{"many signatures", rewrite(t, text, func(v map[string]any) { v["signatures"] = slicesRepeat(v["signatures"].([]any)[0], 33) }), PayloadInToto, keys, 1, refusal.TooLarge},
		{"a weak key", text, PayloadInToto, []ed25519.PublicKey{make([]byte, 32)}, 1, refusal.WeakKey},
		{"a name twice", edit(t, text, `"payloadType"`, `"payload":"e30=","payloadType"`), PayloadInToto, keys, 1, refusal.Malformed},
		{"far too much", make([]byte, MaxDocument+1), PayloadInToto, keys, 1, refusal.TooLarge},
	} {
		_, err := VerifyEnvelope(tt.text, tt.typ, tt.keys, tt.least)
		if !refusal.Is(err, tt.want) {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
	_, err = SignEnvelope(PayloadInToto, payload)
	wantRefusal(t, err, refusal.Usage, "at least one key")
}
