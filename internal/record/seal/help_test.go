package seal

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"tallystick/internal/record/refusal"
)

// noon is when the acts in these tests happen, unless the test is about time.
var noon = time.Date(2026, 5, 12, 12, 0, 0, 0, time.UTC)

// testKey derives a key from a name, the same one for ever.
func testKey(t testing.TB, name string) *Key {
	t.Helper()
	seed := sha256.Sum256([]byte("tallystick test key " + name))
	k, err := NewKey(bytes.NewReader(seed[:]))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// signAs signs with the named test key.
func signAs(t testing.TB, name string, ns Namespace, message []byte) []byte {
	t.Helper()
	return mustSign(t, testKey(t, name).Signer(), ns, message)
}

func mustSign(t testing.TB, s ssh.Signer, ns Namespace, message []byte) []byte {
	t.Helper()
	armored, err := SignWith(s, ns, message)
	if err != nil {
		t.Fatal(err)
	}
	return armored
}

// line is an entry for the named test key.
func line(t testing.TB, name, options, comment string) string {
	t.Helper()
	return strings.Join(strings.Fields(name+" "+options+" "+testKey(t, name).Public().String()+" "+comment), " ")
}

// signersText puts a version 1 header over the lines.
func signersText(lines ...string) string {
	return "# tallystick-signers/1-draft\n# version: 1\n" + strings.Join(lines, "\n") + "\n"
}

func mustParse(t testing.TB, text string) *Signers {
	t.Helper()
	s, err := ParseSigners("signers", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// team is alice (curator), bob (security), carol (curator).
func team(t testing.TB) *Signers {
	t.Helper()
	return mustParse(t, signersText(
		line(t, "alice", "", "roles=curator"),
		line(t, "bob", "", "roles=security,operator"),
		line(t, "carol", "", "roles=curator")))
}

// refused insists on a refusal of the name whose message contains the text.
func refused(t testing.TB, err error, name refusal.Name, text string) {
	t.Helper()
	if err == nil {
		t.Fatalf("accepted, expected %s", name)
	}
	if got := refusal.Of(err).Name; got != name {
		t.Errorf("refused as %s, expected %s: %v", got, name, err)
	}
	if !strings.Contains(err.Error(), text) {
		t.Errorf("message %q does not contain %q", err, text)
	}
}

// nextVersion composes the version after prev.
func nextVersion(prev *Signers, lines ...string) []byte {
	return fmt.Appendf(nil, "# tallystick-signers/1-draft\n# version: %d\n# previous: %s\n%s\n",
		prev.Version()+1, prev.Digest(), strings.Join(lines, "\n"))
}

func mustSigner(t testing.TB, key crypto.Signer) ssh.Signer {
	t.Helper()
	signer, err := ssh.NewSignerFromSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// certifiedBlob is a signature by carol under a certificate.
func certifiedBlob(t testing.TB) []byte {
	t.Helper()
	cert := &ssh.Certificate{
		Key: testKey(t, "carol").Signer().PublicKey(), CertType: ssh.UserCert, KeyId: "badge",
		ValidPrincipals: []string{"carol@example.org"}, ValidBefore: ssh.CertTimeInfinity,
	}
	cert.Extensions = map[string]string{"permit-pty": ""}
	if err := cert.SignCert(rand.Reader, testKey(t, "authority").Signer()); err != nil {
		t.Fatal(err)
	}
	signer, err := WithCertificate(testKey(t, "carol").Signer(), ssh.MarshalAuthorizedKey(cert))
	if err != nil {
		t.Fatal(err)
	}
	blob, err := unarmor(string(mustSign(t, signer, NamespaceCase, message)))
	if err != nil {
		t.Fatal(err)
	}
	return blob
}

// Making RSA keys is slow, so all tests share one of each size.
var (
	strongRSA = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 3072) })
	weakRSA   = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })
)
