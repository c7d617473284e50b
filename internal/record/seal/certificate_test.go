package seal

import (
	"crypto/rand"
	"testing"

	"golang.org/x/crypto/ssh"

	"tallystick/internal/record/refusal"
)

// forgeCert makes a certificate for carol's key in which anything may be
// wrong, and returns carol's signature over message under it.
func forgeCert(t *testing.T, authority ssh.Signer, edit func(*ssh.Certificate)) []byte {
	t.Helper()
	return signUnder(t, mustSigner(t, testKey(t, "carol").Ed25519()), authority, edit)
}

func signUnder(t *testing.T, holder, authority ssh.Signer, edit func(*ssh.Certificate)) []byte {
	t.Helper()
	cert := &ssh.Certificate{
		Key: holder.PublicKey(), CertType: ssh.UserCert, KeyId: "badge",
		ValidPrincipals: []string{"carol@example.org"}, ValidBefore: ssh.CertTimeInfinity,
	}
	edit(cert)
	if err := cert.SignCert(rand.Reader, authority); err != nil {
		t.Fatal(err)
	}
	signer, err := WithCertificate(holder, ssh.MarshalAuthorizedKey(cert))
	if err != nil {
		t.Fatal(err)
	}
	return mustSign(t, signer, NamespaceCase, message)
}

func unchanged(*ssh.Certificate) {}

func TestCertificateOfAPersonIsNoCertificateOfAnAuthority(t *testing.T) {
	// Alice is trusted to sign, not to name other people.
	s := mustParse(t, signersText(line(t, "alice", "", ""), line(t, "bob", "", "")))
	armored := forgeCert(t, testKey(t, "alice").Signer(), func(c *ssh.Certificate) { c.ValidPrincipals = []string{"alice"} })
	_, err := s.Verify(armored, message, NamespaceCase, noon)
	refused(t, err, refusal.SignerUnknown, "the certificate's authority")
}

func TestForgedCertificatesAreRefused(t *testing.T) {
	authority := testKey(t, "authority")
	s := mustParse(t, signersText("*@example.org cert-authority "+authority.Public().String()))
	if _, err := s.Verify(forgeCert(t, authority.Signer(), unchanged), message, NamespaceCase, noon); err != nil {
		t.Fatal(err)
	}
	weak, err := weakRSA()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name      string
		authority ssh.Signer
		edit      func(*ssh.Certificate)
		refusal   refusal.Name
		text      string
	}{
		{"reserved field in use", authority.Signer(), func(c *ssh.Certificate) { c.Reserved = []byte("x") }, refusal.SignatureInvalid, "uses its reserved field"},
		{"type of neither user nor host", authority.Signer(), func(c *ssh.Certificate) { c.CertType = 0 }, refusal.SignatureInvalid, "not a user certificate"},
		{"weak authority", mustSigner(t, weak), unchanged, refusal.WeakKey, "certificate authority: RSA key has 2048 bits"},
		{"unknown critical option", authority.Signer(), func(c *ssh.Certificate) { c.CriticalOptions = map[string]string{"verify-required": ""} }, refusal.SignatureInvalid, "unsupported critical option"},
		{"an end before the beginning of time", authority.Signer(), func(c *ssh.Certificate) { c.ValidBefore = 0 }, refusal.SignerNotValidThen, "expired"},
		{"a beginning beyond the end of time", authority.Signer(), func(c *ssh.Certificate) { c.ValidAfter = 1 << 63 }, refusal.SignerNotValidThen, "not yet valid"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := s.Verify(forgeCert(t, tt.authority, tt.edit), message, NamespaceCase, noon)
			refused(t, err, tt.refusal, tt.text)
		})
	}
}

func TestSHA1IsRefusedUnderACertificateToo(t *testing.T) {
	key, err := strongRSA()
	if err != nil {
		t.Fatal(err)
	}
	holder := mustSigner(t, key)
	sha1Only, err := ssh.NewSignerWithAlgorithms(holder.(ssh.AlgorithmSigner), []string{ssh.KeyAlgoRSA})
	if err != nil {
		t.Fatal(err)
	}

	t.Run("by the authority on the certificate", func(t *testing.T) {
		s := mustParse(t, signersText("*@example.org cert-authority "+keyText(holder)))
		if _, err := s.Verify(forgeCert(t, holder, unchanged), message, NamespaceCase, noon); err != nil {
			t.Fatal(err)
		}
		_, err := s.Verify(forgeCert(t, sha1Only, unchanged), message, NamespaceCase, noon)
		refused(t, err, refusal.SignatureInvalid, `certificate: RSA signature of algorithm "ssh-rsa"`)
	})
	t.Run("by the holder on the message", func(t *testing.T) {
		authority := testKey(t, "authority")
		s := mustParse(t, signersText("*@example.org cert-authority "+authority.Public().String()))
		blob, err := unarmor(string(signUnder(t, holder, authority.Signer(), unchanged)))
		if err != nil {
			t.Fatal(err)
		}
		sig, err := parseBlob(blob)
		if err != nil {
			t.Fatal(err)
		}
		sig.Signature, err = holder.(ssh.AlgorithmSigner).SignWithAlgorithm(rand.Reader, signedData(sig.Namespace, "", "sha512", sum512(message)), ssh.KeyAlgoRSA)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Verify(armor(sig.Marshal()), message, NamespaceCase, noon)
		refused(t, err, refusal.SignatureInvalid, `RSA signature of algorithm "ssh-rsa"`)
	})
}

func TestCertificateHasTheRolesOfTheLinesThatNameThePerson(t *testing.T) {
	authority := testKey(t, "authority")
	key := " cert-authority " + authority.Public().String()
	s := mustParse(t, signersText(
		"*@example.com"+key+" roles=operator",
		"*@example.org"+key+" roles=curator",
		"carol@*"+key+" roles=security"))
	sig, err := s.Verify(forgeCert(t, authority.Signer(), unchanged), message, NamespaceCase, noon)
	if err != nil {
		t.Fatal(err)
	}
	if sig.Holds(Operator) || !sig.Holds(Curator) || !sig.Holds(Security) {
		t.Errorf("roles %v", sig.Roles())
	}
}

// An authority names people whom the file does not list, so nothing but the
// count can tell that two spellings are one name.
func TestTwoSpellingsOfACertifiedNameAreOnePerson(t *testing.T) {
	authority := testKey(t, "authority")
	s := mustParse(t, signersText("*@example.org cert-authority "+authority.Public().String()+" roles=curator"))
	certify := func(key, name string) []byte {
		return signUnder(t, testKey(t, key).Signer(), authority.Signer(), func(c *ssh.Certificate) { c.ValidPrincipals = []string{name} })
	}
	carol, other := certify("carol", "carol@example.org"), certify("mallory", "Carol@example.org")
	_, err := s.VerifyQuorum([][]byte{carol, other}, message, NamespaceCase, noon, Rule{People: 2})
	refused(t, err, refusal.TwoPersonRule, "signed by carol@example.org, needs 2 of")
	if _, err := s.VerifyQuorum([][]byte{carol, certify("mallory", "dave@example.org")}, message, NamespaceCase, noon, Rule{People: 2}); err != nil {
		t.Error(err)
	}
}

func TestVerifySignatureTakesPlainKeysOnly(t *testing.T) {
	key, err := VerifySignature(signAs(t, "alice", NamespaceAnchor, message), message, NamespaceAnchor)
	if err != nil || !key.Equal(testKey(t, "alice").Public()) {
		t.Errorf("got %s, %v", key, err)
	}
	_, err = VerifySignature(signAs(t, "alice", NamespaceAnchor, message), []byte("another"), NamespaceAnchor)
	refused(t, err, refusal.SignatureInvalid, "does not match")
	_, err = VerifySignature(forgeCert(t, testKey(t, "authority").Signer(), unchanged), message, NamespaceCase)
	refused(t, err, refusal.SignerUnknown, "made with a certificate")
}
