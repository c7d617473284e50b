package web

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/serve/registry"
	"tallystick/internal/share/attest"
	"tallystick/internal/share/attest/claim"
)

// shortKind is how addresses spell the kind of attestations.
const shortKind = "eval.run.attestation.v1"

func dryRun(c *call) (*reply, error) {
	report, err := claim.DryRun(c.body, registry.RunnerTrust(c.s.cfg.Now()))
	if report == nil {
		return nil, refusal.Newf(refusal.Malformed, "the body: %w", err)
	}
	return asJSON(http.StatusOK, report)
}

func mint(c *call) (*reply, error) {
	key, err := c.idempotency()
	if err != nil {
		return nil, err
	}
	m, err := c.s.cfg.Writer.Mint(c.ctx(), c.agent, c.body, key)
	if err != nil {
		return nil, err
	}
	type minted struct {
		Credential canon.RawMessage `json:"verifiableCredential"`
		Digest     digest.ID        `json:"digest"`
		ID         string           `json:"id"`
		StatusList string           `json:"statusListCredential,omitempty"`
		Entry      int64            `json:"entry"`
		Receipt    string           `json:"receipt"`
	}
	a := minted{Credential: m.Credential, Digest: m.Digest, ID: c.absolute(m.ID), Entry: m.Entry, Receipt: c.absolute(m.Receipt)}
	if m.Status != nil {
		a.StatusList = m.Status.List
	}
	status := http.StatusOK
	if m.New {
		status = http.StatusCreated
	}
	return asJSON(status, a)
}

func revoke(c *call) (*reply, error) {
	var form struct {
		Credential digest.ID `json:"credential"`
		Reason     string    `json:"reason"`
	}
	if err := c.decode(&form); err != nil {
		return nil, err
	}
	once, err := c.once()
	if err != nil {
		return nil, err
	}
	if err := c.s.cfg.Writer.Revoke(c.ctx(), c.agent, form.Credential, form.Reason, once); err != nil {
		return nil, err
	}
	return asJSON(http.StatusOK, map[string]any{"credential": form.Credential, "revoked": true})
}

func judgment(c *call) (*reply, error) {
	kind := c.path("kind")
	if err := attest.CheckKind(kind); err != nil {
		return nil, err
	}
	text, err := c.s.reads.Judgment(c.ctx(), attest.Kind, c.path("rid"), c.path("jid"))
	if err != nil {
		return nil, err
	}
	return given(typeCredential, text), nil
}

func statusList(c *call) (*reply, error) {
	n, err := parseIndex(c.path("n"))
	if err != nil {
		return nil, err
	}
	l, err := c.s.reads.StatusList(c.ctx(), int(n))
	if err != nil {
		return nil, err
	}
	rep := given(typeCredential, l.Credential)
	rep.etag = l.ETag
	return rep, nil
}

func bodySchema(*call) (*reply, error) { return given(typeSchema, attest.Schema), nil }

func kinds(c *call) (*reply, error) {
	type kind struct {
		Kind          string `json:"kind"`
		CanonicalKind string `json:"canonicalKind"`
		ShortSlug     string `json:"shortSlug"`
		SchemaURL     string `json:"schemaUrl"`
		DryRunKind    string `json:"dryRunKind"`
		Badge         string `json:"badgeUrlTemplate"`
		BadgeSVG      string `json:"badgeSvgUrlTemplate"`
	}
	const template = "/api/badge/v1/attestation/" + shortKind + "/{subjectSha256}"
	return asJSON(http.StatusOK, struct {
		Version     int    `json:"version"`
		GeneratedAt string `json:"generatedAt"`
		Host        string `json:"host"`
		TotalKinds  int    `json:"totalKinds"`
		Kinds       []kind `json:"kinds"`
	}{1, c.s.started, c.s.cfg.PublicURL, 1, []kind{
		{shortKind, attest.Kind, "eval-run", claim.SchemaPath, shortKind, template, template + ".svg"},
	}})
}

// trust is what a verification here relies on: the keys and status lists of this
// registry, and the documents that came with the request. Nothing is fetched.
func (c *call) trust(given documents) (attest.Trust, error) {
	t, err := c.s.reads.Trust(c.ctx())
	if err != nil {
		return t, err
	}
	// The registry's own document is among the keys, so that one of the same name
	// in the request is refused.
	for _, d := range given.DIDs {
		if err := t.Keys.AddDID(d); err != nil {
			return t, refusal.Newf(refusal.Malformed, "options.didDocuments: %w", err)
		}
	}
	for _, l := range given.StatusLists {
		t.StatusLists = append(t.StatusLists, l)
	}
	return t, nil
}

// documents are what a client gives to have a credential of others verified.
type documents struct {
	DIDs        []canon.RawMessage `json:"didDocuments"`
	StatusLists []canon.RawMessage `json:"statusLists"`
}

// maxGiven bounds how many documents come with a request: each status list takes
// megabytes to unpack.
const maxGiven = 8

func (d documents) check() error {
	if len(d.DIDs) > maxGiven || len(d.StatusLists) > maxGiven {
		return refusal.Newf(refusal.TooLarge, "at most %d documents of a kind are read", maxGiven)
	}
	return nil
}

// An attestationReport answers a verification of layer 1 or 3.
type attestationReport struct {
	Verified    bool     `json:"verified"`
	VerifiedVia string   `json:"verifiedVia,omitempty"`
	Proposal    string   `json:"proposalId,omitempty"`
	KeyID       string   `json:"kid,omitempty"`
	Issuer      string   `json:"issuer,omitempty"`
	Digest      string   `json:"digest,omitempty"`
	Errors      []string `json:"errors"`
}

func verifyAttestation(c *call) (*reply, error) {
	var form struct {
		Proposal   string           `json:"proposalId"`
		Manifest   canon.RawMessage `json:"manifest"`
		Credential canon.RawMessage `json:"credential"`
		Options    documents        `json:"options"`
	}
	if err := c.decode(&form); err != nil {
		return nil, err
	}
	if (form.Proposal == "") == (form.Credential == nil) {
		return nil, refusal.Newf(refusal.Malformed, "the body: expected either proposalId, with the manifest if you have it, or credential")
	}
	if form.Credential != nil {
		return c.verifyCredential(form.Credential, form.Options)
	}
	v, err := c.s.reads.VerifyChain(c.ctx(), form.Proposal, form.Manifest)
	if isNamed(err, refusal.SignatureInvalid, refusal.DigestMismatch) {
		return asJSON(http.StatusOK, attestationReport{Proposal: form.Proposal, Errors: []string{problemOf(err).Error}})
	}
	if err != nil {
		return nil, err
	}
	return asJSON(http.StatusOK, attestationReport{Verified: true, VerifiedVia: v.Via, KeyID: v.KeyID, Proposal: form.Proposal, Errors: []string{}})
}

// verifyCredential verifies an attestation with what this registry knows.
func (c *call) verifyCredential(credential []byte, with documents) (*reply, error) {
	if err := with.check(); err != nil {
		return nil, err
	}
	v, err := c.verifyAttested(credential, with)
	if err != nil {
		if statusOf(refusal.Of(err).Name) == http.StatusInternalServerError {
			return nil, err
		}
		return asJSON(http.StatusOK, attestationReport{Errors: []string{problemOf(err).Error}})
	}
	return asJSON(http.StatusOK, attestationReport{
		Verified: true, VerifiedVia: "eddsa-jcs-2022", Issuer: v.Issuer, KeyID: v.IssuerProof.Method, Digest: v.Digest.String(), Errors: []string{},
	})
}

func (c *call) verifyAttested(credential []byte, with documents) (*attest.Verified, error) {
	t, err := c.trust(with)
	if err != nil {
		return nil, err
	}
	v, err := attest.Verify(credential, t)
	if err != nil {
		return nil, err
	}
	return v, c.notRevoked(c.ctx(), v.Digest)
}

// notRevoked asks the ledger, which knows of a revocation before the status list
// is made again.
func (c *call) notRevoked(ctx context.Context, id digest.ID) error {
	m, err := c.s.reads.Credential(ctx, id)
	switch {
	case isNamed(err, refusal.UnknownName):
		return nil // not one of ours
	case m != nil && m.Revoked != nil:
		return refusal.Newf(refusal.CredentialRevoked, "entry %d of the ledger revokes it", *m.Revoked)
	case isNamed(err, refusal.TakenDown):
		return nil // the bytes are here all the same
	}
	return err
}

func badge(c *call) (*reply, error) {
	if err := attest.CheckKind(c.path("kind")); err != nil {
		return nil, err
	}
	text, picture := strings.CutSuffix(c.path("sha256"), ".svg")
	id, err := digest.ParseID("sha256:" + text)
	if err != nil {
		return nil, refusal.Newf(refusal.Malformed, "found %q, expected the SHA-256 of a credential in 64 hexadecimal digits", text)
	}
	m, err := c.s.reads.Credential(c.ctx(), id)
	if err != nil {
		return nil, err
	}
	message, color := "attested", "#2ea44f"
	if m.Revoked != nil {
		message, color = "revoked", "#cb2431"
	}
	if picture {
		return given(typeSVG, drawBadge("eval run", message, color)), nil
	}
	return asJSON(http.StatusOK, map[string]any{
		"schemaVersion": 1, "label": "eval run", "message": message, "color": color,
		"credential": c.absolute(m.ID), "receipt": c.absolute(m.Receipt),
	})
}

// drawBadge draws a badge out of words of ours: nothing of a request is in it.
func drawBadge(label, message, color string) []byte {
	const perLetter, margin = 7, 10
	left, right := len(label)*perLetter+margin, len(message)*perLetter+margin
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="20" role="img" aria-label="%s: %s">`+
		`<rect width="%d" height="20" fill="#555"/><rect x="%d" width="%d" height="20" fill="%s"/>`+
		`<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">`+
		`<text x="%d" y="14">%s</text><text x="%d" y="14">%s</text></g></svg>`+"\n",
		left+right, label, message, left, left, right, color, left/2, label, left+right/2, message)
}
