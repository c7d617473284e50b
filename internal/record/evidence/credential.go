package evidence

import "tallystick/internal/record/digest"

// CredentialIssued records that a credential was signed, before it leaves. A
// receipt of it shows that the credential is not younger, also after its key
// was retired.
type CredentialIssued struct {
	Agent   string `json:"agent,omitempty"`   // who asked a registry for it, and may have it revoked
	Attempt string `json:"attempt,omitempty"` // of ours, if it is about one
	// Blob is where a registry keeps it.
	Blob *digest.Content `json:"blob,omitempty"`
	// Content is of the canonical body without its proof: a registry takes one content
	// for a run.
	Content    *digest.ID `json:"content,omitempty"`
	Credential digest.ID  `json:"credential"`   // of its canonical bytes, proofs included
	ID         string     `json:"id,omitempty"` // the credential's own name
	Issuer     string     `json:"issuer"`
	Method     string     `json:"method"` // the verification method of the issuer's key
	// Request is the write of an agent that a registry issued it for.
	Request *RegistryRequest `json:"request,omitempty"`
	Run     string           `json:"run"` // the runId of its body
	// Status is where a status list speaks of it, if one does. The list is made
	// from these entries.
	Status *StatusPlace `json:"status,omitempty"`
}

// A StatusPlace is one bit of a status list.
type StatusPlace struct {
	Index int64  `json:"index"`
	List  string `json:"list"` // the URL of the list
}

// Kind is credential.issued.
func (*CredentialIssued) Kind() Kind { return CredentialIssuedKind }

// CredentialRevoked records that an issuer no longer stands by a credential.
type CredentialRevoked struct {
	Credential digest.ID        `json:"credential"`
	Reason     string           `json:"reason"`
	Request    *RegistryRequest `json:"request,omitempty"`
}

// Kind is credential.revoked.
func (*CredentialRevoked) Kind() Kind { return CredentialRevokedKind }
