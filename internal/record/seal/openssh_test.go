package seal

import (
	"bytes"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"tallystick/internal/record/refusal"
)

// sshKeygen runs the real ssh-keygen in a folder of its own.
type sshKeygen struct{ dir string }

func newSSHKeygen(t testing.TB) sshKeygen {
	t.Helper()
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip("ssh-keygen is not installed")
	}
	return sshKeygen{t.TempDir()}
}

func (k sshKeygen) run(stdin []byte, args ...string) (string, error) {
	cmd := exec.Command("ssh-keygen", args...)
	cmd.Dir = k.dir
	cmd.Stdin = bytes.NewReader(stdin)
	// Another time zone must make no difference.
	cmd.Env = append(os.Environ(), "TZ=Pacific/Auckland")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (k sshKeygen) mustRun(t testing.TB, stdin []byte, args ...string) string {
	t.Helper()
	out, err := k.run(stdin, args...)
	if err != nil {
		t.Fatalf("ssh-keygen %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (k sshKeygen) write(t testing.TB, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(k.dir, name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (k sshKeygen) read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(k.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// generate makes a key pair and returns the public key's type and base64.
func (k sshKeygen) generate(t testing.TB, name string, args ...string) string {
	t.Helper()
	k.mustRun(t, nil, append([]string{"-q", "-N", "", "-C", name, "-f", name}, args...)...)
	fields := strings.Fields(string(k.read(t, name+".pub")))
	return fields[0] + " " + fields[1]
}

// writeRSA puts the shared RSA key there, because making one takes seconds.
func (k sshKeygen) writeRSA(t testing.TB, name string) string {
	t.Helper()
	key, err := strongRSA()
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, name)
	if err != nil {
		t.Fatal(err)
	}
	public := keyText(mustSigner(t, key))
	k.write(t, name, pem.EncodeToMemory(block))
	k.write(t, name+".pub", []byte(public+"\n"))
	return public
}

// sign makes a signature with "ssh-keygen -Y sign".
func (k sshKeygen) sign(t testing.TB, key string, ns Namespace, message []byte) []byte {
	t.Helper()
	k.write(t, "message", message)
	os.Remove(filepath.Join(k.dir, "message.sig"))
	k.mustRun(t, nil, "-q", "-Y", "sign", "-f", key, "-n", string(ns), "message")
	return k.read(t, "message.sig")
}

// verify runs "ssh-keygen -Y verify" at a time.
func (k sshKeygen) verify(t testing.TB, signers, sig, message []byte, who string, ns Namespace, at time.Time) error {
	t.Helper()
	k.write(t, "allowed_signers", signers)
	k.write(t, "sig", sig)
	out, err := k.run(message, "-Y", "verify", "-f", "allowed_signers", "-I", who, "-n", string(ns), "-s", "sig",
		"-O", "verify-time="+at.UTC().Format("20060102150405Z"))
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func TestSSHKeygenSignsAndWeVerifyAndTheOtherWay(t *testing.T) {
	kinds := map[string][]string{
		"ed25519":  {"-t", "ed25519"},
		"ecdsa256": {"-t", "ecdsa", "-b", "256"},
		"ecdsa384": {"-t", "ecdsa", "-b", "384"},
		"ecdsa521": {"-t", "ecdsa", "-b", "521"},
		"rsa3072":  {"-t", "rsa", "-b", "3072"},
	}
	for name, args := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newSSHKeygen(t)
			key := k.generate(t, name, args...)
			s := mustParse(t, signersText("alice@example.org "+key+" roles=curator", line(t, "bob", "", "")))

			theirs := k.sign(t, name, NamespaceCase, message)
			sig, err := s.Verify(theirs, message, NamespaceCase, noon)
			if err != nil {
				t.Fatalf("verifying ssh-keygen's signature: %v", err)
			}
			if sig.Principal() != "alice@example.org" || !sig.Holds(Curator) {
				t.Errorf("got %s %v", sig.Principal(), sig.Roles())
			}
			if split, err := SplitArmored(theirs); err != nil || !bytes.Equal(split[0], theirs) {
				t.Errorf("ssh-keygen's armour is not ours: %v", err)
			}

			signer, err := LoadSigner(filepath.Join(k.dir, name))
			if err != nil {
				t.Fatal(err)
			}
			ours := mustSign(t, signer, NamespaceCase, message)
			if err := k.verify(t, s.Bytes(), ours, message, "alice@example.org", NamespaceCase, noon); err != nil {
				t.Errorf("ssh-keygen refuses our signature: %v", err)
			}
			if out := k.mustRun(t, nil, "-Y", "find-principals", "-f", "allowed_signers", "-s", "sig"); strings.TrimSpace(out) != "alice@example.org" {
				t.Errorf("find-principals says %q", out)
			}
			if err := k.verify(t, s.Bytes(), ours, []byte("another"), "alice@example.org", NamespaceCase, noon); err == nil {
				t.Error("ssh-keygen accepts another message")
			}
			if name == "ed25519" && !bytes.Equal(ours, theirs) {
				t.Error("an Ed25519 signature is deterministic, and ours differs from ssh-keygen's")
			}
		})
	}
}

func TestSHA256SignatureOfSSHKeygenVerifies(t *testing.T) {
	k := newSSHKeygen(t)
	s := mustParse(t, signersText("alice "+k.generate(t, "id", "-t", "ed25519")))
	k.write(t, "m", message)
	k.mustRun(t, nil, "-q", "-Y", "sign", "-O", "hashalg=sha256", "-f", "id", "-n", string(NamespaceCase), "m")
	if _, err := s.Verify(k.read(t, "m.sig"), message, NamespaceCase, noon); err != nil {
		t.Error(err)
	}
}

func TestSSHKeygenVerifiesSoftwareSecurityKeys(t *testing.T) {
	k := newSSHKeygen(t)
	for _, sk := range []softKey{softEd25519(t, "alice", 1), softECDSA(t, 1)} {
		signers := []byte(signersText("dora " + keyText(sk)))
		if err := k.verify(t, signers, mustSign(t, sk, NamespaceCase, message), message, "dora", NamespaceCase, noon); err != nil {
			t.Errorf("%s: %v", sk.public.Type(), err)
		}
	}
}

func TestCertificatesOfSSHKeygen(t *testing.T) {
	k := newSSHKeygen(t)
	ca := k.generate(t, "ca", "-t", "ed25519")
	k.generate(t, "other_ca", "-t", "ed25519")
	aliceKey := k.generate(t, "alice", "-t", "ed25519")
	rsaCA := k.writeRSA(t, "rsa_ca")
	k.writeRSA(t, "rita")

	// certify makes NAME-cert.pub and returns a signer that carries it.
	certify := func(t *testing.T, ca, name string, args ...string) ssh.Signer {
		t.Helper()
		k.mustRun(t, nil, append(append([]string{"-q", "-s", ca, "-I", "badge of " + name}, args...), name+".pub")...)
		signer, err := LoadSigner(filepath.Join(k.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		signer, err = WithCertificate(signer, k.read(t, name+"-cert.pub"))
		if err != nil {
			t.Fatal(err)
		}
		return signer
	}
	// A year around noon, in UTC whatever the machine's zone.
	const year = "20260101000000Z:20270101000000Z"
	signers := signersText(
		`*@example.org,!root@example.org cert-authority,namespaces="tallystick-case" `+ca+" roles=security",
		"rita@example.org cert-authority "+rsaCA+" roles=curator",
		line(t, "bob@example.org", "", ""))

	tests := []struct {
		name    string
		ca, key string
		args    []string
		who     string
		refusal refusal.Name // empty when accepted
		text    string
		differs string // why ssh-keygen decides otherwise
	}{
		{"a member", "ca", "alice", []string{"-n", "alice@example.org", "-V", year}, "alice@example.org", "", "", ""},
		{"one of several names matches", "ca", "alice", []string{"-n", "alice@example.com,alice@example.org", "-V", year}, "alice@example.org", "", "", ""},
		{"two names match", "ca", "alice", []string{"-n", "alice@example.org,al@example.org", "-V", year}, "alice@example.org", refusal.SignerUnknown, "names more than one person", "ssh-keygen is told which name is meant"},
		{"without end", "ca", "alice", []string{"-n", "alice@example.org"}, "alice@example.org", "", "", ""},
		{"RSA by RSA", "rsa_ca", "rita", []string{"-n", "rita@example.org", "-V", year}, "rita@example.org", "", "", ""},
		{"another authority", "other_ca", "alice", []string{"-n", "alice@example.org", "-V", year}, "alice@example.org", refusal.SignerUnknown, "the certificate's authority SHA256:", ""},
		{"no name", "ca", "alice", []string{"-V", year}, "alice@example.org", refusal.SignerUnknown, "names no principal", ""},
		{"another domain", "ca", "alice", []string{"-n", "alice@example.com", "-V", year}, "alice@example.com", refusal.SignerUnknown, `names "alice@example.com", the authority may name`, ""},
		{"a name taken out", "ca", "alice", []string{"-n", "root@example.org", "-V", year}, "root@example.org", refusal.SignerUnknown, "may name", ""},
		{"a pattern as a name", "ca", "alice", []string{"-n", "*@example.org", "-V", year}, "*@example.org", refusal.SignerUnknown, "is a pattern", "ssh-keygen is told the name"},
		{"a name that differs in case from a listed one", "ca", "alice", []string{"-n", "Bob@example.org", "-V", year}, "Bob@example.org", refusal.SignerUnknown, `the signers file has "bob@example.org"`, "ssh-keygen does not count people"},
		{"expired", "ca", "alice", []string{"-n", "alice@example.org", "-V", "20250101000000Z:20260101000000Z"}, "alice@example.org", refusal.SignerNotValidThen, "cert has expired", ""},
		{"expires this second", "ca", "alice", []string{"-n", "alice@example.org", "-V", "20250101000000Z:20260512120000Z"}, "alice@example.org", refusal.SignerNotValidThen, "cert has expired", ""},
		{"not yet valid", "ca", "alice", []string{"-n", "alice@example.org", "-V", "20260513000000Z:20270101000000Z"}, "alice@example.org", refusal.SignerNotValidThen, "not yet valid", ""},
		{"a host certificate", "ca", "alice", []string{"-h", "-n", "alice@example.org", "-V", year}, "alice@example.org", refusal.SignatureInvalid, "not a user certificate", ""},
		{"a critical option", "ca", "alice", []string{"-n", "alice@example.org", "-V", year, "-O", "force-command=true"}, "alice@example.org", refusal.SignatureInvalid, `unsupported critical option "force-command"`, "ssh-keygen ignores options of logins"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			signer := certify(t, tt.ca, tt.key, tt.args...)
			armored := mustSign(t, signer, NamespaceCase, message)
			sig, err := mustParse(t, signers).Verify(armored, message, NamespaceCase, noon)
			theirs := k.verify(t, []byte(signers), armored, message, tt.who, NamespaceCase, noon)
			if (err == nil) == (theirs == nil) != (tt.differs == "") {
				t.Errorf("we say %v, ssh-keygen says %v, the reason given is %q", err, theirs, tt.differs)
			}
			if tt.refusal != "" {
				refused(t, err, tt.refusal, tt.text)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if sig.Principal() != tt.who {
				t.Errorf("signed by %s", sig.Principal())
			}
			plain, _ := LoadSigner(filepath.Join(k.dir, tt.key))
			if sig.Key().Fingerprint() != ssh.FingerprintSHA256(plain.PublicKey()) {
				t.Error("the key counted is not the certified one")
			}
		})
	}

	alice := certify(t, "ca", "alice", "-n", "alice@example.org", "-V", year)
	t.Run("only for the namespaces of the authority's line", func(t *testing.T) {
		_, err := mustParse(t, signers).Verify(mustSign(t, alice, NamespaceBench, message), message, NamespaceBench, noon)
		refused(t, err, refusal.NamespaceNotAllowed, "alice@example.org may sign")
	})
	t.Run("the plain key of a member is not enough", func(t *testing.T) {
		_, err := mustParse(t, signers).Verify(k.sign(t, "alice", NamespaceCase, message), message, NamespaceCase, noon)
		refused(t, err, refusal.SignerUnknown, "is not in")
	})
	t.Run("the authority itself is not a signer", func(t *testing.T) {
		_, err := mustParse(t, signers).Verify(k.sign(t, "ca", NamespaceCase, message), message, NamespaceCase, noon)
		refused(t, err, refusal.SignerUnknown, "is not in")
	})
	t.Run("a certificate for a key listed as a person's", func(t *testing.T) {
		// The line names the key, not the certificate's authority.
		s := mustParse(t, signersText("alice "+aliceKey))
		_, err := s.Verify(mustSign(t, alice, NamespaceCase, message), message, NamespaceCase, noon)
		refused(t, err, refusal.SignerUnknown, "the certificate's authority")
	})
	t.Run("one key as two people", func(t *testing.T) {
		s := mustParse(t, signersText("al "+aliceKey, "*@example.org cert-authority "+ca))
		sigs := [][]byte{k.sign(t, "alice", NamespaceCase, message), mustSign(t, alice, NamespaceCase, message)}
		_, err := s.VerifyQuorum(sigs, message, NamespaceCase, noon, Rule{People: 2})
		refused(t, err, refusal.DuplicateKey, "signed as al and as alice@example.org")
	})
	t.Run("two people of one authority count as two", func(t *testing.T) {
		k.generate(t, "dave", "-t", "ed25519")
		dave := certify(t, "ca", "dave", "-n", "dave@example.org", "-V", year)
		sigs := [][]byte{mustSign(t, alice, NamespaceCase, message), mustSign(t, dave, NamespaceCase, message)}
		if _, err := mustParse(t, signers).VerifyQuorum(sigs, message, NamespaceCase, noon, Rule{People: 2, Roles: []Role{Security}}); err != nil {
			t.Error(err)
		}
		_, err := mustParse(t, signers).VerifyQuorum(sigs[:1], message, NamespaceCase, noon, Rule{People: 2})
		refused(t, err, refusal.TwoPersonRule, "signed by alice@example.org, needs 2 of signers certified as *@example.org,!root@example.org, ")
	})
	t.Run("a certificate changed after it was signed", func(t *testing.T) {
		cert := *alice.PublicKey().(*ssh.Certificate)
		cert.ValidPrincipals = []string{"carol@example.org"}
		r := honest(t, NamespaceCase)
		plain, _ := LoadSigner(filepath.Join(k.dir, "alice"))
		sig, err := plain.Sign(rand.Reader, signedData(r.namespace, "", r.hash, sum512(message)))
		if err != nil {
			t.Fatal(err)
		}
		r.key, r.blob = cert.Marshal(), sig.Blob
		_, err = mustParse(t, signers).Verify(armor(r.marshal()), message, NamespaceCase, noon)
		refused(t, err, refusal.SignatureInvalid, "certificate signature does not verify")
	})
}

func TestKeysOpenInSSHKeygen(t *testing.T) {
	k := newSSHKeygen(t)
	key := testKey(t, "operator")
	text, err := key.MarshalPEM("operator of this ledger")
	if err != nil {
		t.Fatal(err)
	}
	k.write(t, "operator", text)
	if out := k.mustRun(t, nil, "-y", "-f", "operator"); strings.TrimSpace(out) != key.Public().String()+" operator of this ledger" {
		t.Errorf("ssh-keygen -y says %q", out)
	}
	if out := k.mustRun(t, nil, "-l", "-f", "operator"); !strings.Contains(out, key.Fingerprint()) {
		t.Errorf("ssh-keygen -l says %q, we say %q", out, key.Fingerprint())
	}
}

func TestEncryptedKeySendsToTheAgent(t *testing.T) {
	k := newSSHKeygen(t)
	k.mustRun(t, nil, "-q", "-t", "ed25519", "-N", "secret", "-f", "locked")
	_, err := LoadKey(filepath.Join(k.dir, "locked"))
	refused(t, err, refusal.Malformed, "protected by a passphrase")
	if !strings.Contains(refusal.Of(err).Hint, "ssh-add") {
		t.Errorf("the hint is %q", refusal.Of(err).Hint)
	}
	_, err = LoadSigner(filepath.Join(k.dir, "locked"))
	refused(t, err, refusal.Malformed, "protected by a passphrase")
}

func TestPublicKeyFileSignsWithThePrivateOneBesideIt(t *testing.T) {
	k := newSSHKeygen(t)
	t.Setenv("SSH_AUTH_SOCK", "")
	ca := k.generate(t, "ca", "-t", "ed25519")
	key := k.generate(t, "alice", "-t", "ed25519")
	k.generate(t, "bob", "-t", "ed25519")
	k.mustRun(t, nil, "-q", "-s", "ca", "-I", "badge", "-n", "alice", "alice.pub")
	for file, signers := range map[string]string{
		"alice.pub":      signersText("alice " + key),
		"alice-cert.pub": signersText("alice cert-authority " + ca),
	} {
		signer, err := LoadSigner(filepath.Join(k.dir, file))
		if err != nil {
			t.Fatal(err)
		}
		ours := mustSign(t, signer, NamespaceCase, message)
		if theirs := k.sign(t, file, NamespaceCase, message); !bytes.Equal(ours, theirs) {
			t.Errorf("%s: ssh-keygen signs otherwise", file)
		}
		if _, err := mustParse(t, signers).Verify(ours, message, NamespaceCase, noon); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	k.write(t, "alice.pub", k.read(t, "bob.pub"))
	_, err := LoadSigner(filepath.Join(k.dir, "alice.pub"))
	refused(t, err, refusal.Malformed, "is not the public half of")
	if !modesMatter {
		return
	}
	if err := os.Chmod(filepath.Join(k.dir, "bob"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = LoadSigner(filepath.Join(k.dir, "bob.pub"))
	refused(t, err, refusal.KeyModeTooOpen, "expected 0600")
}

func TestAgentSigns(t *testing.T) {
	// A socket's path may have about a hundred characters only.
	dir, err := os.MkdirTemp("", "seal")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "agent")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	keyring := agent.NewKeyring()
	rsaKey, rsaSigners := rsaSigner(t)
	for _, private := range []any{testKey(t, "alice").Ed25519(), rsaKey} {
		if err := keyring.Add(agent.AddedKey{PrivateKey: private}); err != nil {
			t.Fatal(err)
		}
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go agent.ServeAgent(keyring, conn)
		}
	}()
	pubFile := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	alicePub := pubFile("alice.pub", testKey(t, "alice").Public().String()+" alice@laptop")

	t.Setenv("SSH_AUTH_SOCK", "")
	_, err = LoadSigner(alicePub)
	refused(t, err, refusal.NotFound, "SSH_AUTH_SOCK is not set")
	t.Setenv("SSH_AUTH_SOCK", filepath.Join(dir, "nothing"))
	_, err = LoadSigner(alicePub)
	refused(t, err, refusal.Unreadable, "asking the SSH agent")

	t.Setenv("SSH_AUTH_SOCK", socket)
	signer, err := LoadSigner(alicePub)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := team(t).Verify(mustSign(t, signer, NamespaceCase, message), message, NamespaceCase, noon); err != nil {
		t.Error(err)
	}
	rsaPub, _ := ssh.NewPublicKey(&rsaKey.PublicKey)
	signer, err = LoadSigner(pubFile("rita.pub", strings.TrimSpace(string(ssh.MarshalAuthorizedKey(rsaPub)))))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rsaSigners.Verify(mustSign(t, signer, NamespaceCase, message), message, NamespaceCase, noon); err != nil {
		t.Error(err)
	}
	_, err = LoadSigner(pubFile("bob.pub", testKey(t, "bob").Public().String()))
	refused(t, err, refusal.NotFound, "does not hold this key")

	// An RSA certificate, which the library would let sign with SHA-1.
	cert := &ssh.Certificate{Key: rsaPub, CertType: ssh.UserCert, ValidPrincipals: []string{"rita"}, ValidBefore: ssh.CertTimeInfinity}
	if err := cert.SignCert(rand.Reader, testKey(t, "authority").Signer()); err != nil {
		t.Fatal(err)
	}
	if err := keyring.Add(agent.AddedKey{PrivateKey: rsaKey, Certificate: cert}); err != nil {
		t.Fatal(err)
	}
	signer, err = LoadSigner(pubFile("rita-cert.pub", strings.TrimSpace(string(ssh.MarshalAuthorizedKey(cert)))))
	if err != nil {
		t.Fatal(err)
	}
	certified := mustParse(t, signersText("r* cert-authority "+testKey(t, "authority").Public().String()))
	if _, err := certified.Verify(mustSign(t, signer, NamespaceCase, message), message, NamespaceCase, noon); err != nil {
		t.Error(err)
	}
	signers, err := agentSigners()
	if err != nil || len(signers) != 3 {
		t.Errorf("%d signers, %v", len(signers), err)
	}
}
