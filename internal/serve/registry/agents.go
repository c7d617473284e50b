package registry

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

const (
	apiKeyPrefix = "ak_"
	apiKeyLength = len(apiKeyPrefix) + 43 // 32 bytes in base64url
	maxProfile   = 16 << 10
)

// secretWindow is how long the keys of a registration, or a new API key, are shown
// to who sends the request again: until then the idempotency key is as good as they
// are.
const secretWindow = 24 * time.Hour

// minSecretKey is the least length of an idempotency key that keys are shown for
// without another proof of who asks: 22 characters of base64 are 128 bits.
const minSecretKey = 22

// randomness gives 32 bytes that cannot be guessed, for a use.
type randomness func(use string) ([]byte, error)

func fresh(string) ([]byte, error) {
	b := make([]byte, 32)
	if _, err := rand.Read(b); err != nil {
		return nil, refusal.Newf(refusal.Failed, "making a key: %w", err)
	}
	return b, nil
}

// derived makes keys out of a request, under the registry's secret: the same request
// gives the same keys, and nothing secret has to be kept for that.
func (r *Registry) derived(operation string, parts ...string) randomness {
	text, err := canon.Marshal(parts)
	return func(use string) ([]byte, error) { return r.ring.mac(operation+" "+use, text), err }
}

// registration names a registration. The asker is unknown, so the idempotency key
// alone tells one from another; in the ledger it is an HMAC, for which a reader cannot try
// keys.
func (r *Registry) registration(o Once) (randomness, *evidence.RegistryRequest, error) {
	if o.Key == "" {
		return fresh, nil, nil
	}
	if len(o.Key) < minSecretKey {
		return nil, nil, refusal.Newf(refusal.Malformed, "the idempotency key of a registration has %d characters, expected at least %d that cannot be guessed", len(o.Key), minSecretKey).
			WithHint("a client that sends it again gets the API key; use a random UUID")
	}
	req, err := newRequest(&Agent{}, "register", o.Key, o.Body)
	if err != nil {
		return nil, nil, err
	}
	req.Key = digest.ID(r.ring.mac("register request", []byte(o.Key)))
	return r.derived("register", o.Key, req.Body.String()), req, nil
}

// mayShowAgain refuses to show keys that no longer work, or later than the window.
// It is called with the lock held.
func (r *Registry) mayShowAgain(before *request) error {
	k := r.state.apiKeys[before.apiKey]
	switch {
	case k == nil || k.revoked:
		return refusal.Newf(refusal.IdempotencyConflict, "the API key that this request made was replaced or revoked").WithHint("use a new idempotency key")
	case r.o.Now().Sub(before.at.Go()) > secretWindow:
		return refusal.Newf(refusal.IdempotencyConflict, "this request was answered more than %s ago; its keys are not shown again", secretWindow).WithHint("use a new idempotency key")
	}
	return nil
}

func newAPIKey(random randomness) (string, error) {
	b, err := random("api key")
	if err != nil {
		return "", err
	}
	return apiKeyPrefix + base64.RawURLEncoding.EncodeToString(b), nil
}

func wellFormedAPIKey(key string) bool {
	return len(key) == apiKeyLength && strings.HasPrefix(key, apiKeyPrefix)
}

// Register makes an agent. The API key is answered once, and so is the private key
// if the registry made it.
func (r *Registry) Register(ctx context.Context, n SignUp) (*Registered, error) {
	out := &Registered{New: true}
	random, req, err := r.registration(n.Once)
	if err != nil {
		return nil, err
	}
	pub, err := publicKeyOf(n.PublicKey)
	if err != nil {
		return nil, err
	}
	if pub == nil {
		seed, err := random("private key")
		if err != nil {
			return nil, err
		}
		pub, out.PrivateKey = ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey), hex.EncodeToString(seed)
	}
	e := &evidence.RegistryAgent{PublicKey: seal.DIDKey(pub), Request: req}
	if n.Profile != nil {
		if e.Profile, err = r.putProfile(n.Profile); err != nil {
			return nil, err
		}
	}
	if e.Agent, err = r.newUUID(); err != nil {
		return nil, err
	}
	if out.APIKey, err = newAPIKey(random); err != nil {
		return nil, err
	}
	e.KeyHash = apiKeyHash(out.APIKey)
	before, err := r.once(req, nil, func() ([]evidence.Body, error) { return []evidence.Body{e}, nil })
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if before != nil {
		if err := r.mayShowAgain(before); err != nil {
			return nil, err
		}
		e.Agent, out.New = before.agent, false
	}
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

// AuthenticateReplaced finds the agent of an API key that was replaced by the request
// with this idempotency key: a client that did not see the answer has no other key.
func (r *Registry) AuthenticateReplaced(ctx context.Context, old, idempotency string) (*Agent, error) {
	if !wellFormedAPIKey(old) || idempotency == "" {
		return nil, unauthenticated()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.state.apiKeys[apiKeyHash(old)]
	if k == nil {
		return nil, unauthenticated()
	}
	a := r.state.agentView(k.agent)
	req, err := newRequest(&a, "replace key", idempotency, nil)
	if err != nil {
		return nil, err
	}
	before, ok := r.state.requests[req.Key]
	if !ok || before.apiKey.IsZero() || r.mayShowAgain(&before) != nil {
		return nil, unauthenticated()
	}
	return &a, nil
}

// ReplaceAPIKey gives an agent a new API key; the one that it showed is revoked
// with the same entry.
func (r *Registry) ReplaceAPIKey(ctx context.Context, a *Agent, old string, o Once) (string, error) {
	req, err := o.request(a, "replace key")
	if err != nil {
		return "", err
	}
	random := randomness(fresh)
	if req != nil {
		random = r.derived("replace", a.ID, old, o.Key)
	}
	key, err := newAPIKey(random)
	if err != nil {
		return "", err
	}
	hash := apiKeyHash(old)
	before, err := r.once(req, []string{"agent " + a.ID}, func() ([]evidence.Body, error) {
		k := r.state.apiKeys[hash]
		if k == nil || k.revoked || subtle.ConstantTimeCompare([]byte(k.agent.id), []byte(a.ID)) != 1 {
			return nil, unauthenticated()
		}
		return []evidence.Body{&evidence.RegistryAPIKey{Agent: a.ID, KeyHash: apiKeyHash(key), Replaces: &hash, Request: req}}, nil
	})
	if err != nil {
		return "", err
	}
	if before == nil {
		return key, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if before.apiKey != apiKeyHash(key) {
		return "", unauthenticated() // another key of the agent's was shown then
	}
	return key, r.mayShowAgain(before)
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
