package seal

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"tallystick/internal/record/openpgp"
	"tallystick/internal/record/refusal"
)

// A PublicKey is an SSH public key, or an OpenPGP key with its signing subkeys,
// that passed the strength checks of this package. It is never a certificate. The
// zero value is not a key.
type PublicKey struct {
	key ssh.PublicKey
	pgp *openpgp.Key // then key is nil
}

// ParsePublicKey reads one line in authorized_keys form without options, as in
// an id_ed25519.pub file: type, base64, optional comment. Weak keys are
// refused.
func ParsePublicKey(line []byte) (PublicKey, error) {
	text := strings.TrimSuffix(string(line), "\n")
	if strings.ContainsAny(text, "\r\n") {
		return PublicKey{}, refusal.Newf(refusal.Malformed, "parsing public key: more than one line")
	}
	fields := strings.Fields(text)
	if len(fields) < 2 {
		return PublicKey{}, refusal.Newf(refusal.Malformed, "parsing public key: found %d fields, expected type and base64 key", len(fields)).
			WithHint("give the content of a .pub file, such as ~/.ssh/id_ed25519.pub")
	}
	key, err := parseKeyFields(fields[0], fields[1])
	if err != nil {
		return PublicKey{}, fmt.Errorf("parsing public key: %w", err)
	}
	return key, nil
}

// NewPublicKey wraps an Ed25519 public key. Weak keys are refused.
func NewPublicKey(pub ed25519.PublicKey) (PublicKey, error) {
	key, err := ssh.NewPublicKey(pub)
	if err != nil {
		return PublicKey{}, refusal.Newf(refusal.Malformed, "Ed25519 public key has %d bytes, expected %d", len(pub), ed25519.PublicKeySize)
	}
	return strongKey(key)
}

// parseKeyFields reads a key given as type name and base64, and insists that
// the two agree and that the encoding is the only one of that key.
func parseKeyFields(typ, b64 string) (PublicKey, error) {
	if err := checkKeyType(typ); err != nil {
		return PublicKey{}, err
	}
	wire, err := base64.StdEncoding.Strict().DecodeString(b64)
	if err != nil {
		return PublicKey{}, refusal.Newf(refusal.Malformed, "key is not base64: %v", err)
	}
	key, err := ssh.ParsePublicKey(wire)
	if err != nil {
		return PublicKey{}, refusal.Newf(refusal.Malformed, "key cannot be decoded: %v", err)
	}
	if key.Type() != typ {
		return PublicKey{}, refusal.Newf(refusal.Malformed, "key is labelled %s and encodes a %s key", typ, key.Type())
	}
	if !bytes.Equal(key.Marshal(), wire) {
		return PublicKey{}, refusal.Newf(refusal.Malformed, "key is not in its canonical encoding")
	}
	return strongKey(key)
}

// strongKey refuses certificates, weak keys and keys of other types.
func strongKey(key ssh.PublicKey) (PublicKey, error) {
	if err := checkStrength(key); err != nil {
		return PublicKey{}, err
	}
	return PublicKey{key: key}, nil
}

// Type is the SSH name of the kind of key, such as "ssh-ed25519", or "openpgp".
func (p PublicKey) Type() string {
	if p.pgp != nil {
		return openPGPType
	}
	if p.key == nil {
		return ""
	}
	return p.key.Type()
}

// Marshal returns the key in SSH wire format, or an OpenPGP key as its packets.
func (p PublicKey) Marshal() []byte {
	if p.pgp != nil {
		return p.pgp.Bytes()
	}
	if p.key == nil {
		return nil
	}
	return p.key.Marshal()
}

// String returns the key in authorized_keys form, without a comment or a
// newline. That of an OpenPGP key is its fingerprint and the key in base64.
func (p PublicKey) String() string {
	if p.pgp != nil {
		return p.pgp.Fingerprint() + " " + base64.StdEncoding.EncodeToString(p.pgp.Bytes())
	}
	if p.key == nil {
		return ""
	}
	return p.key.Type() + " " + base64.StdEncoding.EncodeToString(p.key.Marshal())
}

// Fingerprint returns what "ssh-keygen -l" prints, "SHA256:" and base64, or
// "openpgp:" and the fingerprint that gpg prints.
func (p PublicKey) Fingerprint() string {
	if p.pgp != nil {
		return openPGPType + ":" + p.pgp.Fingerprint()
	}
	if p.key == nil {
		return ""
	}
	return ssh.FingerprintSHA256(p.key)
}

// Equal reports whether p and q are the same key. The zero value equals
// nothing, not even itself.
func (p PublicKey) Equal(q PublicKey) bool {
	return p.Type() != "" && p.index() == q.index()
}

// index is the same for equal keys alone.
func (p PublicKey) index() string { return p.Type() + " " + string(p.Marshal()) }

// Ed25519 returns the bare key if it is of type ssh-ed25519. A security key's
// Ed25519 key is not returned: it never signs a bare message.
func (p PublicKey) Ed25519() (ed25519.PublicKey, bool) {
	if p.Type() != ssh.KeyAlgoED25519 {
		return nil, false
	}
	pub, ok := p.key.(ssh.CryptoPublicKey).CryptoPublicKey().(ed25519.PublicKey)
	return pub, ok
}

// materials identify the secrets behind the key rather than its wrapping, so
// that one secret cannot vote twice: as a plain key and as a security key, for
// two applications, as one RSA modulus with two exponents, or as an SSH key and an
// OpenPGP key. An OpenPGP key has one for each of its keys.
func (p PublicKey) materials() []string {
	if p.pgp == nil {
		return []string{material(p.key.(ssh.CryptoPublicKey).CryptoPublicKey())}
	}
	found := []string{material(p.pgp.Primary().Public())}
	for _, k := range p.pgp.Signing() {
		if m := material(k.Public()); !slices.Contains(found, m) {
			found = append(found, m)
		}
	}
	return found
}

func material(key crypto.PublicKey) string {
	switch pub := key.(type) {
	case ed25519.PublicKey:
		return "ed25519 " + string(pub)
	case *ecdsa.PublicKey:
		point, err := pub.Bytes()
		if err != nil {
			panic("seal: a point off the curve passed the decoder: " + err.Error())
		}
		// The point's length tells the three curves apart.
		return "ecdsa " + string(point)
	case *rsa.PublicKey:
		return "rsa " + string(pub.N.Bytes())
	}
	panic("seal: a key of unknown type passed checkStrength")
}
