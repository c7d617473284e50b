package seal

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/crypto/ssh"

	"tallystick/internal/record/refusal"
)

// maxKeyFile bounds a key file; the largest RSA key that OpenSSH makes
// takes under 16 KiB.
const maxKeyFile = 64 << 10

// A Key is an Ed25519 private key that belongs to a machine or an office and
// not to a person: the operator's, the judge cache's, a credential issuer's.
type Key struct {
	private ed25519.PrivateKey
	public  PublicKey
}

// NewKey makes a key from 32 bytes of rand.
func NewKey(rand io.Reader) (*Key, error) {
	// The seed is read here and not by ed25519.GenerateKey, which does not
	// promise how much it reads: the same 32 bytes give the same key for ever.
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(rand, seed); err != nil {
		return nil, refusal.Newf(refusal.Failed, "making a key: reading randomness: %w", err)
	}
	return newKey(ed25519.NewKeyFromSeed(seed))
}

func newKey(private ed25519.PrivateKey) (*Key, error) {
	public, err := NewPublicKey(private.Public().(ed25519.PublicKey))
	if err != nil {
		return nil, err
	}
	return &Key{private: private, public: public}, nil
}

// ParseKey reads an Ed25519 private key in OpenSSH or PKCS #8 PEM form.
func ParseKey(data []byte) (*Key, error) {
	raw, err := parsePrivate(data)
	if err != nil {
		return nil, fmt.Errorf("parsing key: %w", err)
	}
	if private, ok := raw.(ed25519.PrivateKey); ok {
		return newKey(private)
	}
	return nil, refusal.Newf(refusal.Malformed, "parsing key: found a %T, expected an Ed25519 key", raw).
		WithHint(`make one with "tally keys new" or "ssh-keygen -t ed25519"`)
}

// parsePrivate decodes one private key and nothing after it.
func parsePrivate(data []byte) (any, error) {
	block, rest := pem.Decode(data)
	if block == nil {
		return nil, refusal.Newf(refusal.Malformed, "no PEM block found").
			WithHint("give a private key file; a .pub file is the public half")
	}
	if len(rest) > 0 {
		return nil, refusal.Newf(refusal.Malformed, "%d bytes after the key", len(rest))
	}
	raw, err := ssh.ParseRawPrivateKey(data)
	var locked *ssh.PassphraseMissingError
	switch {
	case errors.As(err, &locked):
		return nil, refusal.Newf(refusal.Malformed, "the key is protected by a passphrase").
			WithHint(`add it to the agent with "ssh-add" and name its .pub file instead`)
	case err != nil:
		return nil, refusal.Newf(refusal.Malformed, "decoding private key: %v", err)
	}
	if p, ok := raw.(*ed25519.PrivateKey); ok {
		raw = *p
	}
	// OpenSSH's format has the public half twice and the seed once, and the
	// library does not compare them. A key with a damaged seed would sign
	// without complaint what no verifier accepts, and give its secret away by
	// two signatures of one message.
	if p, ok := raw.(ed25519.PrivateKey); ok && !p.Equal(ed25519.NewKeyFromSeed(p.Seed())) {
		return nil, refusal.Newf(refusal.Malformed, "the private half and the public half are not of one key").
			WithHint("the file is damaged; restore it from a copy")
	}
	return raw, nil
}

// LoadKey reads a key file that only its owner can read: see [LoadSigner] for
// what it refuses.
func LoadKey(path string) (*Key, error) {
	data, err := readPrivateFile(path)
	if err != nil {
		return nil, err
	}
	key, err := ParseKey(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}

// LoadKeyOrSeed is [LoadKey] for people who keep their key as its seed: 32 bytes in
// hexadecimal, and nothing else in the file.
func LoadKeyOrSeed(path string) (*Key, error) {
	data, err := readPrivateFile(path)
	if err != nil {
		return nil, err
	}
	if seed, err := hex.DecodeString(string(bytes.TrimSpace(data))); err == nil && len(seed) == ed25519.SeedSize {
		return newKey(ed25519.NewKeyFromSeed(seed))
	}
	key, err := ParseKey(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}

// readPrivateFile reads a private key file. It refuses modes looser than 0600,
// anything but a regular file, and a link of another user, who could point it
// at a key of their own at any time.
//
// Modes and owners are not checked on Windows, where neither is meaningful.
func readPrivateFile(path string) ([]byte, error) {
	link, err := os.Lstat(path)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "reading key: %w", err)
	}
	if link.Mode()&fs.ModeSymlink != 0 && !ownedByUs(link) {
		return nil, refusal.Newf(refusal.Unreadable, "reading key: %s is a link that belongs to another user", path)
	}
	return readKeyFile("key", path, func(info fs.FileInfo) error {
		if modesMatter && info.Mode().Perm()&0o077 != 0 {
			return refusal.Newf(refusal.KeyModeTooOpen, "reading key: %s has mode %04o, expected 0600", path, info.Mode().Perm()).
				WithHint("run: chmod 600 %s", path)
		}
		return nil
	})
}

// readKeyFile reads a regular file that admit lets pass, once it is open.
func readKeyFile(what, path string, admit func(fs.FileInfo) error) ([]byte, error) {
	unreadable := func(err error) error {
		return refusal.Newf(refusal.Unreadable, "reading %s: %w", what, err)
	}
	// Opening a named pipe would wait for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, unreadable(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, unreadable(err)
	}
	if !info.Mode().IsRegular() {
		return nil, unreadable(fmt.Errorf("%s is not a regular file", path))
	}
	if err := admit(info); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return nil, unreadable(err)
	}
	if len(data) > maxKeyFile {
		return nil, refusal.Newf(refusal.TooLarge, "reading %s: %s is over %d bytes", what, path, maxKeyFile)
	}
	return data, nil
}

// MarshalPEM encodes the key in OpenSSH's private key format, without a
// passphrase, so that ssh-keygen and ssh-add read it. The result differs from
// call to call: the format contains a random check number.
func (k *Key) MarshalPEM(comment string) ([]byte, error) {
	block, err := ssh.MarshalPrivateKey(k.private, comment)
	if err != nil {
		return nil, refusal.Newf(refusal.Failed, "encoding key: %w", err)
	}
	return pem.EncodeToMemory(block), nil
}

// Ed25519 returns the bare private key.
func (k *Key) Ed25519() ed25519.PrivateKey { return k.private }

// Public returns the public half.
func (k *Key) Public() PublicKey { return k.public }

// Fingerprint returns what "ssh-keygen -l" prints for the key.
func (k *Key) Fingerprint() string { return k.public.Fingerprint() }

// Signer returns the key in the form that [SignWith] takes.
func (k *Key) Signer() ssh.Signer {
	signer, err := ssh.NewSignerFromKey(k.private)
	if err != nil {
		panic("seal: an Ed25519 key is not accepted by ssh: " + err.Error())
	}
	return signer
}
