package web

import (
	"net/http"
	"slices"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
	"tallystick/internal/serve/registry"
	"tallystick/internal/share/attest"
)

// The VC-API of the W3C Credentials Community Group, as the test suites of the
// Verifiable Credentials working group use it.

// maxOwnType are the types that only the registry itself gives to what it signs.
// A client that could have one signed here would forge an attestation or a status
// list.
var reservedTypes = []string{"EvalRunAttestationCredential", "ObservedRun", "ImportedNotObserved", "BitstringStatusListCredential"}

func vcIssue(c *call) (*reply, error) {
	var form struct {
		Credential canon.RawMessage `json:"credential"`
		Options    struct {
			CredentialID string `json:"credentialId"`
			Type         string `json:"type"`
			Cryptosuite  string `json:"cryptosuite"`
			Created      string `json:"created"`
		} `json:"options"`
	}
	if err := c.decode(&form); err != nil {
		return nil, err
	}
	if form.Credential == nil {
		return nil, refusal.Newf(refusal.Malformed, "the body: expected credential")
	}
	for _, o := range []struct{ name, found, want string }{
		{"type", form.Options.Type, "DataIntegrityProof"}, {"cryptosuite", form.Options.Cryptosuite, "eddsa-jcs-2022"},
	} {
		if o.found != "" && o.found != o.want {
			return nil, refusal.Newf(refusal.Malformed, "options.%s: found %.60q, expected %s", o.name, o.found, o.want)
		}
	}
	if form.Options.Created != "" {
		return nil, refusal.Newf(refusal.Malformed, "options.created: the registry dates its proofs itself")
	}
	if err := issuable(form.Credential); err != nil {
		return nil, err
	}
	key, err := c.idempotency()
	if err != nil {
		return nil, err
	}
	signed, err := c.s.cfg.Writer.IssueDocument(c.ctx(), c.agent, form.Credential, registry.IssueOptions{CredentialID: form.Options.CredentialID, Idempotency: key})
	if err != nil {
		return nil, err
	}
	return asJSON(http.StatusCreated, map[string]any{"verifiableCredential": canon.RawMessage(signed)})
}

// issuable refuses what may not be signed for others.
func issuable(credential []byte) error {
	report, err := attest.CheckDataModel(credential)
	if err != nil {
		return err
	}
	if !report.Valid {
		return refusal.Newf(refusal.Malformed, "credential: %s", report.Problems[0])
	}
	var doc map[string]any
	if err := canon.Unmarshal(credential, &doc); err != nil {
		return refusal.Newf(refusal.Malformed, "credential: %w", err)
	}
	if _, there := doc["proof"]; there {
		return refusal.Newf(refusal.Malformed, "credential: it has a proof already")
	}
	if again := attest.Redefinitions(doc); len(again) > 0 {
		return refusal.Newf(refusal.Malformed, "credential: %s", again[0])
	}
	for _, t := range typesOf(doc) {
		if slices.Contains(reservedTypes, t) {
			return refusal.Newf(refusal.NotAllowed, "credential: only the registry itself issues a %s", t).
				WithHint("have an attestation minted at POST /api/credentials/mint")
		}
	}
	return nil
}

func typesOf(doc map[string]any) []string {
	var all []string
	add := func(v any) {
		if t, ok := v.(string); ok {
			all = append(all, t)
		}
	}
	if many, ok := doc["type"].([]any); ok {
		for _, v := range many {
			add(v)
		}
	} else {
		add(doc["type"])
	}
	return all
}

// A verification is the answer of the VC-API.
type verification struct {
	Verified bool     `json:"verified"`
	Checks   []string `json:"checks"`
	Warnings []string `json:"warnings"`
	Errors   []string `json:"errors"`
}

func (v *verification) fail(err error) {
	v.Verified = false
	v.Errors = append(v.Errors, problemOf(err).Error)
}

// vcVerify answers 200 only for a credential that verifies: the test suites of the
// W3C look at nothing but the status.
func vcVerify(c *call) (*reply, error) {
	var form struct {
		Credential canon.RawMessage `json:"verifiableCredential"`
		Options    struct {
			documents
			Checks []string `json:"checks"`
		} `json:"options"`
	}
	if err := c.decode(&form); err != nil {
		return nil, err
	}
	if form.Credential == nil {
		return nil, refusal.Newf(refusal.Malformed, "the body: expected verifiableCredential")
	}
	if err := form.Options.check(); err != nil {
		return nil, err
	}
	for _, check := range form.Options.Checks {
		if !slices.Contains([]string{"proof", "credentialStatus", "status"}, check) {
			return nil, refusal.Newf(refusal.Malformed, "options.checks: found %.40q, expected proof or credentialStatus", check)
		}
	}
	v := &verification{Verified: true, Checks: []string{}, Warnings: []string{}, Errors: []string{}}
	if err := c.verifyAny(v, form.Credential, form.Options.documents); err != nil {
		if statusOf(refusal.Of(err).Name) == http.StatusInternalServerError {
			return nil, err
		}
		v.fail(err)
	}
	status := http.StatusOK
	if !v.Verified {
		status = http.StatusBadRequest
	}
	return asJSON(status, v)
}

// verifyAny verifies a credential of any kind, and one of ours by its own rules.
func (c *call) verifyAny(v *verification, credential []byte, with documents) error {
	report, err := attest.CheckDataModel(credential)
	if err != nil {
		return err
	}
	v.Checks = append(v.Checks, "dataModel")
	if !report.Valid {
		for _, p := range report.Problems {
			v.Errors = append(v.Errors, p.String())
		}
		v.Verified = false
		return nil
	}
	var doc map[string]any
	if err := canon.Unmarshal(credential, &doc); err != nil {
		return err
	}
	if again := attest.Redefinitions(doc); len(again) > 0 {
		return refusal.Newf(refusal.CredentialInvalid, "credential: %s", again[0])
	}
	if slices.Contains(typesOf(doc), "EvalRunAttestationCredential") {
		v.Checks = append(v.Checks, "proof", "attestation", "credentialStatus")
		_, err := c.verifyAttested(credential, with)
		return err
	}
	t, err := c.trust(with)
	if err != nil {
		return err
	}
	v.Checks = append(v.Checks, "proof")
	secured, err := attest.VerifyDocument(credential, t)
	if err != nil {
		return err
	}
	if err := signedByIssuer(doc, secured); err != nil {
		return err
	}
	v.Checks = append(v.Checks, "validityPeriod")
	if err := validAt(doc, t.Now); err != nil {
		return err
	}
	if _, there := doc["credentialStatus"]; there {
		v.Warnings = append(v.Warnings, "credentialStatus was not looked at: only attestations of this registry have a status that is known here")
	}
	return c.notRevoked(c.ctx(), secured.Digest)
}

// signedByIssuer wants a proof by a key of the issuer's: any author can put another's
// name on a document.
func signedByIssuer(doc map[string]any, s *attest.Secured) error {
	issuer, _ := doc["issuer"].(string)
	if object, ok := doc["issuer"].(map[string]any); ok {
		issuer, _ = object["id"].(string)
	}
	for _, p := range s.Proofs {
		if p.Controller == issuer {
			return nil
		}
	}
	return refusal.Newf(refusal.SignerUnknown, "no proof is by a key of the issuer, %.120q", issuer)
}

// validAt checks the dates, whose form is right.
func validAt(doc map[string]any, now time.Time) error {
	for name, wrong := range map[string]func(time.Time) bool{"validFrom": now.Before, "validUntil": now.After} {
		text, there := doc[name].(string)
		if !there {
			continue
		}
		if at, err := time.Parse(time.RFC3339Nano, text); err != nil || wrong(at) {
			return refusal.Newf(refusal.CredentialInvalid, "not valid now: %s is %.40q", name, text)
		}
	}
	return nil
}
