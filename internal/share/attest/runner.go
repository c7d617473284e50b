package attest

import (
	"fmt"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

// SignBody adds the runner's own proof to a body: the runner says "I ran this",
// whichever issuer puts a credential around it later. The signer must be a key of the
// body's runnerDid.
func SignBody(data []byte, s Signer) ([]byte, error) {
	text, err := canonicalize("body", data)
	if err != nil {
		return nil, err
	}
	body, err := parseBody(text)
	if err != nil {
		return nil, err
	}
	if err := acceptable(text); err != nil {
		return nil, err
	}
	method, err := s.method()
	if err != nil {
		return nil, err
	}
	if controller, _, err := splitMethod(method); err != nil || controller != body.RunnerDID {
		return nil, refusal.Newf(refusal.Usage, "the runner is %.120q and the key is %s: no verifier could accept that", body.RunnerDID, method)
	}
	return secure(text, s, method)
}

// IsSigned reports whether a body has a proof, which [VerifyBody] checks.
func IsSigned(body []byte) bool {
	text, err := canonicalize("body", body)
	return err == nil && text[0] == '{' && find(members(new(room), text), "proof") != nil
}

// A SignedBody is a body whose runner's proof has been verified. Only
// [VerifyBody] makes one.
type SignedBody struct {
	Digest digest.ID // of the canonical bytes, proof included
	Body   *Body
	Proof  Proof
}

// VerifyBody checks what [SignBody] made, without a credential around it.
func VerifyBody(data []byte, t Trust) (*SignedBody, error) {
	const what = "signed body"
	text, err := canonicalize(what, data)
	if err != nil {
		return nil, err
	}
	s, err := openSubject(text)
	if err != nil {
		return nil, inDocument(what, asEvidence(err))
	}
	whole := digest.IDOf(text)
	p, err := s.verifyRunner(whole, t)
	if err != nil {
		return nil, inDocument(what, err)
	}
	return &SignedBody{whole, s.body, *p}, nil
}

// A signedSubject is a body with the runner's proof, or without one.
type signedSubject struct {
	*document
	body *Body
}

// openSubject takes the canonical bytes of a subject apart and checks the body.
func openSubject(text []byte) (*signedSubject, error) {
	d, err := openDocument(text)
	if err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	body, err := parseBody(d.rest)
	if err != nil {
		return nil, err
	}
	return &signedSubject{d, body}, nil
}

// asEvidence names what is wrong with the form of a signed document: bytes that
// could be read, were signed, and are not what a verifier relies on.
func asEvidence(err error) error {
	if !refusal.Is(err, refusal.Malformed) {
		return err
	}
	return refusal.Newf(refusal.CredentialInvalid, "%w", err).WithHint("%s", refusal.Of(err).Hint)
}

// verifyRunner checks the runner's proof. There is one, and it is the runner's.
func (s *signedSubject) verifyRunner(whole digest.ID, t Trust) (*Proof, error) {
	proofs, err := s.verify(whole, t)
	if err != nil {
		return nil, fmt.Errorf("the runner's proof: %w", err)
	}
	if len(proofs) != 1 {
		return nil, refusal.Newf(refusal.CredentialInvalid, "the runner's proof: found %d proofs over the body, expected 1", len(proofs)).
			WithHint("only the runner signs the body; others endorse the credential around it")
	}
	p, err := issuerProof(s.body.RunnerDID, proofs)
	if err != nil {
		return nil, fmt.Errorf("the runner's proof: %w", err)
	}
	return &p, nil
}
