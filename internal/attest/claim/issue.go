package claim

import (
	"fmt"
	"strings"
	"time"

	"tallystick/internal/attest"
	"tallystick/internal/canon"
	"tallystick/internal/exchange/export"
	"tallystick/internal/refusal"
	"tallystick/internal/seal"
)

// Signing is who signs a draft, and what the credential says besides.
type Signing struct {
	Key *seal.Key
	DID string // the runner's, which is the issuer's too
	// Method names the key among those of a did:web, in full or after the #. Empty
	// means the key itself in multibase.
	Method string
	Now    time.Time

	SchemaURL string
	Until     string // the last moment of validity in RFC 3339, or ""
	Status    []attest.StatusEntry
}

// LoadKey reads the key that signs. A DID that is empty becomes the did:key of the
// key.
func LoadKey(path string, did *string) (*seal.Key, error) {
	if path == "" {
		return nil, refusal.Newf(refusal.Usage, "--key is missing").WithHint(`name a key file, or give --dry-run; "tally keys new credential" makes one in .tally/keys`)
	}
	key, err := seal.LoadKeyOrSeed(path)
	if err != nil {
		return nil, err
	}
	if pub, ok := key.Public().Ed25519(); ok && *did == "" {
		*did = seal.DIDKey(pub)
	}
	return key, nil
}

// signer is the key under the name that verifiers find it by.
func (s Signing) signer() (attest.Signer, error) {
	pub, ok := s.Key.Public().Ed25519()
	if !ok {
		return attest.Signer{}, refusal.Newf(refusal.Usage, "the key is of type %s, credentials are signed with ssh-ed25519", s.Key.Public().Type())
	}
	out := attest.Signer{Key: s.Key, Created: s.Now}
	switch {
	case strings.HasPrefix(s.DID, "did:key:"):
		if own := seal.DIDKey(pub); s.DID != own {
			return out, refusal.Newf(refusal.Usage, "--runner-did is %.120q, and the key is of %s", s.DID, own)
		}
	case s.Method == "":
		out.Method = s.DID + "#" + seal.Multikey(pub)
	case strings.Contains(s.Method, "#"):
		out.Method = s.Method
	default:
		out.Method = s.DID + "#" + s.Method
	}
	return out, nil
}

// Issue signs a draft: the runner's proof over the body, and the credential around
// it by the same key. The credential was verified with that key before it is
// returned.
func Issue(d *Draft, s Signing) ([]byte, *attest.Verified, error) {
	if err := d.Refuse(); err != nil {
		return nil, nil, err
	}
	signer, err := s.signer()
	if err != nil {
		return nil, nil, err
	}
	var until time.Time
	if s.Until != "" {
		if until, err = time.Parse(time.RFC3339, s.Until); err != nil {
			return nil, nil, refusal.Newf(refusal.Usage, "--valid-until %q: expected a time such as 2027-01-31T00:00:00Z", s.Until)
		}
	}
	body, err := attest.SignBody(d.Body, signer)
	if err != nil {
		return nil, nil, err
	}
	var evidence []canon.RawMessage
	for _, item := range d.Evidence {
		if item, err = signSandbox(item, signer); err != nil {
			return nil, nil, err
		}
		evidence = append(evidence, item)
	}
	parsed, err := attest.ParseBody(d.Body)
	if err != nil {
		return nil, nil, err
	}
	text, err := attest.Issue(attest.Draft{
		ID: "urn:uuid:" + parsed.RunID, Issuer: s.DID, Imported: d.Imported, Body: body, SchemaURL: s.SchemaURL,
		ValidFrom: s.Now, ValidUntil: until, Status: s.Status, Evidence: evidence,
	}, signer)
	if err != nil {
		return nil, nil, err
	}
	v, err := s.verify(text, signer)
	return text, v, err
}

// verify checks the credential as a stranger would who has the signer's key.
func (s Signing) verify(text []byte, signer attest.Signer) (*attest.Verified, error) {
	keys := &attest.Keys{}
	if signer.Method != "" {
		pub, _ := s.Key.Public().Ed25519()
		set, err := canon.Marshal(map[string]any{"keys": []any{seal.NewJWK(pub, signer.Method)}})
		if err != nil {
			return nil, err
		}
		if err := keys.AddJWKS(s.DID, set); err != nil {
			return nil, err
		}
	}
	return attest.Verify(text, attest.Trust{Keys: keys, Now: s.Now, UnsafeSkipStatus: true})
}

// Envelopes puts in-toto statements into DSSE envelopes that a key signs.
func Envelopes(statements []export.File, key *seal.Key) ([]export.File, error) {
	var out []export.File
	for _, f := range statements {
		signed, err := attest.SignEnvelope(attest.PayloadInToto, f.Data, key)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		out = append(out, export.File{Name: strings.TrimSuffix(f.Name, ".json") + ".dsse.json", Data: append(signed, '\n')})
	}
	return out, nil
}
