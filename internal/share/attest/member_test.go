package attest

import (
	"bytes"
	"testing"

	"tallystick/internal/record/canon"
)

// FuzzMembers: cutting bytes gives what decoding and encoding again gives.
func FuzzMembers(f *testing.F) {
	for _, text := range []string{
		`{}`, `{"a":1}`, `{"proof":{}}`, `{"a":"}\",{","proof":[1,{"b":"]"}],"z":null}`,
		`{"":0,"\\":[[]],"pro":1,"proof":{"x":{}},"proofs":-1.5e-7,"é":"\u001f","😀":true}`,
		`{"pr\noof":1,"pr\"":2,"p\\":3}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		text, err := canon.Canonicalize(data)
		if err != nil || text[0] != '{' {
			return
		}
		var want map[string]canon.RawMessage
		if err := canon.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		list := members(new(room), text)
		if len(list) != len(want) {
			t.Fatalf("%d members of %s, want %d", len(list), text, len(want))
		}
		for _, m := range list {
			name, ok := textOf([]byte(`"` + string(m.name) + `"`))
			if !ok || !bytes.Equal(m.value, want[name]) {
				t.Fatalf("%q is %s, want %s", name, m.value, want[name])
			}
		}
		delete(want, "proof")
		rest := without(text, "proof")
		if again, err := canon.Marshal(want); err != nil || !bytes.Equal(rest, again) {
			t.Fatalf("without: %s, want %s", rest, again)
		}
		want["proof"] = canon.RawMessage(`[7]`)
		if again, err := canon.Marshal(want); err != nil || !bytes.Equal(with(rest, "proof", []byte("[7]")), again) {
			t.Fatalf("with: %s, want %s", with(rest, "proof", []byte("[7]")), again)
		}
	})
}
