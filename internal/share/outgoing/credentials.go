package outgoing

import (
	"context"
	"fmt"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/share/attest"
)

// RecordCredential appends that a credential was issued, about an attempt of ours
// or about none, and says where.
func RecordCredential(ctx context.Context, p *dossier.Place, v *attest.Verified, attempt string, status *evidence.StatusPlace) (*dossier.Appended, error) {
	pos, err := p.Append(ctx, evidence.CredentialIssuedKind, &evidence.CredentialIssued{
		Attempt: attempt, Credential: v.Digest, ID: v.ID, Issuer: v.Issuer, Method: v.IssuerProof.Method, Run: v.Body.RunID, Status: status})
	if err != nil {
		return nil, fmt.Errorf("recording the credential: %w", err)
	}
	p.Note(`recorded as entry %d; "tally ledger prove %d -o FILE" gives the receipt that shows its age`, pos.Index, pos.Index)
	return &dossier.Appended{Index: pos.Index, Head: pos.Head}, nil
}

// Revoke appends that a credential is revoked. The ledger must have issued it: a
// revocation of something unknown is a mistake in the digest.
func Revoke(ctx context.Context, p *dossier.Place, credential digest.ID, reason string) (dossier.Appended, error) {
	found, err := CredentialsOf(p)
	if err != nil {
		return dossier.Appended{}, err
	}
	if found.Issued[credential] == nil {
		return dossier.Appended{}, refusal.Newf(refusal.UnknownName, "the ledger %s has not issued a credential %s", p.Settings.Origin, credential).
			WithHint("the digest is SHA-256 of the canonical credential, proofs included; name the file itself")
	}
	if err := found.Revoked(credential); err != nil {
		return dossier.Appended{}, err
	}
	pos, err := p.Append(ctx, evidence.CredentialRevokedKind, &evidence.CredentialRevoked{Credential: credential, Reason: reason})
	return dossier.Appended{Index: pos.Index, Head: pos.Head}, err
}

// Credentials are those that a ledger issued and revoked.
type Credentials struct {
	Issued  map[digest.ID]*evidence.CredentialIssued
	origin  string
	revoked map[digest.ID]revocation
}

type revocation struct {
	index int64
	body  *evidence.CredentialRevoked
}

// CredentialsOf reads which credentials the verified ledger issued and revoked.
func CredentialsOf(p *dossier.Place) (*Credentials, error) {
	out := &Credentials{Issued: map[digest.ID]*evidence.CredentialIssued{}, origin: p.Settings.Origin, revoked: map[digest.ID]revocation{}}
	_, err := p.Verify(func(rec ledger.Record) error {
		switch b := rec.Body.(type) {
		case *evidence.CredentialIssued:
			out.Issued[b.Credential] = b
		case *evidence.CredentialRevoked:
			out.revoked[b.Credential] = revocation{rec.Index, b}
		}
		return nil
	})
	return out, err
}

// Revoked refuses a credential that the ledger says is revoked.
func (c *Credentials) Revoked(credential digest.ID) error {
	r, ok := c.revoked[credential]
	if !ok {
		return nil
	}
	return refusal.Newf(refusal.CredentialRevoked, "credential %s: entry %d of %s revokes it: %s", credential, r.index, c.origin, r.body.Reason)
}

// NextStatus is the first bit of a status list that no credential has yet.
func (c *Credentials) NextStatus(list string) int64 {
	next := int64(0)
	for _, i := range c.Issued {
		if i.Status != nil && i.Status.List == list {
			next = max(next, i.Status.Index+1)
		}
	}
	return next
}

// FreeStatus refuses a bit that a credential has already: an issuer who revokes one of
// the two would revoke the other.
func (c *Credentials) FreeStatus(at evidence.StatusPlace) error {
	if at.Index >= 8*attest.MaxStatusBytes {
		return refusal.Newf(refusal.Usage, "number %d of a status list: a list has at most %d", at.Index, 8*attest.MaxStatusBytes).
			WithHint("begin another list, with another --status-list-url")
	}
	for id, i := range c.Issued {
		if i.Status != nil && *i.Status == at {
			return refusal.Newf(refusal.Usage, "number %d of the status list %.200q belongs to the credential %s", at.Index, at.List, id).
				WithHint("the next free number is %d; leave --status-index out to take it", c.NextStatus(at.List))
		}
	}
	return nil
}

// A StatusList is what a ledger says of the credentials that refer to one list.
type StatusList struct {
	Credentials int    `json:"credentials"`
	Revoked     int    `json:"revoked"`
	Bits        []byte `json:"-"`
}

// StatusList gathers the bits of a list of an issuer: those of revoked credentials
// are set.
func (c *Credentials) StatusList(list, issuer string) (*StatusList, error) {
	out := &StatusList{Bits: make([]byte, attest.MinStatusBytes)}
	for id, i := range c.Issued {
		if i.Status == nil || i.Status.List != list {
			continue
		}
		if i.Issuer != issuer {
			return nil, refusal.Newf(refusal.Usage, "the credential %s in this list was issued by %.200q, and the list would be by %.200q", id, i.Issuer, issuer).
				WithHint("a list counts only for credentials of its own issuer: give --key and --issuer-did of that issuer")
		}
		out.Credentials++
		if _, ok := c.revoked[id]; ok {
			out.Revoked++
			if err := out.set(i.Status.Index); err != nil {
				return nil, fmt.Errorf("credential %s: %w", id, err)
			}
		}
	}
	if out.Credentials == 0 {
		return nil, refusal.Newf(refusal.UnknownName, "no credential that the ledger %s issued refers to the status list %.200q", c.origin, list).
			WithHint("a credential gets its place with: tally attest … --status-list-url URL")
	}
	return out, nil
}

// set sets a bit, of which number 0 is the leftmost of the first byte.
func (l *StatusList) set(index int64) error {
	if index >= 8*attest.MaxStatusBytes {
		return refusal.Newf(refusal.TooLarge, "number %d of a status list: a list has at most %d", index, 8*attest.MaxStatusBytes)
	}
	if need := int(index/8) + 1; need > len(l.Bits) {
		l.Bits = append(l.Bits, make([]byte, need-len(l.Bits))...)
	}
	attest.SetStatus(l.Bits, index)
	return nil
}
