package seal

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	_ "crypto/sha1" // for the forgery with SHA-1
	"crypto/sha512"
	"math/big"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"tallystick/internal/record/refusal"
)

// rawSig is an SSHSIG blob with nothing checked, for forging.
type rawSig struct {
	magic                             string
	version                           uint32
	key                               []byte
	namespace, reserved, hash         string
	format                            string
	blob, afterBlob, afterSig, atTail []byte
}

func (r rawSig) marshal() []byte {
	inner := ssh.Marshal(struct {
		Format string
		Blob   []byte
		After  []byte `ssh:"rest"`
	}{r.format, r.blob, r.afterBlob})
	out := ssh.Marshal(struct {
		Version                   uint32
		Key                       []byte
		Namespace, Reserved, Hash string
		Signature                 []byte
		Tail                      []byte `ssh:"rest"`
	}{r.version, r.key, r.namespace, r.reserved, r.hash, append(inner, r.afterSig...), r.atTail})
	return append([]byte(r.magic), out...)
}

// signedData is what an SSHSIG signature covers (PROTOCOL.sshsig).
func signedData(ns, reserved, hash string, sum []byte) []byte {
	return append([]byte("SSHSIG"), ssh.Marshal(struct {
		Namespace, Reserved, Hash string
		Sum                       []byte
	}{ns, reserved, hash, sum})...)
}

func sum512(data []byte) []byte {
	sum := sha512.Sum512(data)
	return sum[:]
}

// honest is alice's signature over message, taken apart.
func honest(t testing.TB, ns Namespace) rawSig {
	t.Helper()
	sum := sha512.Sum512(message)
	sig, err := testKey(t, "alice").Signer().Sign(rand.Reader, signedData(string(ns), "", "sha512", sum[:]))
	if err != nil {
		t.Fatal(err)
	}
	return rawSig{
		magic: "SSHSIG", version: 1, key: testKey(t, "alice").Public().Marshal(),
		namespace: string(ns), hash: "sha512", format: sig.Format, blob: sig.Blob,
	}
}

func TestForgedSignaturesAreRefused(t *testing.T) {
	good := armor(honest(t, NamespaceCase).marshal())
	if _, err := team(t).Verify(good, message, NamespaceCase, noon); err != nil {
		t.Fatalf("the honest signature: %v", err)
	}
	if !bytes.Equal(good, signAs(t, "alice", NamespaceCase, message)) {
		t.Fatal("SignWith and the hand-made signature differ")
	}
	edit := func(f func(r *rawSig)) []byte {
		r := honest(t, NamespaceCase)
		f(&r)
		return armor(r.marshal())
	}
	reserved := func() []byte {
		r := honest(t, NamespaceCase)
		sum := sha512.Sum512(message)
		sig, _ := testKey(t, "alice").Signer().Sign(rand.Reader, signedData(r.namespace, "x", r.hash, sum[:]))
		r.reserved, r.blob = "x", sig.Blob
		return armor(r.marshal())
	}

	tests := []struct {
		name    string
		armored []byte
		ns      Namespace
		refusal refusal.Name
		text    string
	}{
		{"another message's signature", signAs(t, "alice", NamespaceCase, []byte("another")), NamespaceCase, refusal.SignatureInvalid, "does not match what it should cover"},
		{"made for another act", signAs(t, "alice", NamespaceBench, message), NamespaceCase, refusal.NamespaceNotAllowed, `made for "tallystick-bench", expected "tallystick-case"`},
		{"relabelled for this act", edit(func(r *rawSig) { *r = honest(t, NamespaceBench); r.namespace = string(NamespaceCase) }), NamespaceCase, refusal.SignatureInvalid, "does not match"},
		{"no namespace asked for", armor(honest(t, "").marshal()), "", refusal.NamespaceNotAllowed, "the namespace is empty"},
		{"no namespace in it", armor(honest(t, "").marshal()), NamespaceCase, refusal.NamespaceNotAllowed, `made for ""`},
		{"a stranger's", signAs(t, "mallory", NamespaceCase, message), NamespaceCase, refusal.SignerUnknown, "is not in signers version 1"},
		{"a stranger's under alice's key", edit(func(r *rawSig) {
			sum := sha512.Sum512(message)
			sig, _ := testKey(t, "mallory").Signer().Sign(rand.Reader, signedData(r.namespace, "", r.hash, sum[:]))
			r.blob = sig.Blob
		}), NamespaceCase, refusal.SignatureInvalid, "does not match"},
		{"empty", nil, NamespaceCase, refusal.SignatureInvalid, "does not begin with"},
		{"stripped to the armour", []byte(armorBegin + "\n" + armorEnd + "\n"), NamespaceCase, refusal.SignatureInvalid, "does not end with"},
		{"two in place of one", append(bytes.Clone(good), good...), NamespaceCase, refusal.SignatureInvalid, ""},
		{"text before it", append([]byte("x\n"), good...), NamespaceCase, refusal.SignatureInvalid, "does not begin with"},
		{"text after it", append(bytes.Clone(good), "x\n"...), NamespaceCase, refusal.SignatureInvalid, "does not end with"},
		{"no last newline", bytes.TrimSuffix(good, []byte("\n")), NamespaceCase, refusal.SignatureInvalid, "does not end with"},
		{"carriage returns", bytes.ReplaceAll(good, []byte("\n"), []byte("\r\n")), NamespaceCase, refusal.SignatureInvalid, "does not begin with"},
		{"carriage return inside", bytes.Replace(good, []byte("\n-----END"), []byte("\r\n-----END"), 1), NamespaceCase, refusal.SignatureInvalid, "carriage return"},
		{"wrong magic", edit(func(r *rawSig) { r.magic = "SSHSIH" }), NamespaceCase, refusal.SignatureInvalid, "magic"},
		{"version 2", edit(func(r *rawSig) { r.version = 2 }), NamespaceCase, refusal.SignatureInvalid, "version"},
		{"hash sha1", edit(func(r *rawSig) { r.hash = "sha1" }), NamespaceCase, refusal.SignatureInvalid, "unsupported hash"},
		{"hash swapped", edit(func(r *rawSig) { r.hash = "sha256" }), NamespaceCase, refusal.SignatureInvalid, "does not match"},
		{"reserved field in use", edit(func(r *rawSig) { r.reserved = "x" }), NamespaceCase, refusal.SignatureInvalid, "reserved"},
		{"reserved field in use and signed", reserved(), NamespaceCase, refusal.SignatureInvalid, "reserved"},
		{"bytes after the blob", edit(func(r *rawSig) { r.atTail = []byte{0} }), NamespaceCase, refusal.SignatureInvalid, ""},
		{"bytes after the signature", edit(func(r *rawSig) { r.afterSig = []byte{0} }), NamespaceCase, refusal.SignatureInvalid, "after the signature"},
		{"another algorithm's name", edit(func(r *rawSig) { r.format = "ssh-rsa" }), NamespaceCase, refusal.SignatureInvalid, `algorithm "ssh-rsa" by a ssh-ed25519 key`},
		{"short signature", edit(func(r *rawSig) { r.blob = r.blob[:63] }), NamespaceCase, refusal.SignatureInvalid, "does not match"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sig, err := team(t).Verify(tt.armored, message, tt.ns, noon)
			refused(t, err, tt.refusal, tt.text)
			if sig.Principal() != "" {
				t.Errorf("a refused signature names %s", sig.Principal())
			}
		})
	}
}

func TestVerifyRefusesEveryBitFlip(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and one goroutine has nothing to race with")
	}
	s := team(t)
	good := signAs(t, "alice", NamespaceCase, message)
	for i := range good {
		for bit := range 8 {
			bad := bytes.Clone(good)
			bad[i] ^= 1 << bit
			_, err := s.Verify(bad, message, NamespaceCase, noon)
			switch refusal.Of(err).Name {
			case refusal.SignatureInvalid, refusal.NamespaceNotAllowed, refusal.WeakKey:
			default:
				t.Fatalf("byte %d bit %d: %v", i, bit, err)
			}
		}
	}
}

func TestVerifyJudgesTheTimeGiven(t *testing.T) {
	s := mustParse(t, signersText(
		line(t, "alice", `valid-after="20260101Z",valid-before="20260630120000Z"`, ""),
		// Bob's key rests in April and comes back in another role.
		line(t, "bob", `valid-before="20260331Z"`, "roles=curator"),
		line(t, "bob", `valid-after="202605010000Z"`, "roles=security"),
		line(t, "carol", `namespaces="tallystick-c*,!tallystick-case"`, "")))
	at := func(text string) time.Time {
		parsed, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	tests := []struct {
		name    string
		who     string
		at      time.Time
		refusal refusal.Name // empty when accepted
		text    string
	}{
		{"a second too early", "alice", at("2025-12-31T23:59:59Z"), refusal.SignerNotValidThen, "alice signs from 2026-01-01 00:00:00 UTC until 2026-06-30 12:00:00 UTC (signers version 1 line 3), the act is dated 2025-12-31T23:59:59Z"},
		{"the first second", "alice", at("2026-01-01T00:00:00Z"), "", ""},
		{"the last second", "alice", at("2026-06-30T12:00:00.999Z"), "", ""},
		{"a second too late", "alice", at("2026-06-30T12:00:01Z"), refusal.SignerNotValidThen, "the act is dated 2026-06-30T12:00:01Z"},
		{"the last second in another time zone", "alice", at("2026-06-30T14:00:00+02:00"), "", ""},
		{"between two lines", "bob", at("2026-04-15T00:00:00Z"), refusal.SignerNotValidThen, "bob signs until 2026-03-31"},
		{"on the second line", "bob", at("2026-05-12T00:00:00Z"), "", ""},
		{"no time", "alice", time.Time{}, refusal.Failed, "no time given"},
		{"before 1970", "alice", at("1969-12-31T23:59:59Z"), refusal.Failed, "no time given"},
		{"not for this act", "carol", noon, refusal.NamespaceNotAllowed, `carol may sign "tallystick-c*,!tallystick-case" and not "tallystick-case" (signers version 1 line 6)`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := s.Verify(signAs(t, tt.who, NamespaceCase, message), message, NamespaceCase, tt.at)
			if tt.refusal == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			refused(t, err, tt.refusal, tt.text)
		})
	}

	// A role counts while its line is in force and not before.
	sig, err := s.Verify(signAs(t, "bob", NamespaceCase, message), message, NamespaceCase, noon)
	if err != nil || !sig.Holds(Security) || sig.Holds(Curator) {
		t.Errorf("bob in May: %v, %v", sig.Roles(), err)
	}
}

func rsaSigner(t testing.TB) (*rsa.PrivateKey, *Signers) {
	t.Helper()
	key, err := strongRSA()
	if err != nil {
		t.Fatal(err)
	}
	pub, err := ssh.NewPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return key, mustParse(t, signersText("rita "+strings.TrimSpace(string(ssh.MarshalAuthorizedKey(pub)))))
}

func TestRSASignaturesAreStrict(t *testing.T) {
	key, s := rsaSigner(t)
	pub, _ := ssh.NewPublicKey(&key.PublicKey)
	sum := sha512.Sum512(message)
	data := signedData(string(NamespaceCase), "", "sha512", sum[:])
	sign := func(h crypto.Hash) []byte {
		hash := h.New()
		hash.Write(data)
		blob, err := rsa.SignPKCS1v15(rand.Reader, key, h, hash.Sum(nil))
		if err != nil {
			t.Fatal(err)
		}
		return blob
	}
	armored := func(format string, blob []byte) []byte {
		return armor(rawSig{magic: "SSHSIG", version: 1, key: pub.Marshal(), namespace: string(NamespaceCase),
			hash: "sha512", format: format, blob: blob}.marshal())
	}

	for format, h := range map[string]crypto.Hash{"rsa-sha2-512": crypto.SHA512, "rsa-sha2-256": crypto.SHA256} {
		if _, err := s.Verify(armored(format, sign(h)), message, NamespaceCase, noon); err != nil {
			t.Errorf("%s: %v", format, err)
		}
	}
	_, err := s.Verify(armored("ssh-rsa", sign(crypto.SHA1)), message, NamespaceCase, noon)
	refused(t, err, refusal.SignatureInvalid, "ssh-rsa")

	padded := append([]byte{0}, sign(crypto.SHA512)...)
	_, err = s.Verify(armored("rsa-sha2-512", padded), message, NamespaceCase, noon)
	refused(t, err, refusal.SignatureInvalid, "RSA signature of 385 bytes, the key's are 384")

	// A signature that happens to begin with a zero byte, cut short: the
	// library pads it and would accept.
	for i := range 5000 {
		m := []byte{byte(i), byte(i >> 8)}
		sum := sha512.Sum512(m)
		h := sha512.Sum512(signedData(string(NamespaceCase), "", "sha512", sum[:]))
		blob, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA512, h[:])
		if err != nil {
			t.Fatal(err)
		}
		if blob[0] != 0 {
			continue
		}
		if _, err := s.Verify(armored("rsa-sha2-512", blob), m, NamespaceCase, noon); err != nil {
			t.Fatal(err)
		}
		_, err = s.Verify(armored("rsa-sha2-512", blob[1:]), m, NamespaceCase, noon)
		refused(t, err, refusal.SignatureInvalid, "RSA signature of 383 bytes")
		return
	}
	t.Log("no signature began with a zero byte; the short form was not tried")
}

func TestECDSASignaturesAreCanonical(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, _ := ssh.NewSignerFromKey(key)
	s := mustParse(t, signersText("eve "+strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))))
	blob, err := unarmor(string(mustSign(t, signer, NamespaceCase, message)))
	if err != nil {
		t.Fatal(err)
	}
	sig, err := parseBlob(blob)
	if err != nil {
		t.Fatal(err)
	}
	var rs struct{ R, S *big.Int }
	if err := ssh.Unmarshal(sig.Signature.Blob, &rs); err != nil {
		t.Fatal(err)
	}
	padded := ssh.Marshal(struct{ R, S []byte }{append([]byte{0, 0}, rs.R.Bytes()...), append([]byte{0, 0}, rs.S.Bytes()...)})
	forged := armor(rawSig{magic: "SSHSIG", version: 1, key: signer.PublicKey().Marshal(), namespace: string(NamespaceCase),
		hash: "sha512", format: sig.Signature.Format, blob: padded}.marshal())
	_, err = s.Verify(forged, message, NamespaceCase, noon)
	refused(t, err, refusal.SignatureInvalid, "ECDSA signature")
}

// rewrap breaks the base64 of an armoured signature into lines of another
// width.
func rewrap(armored []byte, width int) []byte {
	b64 := strings.ReplaceAll(string(armored[len(armorBegin):len(armored)-len(armorEnd)-1]), "\n", "")
	var out strings.Builder
	out.WriteString(armorBegin + "\n")
	for ; len(b64) > width; b64 = b64[width:] {
		out.WriteString(b64[:width] + "\n")
	}
	out.WriteString(b64 + "\n" + armorEnd + "\n")
	return []byte(out.String())
}

func TestSplitArmored(t *testing.T) {
	alice := signAs(t, "alice", NamespaceCase, message)
	bob := signAs(t, "bob", NamespaceCase, message)
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

	for _, width := range []int{64, 70, 76} {
		got, err := SplitArmored(join(rewrap(alice, width), rewrap(bob, width)))
		if err != nil {
			t.Fatalf("width %d: %v", width, err)
		}
		if len(got) != 2 || !bytes.Equal(got[0], alice) || !bytes.Equal(got[1], bob) {
			t.Errorf("width %d: the blocks are not as ssh-keygen writes them", width)
		}
	}

	tests := []struct {
		name string
		data []byte
		text string
	}{
		{"empty", nil, "the file is empty"},
		{"text between", join(alice, []byte("x\n"), bob), "signature 2: does not begin with"},
		{"blank line between", join(alice, []byte("\n"), bob), "signature 2: does not begin with"},
		{"text after", join(alice, []byte("x")), "signature 2: no line"},
		{"cut off", alice[:len(alice)-10], "signature 1: no line"},
		{"odd width", rewrap(alice, 65), "lines of 65 characters, expected 70"},
		{"one long line", rewrap(alice, 1000), "expected 70"},
		{"ragged lines", []byte(armorBegin + "\n" + strings.Repeat("A", 70) + "\n" + strings.Repeat("A", 68) + "\n" + strings.Repeat("A", 70) + "\n" + armorEnd + "\n"), "base64 line 2 has 68 characters, the first has 70"},
		{"a last line longer than the others", []byte(armorBegin + "\n" + strings.Repeat("A", 64) + "\n" + strings.Repeat("A", 68) + "\n" + armorEnd + "\n"), "last base64 line has 68 characters, expected 1 to 64"},
		{"an empty last line", []byte(armorBegin + "\n" + strings.Repeat("A", 64) + "\n\n" + armorEnd + "\n"), "last base64 line has 0 characters"},
		{"too many", bytes.Repeat(alice, 65), "more than 64 signatures"},
		{"too long", []byte(armorBegin + "\n" + strings.Repeat(strings.Repeat("A", 70)+"\n", 1000) + armorEnd + "\n"), "bytes long"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := SplitArmored(tt.data)
			refused(t, err, refusal.Malformed, tt.text)
		})
	}
}

func TestSplitArmoredRefusesASecondSpellingOfTheLastByte(t *testing.T) {
	// A blob of 1 mod 3 bytes leaves four bits of the last character unused.
	blob := []byte("four")
	honest := string(armor(blob))
	if !strings.Contains(honest, "Zm91cg==") {
		t.Fatal(honest)
	}
	_, err := SplitArmored([]byte(strings.Replace(honest, "cg==", "ch==", 1)))
	refused(t, err, refusal.Malformed, "not base64")
}
