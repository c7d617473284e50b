package client

import (
	"bytes"
	"context"
	"net/http"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/share/attest"
)

// A Minted is a credential that a registry issued about a body.
type Minted struct {
	Credential canon.RawMessage `json:"verifiableCredential"`
	Digest     digest.ID        `json:"digest"`
	ID         string           `json:"id"`
	StatusList string           `json:"statusListCredential,omitempty"`
	Entry      int64            `json:"entry"`
	Receipt    string           `json:"receipt"`
}

// Mint has the registry issue a credential about a body, which its runner may have
// signed. What comes back must be about that very body; who signed it is for
// the verifier to judge.
func (c *Client) Mint(ctx context.Context, body []byte) (*Minted, error) {
	post, err := canon.Marshal(struct {
		Body canon.RawMessage `json:"body"`
		Kind string           `json:"kind"`
	}{body, attest.Kind})
	if err != nil {
		return nil, refusal.Newf(refusal.Malformed, "the body: %w", err)
	}
	a, err := c.Post(ctx, mintPath, post, newIdempotencyKey())
	if err != nil {
		return nil, err
	}
	var made Minted
	if err := a.Decode(&made, http.StatusCreated, http.StatusOK); err != nil {
		return nil, err
	}
	return &made, aboutBody(made.Credential, body)
}

// aboutBody refuses a credential whose subject is not the body, proof and all.
func aboutBody(credential, body []byte) error {
	var vc struct {
		Subject canon.RawMessage `json:"credentialSubject"`
	}
	if err := decode(credential, &vc); err != nil {
		return refusal.Newf(refusal.Malformed, "the registry's credential: %w", err)
	}
	got, err := canon.Canonicalize(vc.Subject)
	if err != nil {
		return refusal.Newf(refusal.Malformed, "the registry's credential: %w", err)
	}
	want, err := canon.Canonicalize(body)
	if err != nil {
		return refusal.Newf(refusal.Malformed, "the body: %w", err)
	}
	if !bytes.Equal(got, want) {
		return refusal.Newf(refusal.RegistryMismatch, "the registry's credential is about something else than the body that was sent").
			WithHint("do not use it; tell the operator of the registry")
	}
	return nil
}
