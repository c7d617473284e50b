package evidence

import "tallystick/internal/digest"

// CredentialIssued records that a credential was signed, before it leaves. A
// receipt of it shows that the credential is no younger, also after its key was
// retired.
type CredentialIssued struct {
	Attempt    string    `json:"attempt,omitempty"` // of ours, if it is about one
	Credential digest.ID `json:"credential"`        // of its canonical bytes, proofs included
	ID         string    `json:"id,omitempty"`      // the credential's own name
	Issuer     string    `json:"issuer"`
	Method     string    `json:"method"` // the verification method of the issuer's key
	Run        string    `json:"run"`    // the runId of its body
}

// Kind is credential.issued.
func (*CredentialIssued) Kind() Kind { return CredentialIssuedKind }

// Validate checks that the strings are there.
func (c *CredentialIssued) Validate() error {
	return firstError(required("issuer", c.Issuer), required("method", c.Method), required("run", c.Run))
}

// CredentialRevoked records that an issuer no longer stands by a credential.
type CredentialRevoked struct {
	Credential digest.ID `json:"credential"`
	Reason     string    `json:"reason"`
}

// Kind is credential.revoked.
func (*CredentialRevoked) Kind() Kind { return CredentialRevokedKind }

// Validate checks that there is a reason.
func (c *CredentialRevoked) Validate() error { return required("reason", c.Reason) }
