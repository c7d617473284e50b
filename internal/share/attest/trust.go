package attest

import (
	"fmt"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

// A Trust is everything that a verification relies on besides the document itself.
// Nothing else is looked at: no network, no clock, no file.
type Trust struct {
	// Keys are the key documents of those who may have signed. Nil is enough for
	// documents that only did:keys signed.
	Keys *Keys
	// Now is the time to judge validity at. It must be given.
	Now time.Time
	// StatusLists are the credentials of the status lists that credentials refer
	// to, in any order.
	StatusLists [][]byte
	// IssuedBeforeRetirement is asked about a document under a retired key whose
	// signature is good. It returns nil only if it knows from outside of the
	// document, as by a receipt of the ledger, that the document was there before
	// the key was retired. Nil means that nothing is known.
	IssuedBeforeRetirement func(Issued) error
	// UnsafeSkipStatus accepts a credential without looking whether it was
	// revoked.
	UnsafeSkipStatus bool
}

// An Issued is what must have existed before its key was retired.
type Issued struct {
	Document digest.ID // of the canonical bytes of the whole document, proofs included
	Method   string    // of the retired key
	// Since is when the key documents say that the key was retired; zero if one of
	// them does not say when.
	Since time.Time
}

func (t Trust) issuedBefore(i Issued) error {
	if t.IssuedBeforeRetirement == nil {
		return refusal.Newf(refusal.SignerNotValidThen, "the key %s is retired, and nothing shows that the document is older than that", plainMethod(i.Method)).
			WithHint("give a receipt of the ledger that has it from before the retirement; dates inside the document prove nothing")
	}
	if err := t.IssuedBeforeRetirement(i); err != nil {
		return refusal.Newf(refusal.SignerNotValidThen, "the key %s is retired: %w", plainMethod(i.Method), err)
	}
	return nil
}

// checkValidity compares the dates of a credential, either of which may be empty,
// with the time of the verification.
func (t Trust) checkValidity(from, until string) error {
	if from != "" {
		start, err := parseTime("validFrom", from)
		if err != nil {
			return err
		}
		if t.Now.Before(start) {
			return refusal.Newf(refusal.CredentialInvalid, "not valid before %s", from)
		}
	}
	if until != "" {
		end, err := parseTime("validUntil", until)
		if err != nil {
			return err
		}
		if t.Now.After(end) {
			return refusal.Newf(refusal.CredentialInvalid, "not valid after %s", until)
		}
	}
	return nil
}

// issuerProof gives the proof by a method that the issuer controls.
func issuerProof(issuer string, proofs []Proof) (Proof, error) {
	for _, p := range proofs {
		if p.Controller == issuer {
			return p, nil
		}
	}
	return Proof{}, refusal.Newf(refusal.SignerUnknown, "no proof is by a key of %s; found one of %s", plainMethod(issuer), plainMethod(proofs[0].Controller)).
		WithHint("any author can put another's name on a document; only a proof by a key of that name counts")
}

// inDocument adds which document an error is about.
func inDocument(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
