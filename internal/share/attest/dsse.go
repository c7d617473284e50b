package attest

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

// PayloadInToto is the payload type of an in-toto statement.
const PayloadInToto = "application/vnd.in-toto+json"

// PAE is what a DSSE signature covers (DSSE v1.0.2, protocol.md): the lengths keep
// the type and the payload apart.
func PAE(payloadType string, payload []byte) []byte {
	out := append([]byte("DSSEv1 "), strconv.Itoa(len(payloadType))...)
	out = append(out, ' ')
	out = append(out, payloadType...)
	out = append(out, ' ')
	out = append(out, strconv.Itoa(len(payload))...)
	out = append(out, ' ')
	return append(out, payload...)
}

// An envelope is the JSON of DSSE.
type envelope struct {
	Payload     string              `json:"payload"`
	PayloadType string              `json:"payloadType"`
	Signatures  []envelopeSignature `json:"signatures"`
}

type envelopeSignature struct {
	KeyID     string `json:"keyid,omitempty"` // a hint that nothing vouches for
	Signature string `json:"sig"`
}

// SignEnvelope puts a payload into a DSSE envelope with a signature of each key.
func SignEnvelope(payloadType string, payload []byte, keys ...*seal.Key) ([]byte, error) {
	e := envelope{Payload: base64.StdEncoding.EncodeToString(payload), PayloadType: payloadType}
	signed := PAE(payloadType, payload)
	for _, k := range keys {
		private := k.Ed25519()
		e.Signatures = append(e.Signatures, envelopeSignature{
			KeyID:     seal.DIDKey(private.Public().(ed25519.PublicKey)),
			Signature: base64.StdEncoding.EncodeToString(ed25519.Sign(private, signed)),
		})
	}
	if len(e.Signatures) == 0 {
		return nil, refusal.Newf(refusal.Usage, "a DSSE envelope needs at least one key")
	}
	return canon.Marshal(e)
}

// VerifyEnvelope returns the payload of a DSSE envelope that at least threshold of
// the keys signed. Keys are counted, not signatures, and keyid is not looked at.
// Signatures of other keys do no harm and do not count.
func VerifyEnvelope(data []byte, payloadType string, keys []ed25519.PublicKey, threshold int) ([]byte, error) {
	const what = "DSSE envelope"
	if len(data) > MaxDocument {
		return nil, refusal.Newf(refusal.TooLarge, "%s: %d bytes, at most %d are read", what, len(data), MaxDocument)
	}
	if threshold < 1 {
		return nil, refusal.Newf(refusal.Usage, "%s: a threshold of %d asks for nothing", what, threshold)
	}
	var e envelope
	if err := canon.Unmarshal(data, &e); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if e.PayloadType != payloadType {
		return nil, refusal.Newf(refusal.CredentialInvalid, "%s: found the payload type %.80q, expected %s", what, e.PayloadType, payloadType)
	}
	if len(e.Signatures) > maxProofs {
		return nil, refusal.Newf(refusal.TooLarge, "%s: %d signatures, at most %d are read", what, len(e.Signatures), maxProofs)
	}
	payload, err := decodeBase64(e.Payload)
	if err != nil {
		return nil, refusal.Newf(refusal.CredentialInvalid, "%s: payload: %w", what, err)
	}
	signers, err := e.signers(PAE(payloadType, payload), keys)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if signers < threshold {
		return nil, refusal.Newf(refusal.SignatureInvalid, "%s: %d of the given keys signed it, expected %d", what, signers, threshold).
			WithHint("it was changed, or other keys signed it")
	}
	return payload, nil
}

// signers counts the distinct keys with a good signature.
func (e *envelope) signers(signed []byte, keys []ed25519.PublicKey) (int, error) {
	seen := map[string]bool{}
	for i, s := range e.Signatures {
		signature, err := decodeBase64(s.Signature)
		if err != nil {
			return 0, refusal.Newf(refusal.CredentialInvalid, "signature %d: %w", i+1, err)
		}
		for _, key := range keys {
			if err := seal.CheckEd25519(key); err != nil {
				return 0, err
			}
			if ed25519.Verify(key, signed, signature) {
				seen[string(key)] = true
			}
		}
	}
	return len(seen), nil
}

// decodeBase64 reads standard or URL-safe base64 with padding, as DSSE allows
// both, and no second spelling of the same bytes.
func decodeBase64(text string) ([]byte, error) {
	encoding := base64.StdEncoding
	if strings.ContainsAny(text, "-_") {
		encoding = base64.URLEncoding
	}
	data, err := encoding.DecodeString(text)
	if err != nil || encoding.EncodeToString(data) != text {
		return nil, refusal.Newf(refusal.Malformed, "not base64")
	}
	return data, nil
}
