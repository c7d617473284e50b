package bundle

import (
	"crypto/ed25519"
	"crypto/hmac"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

// Trust says whom the caller believes. Whatever is named must hold: with an
// HMAC key and an Ed25519 key both signatures are needed. There is no default.
type Trust struct {
	// HMACKey is shared with the packer of the bundle.
	HMACKey []byte
	// Signers are the keys of which one must have signed.
	Signers []ed25519.PublicKey
	// Ledger says whose receipts count. A receipt alone does not vouch for a
	// bundle: it proves the ledger's entry, and the signature ties the two.
	Ledger ledger.Policy
}

// Validate refuses a trust under which nothing could be verified.
func (t Trust) Validate() error {
	switch {
	case t.HMACKey != nil && len(t.HMACKey) == 0:
		return refusal.Newf(refusal.Usage, "the HMAC key is empty, so any forger could have made the signature")
	case t.HMACKey == nil && len(t.Signers) == 0 && len(t.Ledger.Logs) > 0:
		return refusal.Newf(refusal.Usage, "a receipt alone does not vouch for a bundle").
			WithHint("name the HMAC key or the Ed25519 key of its signer too")
	case t.HMACKey == nil && len(t.Signers) == 0:
		return refusal.Newf(refusal.Usage, "verifying a bundle needs to know whom you trust").
			WithHint("name the HMAC key or the Ed25519 key of its signer; there is no default")
	}
	for _, k := range t.Signers {
		if err := seal.CheckEd25519(k); err != nil {
			return err
		}
	}
	return nil
}

// A Verified is a bundle that agrees with itself and carries every signature
// that a [Trust] asked for. Only [Verify] makes one.
type Verified struct {
	*Parsed
	HMACVerified bool
	VerifiedKey  ed25519.PublicKey    // whose Ed25519 signature was verified, or nil
	Proved       *ledger.Proved       // the receipt's entry, if a ledger was trusted
	Record       *evidence.CaseScored // its body
}

// Unchecked lists the seals that the bundle carries and the caller named no key for.
func (v *Verified) Unchecked() []string {
	out := []string{}
	if v.HMAC != nil && !v.HMACVerified {
		out = append(out, "HMAC")
	}
	if v.Signature != nil && v.VerifiedKey == nil {
		out = append(out, TagEd25519.String())
	}
	if v.Receipt != nil && v.Proved == nil {
		out = append(out, TagReceipt.String())
	}
	return out
}

// Verify checks a bundle from its first byte to its last and the signatures
// that the trust names. The result shares its bytes with data, which must not
// be changed afterwards.
func Verify(data []byte, t Trust) (*Verified, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	p, err := Parse(data)
	if err != nil {
		return nil, err
	}
	v := &Verified{Parsed: p}
	if t.HMACKey != nil {
		if err := v.verifyHMAC(t.HMACKey); err != nil {
			return nil, err
		}
	}
	if len(t.Signers) > 0 {
		if err := v.verifyEd25519(t.Signers); err != nil {
			return nil, err
		}
	}
	if len(t.Ledger.Logs) > 0 {
		if err := v.verifyReceipt(t.Ledger); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func unsigned(what string) error {
	return refusal.Newf(refusal.BundleUnsigned, "bundle: it carries no %s, and one is asked for", what).
		WithHint("it was never made with one, or it was taken off: ask the sender of the bundle")
}

func (v *Verified) verifyHMAC(key []byte) error {
	if v.HMAC == nil {
		return unsigned("HMAC signature")
	}
	// hmac.Equal takes the same time wherever the two differ.
	if !hmac.Equal(hmacOf(key, v.payload), v.HMAC) {
		return refusal.Newf(refusal.SignatureInvalid, "bundle: the HMAC does not match").
			WithHint("the bundle was changed after it was signed, or was signed with another key")
	}
	v.HMACVerified = true
	return nil
}

func (v *Verified) verifyEd25519(trusted []ed25519.PublicKey) error {
	if v.Signature == nil {
		return unsigned("Ed25519 signature")
	}
	known := false
	for _, k := range trusted {
		known = known || k.Equal(v.Signer)
	}
	if !known {
		return refusal.Newf(refusal.SignerUnknown, "bundle: it is signed by the key %x, which is not one that you trust", []byte(v.Signer)).
			WithHint("if that key is right, name it; ask its owner and not the bundle")
	}
	if !ed25519.Verify(v.Signer, ed25519Message(v.payload, v.ed25519At), v.Signature) {
		return refusal.Newf(refusal.SignatureInvalid, "bundle: the Ed25519 signature does not match").
			WithHint("the bundle was changed after it was signed")
	}
	v.VerifiedKey = v.Signer
	return nil
}

// verifyReceipt verifies the receipt. That its entry fits the bundle was
// checked by [Parse].
func (v *Verified) verifyReceipt(p ledger.Policy) error {
	if v.Receipt == nil {
		return unsigned("receipt")
	}
	proved, err := ledger.VerifyReceipt(v.Receipt, nil, p)
	if err != nil {
		return err
	}
	v.Proved, v.Record = proved, proved.Body.(*evidence.CaseScored)
	return nil
}
