package client

import (
	"context"
	"crypto/ed25519"
	"net/http"
	"slices"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/serve/registry/recompute"
)

// An Assigned is a proposal that a judge is to judge.
type Assigned struct {
	ProposalID string           `json:"proposalId"`
	IPPath     string           `json:"ipPath"`
	Thing      string           `json:"kind"`
	Content    digest.ID        `json:"content"`
	Deadline   string           `json:"deadline,omitempty"`
	Manifest   canon.RawMessage `json:"manifest,omitempty"`
	Credential string           `json:"credential,omitempty"`
	Registry   string           `json:"registry"`
}

// Assigned lists the proposals that the holder of the API key is drawn to judge and
// has not judged.
func (c *Client) Assigned(ctx context.Context) ([]Assigned, error) {
	a, err := c.Get(ctx, judgePath)
	if err != nil {
		return nil, err
	}
	var list struct {
		Assigned []Assigned `json:"assigned"`
	}
	if err := a.Decode(&list, http.StatusOK); err != nil {
		return nil, err
	}
	return list.Assigned, nil
}

// Judge signs a judgement with the judge's own key, here, and sends it. What is
// signed names the proposal, its content and the registry, as the list of assigned
// proposals has them.
func (c *Client) Judge(ctx context.Context, proposal, verdict, reason string, key *seal.Key) (*Proposed, error) {
	if !slices.Contains(evidence.RegistryVerdicts, verdict) {
		return nil, refusal.Newf(refusal.Usage, "verdict %q: expected one of %q", verdict, evidence.RegistryVerdicts)
	}
	list, err := c.Assigned(ctx)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(list, func(a Assigned) bool { return a.ProposalID == proposal })
	if at < 0 {
		return nil, refusal.Newf(refusal.NotFound, "%q is not among the %d proposals that you are to judge", proposal, len(list)).
			WithHint("list them with \"tally registry judge URL\"")
	}
	form, err := signJudgement(list[at], verdict, reason, key)
	if err != nil {
		return nil, err
	}
	a, err := c.Post(ctx, judgePath, form, newIdempotencyKey())
	if err != nil {
		return nil, err
	}
	var after Proposed
	return &after, a.Decode(&after, http.StatusOK, http.StatusCreated)
}

func signJudgement(a Assigned, verdict, reason string, key *seal.Key) ([]byte, error) {
	j := recompute.Judgement{Content: a.Content, Proposal: a.ProposalID, Registry: a.Registry, Verdict: verdict}
	if reason != "" {
		d := digest.ContentOf([]byte(reason))
		j.Reason = &d
	}
	message, err := j.Message()
	if err != nil {
		return nil, err
	}
	return canon.Marshal(struct {
		Proposal  string `json:"proposalId"`
		Reason    string `json:"reason,omitempty"`
		Signature string `json:"signature"`
		Verdict   string `json:"verdict"`
	}{a.ProposalID, reason, seal.EncodeMultibase(ed25519.Sign(key.Ed25519(), message)), verdict})
}
