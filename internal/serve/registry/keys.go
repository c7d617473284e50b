package registry

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
	"tallystick/internal/serve/registry/recompute"
	"tallystick/internal/share/attest"
)

// The purposes of keys.
const (
	CredentialPurpose = attest.CredentialPurpose
	ChainPurpose      = "manifest-chain"
	// OperatorPurpose is that of the key that seals the ledger. It is not among the
	// keys of the issuer: the signers file names it.
	OperatorPurpose = "operator"
)

// chainKeyPrefix begins the name of every key of the chain.
const chainKeyPrefix = "ip-attestation-chain-"

// A signingKey is a private key with the name under which it is published.
type signingKey struct {
	key    *seal.Key
	method string
}

// A keyring is the private keys of a registry that are in use.
type keyring struct {
	did        string // of the issuer
	credential signingKey
	chain      signingKey
	secret     []byte // HMAC key of the chain; of the calibration set too
}

func keyPath(dir string, pub string) string { return filepath.Join(dir, "keys", pub) }

// writeKey writes a private key under the name of its public half.
func writeKey(dir string, k *seal.Key) error {
	data, err := k.MarshalPEM("tallystick registry")
	if err != nil {
		return err
	}
	pub, _ := k.Public().Ed25519()
	return store.CreateFile(store.OS{}, keyPath(dir, seal.Multikey(pub)), data, 0o600)
}

func newSigningKey(dir string) (*seal.Key, error) {
	k, err := seal.NewKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	return k, writeKey(dir, k)
}

// issuer is the DID that credentials are issued under.
func issuer(s Settings, credentialKey *seal.Key) (string, error) {
	if s.PublicURL != "" {
		return didWeb(s.PublicURL)
	}
	pub, _ := credentialKey.Public().Ed25519()
	return seal.DIDKey(pub), nil
}

// methodOf names a key of a DID. A did:key has one name, which says the key.
func methodOf(did, purpose string, k *seal.Key) string {
	pub, _ := k.Public().Ed25519()
	multikey := seal.Multikey(pub)
	switch {
	case purpose == ChainPurpose:
		return did + "#" + chainKeyPrefix + multikey[4:20]
	case strings.HasPrefix(did, "did:key:"):
		return seal.DIDKeyMethod(pub)
	}
	return did + "#" + multikey
}

// published is the entry that makes a key known.
func published(method, purpose string, k *seal.Key, retired bool) (*evidence.KeyPublished, error) {
	pub, _ := k.Public().Ed25519()
	_, kid, _ := strings.Cut(method, "#")
	document, err := canon.Marshal(seal.NewJWK(pub, kid))
	return &evidence.KeyPublished{Purpose: purpose, Key: method, Document: document, Retired: retired}, err
}

func decodeJWK(raw canon.RawMessage, into *seal.JWK) error {
	if err := canon.Unmarshal(raw, into); err != nil {
		return err
	}
	_, err := into.Ed25519()
	return err
}

// current is the published key of a purpose that is in use.
func (s *state) current(purpose string) *publishedKey {
	for i := len(s.keys) - 1; i >= 0; i-- {
		if k := s.keys[i]; k.purpose == purpose && k.retired == nil {
			return k
		}
	}
	return nil
}

// loadKey reads the private half of a published key.
func loadKey(dir string, k *publishedKey) (signingKey, error) {
	pub, err := k.jwk.Ed25519()
	if err != nil {
		return signingKey{}, err
	}
	key, err := seal.LoadKey(keyPath(dir, seal.Multikey(pub)))
	if err != nil {
		return signingKey{}, fmt.Errorf("the key %s: %w", k.method, err)
	}
	return signingKey{key, k.method}, nil
}

// loadKeyring reads the keys that the ledger says are in use.
func loadKeyring(dir string, s *state) (*keyring, error) {
	ring := &keyring{did: s.config.DID}
	for purpose, into := range map[string]*signingKey{CredentialPurpose: &ring.credential, ChainPurpose: &ring.chain} {
		k := s.current(purpose)
		if k == nil {
			return nil, refusal.Newf(refusal.NotFound, "the ledger names no %s key that is in use", purpose)
		}
		var err error
		if *into, err = loadKey(dir, k); err != nil {
			return nil, err
		}
	}
	secret, err := loadSecret(dir)
	ring.secret = secret
	return ring, err
}

func secretPath(dir string) string { return keyPath(dir, "chain-hmac") }

func loadSecret(dir string) ([]byte, error) {
	text, err := seal.LoadSecret(secretPath(dir))
	if err != nil {
		return nil, err
	}
	secret, err := hex.DecodeString(string(text))
	if err != nil || len(secret) != 32 {
		return nil, refusal.Newf(refusal.Malformed, "%s: expected 32 bytes in hexadecimal", secretPath(dir))
	}
	return secret, nil
}

// mac is HMAC-SHA-256 under the registry's secret, for one use each.
func (k *keyring) mac(use string, data ...[]byte) []byte {
	m := hmac.New(sha256.New, k.secret)
	m.Write([]byte(use + "\n"))
	for _, d := range data {
		m.Write(d)
	}
	return m.Sum(nil)
}

// link makes the chain signatures of a manifest.
func (k *keyring) link(l recompute.Link) (*evidence.RegistryChain, error) {
	message, err := l.Message()
	if err != nil {
		return nil, err
	}
	m := hmac.New(sha256.New, k.secret)
	m.Write(message)
	_, kid, _ := strings.Cut(k.chain.method, "#")
	return &evidence.RegistryChain{
		HMAC: hex.EncodeToString(m.Sum(nil)), KeyID: kid, Previous: l.Previous,
		Signature: seal.EncodeMultibase(signEd25519(k.chain.key, message)),
	}, nil
}

// statusPerList is how many credentials share a list: the least that hides which
// one a verifier asks about.
const statusPerList = 8 * attest.MinStatusBytes

// statusURL names a list. Without a public address it is a name and no address.
func statusURL(public, origin string, list int) string {
	if public == "" {
		return fmt.Sprintf("urn:tallystick:%s:status:%d", origin, list)
	}
	return public + StatusListAddress(list)
}

// statusNumber counts the places of all lists through.
func statusNumber(p *evidence.StatusPlace) int64 {
	at := strings.LastIndexAny(p.List, "/:")
	list, err := strconv.ParseInt(p.List[at+1:], 10, 32)
	if err != nil {
		return p.Index
	}
	return list*statusPerList + p.Index
}

// keyDocuments writes jwks.json and did.json from the published keys.
func (s *state) keyDocuments() (jwks, did []byte, err error) {
	type jwk struct {
		seal.JWK
		Alg          string         `json:"alg"`
		Entry        int64          `json:"entry"` // that put it in use
		Published    evidence.Time  `json:"publishedAt"`
		Purpose      string         `json:"purpose"`
		Retired      *evidence.Time `json:"retiredAt,omitempty"`
		RetiredEntry *int64         `json:"retiredEntry,omitempty"`
		Status       string         `json:"status"`
		Use          string         `json:"use"`
	}
	type method struct {
		Controller string `json:"controller"`
		ID         string `json:"id"`
		Key        string `json:"publicKeyMultibase"`
		Revoked    string `json:"revoked,omitempty"`
		Type       string `json:"type"`
	}
	keys, methods, names := []jwk{}, []method{}, []string{}
	for _, k := range s.keys {
		pub, err := k.jwk.Ed25519()
		if err != nil {
			return nil, nil, err
		}
		one := jwk{JWK: k.jwk, Alg: "EdDSA", Entry: k.index, Published: k.at, Purpose: k.purpose, Status: "current", Use: "sig"}
		m := method{Controller: s.config.DID, ID: k.method, Key: seal.Multikey(pub), Type: "Multikey"}
		if k.retired != nil {
			one.Status, one.Retired, one.RetiredEntry = "retired", k.retired, &k.retiredAt
			m.Revoked = k.retired.Go().UTC().Format("2006-01-02T15:04:05Z")
		}
		keys = append(keys, one)
		if k.purpose == CredentialPurpose && strings.HasPrefix(k.method, s.config.DID+"#") {
			methods = append(methods, m)
			if k.retired == nil {
				names = append(names, m.ID) // nothing is asserted with a retired key
			}
		}
	}
	if jwks, err = canon.Marshal(map[string]any{"keys": keys}); err != nil || !strings.HasPrefix(s.config.DID, "did:web:") {
		return jwks, nil, err
	}
	did, err = canon.Marshal(map[string]any{
		"@context": []string{"https://www.w3.org/ns/did/v1", "https://w3id.org/security/multikey/v1"},
		"id":       s.config.DID, "verificationMethod": methods, "assertionMethod": names,
	})
	return jwks, did, err
}

// writeSecret makes the HMAC key.
func writeSecret(dir string) error {
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return err
	}
	return store.CreateFile(store.OS{}, secretPath(dir), []byte(hex.EncodeToString(secret)+"\n"), 0o600)
}

// apiKeyHash is what is kept of an API key. The key has 32 random bytes, so
// it cannot be found from its hash.
func apiKeyHash(key string) digest.ID { return digest.IDOf([]byte(key)) }
