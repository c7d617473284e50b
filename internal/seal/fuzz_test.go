package seal

import (
	"bytes"
	"crypto/ed25519"
	"testing"
)

// FuzzParseSigners holds a parsed file to three promises: the bytes are kept,
// every line written again means the same, and nothing weak got in.
func FuzzParseSigners(f *testing.F) {
	f.Add([]byte(signersText(line(f, "alice", "", "roles=curator"))))
	f.Add([]byte(signersText(line(f, "alice", `namespaces="a*,!b",valid-after="20260101Z",valid-before="202701010000Z"`, "roles=curator,security my laptop"))))
	f.Add([]byte(signersText("*@example.org,!root@* cert-authority " + testKey(f, "authority").Public().String())))
	f.Add([]byte(signersText("dora "+keyText(softEd25519(f, "dora", 1)), "# a comment", "")))
	f.Add(nextVersion(mustParse(f, signersText(line(f, "alice", "", ""))), line(f, "bob", "", "")))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ParseSigners("signers", data)
		if err != nil {
			return
		}
		if !bytes.Equal(s.Bytes(), data) {
			t.Fatal("the bytes changed")
		}
		again, err := Compose(s.Version(), s.Previous(), s.Entries())
		if err != nil {
			t.Fatalf("the entries cannot be written: %v", err)
		}
		first, second := s.Entries(), mustParse(t, string(again)).Entries()
		if len(first) != len(second) {
			t.Fatalf("%d entries became %d", len(first), len(second))
		}
		for i := range first {
			if first[i].String() != second[i].String() {
				t.Fatalf("%s became %s", first[i], second[i])
			}
			if err := checkStrength(first[i].Key.key); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// FuzzSignatureBlob: what decodes, encodes to the same bytes. Verify adds to
// it that what verifies decoded first.
func FuzzSignatureBlob(f *testing.F) {
	f.Add(honest(f, NamespaceCase).marshal())
	for _, armored := range [][]byte{
		mustSign(f, softEd25519(f, "dora", 1), NamespaceCase, message),
		mustSign(f, softECDSA(f, 1), NamespaceCase, message),
	} {
		blob, err := unarmor(string(armored))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(blob)
	}
	key, _ := rsaSigner(f)
	rsaBlob, err := unarmor(string(mustSign(f, mustSigner(f, key), NamespaceCase, message)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(rsaBlob)
	f.Add(certifiedBlob(f))
	f.Fuzz(func(t *testing.T, blob []byte) {
		sig, err := parseBlob(blob)
		if err != nil {
			return
		}
		if !bytes.Equal(sig.Marshal(), blob) {
			t.Fatalf("%x became %x", blob, sig.Marshal())
		}
		// No decoded signature may make the verifier panic.
		_, _ = team(t).Verify(armor(blob), message, NamespaceCase, noon)
	})
}

// FuzzSplitArmored: the blocks put together again split into themselves.
func FuzzSplitArmored(f *testing.F) {
	alice := signAs(f, "alice", NamespaceCase, message)
	f.Add(alice)
	f.Add(bytes.Repeat(alice, 3))
	f.Add([]byte("-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		blocks, err := SplitArmored(data)
		if err != nil {
			return
		}
		joined := bytes.Join(blocks, nil)
		again, err := SplitArmored(joined)
		if err != nil {
			t.Fatal(err)
		}
		if len(again) != len(blocks) || !bytes.Equal(bytes.Join(again, nil), joined) {
			t.Fatal("splitting is not stable")
		}
	})
}

// FuzzVerifierKey: a verifier key that is accepted has one spelling.
func FuzzVerifierKey(f *testing.F) {
	pub := testKey(f, "witness").Ed25519().Public().(ed25519.PublicKey)
	f.Add(c2spVKey)
	f.Add(VKey(pub, "ledger.example"))
	f.Add(CosignatureVKey(pub, "w.example"))
	f.Fuzz(func(t *testing.T, text string) {
		for _, alg := range []byte{algEd25519, algCosignature} {
			name, pub, err := parseVKey(text, alg)
			if err != nil {
				continue
			}
			if vkey(pub, name, alg) != text {
				t.Fatalf("%q became %q", text, vkey(pub, name, alg))
			}
		}
	})
}
