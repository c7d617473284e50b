package registry

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/serve/registry/recompute"
)

// A ChainVerified says by what the chain signatures of a manifest were verified.
type ChainVerified struct {
	Via   string // ed25519, or ed25519+hmac where the platform's key is at hand
	KeyID string
}

// VerifyChain verifies the chain signature of a published proposal by its published
// key, over the manifest that is given, or over the one that is kept.
func (r *Reader) VerifyChain(ctx context.Context, proposal string, manifest []byte) (*ChainVerified, error) {
	_, chain, err := r.verifyChain(ctx, proposal, manifest)
	if err != nil {
		return nil, err
	}
	return &ChainVerified{"ed25519", chain.KeyID}, nil
}

// VerifyChain also verifies the HMAC, of which only the registry itself has the
// key.
func (r *Registry) VerifyChain(ctx context.Context, proposal string, manifest []byte) (*ChainVerified, error) {
	message, chain, err := r.Reader.verifyChain(ctx, proposal, manifest)
	if err != nil {
		return nil, err
	}
	m := hmac.New(sha256.New, r.ring.secret)
	m.Write(message)
	said, err := hex.DecodeString(chain.Signature)
	if err != nil || !hmac.Equal(said, m.Sum(nil)) {
		return nil, refusal.Newf(refusal.SignatureInvalid, "the HMAC of the manifest chain does not match")
	}
	return &ChainVerified{"ed25519+hmac", chain.KeyID}, nil
}

// verifyChain gives what was signed, if the Ed25519 signature is good.
func (r *Reader) verifyChain(ctx context.Context, proposal string, manifest []byte) ([]byte, *Chain, error) {
	p, err := r.Proposal(ctx, proposal)
	if err != nil {
		return nil, nil, err
	}
	if p.Chain == nil {
		return nil, nil, refusal.Newf(refusal.UnknownName, "proposal %s is %s; only published manifests are in the chain", p.ID, p.Status)
	}
	if manifest == nil {
		manifest = p.Manifest
	}
	if manifest == nil {
		return nil, nil, errGone
	}
	message, err := r.linkOf(ctx, p, manifest)
	if err != nil {
		return nil, nil, err
	}
	key, err := r.chainKey(ctx, p.Chain.KeyID)
	if err != nil {
		return nil, nil, err
	}
	signature, err := decodeSignature(p.Chain.SignatureEd25519)
	if err != nil || !ed25519.Verify(key, message, signature) {
		return nil, nil, refusal.Newf(refusal.SignatureInvalid, "the signature of the manifest chain does not match this manifest")
	}
	return message, p.Chain, nil
}

// linkOf is what the chain signatures of a proposal cover.
func (r *Reader) linkOf(ctx context.Context, p *Proposal, manifest []byte) ([]byte, error) {
	text, err := canon.Canonicalize(manifest)
	if err != nil {
		return nil, refusal.Newf(refusal.Malformed, "the manifest: %w", err)
	}
	artifact := p.IPPath
	if p.Thing == Eval {
		var members map[string]canon.RawMessage
		if err := canon.Unmarshal(text, &members); err != nil {
			return nil, refusal.Newf(refusal.Malformed, "the manifest must be an object")
		}
		if err := canon.Unmarshal(members["artifactPath"], &artifact); err != nil {
			return nil, refusal.Newf(refusal.Malformed, "the manifest has no artifactPath")
		}
	}
	config, err := r.Config(ctx)
	if err != nil {
		return nil, err
	}
	return recompute.Link{Artifact: artifact, Manifest: digest.ContentOf(text), Previous: p.Chain.Previous, Proposal: p.ID, Registry: config.Origin}.Message()
}

// chainKey finds a key of the chain among the published ones.
func (r *Reader) chainKey(ctx context.Context, kid string) (ed25519.PublicKey, error) {
	docs, err := r.Keys(ctx)
	if err != nil {
		return nil, err
	}
	var set struct {
		Keys []canon.RawMessage `json:"keys"`
	}
	if err := canon.Unmarshal(docs.JWKS, &set); err != nil {
		return nil, refusal.Newf(refusal.IndexDiffers, "the key set in the database: %w", err)
	}
	for _, raw := range set.Keys {
		var members map[string]canon.RawMessage
		if err := canon.Unmarshal(raw, &members); err != nil {
			return nil, refusal.Newf(refusal.IndexDiffers, "the key set in the database: %w", err)
		}
		var jwk seal.JWK
		if canon.Unmarshal(members["kid"], &jwk.KeyID) != nil || jwk.KeyID != kid {
			continue
		}
		var purpose string
		if canon.Unmarshal(members["purpose"], &purpose) != nil || purpose != ChainPurpose {
			return nil, refusal.Newf(refusal.SignerUnknown, "the key %.120q is for %.60q, expected a key for %s", kid, purpose, ChainPurpose)
		}
		for name, into := range map[string]*string{"kty": &jwk.KeyType, "crv": &jwk.Curve, "x": &jwk.X} {
			if err := canon.Unmarshal(members[name], into); err != nil {
				return nil, refusal.Newf(refusal.IndexDiffers, "the key %s in the database: %w", kid, err)
			}
		}
		return jwk.Ed25519()
	}
	return nil, refusal.Newf(refusal.SignerUnknown, "the key %s is not among the published ones", kid)
}
