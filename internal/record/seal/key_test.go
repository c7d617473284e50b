package seal

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"tallystick/internal/record/refusal"
)

func TestKeySurvivesItsFile(t *testing.T) {
	key := testKey(t, "operator")
	text, err := key.MarshalPEM("operator")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	loaded, err := LoadKey(path)
	if err != nil {
		t.Fatal(err)
	}
	if !loaded.Ed25519().Equal(key.Ed25519()) || !loaded.Public().Equal(key.Public()) || loaded.Fingerprint() != key.Fingerprint() {
		t.Error("the key changed")
	}
}

func TestNewKeyNeedsRandomness(t *testing.T) {
	_, err := NewKey(strings.NewReader("too short"))
	refused(t, err, refusal.Failed, "reading randomness")
}

func TestLoadKeyRefusesUnsafeFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("file modes mean nothing on Windows")
	}
	text, err := testKey(t, "operator").MarshalPEM("")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name string, data []byte, mode fs.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	private := file("private", text, 0o600)
	link := filepath.Join(dir, "link")
	if err := os.Symlink(private, link); err != nil {
		t.Fatal(err)
	}
	openLink := filepath.Join(dir, "open-link")
	if err := os.Symlink(file("open", text, 0o644), openLink); err != nil {
		t.Fatal(err)
	}

	for _, path := range []string{private, link, file("read-only", text, 0o400)} {
		if _, err := LoadKey(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, mode := range []fs.FileMode{0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o644, 0o666} {
		path := file("loose", text, mode)
		_, err := LoadKey(path)
		refused(t, err, refusal.KeyModeTooOpen, "expected 0600")
		if hint := refusal.Of(err).Hint; hint != "run: chmod 600 "+path {
			t.Errorf("the hint is %q", hint)
		}
		_, err = LoadSigner(path)
		refused(t, err, refusal.KeyModeTooOpen, "expected 0600")
	}
	_, err = LoadKey(openLink)
	refused(t, err, refusal.KeyModeTooOpen, "has mode 0644")
	_, err = LoadKey(dir)
	refused(t, err, refusal.Unreadable, "not a regular file")
	_, err = LoadKey(os.DevNull)
	refused(t, err, refusal.Unreadable, "not a regular file")
	_, err = LoadKey(filepath.Join(dir, "missing"))
	refused(t, err, refusal.Unreadable, "reading key")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the cause is lost: %v", err)
	}
	_, err = LoadKey(file("huge", make([]byte, maxKeyFile+1), 0o600))
	refused(t, err, refusal.TooLarge, "is over")

	// A public key is read with less suspicion, and not from everything.
	public := filepath.Join(dir, "folder.pub")
	if err := os.Mkdir(public, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = LoadSigner(public)
	refused(t, err, refusal.Unreadable, "reading public key: "+public+" is not a regular file")
	_, err = LoadSigner(file("huge.pub", make([]byte, maxKeyFile+1), 0o644))
	refused(t, err, refusal.TooLarge, "reading public key")

	// Only root can place a link in another user's name.
	foreign := filepath.Join(dir, "foreign")
	if err := os.Symlink(private, foreign); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 || os.Lchown(foreign, 12345, 12345) != nil {
		t.Log("not root: a link of another user was not tried")
		return
	}
	_, err = LoadKey(foreign)
	refused(t, err, refusal.Unreadable, "is a link that belongs to another user")
}

func TestParseKeyRefuses(t *testing.T) {
	rsaKey, err := weakRSA()
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(key any) []byte {
		block, err := ssh.MarshalPrivateKey(key, "")
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(block)
	}
	good := encode(testKey(t, "alice").Ed25519())

	tests := []struct {
		name string
		data []byte
		text string
	}{
		{"nothing", nil, "no PEM block"},
		{"a public key", []byte(testKey(t, "alice").Public().String()), "no PEM block"},
		{"two keys", append(bytes.Clone(good), good...), "bytes after the key"},
		{"another kind of key", encode(ecKey), "expected an Ed25519 key"},
		{"a damaged key", bytes.Replace(good, []byte("b3BlbnNzaC1rZXktdjE"), []byte("b3BlbnNzaC1rZXktdjF"), 1), "decoding private key"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseKey(tt.data)
			refused(t, err, refusal.Malformed, tt.text)
		})
	}
	if _, err := parseSigner(encode(ecKey)); err != nil {
		t.Errorf("a person's ECDSA key: %v", err)
	}
	_, err = parseSigner(encode(rsaKey))
	refused(t, err, refusal.WeakKey, "RSA key has 2048 bits")
}

// TestNoDamagedKeyIsRead changes each bit of what a key file holds. The library
// alone reads a key whose seed is damaged, and its seals would ruin a ledger.
func TestNoDamagedKeyIsRead(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and one goroutine has nothing to race with")
	}
	text, err := testKey(t, "operator").MarshalPEM("operator")
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	seed := bytes.Index(block.Bytes, testKey(t, "operator").Ed25519().Seed())
	for i := range block.Bytes {
		for bit := range 8 {
			damaged := pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: flipped(block.Bytes, i, bit)})
			key, err := ParseKey(damaged)
			switch {
			case err == nil && !key.Ed25519().Equal(testKey(t, "operator").Ed25519()):
				t.Fatalf("bit %d of byte %d: another key is read", bit, i)
			case seed <= i && i < seed+ed25519.SeedSize:
				refused(t, err, refusal.Malformed, "the private half and the public half are not of one key")
				_, err = parseSigner(damaged)
				refused(t, err, refusal.Malformed, "are not of one key")
			}
		}
	}
}

func flipped(b []byte, i, bit int) []byte {
	b = bytes.Clone(b)
	b[i] ^= 1 << bit
	return b
}

func TestSignWithRefuses(t *testing.T) {
	_, err := SignWith(testKey(t, "alice").Signer(), "", message)
	refused(t, err, refusal.NamespaceNotAllowed, "the namespace is empty")

	rsaKey, err := weakRSA()
	if err != nil {
		t.Fatal(err)
	}
	weak, _ := ssh.NewSignerFromKey(rsaKey)
	_, err = SignWith(weak, NamespaceCase, message)
	refused(t, err, refusal.WeakKey, "RSA key has 2048 bits")

	// An agent that lies about which key it used.
	liar := softEd25519(t, "alice", 1)
	liar.sign = func(data []byte) []byte { return ed25519.Sign(testKey(t, "bob").Ed25519(), data) }
	_, err = SignWith(liar, NamespaceCase, message)
	refused(t, err, refusal.Failed, "the signature just made does not verify")
}

func TestWithCertificateRefusesAnothersCertificate(t *testing.T) {
	cert := &ssh.Certificate{Key: testKey(t, "bob").Signer().PublicKey(), CertType: ssh.UserCert, ValidBefore: ssh.CertTimeInfinity}
	if err := cert.SignCert(rand.Reader, testKey(t, "authority").Signer()); err != nil {
		t.Fatal(err)
	}
	_, err := WithCertificate(testKey(t, "alice").Signer(), ssh.MarshalAuthorizedKey(cert))
	refused(t, err, refusal.Malformed, "the certificate is for")
	_, err = WithCertificate(testKey(t, "alice").Signer(), []byte(testKey(t, "alice").Public().String()))
	refused(t, err, refusal.Malformed, "expected a certificate")
}

func TestMatchFollowsSSHConfigPatterns(t *testing.T) {
	tests := []struct {
		s, list string
		want    bool
	}{
		{"alice", "alice", true},
		{"alice", "Alice", false},
		{"alice", "a*", true},
		{"alice", "*e", true},
		{"alice", "a*i*e", true},
		{"alice", "a*x*e", false},
		{"alice", "?????", true},
		{"alice", "????", false},
		{"alice", "alice?", false},
		{"alice", "alice*", true},
		{"alice", "**", true},
		{"", "*", true},
		{"", "?", false},
		{"alice", "bob,alice", true},
		{"alice", "*,!alice", false},
		{"alice", "!alice,*", false},
		{"alice", "!bob", false},
		{"alice", "!bob,*", true},
		{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", "a*a*a*a*a*a*a*a*a*a*a*a*a*c", false},
	}
	for _, tt := range tests {
		if got := matchList(tt.s, tt.list); got != tt.want {
			t.Errorf("matchList(%q, %q) = %v", tt.s, tt.list, got)
		}
	}
}
