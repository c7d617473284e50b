package seal

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	pgp "github.com/ProtonMail/go-crypto/openpgp"
	pgparmor "github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/openpgp"
	"tallystick/internal/record/refusal"
)

// The other side in these tests is ProtonMail's implementation, which makes keys and
// signatures of its own; cmd/tally has a script with the real gpg.

var pgpMade = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func pgpConfig() *packet.Config {
	return &packet.Config{Algorithm: packet.PubKeyAlgoEdDSA, DefaultHash: crypto.SHA512, RSABits: 3072, Time: func() time.Time { return pgpMade }}
}

// pgpKey makes a key of a person.
func pgpKey(t testing.TB, name string, config *packet.Config) *pgp.Entity {
	t.Helper()
	e, err := pgp.NewEntity(name, "", name+"@example.org", config)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// withSubkey makes a key whose signatures are a subkey's.
func withSubkey(t testing.TB, name string, config *packet.Config) *pgp.Entity {
	t.Helper()
	e := pgpKey(t, name, config)
	if err := e.AddSigningSubkey(config); err != nil {
		t.Fatal(err)
	}
	return e
}

func exported(t testing.TB, e *pgp.Entity) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := e.Serialize(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// pgpLine is the line of a key in the signers file.
func pgpLine(t testing.TB, principal string, e *pgp.Entity, roles ...Role) string {
	t.Helper()
	entry, err := NewOpenPGPEntry(principal, roles, exported(t, e), noon)
	if err != nil {
		t.Fatal(err)
	}
	return entry.String()
}

// pgpSign makes a binary signature over bytes.
func pgpSign(t testing.TB, e *pgp.Entity, message []byte, config *packet.Config) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := pgp.DetachSign(&b, e, bytes.NewReader(message), config); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// pgpSigned is a signature for an act, as a .sig file gives it.
func pgpSigned(t testing.TB, e *pgp.Entity, ns Namespace, message []byte) []byte {
	t.Helper()
	blocks, err := SplitArmored(pgpSign(t, e, OpenPGPMessage(ns, message), pgpConfig()))
	if err != nil {
		t.Fatal(err)
	}
	return blocks[0]
}

var act = []byte("the bytes of a case\n")

func TestOpenPGPKeysOfEveryAcceptedKindSign(t *testing.T) {
	v6 := pgpConfig()
	v6.V6Keys, v6.Algorithm = true, packet.PubKeyAlgoEd25519
	modern := pgpConfig()
	modern.Algorithm = packet.PubKeyAlgoEd25519
	p256, p384, rsa := pgpConfig(), pgpConfig(), pgpConfig()
	p256.Algorithm, p256.Curve = packet.PubKeyAlgoECDSA, packet.CurveNistP256
	p384.Algorithm, p384.Curve = packet.PubKeyAlgoECDSA, packet.CurveNistP384
	rsa.Algorithm = packet.PubKeyAlgoRSA
	for _, tt := range []struct {
		name string
		key  *pgp.Entity
	}{
		{"Ed25519 of version 4", pgpKey(t, "gus", pgpConfig())},
		{"Ed25519 of version 4 in the newer encoding", pgpKey(t, "gus", modern)},
		{"Ed25519 of version 6", pgpKey(t, "gus", v6)},
		{"P-256", pgpKey(t, "gus", p256)},
		{"P-384", pgpKey(t, "gus", p384)},
		{"RSA", pgpKey(t, "gus", rsa)},
		{"a subkey", withSubkey(t, "gus", pgpConfig())},
		{"a subkey of version 6", withSubkey(t, "gus", v6)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			signers := mustParse(t, signersText(pgpLine(t, "gus", tt.key, Curator)))
			sig, err := signers.Verify(pgpSigned(t, tt.key, NamespaceCase, act), act, NamespaceCase, noon)
			if err != nil {
				t.Fatal(err)
			}
			if sig.Principal() != "gus" || !sig.Holds(Curator) || sig.Key().Type() != "openpgp" {
				t.Errorf("signed by %s (%v) with %s", sig.Principal(), sig.Roles(), sig.Key().Fingerprint())
			}
			again, err := Compose(1, digest.ID{}, signers.Entries())
			if err != nil || string(again) != signersText(pgpLine(t, "gus", tt.key, Curator)) {
				t.Errorf("composed again: %v\n%s", err, again)
			}
		})
	}
}

// TestOpenPGPForgeries: what must not pass for a signature of gus over an act.
func TestOpenPGPForgeries(t *testing.T) {
	gus, sub, mallory := pgpKey(t, "gus", pgpConfig()), withSubkey(t, "sam", pgpConfig()), withSubkey(t, "mallory", pgpConfig())
	signers := mustParse(t, signersText(pgpLine(t, "gus", gus, Curator), pgpLine(t, "sam", sub, Curator), line(t, "alice", "", "roles=curator")))
	good := pgpSign(t, gus, OpenPGPMessage(NamespaceCase, act), pgpConfig())
	goodText := string(pgpSigned(t, gus, NamespaceCase, act))
	sha1 := bytes.Clone(good)
	sha1[bytes.Index(sha1, []byte{4, 0, 22, 10})+3] = 2 // version, type, EdDSA, SHA-512
	// A claim in the unsigned part, beside the key's number or alone.
	claimed := func(more ...byte) []byte {
		body := good[2:] // version 4, shorter than 192 bytes
		at := 6 + int(body[5])
		unsigned := append(bytes.Clone(body[at+2:at+2+int(body[at+1])]), more...)
		body = slices.Concat(body[:at], []byte{0, byte(len(unsigned))}, unsigned, body[at+2+int(body[at+1]):])
		return append([]byte{0x89, 0, byte(len(body))}, body...) // the older header, of two bytes
	}
	expiring := pgpConfig()
	expiring.SigLifetimeSecs = 60

	text := func() []byte {
		var b bytes.Buffer
		if err := pgp.DetachSignText(&b, gus, bytes.NewReader(OpenPGPMessage(NamespaceCase, act)), pgpConfig()); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	for _, tt := range []struct {
		name string
		file []byte
		want refusal.Name
		says string
	}{
		{"over another namespace", pgpSign(t, gus, OpenPGPMessage(NamespaceBench, act), pgpConfig()), refusal.NamespaceNotAllowed, `made for "tallystick-bench"`},
		{"over the file itself", pgpSign(t, gus, act, pgpConfig()), refusal.SignatureInvalid, "covers the file itself"},
		{"over another file", pgpSign(t, gus, OpenPGPMessage(NamespaceCase, []byte("other")), pgpConfig()), refusal.SignatureInvalid, "does not match"},
		{"over the text without its last newline", pgpSign(t, gus, bytes.TrimSpace(OpenPGPMessage(NamespaceCase, act)), pgpConfig()), refusal.SignatureInvalid, "does not match"},
		{"by a key that is not listed", pgpSign(t, mallory, OpenPGPMessage(NamespaceCase, act), pgpConfig()), refusal.SignerUnknown, "is not in"},
		{"as text", text(), refusal.Malformed, "type 0x01"},
		{"two signatures in one file", append(bytes.Clone(good), good...), refusal.Malformed, "bytes after the signature"},
		{"a byte after it", append(bytes.Clone(good), 0), refusal.Malformed, "bytes after the signature"},
		{"cut off", good[:len(good)-1], refusal.Malformed, "packet of"},
		{"a weak hash", sha1, refusal.Malformed, "hash algorithm 2"},
		{"a name in the unsigned part", claimed(4, 28, 'b', 'o', 'b'), refusal.Malformed, "unsigned part"},
		{"another key's number in the unsigned part", claimed(9, 16, 1, 2, 3, 4, 5, 6, 7, 8), refusal.Malformed, "unsigned part"},
		{"one that expires", pgpSign(t, gus, OpenPGPMessage(NamespaceCase, act), expiring), refusal.Malformed, "expires"},
		{"a public key", exported(t, gus), refusal.Malformed, "expected a signature"},
		{"armour with a comment", []byte(strings.Replace(goodText, "\n\n", "\nComment: signed by alice\n\n", 1)), refusal.Malformed, "headers"},
		{"armour without the empty line", []byte(strings.Replace(goodText, "\n\n", "\n", 1)), refusal.Malformed, "headers"},
		{"armour with carriage returns", []byte(strings.ReplaceAll(goodText, "\n", "\r\n")), refusal.Malformed, ""},
		{"armour with another checksum", []byte(strings.Replace(goodText, "\n=", "\n=A", 1)), refusal.Malformed, "checksum"},
		{"text before the armour", []byte("hello\n" + goodText), refusal.Malformed, ""},
		{"text after the armour", []byte(goodText + "hello\n"), refusal.Malformed, ""},
		{"armour of a message", []byte(strings.ReplaceAll(goodText, "PGP SIGNATURE", "PGP MESSAGE")), refusal.Malformed, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			blocks, err := SplitArmored(tt.file)
			if err == nil {
				_, err = signers.Verify(blocks[0], act, NamespaceCase, noon)
			}
			if !refusal.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("found %v, expected %s with %q", err, tt.want, tt.says)
			}
		})
	}
	if _, err := signers.Verify([]byte(goodText), act, NamespaceCase, noon); err != nil {
		t.Errorf("the honest one: %v", err)
	}
	// What is kept has one spelling: no checksum is a second one.
	start := strings.LastIndex(goodText, "\n=")
	bare := goodText[:start+1] + goodText[start+7:]
	if blocks, err := SplitArmored([]byte(bare)); err != nil || string(blocks[0]) != goodText {
		t.Errorf("armour without a checksum (RFC 9580): %v", err)
	}
	if _, err := signers.Verify([]byte(bare), act, NamespaceCase, noon); !refusal.Is(err, refusal.SignatureInvalid) {
		t.Errorf("a second spelling: found %v", err)
	}
	if _, err := signers.Verify([]byte(goodText), act, "", noon); !refusal.Is(err, refusal.NamespaceNotAllowed) {
		t.Errorf("an empty namespace: found %v", err)
	}
	if _, err := VerifySignature([]byte(goodText), act, NamespaceCase); !refusal.Is(err, refusal.SignatureInvalid) {
		t.Errorf("where one SSH key is pinned: found %v", err)
	}
}

// TestOpenPGPSignatureHasOneSpelling: no bit of a signature can be changed, not
// even in the unsigned part.
func TestOpenPGPSignatureHasOneSpelling(t *testing.T) {
	v6 := pgpConfig()
	v6.V6Keys, v6.Algorithm = true, packet.PubKeyAlgoEd25519
	for name, key := range map[string]*pgp.Entity{"version 4": pgpKey(t, "gus", pgpConfig()), "version 6": pgpKey(t, "gus", v6)} {
		t.Run(name, func(t *testing.T) {
			signers := mustParse(t, signersText(pgpLine(t, "gus", key, Curator)))
			good, err := openpgp.ParseArmored(pgpSigned(t, key, NamespaceCase, act))
			if err != nil {
				t.Fatal(err)
			}
			data := good.Bytes()
			for i := range len(data) * 8 {
				forged := bytes.Clone(data)
				forged[i/8] ^= 1 << (i % 8)
				blocks, err := SplitArmored(forged)
				if err != nil || string(blocks[0]) == string(good.Armor()) {
					continue // the header in its older form, which is spelled again
				}
				if _, err := signers.Verify(blocks[0], act, NamespaceCase, noon); err == nil {
					t.Errorf("bit %d can be changed", i)
				}
			}
		})
	}
}

// TestOpenPGPValidityIsTheSignersFile: the verifier ignores dates inside
// OpenPGP.
func TestOpenPGPValidityIsTheSignersFile(t *testing.T) {
	short := pgpConfig()
	short.KeyLifetimeSecs = uint32(noon.Sub(pgpMade)/time.Second) + 60
	key := pgpKey(t, "gus", short)
	written := pgpLine(t, "gus", key, Curator)
	sig := pgpSigned(t, key, NamespaceCase, act)

	// The key has expired by its own word; the line has no end.
	if _, err := mustParse(t, signersText(written)).Verify(sig, act, NamespaceCase, noon.AddDate(5, 0, 0)); err != nil {
		t.Errorf("five years later: %v", err)
	}
	// The signature says it was made long before the line began.
	late := mustParse(t, signersText(strings.Replace(written, "gus ", `gus valid-after="20260601Z" `, 1)))
	if _, err := late.Verify(sig, act, NamespaceCase, noon); !refusal.Is(err, refusal.SignerNotValidThen) {
		t.Errorf("before the line is valid: %v", err)
	}
	if _, err := late.Verify(sig, act, NamespaceCase, noon.AddDate(0, 2, 0)); err != nil {
		t.Errorf("after: %v", err)
	}
	bound := mustParse(t, signersText(strings.Replace(written, "gus ", `gus namespaces="tallystick-bench" `, 1)))
	if _, err := bound.Verify(sig, act, NamespaceCase, noon); !refusal.Is(err, refusal.NamespaceNotAllowed) {
		t.Errorf("an act that the line does not admit: %v", err)
	}
	// What has expired is not registered.
	if _, err := NewOpenPGPEntry("gus", nil, exported(t, key), noon.AddDate(1, 0, 0)); err == nil || !strings.Contains(err.Error(), "expired on 2026-05-12") {
		t.Errorf("registering an expired key: %v", err)
	}
}

// TestOpenPGPKeysThatAreNotRegistered: keys under which a signature would prove little,
// or that another person could speak for.
func TestOpenPGPKeysThatAreNotRegistered(t *testing.T) {
	register := func(data []byte) error {
		_, err := NewOpenPGPEntry("gus", nil, data, noon)
		return err
	}
	small, ed448 := pgpConfig(), pgpConfig()
	small.Algorithm, small.RSABits = packet.PubKeyAlgoRSA, 2048
	ed448.Algorithm = packet.PubKeyAlgoEd448
	sha1 := exported(t, pgpKey(t, "gus", pgpConfig()))
	sha1[bytes.Index(sha1, []byte{4, 0x13, 22, 10})+3] = 2 // version, type, EdDSA, SHA-512

	revoked := pgpKey(t, "gus", pgpConfig())
	if err := revoked.RevokeKey(packet.KeyCompromised, "lost", pgpConfig()); err != nil {
		t.Fatal(err)
	}
	revokedSub := withSubkey(t, "gus", pgpConfig())
	if err := revokedSub.RevokeSubkey(&revokedSub.Subkeys[1], packet.KeyCompromised, "lost", pgpConfig()); err != nil {
		t.Fatal(err)
	}
	p521 := pgpConfig()
	p521.Algorithm, p521.Curve = packet.PubKeyAlgoECDSA, packet.CurveNistP521
	// mallory puts sam's signing subkey under their own key: sam never signed back.
	mallory, sam := pgpKey(t, "mallory", pgpConfig()), withSubkey(t, "sam", pgpConfig())
	stolen := sam.Subkeys[1]
	stolen.Sig = &packet.Signature{Version: 4, SigType: packet.SigTypeSubkeyBinding, PubKeyAlgo: mallory.PrimaryKey.PubKeyAlgo, Hash: crypto.SHA512,
		CreationTime: pgpMade, IssuerKeyId: &mallory.PrimaryKey.KeyId, IssuerFingerprint: mallory.PrimaryKey.Fingerprint, FlagsValid: true, FlagSign: true,
		EmbeddedSignature: sam.Subkeys[1].Sig.EmbeddedSignature}
	if err := stolen.Sig.SignKey(stolen.PublicKey, mallory.PrivateKey, pgpConfig()); err != nil {
		t.Fatal(err)
	}
	mallory.Subkeys = append(mallory.Subkeys, stolen)
	line := pgpLine(t, "mallory", mallory, Curator)
	signers := mustParse(t, signersText(line, pgpLine(t, "sam", sam, Security)))
	sig, err := signers.Verify(pgpSigned(t, sam, NamespaceCase, act), act, NamespaceCase, noon)
	if err != nil || sig.Principal() != "sam" {
		t.Errorf("a stolen subkey: signed by %s (%v), expected sam", sig.Principal(), err)
	}

	for _, tt := range []struct {
		name string
		data []byte
		says string
	}{
		{"RSA of 2048 bits", exported(t, pgpKey(t, "gus", small)), "2048 bits, needs at least 3072"},
		{"Ed448", exported(t, pgpKey(t, "gus", ed448)), "key algorithm 28"},
		{"P-521", exported(t, pgpKey(t, "gus", p521)), "ECDSA curve"},
		{"a self-signature with a weak hash", sha1, "hash algorithm 2"},
		{"a revoked key", exported(t, revoked), "revocation (type 0x20)"},
		{"a revoked subkey", exported(t, revokedSub), "revocation (type 0x28)"},
		{"two keys", append(exported(t, sam), exported(t, mallory)...), "more than one key"},
		{"nothing", nil, "not a public key"},
		{"a signature", pgpSign(t, sam, act, pgpConfig()), "not a public key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := register(tt.data); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("found %v, expected %q", err, tt.says)
			}
		})
	}
	// An armoured export is as good.
	var b bytes.Buffer
	w, err := pgparmor.Encode(&b, pgp.PublicKeyType, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.Write(exported(t, sam))
	w.Close()
	if err := register(append(b.Bytes(), '\n')); err != nil {
		t.Errorf("an armoured export: %v", err)
	}
}

// TestOpenPGPLinesThatAreRefused: the line says who signs, so it has one meaning.
func TestOpenPGPLinesThatAreRefused(t *testing.T) {
	gus, sam := pgpKey(t, "gus", pgpConfig()), withSubkey(t, "sam", pgpConfig())
	good := pgpLine(t, "gus", gus, Curator)
	fields := strings.Fields(good) // # openpgp-signer: gus FPR KEY roles=curator
	other := strings.Fields(pgpLine(t, "sam", sam, Curator))
	data, err := base64.StdEncoding.DecodeString(other[4])
	if err != nil {
		t.Fatal(err)
	}
	key, err := openpgp.ParseKey(data)
	if err != nil {
		t.Fatal(err)
	}
	// The primary key of gus with the subkey of sam, and sam without the binding.
	gusData, err := base64.StdEncoding.DecodeString(fields[4])
	if err != nil {
		t.Fatal(err)
	}
	const packetSize = 2 + 51                             // header and body of an Ed25519 key
	subkey := bytes.Index(data, []byte{0xC0 | 14, 51, 4}) // the only subkey
	mixed := base64.StdEncoding.EncodeToString(append(bytes.Clone(gusData), data[subkey:]...))
	unbound := base64.StdEncoding.EncodeToString(data[:subkey+packetSize])

	// The SSH key with the secret of sam's OpenPGP key.
	secret, err := NewPublicKey(key.Primary().Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	subSecret, err := NewPublicKey(key.Signing()[1].Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		text string
		want refusal.Name
		says string
	}{
		{"another fingerprint", signersText(strings.Replace(good, fields[3], other[3], 1)), refusal.Malformed, "the key in it is " + fields[3]},
		{"a fingerprint in small letters", signersText(strings.Replace(good, fields[3], strings.ToLower(fields[3]), 1)), refusal.Malformed, "names the OpenPGP key"},
		{"the key number in place of the fingerprint", signersText(strings.Replace(good, fields[3], fields[3][24:], 1)), refusal.Malformed, "names the OpenPGP key"},
		{"no key", signersText("# openpgp-signer: gus " + fields[3]), refusal.Malformed, "expected principal"},
		{"another person's subkey", signersText(strings.Replace(good, fields[4], mixed, 1)), refusal.Malformed, "made by another key"},
		{"a subkey that is not bound", signersText(strings.Replace(strings.Join(other, " "), other[4], unbound, 1)), refusal.Malformed, "expected a subkey and its binding"},
		{"an authority", signersText(strings.Replace(good, "gus ", "gus cert-authority ", 1)), refusal.Malformed, "cert-authority"},
		{"an operator", signersText(strings.Replace(good, "curator", "operator", 1)), refusal.Malformed, "role operator"},
		{"an unknown option", signersText(strings.Replace(good, "gus ", `gus touch="no" `, 1)), refusal.Malformed, "unknown option"},
		{"a pattern for a name", signersText(strings.Replace(good, "gus ", "g* ", 1)), refusal.Malformed, "is a pattern"},
		{"two people with one key", signersText(good, strings.Replace(good, "gus ", "zoe ", 1)), refusal.DuplicateKey, "is listed for gus and for zoe"},
		{"one secret as SSH key of another person", signersText(strings.Join(other, " "), "zoe "+secret.String()), refusal.DuplicateKey, "is listed for sam and for zoe"},
		{"a subkey's secret as SSH key of another person", signersText(strings.Join(other, " "), "zoe "+subSecret.String()), refusal.DuplicateKey, "is listed for sam and for zoe"},
		{"one secret as SSH key and as OpenPGP key", signersText(strings.Join(other, " "), "sam "+secret.String()), refusal.DuplicateKey, "two wrappings"},
		{"a comment that looks like a line", signersText("#  openpgp-signer: gus"), refusal.Malformed, "looks like an OpenPGP key"},
		{"in capitals", signersText(strings.Replace(good, "openpgp", "OpenPGP", 1)), refusal.Malformed, "looks like an OpenPGP key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseSigners("signers", []byte(tt.text))
			if !refusal.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("found %v, expected %s with %q", err, tt.want, tt.says)
			}
		})
	}
}

// TestOneSecretAndOnePersonCountOnce: an SSH key and an OpenPGP key of one person are
// one person.
func TestOneSecretAndOnePersonCountOnce(t *testing.T) {
	gus, zoe := pgpKey(t, "gus", pgpConfig()), pgpKey(t, "zoe", pgpConfig())
	signers := mustParse(t, signersText(line(t, "gus", "", "roles=curator"), pgpLine(t, "gus", gus, Security), pgpLine(t, "zoe", zoe, Curator)))
	two := Rule{People: 2, Roles: []Role{Security}}
	both := [][]byte{signAs(t, "gus", NamespaceBench, act), pgpSigned(t, gus, NamespaceBench, act)}
	if _, err := signers.VerifyQuorum(both, act, NamespaceBench, noon, two); !refusal.Is(err, refusal.TwoPersonRule) {
		t.Errorf("one person with two keys: %v", err)
	}
	people, err := signers.VerifyQuorum(append(both, pgpSigned(t, zoe, NamespaceBench, act)), act, NamespaceBench, noon, two)
	if err != nil || len(people) != 2 || !people[0].Holds(Security) || !people[0].Holds(Curator) {
		t.Errorf("two people: %v, %v", people, err)
	}
}

// TestOpenPGPLineMeansNothingToSSHKeygen: strangers use the file with ssh-keygen.
func TestOpenPGPLineMeansNothingToSSHKeygen(t *testing.T) {
	k := newSSHKeygen(t)
	text := signersText(pgpLine(t, "gus", withSubkey(t, "gus", pgpConfig()), Curator), line(t, "alice", "", "roles=curator"))
	k.write(t, "allowed_signers", []byte(text))
	k.write(t, "act.sig", signAs(t, "alice", NamespaceCase, act))
	k.mustRun(t, act, "-Y", "verify", "-f", "allowed_signers", "-I", "alice", "-n", "tallystick-case", "-s", "act.sig")
}

// TestOpenPGPKeyOfSmallOrderIsRefused: under such a key one signature fits
// every message, and the key's signature over itself proves nothing. This one
// was made without a secret.
func TestOpenPGPKeyOfSmallOrderIsRefused(t *testing.T) {
	identity := append([]byte{1}, make([]byte, 31)...)
	basePoint := append([]byte{0x58}, bytes.Repeat([]byte{0x66}, 31)...)
	made := []byte{0x60, 0, 0, 0}
	packetOf := func(tag byte, parts ...[]byte) []byte {
		body := slices.Concat(parts...)
		return append([]byte{0xC0 | tag, byte(len(body))}, body...)
	}

	key := packetOf(6, []byte{4}, made, []byte{22, 9}, []byte("\x2B\x06\x01\x04\x01\xDA\x47\x0F\x01"), []byte{1, 7, 0x40}, identity)
	body := key[2:]
	covered := append([]byte{0x99, 0, byte(len(body))}, body...)
	fingerprint := sha1.Sum(covered)
	user := packetOf(13, []byte("gus"))
	hashed := slices.Concat([]byte{5, 2}, made, []byte{2, 27, 3}, []byte{22, 33, 4}, fingerprint[:])
	trailer := append([]byte{4, 0x13, 22, 8, 0, byte(len(hashed))}, hashed...)
	sum := sha256.Sum256(slices.Concat(covered, []byte{0xB4, 0, 0, 0, 3}, []byte("gus"), trailer, []byte{4, 0xFF, 0, 0, 0, byte(len(trailer))}))
	// 1·B = B + k·0, whatever k is: R is the base point and S is one.
	self := packetOf(2, trailer, []byte{0, 0}, sum[:2], []byte{0, 255}, basePoint, []byte{0, 249}, identity)
	export := slices.Concat(key, user, self)

	if _, err := openpgp.Minimal(export, noon); err != nil {
		t.Fatalf("OpenPGP alone takes it for a key, or this test shows nothing: %v", err)
	}
	if _, err := NewOpenPGPEntry("gus", nil, export, noon); !refusal.Is(err, refusal.WeakKey) {
		t.Errorf("registering it: %v", err)
	}
	text := signersText(fmt.Sprintf("# openpgp-signer: gus %X %s", fingerprint, base64.StdEncoding.EncodeToString(export)))
	if _, err := ParseSigners("signers", []byte(text)); !refusal.Is(err, refusal.WeakKey) {
		t.Errorf("listing it: %v", err)
	}
}

// FuzzOpenPGPSignature: whatever is read has one spelling.
func FuzzOpenPGPSignature(f *testing.F) {
	f.Add(pgpSigned(f, pgpKey(f, "gus", pgpConfig()), NamespaceCase, act))
	f.Add(pgpSign(f, pgpKey(f, "gus", pgpConfig()), act, pgpConfig()))
	f.Add([]byte("-----BEGIN PGP SIGNATURE-----\n\n=\n-----END PGP SIGNATURE-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		blocks, err := SplitArmored(data)
		if err != nil {
			return
		}
		for _, b := range blocks {
			if again, err := SplitArmored(b); err != nil || len(again) != 1 || !bytes.Equal(again[0], b) {
				t.Errorf("read again as %d signatures: %v", len(again), err)
			}
		}
	})
}

// FuzzOpenPGPKey: whatever is read as a key has one spelling, and what is kept of an
// export is read again as the same.
func FuzzOpenPGPKey(f *testing.F) {
	f.Add(exported(f, withSubkey(f, "gus", pgpConfig())))
	f.Fuzz(func(t *testing.T, data []byte) {
		if key, err := openpgp.ParseKey(data); err == nil && !bytes.Equal(key.Bytes(), data) {
			t.Errorf("spelled again as %x", key.Bytes())
		}
		key, err := openpgp.Minimal(data, noon)
		if err != nil {
			return
		}
		if again, err := openpgp.ParseKey(key.Bytes()); err != nil || again.Fingerprint() != key.Fingerprint() {
			t.Errorf("what is kept: %v", err)
		}
	})
}

// TestOpenPGPFormatExampleIsReal: the example was made by gpg, once and for all.
func TestOpenPGPFormatExampleIsReal(t *testing.T) {
	doc := formatExample(t)
	const act = "worked example\n"
	if got := string(OpenPGPMessage(NamespaceCase, []byte(act))); got != doc["openpgp_covered"] {
		t.Errorf("what is signed is %q, the page has %q", got, doc["openpgp_covered"])
	}
	signers := mustParse(t, doc["openpgp_signers"])
	sig, err := signers.Verify([]byte(doc["openpgp.sig"]), []byte(act), NamespaceCase, noon)
	if err != nil || sig.Principal() != "gus@example.org" {
		t.Errorf("signed by %s, %v", sig.Principal(), err)
	}
	older := strings.Replace(doc["openpgp.sig"], "\nwnQ", "\niHQ", 1)
	older = older[:strings.LastIndex(older, "\n=")+1] + openpgp.ArmorEnd + "\n"
	if blocks, err := SplitArmored([]byte(older)); err != nil || string(blocks[0]) != doc["openpgp.sig"] {
		t.Errorf("as gpg wrote it: %v", err)
	}
}
