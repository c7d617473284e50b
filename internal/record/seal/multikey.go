package seal

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"strings"

	"tallystick/internal/record/refusal"
)

// ed25519Multicodec is the varint 0xed in front of an Ed25519 public key
// (Controlled Identifiers 1.0, section 2.2.2).
var ed25519Multicodec = []byte{0xed, 0x01}

const didKeyPrefix = "did:key:"

// Multikey writes an Ed25519 public key as a Multikey, "z6Mk…".
func Multikey(pub ed25519.PublicKey) string {
	return EncodeMultibase(append(bytes.Clone(ed25519Multicodec), pub...))
}

// ParseMultikey reads an Ed25519 public key. Weak keys are refused.
func ParseMultikey(text string) (ed25519.PublicKey, error) {
	data, err := DecodeMultibase(text)
	if err != nil {
		return nil, err
	}
	pub, ok := bytes.CutPrefix(data, ed25519Multicodec)
	if !ok || len(pub) != ed25519.PublicKeySize {
		return nil, refusal.Newf(refusal.Malformed, "Multikey %.60q is not an Ed25519 public key", text).
			WithHint("an Ed25519 key begins with z6Mk")
	}
	if err := CheckEd25519(pub); err != nil {
		return nil, err
	}
	return pub, nil
}

// DIDKey writes an Ed25519 public key as a did:key.
func DIDKey(pub ed25519.PublicKey) string { return didKeyPrefix + Multikey(pub) }

// DIDKeyMethod names the one verification method of a did:key.
func DIDKeyMethod(pub ed25519.PublicKey) string {
	text := Multikey(pub)
	return didKeyPrefix + text + "#" + text
}

// ParseDIDKey reads the Ed25519 public key of a did:key. Weak keys are refused.
func ParseDIDKey(did string) (ed25519.PublicKey, error) {
	text, ok := strings.CutPrefix(did, didKeyPrefix)
	if !ok {
		return nil, refusal.Newf(refusal.Malformed, "%.80q is not a did:key", did)
	}
	return ParseMultikey(text)
}

// A JWK is an Ed25519 public key as a JSON Web Key (RFC 8037, section 2).
type JWK struct {
	Curve   string `json:"crv"`
	KeyID   string `json:"kid,omitempty"`
	KeyType string `json:"kty"`
	X       string `json:"x"`
}

// NewJWK writes an Ed25519 public key as a JWK of the given name.
func NewJWK(pub ed25519.PublicKey, kid string) JWK {
	return JWK{Curve: "Ed25519", KeyID: kid, KeyType: "OKP", X: base64.RawURLEncoding.EncodeToString(pub)}
}

// Ed25519 returns the key. Weak keys are refused.
func (k JWK) Ed25519() (ed25519.PublicKey, error) {
	if k.KeyType != "OKP" || k.Curve != "Ed25519" {
		return nil, refusal.Newf(refusal.Malformed, "JWK: found kty %.20q and crv %.20q, expected OKP and Ed25519", k.KeyType, k.Curve)
	}
	// The strict decoder still skips line breaks, so the text is compared with
	// the one spelling of its bytes.
	pub, err := base64.RawURLEncoding.Strict().DecodeString(k.X)
	if err != nil || base64.RawURLEncoding.EncodeToString(pub) != k.X {
		return nil, refusal.Newf(refusal.Malformed, "JWK: x is not base64url without padding")
	}
	if err := CheckEd25519(pub); err != nil {
		return nil, err
	}
	return pub, nil
}
