package client

import (
	"context"
	"net/http"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
	"tallystick/internal/share/attest"
	"tallystick/internal/share/attest/claim"
)

// A Publication is one post that makes both: the row of the catalogue and the
// credential behind it.
type Publication struct {
	// Credential is a signed credential, or nil.
	Credential []byte
	// Body is an attestation body, signed by its runner or not, of which the
	// registry makes a credential. One of the two is there.
	Body  []byte
	Paths claim.Paths
}

// A Proposed is what a registry answers.
type Proposed struct {
	ProposalID string `json:"proposalId"`
	IPPath     string `json:"ipPath"`
	Status     string `json:"status"`
	Note       string `json:"note,omitempty"`
	Entry      int64  `json:"entry"`
	Receipt    string `json:"receipt,omitempty"`
	URL        string `json:"url,omitempty"`
	Credential string `json:"credential,omitempty"`
	// Existed says that the registry had the content already, perhaps from another
	// proposer, and made nothing new.
	Existed bool `json:"existed,omitempty"`
}

// places are the three paths as a registry spells them.
type places struct {
	Artifact string `json:"artifactPath"`
	Dataset  string `json:"datasetPath"`
	Harness  string `json:"evalHarnessPath"`
}

// NewPublication recognises a document: a credential, {"kind", "body"}, or a body.
// It reports false for anything else, such as another harness's results.
func NewPublication(data []byte, paths claim.Paths) (*Publication, bool) {
	var shape map[string]canon.RawMessage
	if decode(data, &shape) != nil {
		return nil, false
	}
	switch {
	case shape["@context"] != nil && shape["credentialSubject"] != nil:
		return &Publication{Credential: data, Paths: paths}, true
	case shape["kind"] != nil && shape["body"] != nil:
		return &Publication{Body: shape["body"], Paths: paths}, true
	case shape["runId"] != nil && shape["resultsHash"] != nil:
		return &Publication{Body: data, Paths: paths}, true
	}
	return nil, false
}

// envelope is what is posted: the document, and the paths beside it under a name
// of their own, so that nothing signed is touched.
func (p *Publication) envelope() ([]byte, error) {
	if err := CheckPaths(p.Paths); err != nil {
		return nil, err
	}
	where := places{Artifact: p.Paths.Artifact, Dataset: p.Paths.Dataset, Harness: p.Paths.Harness}
	if p.Credential != nil {
		return canon.Marshal(struct {
			Credential canon.RawMessage `json:"credential"`
			Registry   places           `json:"registry"`
		}{p.Credential, where})
	}
	return canon.Marshal(struct {
		Body     canon.RawMessage `json:"body"`
		Kind     string           `json:"kind"`
		Registry places           `json:"registry"`
	}{p.Body, attest.Kind, where})
}

// CheckPaths wants all three; what a path may be is for the registry to say.
func CheckPaths(p claim.Paths) error {
	for _, path := range []struct{ flag, value string }{{"--artifact", p.Artifact}, {"--harness-path", p.Harness}, {"--dataset-path", p.Dataset}} {
		if !strings.HasPrefix(path.value, "/artifacts/") {
			return refusal.Newf(refusal.Usage, "%s %q: expected a path of the registry, such as /artifacts/models/…", path.flag, path.value)
		}
	}
	return nil
}

// Publish proposes it. A second call is a second request: that the content is the
// same is for the registry to see.
func (c *Client) Publish(ctx context.Context, p *Publication) (*Proposed, error) {
	body, err := p.envelope()
	if err != nil {
		return nil, err
	}
	a, err := c.Post(ctx, proposePath, body, newIdempotencyKey())
	if err != nil {
		return nil, err
	}
	var made Proposed
	if err := a.Decode(&made, http.StatusCreated, http.StatusOK); err != nil {
		return nil, err
	}
	if made.ProposalID == "" || made.Status == "" || !strings.HasPrefix(made.IPPath, "/") {
		return nil, refusal.Newf(refusal.Malformed, "the registry's answer names no proposal: %s", a.beginning())
	}
	made.Existed = a.Status == http.StatusOK
	return &made, nil
}

// DryRun asks the registry whether it would take the body. Nothing is kept there.
func (c *Client) DryRun(ctx context.Context, p *Publication) (*claim.Report, error) {
	subject := p.Body
	if p.Credential != nil {
		var vc struct {
			Subject canon.RawMessage `json:"credentialSubject"`
		}
		if err := decode(p.Credential, &vc); err != nil {
			return nil, refusal.Newf(refusal.Malformed, "the credential: %w", err)
		}
		subject = vc.Subject
	}
	subject, err := unsigned(subject)
	if err != nil {
		return nil, err
	}
	body, err := canon.Marshal(struct {
		Body canon.RawMessage `json:"body"`
		Kind string           `json:"kind"`
	}{subject, attest.Kind})
	if err != nil {
		return nil, refusal.Newf(refusal.Malformed, "the body: %w", err)
	}
	a, err := c.Post(ctx, dryRunPath, body, "")
	if err != nil {
		return nil, err
	}
	report := &claim.Report{Report: &attest.Report{}}
	return report, a.Decode(report, http.StatusOK)
}

// unsigned is a body without the proof of its runner, which a registry takes but
// the schema of a body does not have.
func unsigned(body []byte) ([]byte, error) {
	var members map[string]canon.RawMessage
	if canon.Unmarshal(body, &members) != nil || members["proof"] == nil {
		return body, nil // or whatever the registry says of it
	}
	delete(members, "proof")
	return canon.Marshal(members)
}
