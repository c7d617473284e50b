package seal

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"strings"
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

// FuzzPublicKey: a public key that is accepted has one spelling, and is strong.
func FuzzPublicKey(f *testing.F) {
	f.Add([]byte(testKey(f, "alice").Public().String() + " alice@laptop\n"))
	f.Add([]byte(keyText(softEd25519(f, "dora", 1))))
	f.Add([]byte(keyText(softECDSA(f, 1))))
	key, _ := rsaSigner(f)
	f.Add([]byte(keyText(mustSigner(f, key))))
	f.Fuzz(func(t *testing.T, line []byte) {
		key, err := ParsePublicKey(line)
		if err != nil {
			return
		}
		if fields := strings.Fields(string(line)); key.String() != fields[0]+" "+fields[1] {
			t.Fatalf("%q became %q", line, key)
		}
		if err := checkStrength(key.key); err != nil {
			t.Fatal(err)
		}
		_ = key.materials() // does not panic
	})
}

// FuzzPrivateKey: a private key that is read signs, and survives being written.
func FuzzPrivateKey(f *testing.F) {
	text, err := testKey(f, "alice").MarshalPEM("alice")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(testKey(f, "alice").Ed25519())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
	f.Fuzz(func(t *testing.T, data []byte) {
		key, err := ParseKey(data)
		if err != nil {
			return
		}
		if _, err := SignWith(key.Signer(), NamespaceCase, message); err != nil {
			t.Fatal(err)
		}
		written, err := key.MarshalPEM("")
		if err != nil {
			t.Fatal(err)
		}
		if again, err := ParseKey(written); err != nil || !again.Ed25519().Equal(key.Ed25519()) {
			t.Fatalf("%v", err)
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
