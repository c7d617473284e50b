package client

import (
	"bytes"
	"context"
	"net/http"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/plain"
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
// signed. What comes back must be about that very body; whether it verifies is for the
// verifier to say, with [Client.KeysOf].
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

// KeysOf gives the issuer of a credential that this registry made, and its key set, which
// is that of the did:web of the registry's own address; a did:key has none, it is its own
// key. Another name is not the registry's to issue under, whatever keys it serves.
func (c *Client) KeysOf(ctx context.Context, credential []byte) (issuer string, set []byte, err error) {
	var vc struct {
		Issuer canon.RawMessage `json:"issuer"`
	}
	if err := decode(credential, &vc); err != nil {
		return "", nil, refusal.Newf(refusal.Malformed, "the registry's credential: %w", err)
	}
	var named struct {
		ID string `json:"id"`
	}
	if decode(vc.Issuer, &issuer) != nil && decode(vc.Issuer, &named) == nil {
		issuer = named.ID
	}
	own := "did:web:" + strings.ReplaceAll(strings.ToLower(c.base.Host), ":", "%3A") + strings.ReplaceAll(c.base.Path, "/", ":")
	switch {
	case strings.HasPrefix(issuer, "did:key:"):
		return issuer, nil, nil
	case issuer != own:
		return "", nil, refusal.Newf(refusal.RegistryMismatch, "the registry at %s issues in the name of %s, and its address is that of %s", c.base, plain.Line(issuer), own).
			WithHint("if its public address is another one, name that with --registry; else do not use the credential, and tell the operator of the registry")
	}
	a, err := c.Get(ctx, keysPath)
	if err != nil {
		return "", nil, err
	}
	if a.Status != http.StatusOK {
		return "", nil, a.Err()
	}
	return issuer, a.Body, nil
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
