package seal

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"math/big"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"tallystick/internal/record/refusal"
)

// softKey is a security key without hardware (PROTOCOL.u2f): it signs
// SHA256(application) || flags || counter || SHA256(message).
type softKey struct {
	public  ssh.PublicKey
	app     string
	flags   byte
	counter uint32
	sign    func(data []byte) []byte
}

func (k softKey) PublicKey() ssh.PublicKey { return k.public }

func (k softKey) Sign(_ io.Reader, data []byte) (*ssh.Signature, error) {
	app, sum := sha256.Sum256([]byte(k.app)), sha256.Sum256(data)
	tail := binary.BigEndian.AppendUint32([]byte{k.flags}, k.counter)
	signed := append(append(app[:], tail...), sum[:]...)
	return &ssh.Signature{Format: k.public.Type(), Blob: k.sign(signed), Rest: tail}, nil
}

func softEd25519(t testing.TB, name string, flags byte) softKey {
	t.Helper()
	private := testKey(t, name).Ed25519()
	public, err := ssh.ParsePublicKey(ssh.Marshal(struct {
		Name string
		Key  []byte
		App  string
	}{ssh.KeyAlgoSKED25519, private.Public().(ed25519.PublicKey), "ssh:"}))
	if err != nil {
		t.Fatal(err)
	}
	return softKey{public, "ssh:", flags, 7, func(data []byte) []byte { return ed25519.Sign(private, data) }}
}

func softECDSA(t testing.TB, flags byte) softKey {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := private.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	public, err := ssh.ParsePublicKey(ssh.Marshal(struct {
		Name, Curve string
		Key         []byte
		App         string
	}{ssh.KeyAlgoSKECDSA256, "nistp256", point, "ssh:"}))
	if err != nil {
		t.Fatal(err)
	}
	return softKey{public, "ssh:", flags, 7, func(data []byte) []byte {
		sum := sha256.Sum256(data)
		r, s, err := ecdsa.Sign(rand.Reader, private, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		return ssh.Marshal(struct{ R, S *big.Int }{r, s})
	}}
}

// keyText is a signer's public key as it stands in a signers file.
func keyText(s ssh.Signer) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.PublicKey())))
}

func TestSecurityKeysVerify(t *testing.T) {
	const present, verified = 0x01, 0x04
	for _, k := range []softKey{softEd25519(t, "alice", present), softEd25519(t, "bob", present|verified), softECDSA(t, present)} {
		s := mustParse(t, signersText("dora "+keyText(k)))
		sig, err := s.Verify(mustSign(t, k, NamespaceCase, message), message, NamespaceCase, noon)
		if err != nil {
			t.Fatalf("%s: %v", k.public.Type(), err)
		}
		if sig.Principal() != "dora" {
			t.Errorf("signed by %q", sig.Principal())
		}
		_, err = s.Verify(mustSign(t, k, NamespaceCase, message), []byte("another"), NamespaceCase, noon)
		refused(t, err, refusal.SignatureInvalid, "does not match")
	}
}

func TestSecurityKeyMustHaveBeenTouched(t *testing.T) {
	for _, k := range []softKey{softEd25519(t, "alice", 0), softECDSA(t, 0), softEd25519(t, "alice", 0x04)} {
		s := mustParse(t, signersText("dora "+keyText(k)))
		if _, err := SignWith(k, NamespaceCase, message); err == nil {
			t.Errorf("%s: SignWith gives out a signature made without a touch", k.public.Type())
		}
		_, err := s.Verify(rawSecurityKey(t, k, nil), message, NamespaceCase, noon)
		refused(t, err, refusal.SignatureInvalid, "user presence")
	}
}

func TestSecurityKeySignatureHasNothingAfterTheCounter(t *testing.T) {
	k := softEd25519(t, "alice", 1)
	s := mustParse(t, signersText("dora "+keyText(k)))
	if _, err := s.Verify(rawSecurityKey(t, k, nil), message, NamespaceCase, noon); err != nil {
		t.Fatal(err)
	}
	_, err := s.Verify(rawSecurityKey(t, k, []byte{0}), message, NamespaceCase, noon)
	refused(t, err, refusal.SignatureInvalid, "6 bytes of flags and counter, expected 5")
}

// rawSecurityKey signs without the checks of SignWith.
func rawSecurityKey(t testing.TB, k softKey, extra []byte) []byte {
	t.Helper()
	r := honest(t, NamespaceCase)
	sig, err := k.Sign(nil, signedData(r.namespace, "", r.hash, sum512(message)))
	if err != nil {
		t.Fatal(err)
	}
	r.key, r.format, r.blob, r.afterBlob = k.public.Marshal(), sig.Format, sig.Blob, append(sig.Rest, extra...)
	return armor(r.marshal())
}
