package claim

import (
	"fmt"
	"strings"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/share/attest"
	"tallystick/internal/share/export"
)

// A Party is a signer: a key, and the name that verifiers find it by.
type Party struct {
	Key *seal.Key
	DID string
	// Method names the key among those of a did:web, in full or after the #. Empty
	// means the key itself in multibase.
	Method string
}

// Signing is who signs a draft, and what the credential says besides.
type Signing struct {
	Runner Party
	Issuer Party // without a key: the runner
	Now    time.Time

	SchemaURL string
	Until     string // the last moment of validity in RFC 3339, or ""
	Status    []attest.StatusEntry
}

// LoadKey reads the key of a party. A DID that is empty becomes the did:key of the
// key.
func (p *Party) LoadKey(path string) (err error) {
	if path == "" {
		return refusal.Newf(refusal.Usage, "--key is missing").WithHint(`name a key file, or give --dry-run; "tally keys new credential" makes one in .tally/keys`)
	}
	if p.Key, err = seal.LoadKeyOrSeed(path); err != nil {
		return err
	}
	if pub, ok := p.Key.Public().Ed25519(); ok && p.DID == "" {
		p.DID = seal.DIDKey(pub)
	}
	return nil
}

// signer is the key under the name that verifiers find it by.
func (p Party) signer(now time.Time) (attest.Signer, error) {
	pub, ok := p.Key.Public().Ed25519()
	if !ok {
		return attest.Signer{}, refusal.Newf(refusal.Usage, "the key is of type %s, credentials are signed with ssh-ed25519", p.Key.Public().Type())
	}
	out := attest.Signer{Key: p.Key, Created: now}
	switch {
	case strings.HasPrefix(p.DID, "did:key:"):
		if own := seal.DIDKey(pub); p.DID != own {
			return out, refusal.Newf(refusal.Usage, "the DID is %.120q, and the key is of %s", p.DID, own)
		}
	case p.Method == "":
		out.Method = p.DID + "#" + seal.Multikey(pub)
	case strings.Contains(p.Method, "#"):
		out.Method = p.Method
	default:
		out.Method = p.DID + "#" + p.Method
	}
	return out, nil
}

// Issue signs a draft: the runner's proof over the body, and the issuer's
// credential around it. The credential was verified with those keys before it is
// returned.
func Issue(d *Draft, s Signing) ([]byte, *attest.Verified, error) {
	if err := d.Refuse(); err != nil {
		return nil, nil, err
	}
	runner, issuer, err := s.signers()
	if err != nil {
		return nil, nil, err
	}
	draft, err := s.draft(d, runner)
	if err != nil {
		return nil, nil, err
	}
	text, err := attest.Issue(draft, issuer)
	if err != nil {
		return nil, nil, err
	}
	keys, err := s.Keys()
	if err != nil {
		return nil, nil, err
	}
	v, err := attest.Verify(text, attest.Trust{Keys: keys, Now: s.Now, UnsafeSkipStatus: true})
	return text, v, err
}

// signers are the keys of runner and issuer; an issuer without one is the runner.
func (s *Signing) signers() (runner, issuer attest.Signer, err error) {
	if s.Issuer.Key == nil {
		s.Issuer = s.Runner
	}
	if runner, err = s.Runner.signer(s.Now); err != nil {
		return runner, issuer, fmt.Errorf("the runner: %w", err)
	}
	if issuer, err = s.Issuer.signer(s.Now); err != nil {
		return runner, issuer, fmt.Errorf("the issuer: %w", err)
	}
	return runner, issuer, nil
}

// SignBody signs a body as its runner. Without a key it stays as it is.
func (p Party) SignBody(body []byte, now time.Time) ([]byte, error) {
	if p.Key == nil {
		return body, nil
	}
	signer, err := p.signer(now)
	if err != nil {
		return nil, fmt.Errorf("the runner: %w", err)
	}
	return attest.SignBody(body, signer)
}

// draft is the credential before its issuer signs it.
func (s Signing) draft(d *Draft, runner attest.Signer) (out attest.Draft, err error) {
	out = attest.Draft{Issuer: s.Issuer.DID, Imported: d.Imported, SchemaURL: s.SchemaURL, ValidFrom: s.Now, Status: s.Status}
	if s.Until != "" {
		if out.ValidUntil, err = time.Parse(time.RFC3339, s.Until); err != nil {
			return out, refusal.Newf(refusal.Usage, "--valid-until %q: expected a time such as 2027-01-31T00:00:00Z", s.Until)
		}
	}
	if out.Body, err = attest.SignBody(d.Body, runner); err != nil {
		return out, err
	}
	for _, item := range d.Evidence {
		if item, err = signSandbox(item, runner); err != nil {
			return out, err
		}
		out.Evidence = append(out.Evidence, item)
	}
	parsed, err := attest.ParseBody(d.Body)
	if err != nil {
		return out, err
	}
	out.ID = "urn:uuid:" + parsed.RunID
	return out, nil
}

// Keys are the keys that a stranger verifies the credential with.
func (s Signing) Keys() (*attest.Keys, error) {
	runner, issuer, err := s.signers()
	if err != nil {
		return nil, err
	}
	keys := &attest.Keys{}
	if err := s.Runner.publish(keys, runner); err != nil {
		return nil, err
	}
	if issuer.Method != runner.Method {
		if err := s.Issuer.publish(keys, issuer); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// publish adds the key set that a did:web would publish; a did:key needs none.
func (p Party) publish(keys *attest.Keys, as attest.Signer) error {
	if as.Method == "" {
		return nil
	}
	pub, _ := p.Key.Public().Ed25519()
	set, err := canon.Marshal(map[string]any{"keys": []any{seal.NewJWK(pub, as.Method)}})
	if err != nil {
		return err
	}
	return keys.AddJWKS(p.DID, set)
}

// IssueStatusList signs a status list under its URL, valid until a moment or for
// ever.
func IssueStatusList(url string, bits []byte, by Party, from, until time.Time) ([]byte, error) {
	signer, err := by.signer(from)
	if err != nil {
		return nil, err
	}
	return attest.IssueStatusList(attest.StatusDraft{ID: url, Issuer: by.DID, Purpose: attest.Revocation, Bits: bits, ValidFrom: from, ValidUntil: until}, signer)
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
