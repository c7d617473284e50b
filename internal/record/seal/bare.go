package seal

import (
	"crypto/ed25519"

	"golang.org/x/crypto/ssh"

	"tallystick/internal/record/refusal"
)

// VerifySignature checks that a signature covers the message for the given act
// and returns the key that made it. Whose key it is, the caller knows, because
// it has pinned a key and has no signers file; every other caller wants
// [Signers.Verify]. Certificates are refused: a pinned key needs none.
func VerifySignature(armored, message []byte, ns Namespace) (PublicKey, error) {
	sig, err := verifyBytes(armored, message, ns)
	if err != nil {
		return PublicKey{}, err
	}
	if _, ok := sig.PublicKey.(*ssh.Certificate); ok {
		return PublicKey{}, refusal.Newf(refusal.SignerUnknown, "verifying signature: made with a certificate, expected a plain key")
	}
	return PublicKey{key: sig.PublicKey}, nil
}

// ParseLogKey reads a verifier key in the form that [VKey] writes into the
// name and the key.
func ParseLogKey(vkey string) (name string, pub ed25519.PublicKey, err error) {
	return parseVKey(vkey, algEd25519)
}
