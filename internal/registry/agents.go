package registry

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"tallystick/internal/canon"
	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/refusal"
	"tallystick/internal/seal"
)

const (
	apiKeyPrefix = "ak_"
	apiKeyLength = len(apiKeyPrefix) + 43 // 32 bytes in base64url
	maxProfile   = 16 << 10
)

func newAPIKey() (string, error) {
	b := make([]byte, 32)
	if _, err := rand.Read(b); err != nil {
		return "", refusal.Newf(refusal.Failed, "making an API key: %w", err)
	}
	return apiKeyPrefix + base64.RawURLEncoding.EncodeToString(b), nil
}

func wellFormedAPIKey(key string) bool {
	return len(key) == apiKeyLength && strings.HasPrefix(key, apiKeyPrefix)
}

// Register makes an agent. The API key is answered once, and so is the private key
// if the registry made it.
func (r *Registry) Register(ctx context.Context, n SignUp) (*Registered, error) {
	out := &Registered{}
	pub, err := publicKeyOf(n.PublicKey)
	if err != nil {
		return nil, err
	}
	if pub == nil {
		fresh, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return nil, refusal.Newf(refusal.Failed, "making a key: %w", err)
		}
		pub, out.PrivateKey = fresh, hex.EncodeToString(private.Seed())
	}
	e := &evidence.RegistryAgent{PublicKey: seal.DIDKey(pub)}
	if n.Profile != nil {
		if e.Profile, err = r.putProfile(n.Profile); err != nil {
			return nil, err
		}
	}
	if e.Agent, err = r.newUUID(); err != nil {
		return nil, err
	}
	if out.APIKey, err = newAPIKey(); err != nil {
		return nil, err
	}
	e.KeyHash = apiKeyHash(out.APIKey)
	if err := r.transact(nil, func() ([]evidence.Body, error) { return []evidence.Body{e}, nil }); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	out.Agent = r.state.agentView(r.state.agents[e.Agent])
	return out, nil
}

func (r *Registry) putProfile(text []byte) (*digest.Content, error) {
	if len(text) > maxProfile {
		return nil, refusal.Newf(refusal.TooLarge, "the profile has %d bytes, at most %d are taken", len(text), maxProfile)
	}
	var members map[string]canon.RawMessage
	if err := canon.Unmarshal(text, &members); err != nil {
		return nil, refusal.Newf(refusal.Malformed, "the profile must be a JSON object: %w", err)
	}
	canonical, err := canon.Canonicalize(text)
	if err != nil {
		return nil, refusal.Newf(refusal.Malformed, "the profile: %w", err)
	}
	names, err := r.put(canonical)
	if err != nil {
		return nil, err
	}
	return &names[0], nil
}

// publicKeyOf reads an Ed25519 public key in the forms that agents have it in; nil
// for none.
func publicKeyOf(text string) (ed25519.PublicKey, error) {
	switch {
	case text == "":
		return nil, nil
	case strings.HasPrefix(text, "did:key:"):
		return seal.ParseDIDKey(text)
	case strings.HasPrefix(text, "z"):
		return seal.ParseMultikey(text)
	}
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != ed25519.PublicKeySize {
		return nil, refusal.Newf(refusal.Malformed, "the public key is %.80q, expected did:key:z6Mk…, z6Mk… or 64 hexadecimal digits of an Ed25519 key", text)
	}
	// By way of a JWK, which refuses weak keys.
	return seal.NewJWK(raw, "").Ed25519()
}

// Authenticate finds the agent of an API key in what the ledger says.
func (r *Registry) Authenticate(ctx context.Context, key string) (*Agent, error) {
	if !wellFormedAPIKey(key) {
		return nil, unauthenticated()
	}
	hash := apiKeyHash(key)
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.state.apiKeys[hash]
	if k == nil || k.revoked {
		return nil, unauthenticated()
	}
	a := r.state.agentView(k.agent)
	return &a, nil
}

// ReplaceAPIKey gives an agent a new API key; the one that it showed is revoked
// with the same entry.
func (r *Registry) ReplaceAPIKey(ctx context.Context, a *Agent, old string) (string, error) {
	key, err := newAPIKey()
	if err != nil {
		return "", err
	}
	hash := apiKeyHash(old)
	err = r.transact([]string{"agent " + a.ID}, func() ([]evidence.Body, error) {
		k := r.state.apiKeys[hash]
		if k == nil || k.revoked || subtle.ConstantTimeCompare([]byte(k.agent.id), []byte(a.ID)) != 1 {
			return nil, unauthenticated()
		}
		return []evidence.Body{&evidence.RegistryAPIKey{Agent: a.ID, KeyHash: apiKeyHash(key), Replaces: &hash}}, nil
	})
	if err != nil {
		return "", err
	}
	return key, nil
}

// RevokeAPIKey revokes every API key of an agent. Nothing else changes: what it
// proposed stays.
func (r *Registry) RevokeAPIKey(ctx context.Context, id string) error {
	return r.transact([]string{"agent " + id}, func() ([]evidence.Body, error) {
		if r.state.agents[id] == nil {
			return nil, refusal.Newf(refusal.UnknownName, "there is no agent %.100q", id)
		}
		var out []evidence.Body
		for hash, k := range r.state.apiKeys {
			if k.agent.id == id && !k.revoked {
				out = append(out, &evidence.RegistryAPIKey{Agent: id, KeyHash: hash, Revoked: true})
			}
		}
		return out, nil
	})
}
