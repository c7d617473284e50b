package seal

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"tallystick/internal/record/refusal"
)

// SignWith signs a message for one act and returns the armoured signature,
// byte for byte what ssh-keygen would write for the same signature. The signer
// is a person's, from a file or the agent ([LoadSigner]), or a [Key]. Weak keys
// are refused now rather than by a verifier later.
func SignWith(s ssh.Signer, ns Namespace, message []byte) ([]byte, error) {
	if ns == "" {
		return nil, refusal.Newf(refusal.NamespaceNotAllowed, "signing: the namespace is empty")
	}
	// An agent's signer gives its key as bytes behind a type of its own.
	key, err := ssh.ParsePublicKey(s.PublicKey().Marshal())
	if err != nil {
		return nil, refusal.Newf(refusal.Malformed, "signing: decoding public key: %v", err)
	}
	if cert, ok := key.(*ssh.Certificate); ok {
		key = cert.Key
	}
	if err := checkStrength(key); err != nil {
		return nil, fmt.Errorf("signing with %s: %w", ssh.FingerprintSHA256(key), err)
	}
	if key.Type() == ssh.KeyAlgoRSA {
		rsa, ok := s.(ssh.AlgorithmSigner)
		if !ok {
			return nil, refusal.Newf(refusal.Failed, "signing with %s: the key's holder cannot make rsa-sha2-512 signatures", ssh.FingerprintSHA256(key))
		}
		s = rsaSHA512{rsa}
	}
	armored, err := signed(s, ns, message)
	if err != nil {
		return nil, err
	}
	// An agent is another program. Verify what it gave before it is stored.
	if _, err := verifyBytes(armored, message, ns); err != nil {
		return nil, refusal.Newf(refusal.Failed, "signing with %s: the signature just made does not verify: %v", ssh.FingerprintSHA256(key), err)
	}
	return armored, nil
}

// signed signs and does not look at what came of it.
func signed(s ssh.Signer, ns Namespace, message []byte) ([]byte, error) {
	sig, err := sshsig.Sign(bytes.NewReader(message), s, sshsig.HashSHA512, string(ns))
	if err != nil {
		return nil, refusal.Newf(refusal.Failed, "signing with %s: %w", ssh.FingerprintSHA256(s.PublicKey()), err)
	}
	return armor(sig.Marshal()), nil
}

// SignMessage signs a message for a receiver that verifies it at once. Unlike
// [SignWith] it does not verify what it made, which takes twice the time of signing.
func (k *Key) SignMessage(ns Namespace, message []byte) ([]byte, error) {
	if ns == "" {
		return nil, refusal.Newf(refusal.NamespaceNotAllowed, "signing: the namespace is empty")
	}
	return signed(k.Signer(), ns, message)
}

// rsaSHA512 signs with rsa-sha2-512 whatever it is asked for. Without it an
// RSA certificate would sign with SHA-1, because the library looks for the
// plain key type only.
type rsaSHA512 struct{ ssh.AlgorithmSigner }

func (s rsaSHA512) Sign(rand io.Reader, data []byte) (*ssh.Signature, error) {
	return s.SignWithAlgorithm(rand, data, ssh.KeyAlgoRSASHA512)
}

// parseSigner reads a person's private key of any accepted type.
func parseSigner(data []byte) (ssh.Signer, error) {
	raw, err := parsePrivate(data)
	if err != nil {
		return nil, fmt.Errorf("parsing key: %w", err)
	}
	signer, err := ssh.NewSignerFromKey(raw)
	if err != nil {
		return nil, refusal.Newf(refusal.Malformed, "parsing key: %v", err)
	}
	if err := checkStrength(signer.PublicKey()); err != nil {
		return nil, fmt.Errorf("parsing key: %w", err)
	}
	return signer, nil
}

// LoadSigner finds the signer that path names, as "ssh-keygen -Y sign -f"
// does: a private key file, or a .pub file (a certificate too) whose private
// half is in the agent or lies beside it.
//
// A private key file is refused if its mode is looser than 0600, if it is not
// a regular file, or if it is a link that belongs to another user.
func LoadSigner(path string) (ssh.Signer, error) {
	if strings.HasSuffix(path, ".pub") {
		line, err := readKeyFile("public key", path, func(fs.FileInfo) error { return nil })
		if err != nil {
			return nil, err
		}
		signer, err := agentSigner(path, line)
		beside := strings.TrimSuffix(strings.TrimSuffix(path, ".pub"), "-cert")
		if _, missing := os.Lstat(beside); err == nil || missing != nil {
			return signer, err
		}
		return signerBeside(path, line, beside)
	}
	data, err := readPrivateFile(path)
	if err != nil {
		return nil, err
	}
	signer, err := parseSigner(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return signer, nil
}

// signerBeside loads the private half of the key or certificate in a .pub file.
func signerBeside(path string, line []byte, beside string) (ssh.Signer, error) {
	signer, err := LoadSigner(beside)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(path, "-cert.pub") {
		return WithCertificate(signer, line)
	}
	public, err := ParsePublicKey(line)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if !bytes.Equal(public.Marshal(), signer.PublicKey().Marshal()) {
		return nil, refusal.Newf(refusal.Malformed, "%s is not the public half of %s", path, beside)
	}
	return signer, nil
}

// agentSigner finds the agent's signer for the key or certificate in a .pub
// file.
func agentSigner(path string, line []byte) (ssh.Signer, error) {
	want, _, _, _, err := ssh.ParseAuthorizedKey(line)
	if err != nil {
		return nil, refusal.Newf(refusal.Malformed, "%s: not a public key: %v", path, err)
	}
	signers, err := agentSigners()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, s := range signers {
		if bytes.Equal(s.PublicKey().Marshal(), want.Marshal()) {
			return s, nil
		}
	}
	return nil, refusal.Newf(refusal.NotFound, "%s: the SSH agent does not hold this key", path).
		WithHint("run: ssh-add %s", strings.TrimSuffix(strings.TrimSuffix(path, ".pub"), "-cert"))
}

// agentSigners lists the keys that the SSH agent at SSH_AUTH_SOCK holds. The
// connection stays open for as long as the program runs, because the signers
// use it.
func agentSigners() ([]ssh.Signer, error) {
	const hint = `start one with: eval "$(ssh-agent)" && ssh-add`
	socket := os.Getenv("SSH_AUTH_SOCK")
	if socket == "" {
		return nil, refusal.Newf(refusal.NotFound, "asking the SSH agent: SSH_AUTH_SOCK is not set").WithHint(hint)
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "asking the SSH agent: %w", err).WithHint(hint)
	}
	signers, err := agent.NewClient(conn).Signers()
	if err != nil {
		conn.Close()
		return nil, refusal.Newf(refusal.Unreadable, "asking the SSH agent: %w", err).WithHint(hint)
	}
	return signers, nil
}

// WithCertificate returns a signer whose signatures carry the certificate, so
// that a cert-authority line of the signers file can vouch for the key. The
// certificate is given as in a -cert.pub file.
func WithCertificate(s ssh.Signer, line []byte) (ssh.Signer, error) {
	key, _, _, _, err := ssh.ParseAuthorizedKey(line)
	if err != nil {
		return nil, refusal.Newf(refusal.Malformed, "parsing certificate: %v", err)
	}
	cert, ok := key.(*ssh.Certificate)
	if !ok {
		return nil, refusal.Newf(refusal.Malformed, "parsing certificate: found a %s key, expected a certificate", key.Type())
	}
	signer, err := ssh.NewCertSigner(cert, s)
	if err != nil {
		return nil, refusal.Newf(refusal.Malformed, "the certificate is for %s, the key is %s",
			ssh.FingerprintSHA256(cert.Key), ssh.FingerprintSHA256(s.PublicKey()))
	}
	return signer, nil
}
