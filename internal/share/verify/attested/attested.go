// Package attested verifies an attestation together with the bytes behind it: the
// credential, or the body that its runner signed, and the dataset, code, harness and
// model that the verifier has. The stranger's verifier does without it.
package attested

import (
	"fmt"
	"io"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/share/attest"
	"tallystick/internal/share/attest/claim"
	"tallystick/internal/share/verify"
)

// An Answer is what there is to say about an attestation, also about one that does
// not verify.
type Answer struct {
	Verified      bool            `json:"verified"`
	Issuer        string          `json:"issuer"`
	Runner        string          `json:"runner"`
	Kind          string          `json:"kind"`
	ResultsHashOK bool            `json:"results_hash_ok"`
	Problems      []string        `json:"problems"`
	Imported      bool            `json:"imported"`
	Credential    *digest.ID      `json:"credential,omitempty"`
	RunID         string          `json:"run_id,omitempty"`
	Content       []claim.Checked `json:"content,omitempty"`
	Notes         []string        `json:"notes,omitempty"`
	Rerun         string          `json:"rerun,omitempty"`
}

// Verify verifies an attestation. The answer is there beside the error that says
// why it does not.
func Verify(data []byte, t verify.Trust, content claim.Content) (*Answer, error) {
	a := &Answer{Kind: attest.Kind, Problems: []string{}}
	err := a.verify(data, t, content)
	if err != nil {
		a.Problems = append(a.Problems, refusal.Of(err).Error())
	}
	a.Verified, a.ResultsHashOK = err == nil, a.RunID != "" || claim.ResultsHashOK(data)
	return a, err
}

func (a *Answer) verify(data []byte, t verify.Trust, content claim.Content) error {
	if claim.IsSignedBody(data) {
		b, err := verify.VerifyBody(data, t)
		if err != nil {
			return err
		}
		a.Notes = append(a.Notes, "a body signed by its runner; no issuer stands by it")
		return a.body(b.Body, b.Digest, content)
	}
	c, err := verify.VerifyCredential(data, t)
	if err != nil {
		return err
	}
	a.Issuer, a.Imported, a.Notes = c.Issuer, c.Imported, c.Notes
	return a.body(c.Body, c.Digest, content)
}

func (a *Answer) body(b *attest.Body, id digest.ID, content claim.Content) error {
	a.Runner, a.Credential, a.RunID = b.RunnerDID, &id, b.RunID
	a.Rerun, _ = claim.Rerun(b)
	a.Notes = append(a.Notes, claim.Remarks(b)...)
	if err := claim.CheckJudges(b); err != nil {
		return err
	}
	var err error
	a.Content, err = claim.CheckContent(b, content)
	return err
}

// kind says who saw the run. The signer of a body alone may have seen nothing.
func (a *Answer) kind() string {
	switch {
	case a.Issuer == "":
		return "only what the runner states"
	case a.Imported:
		return "IMPORTED, not observed"
	}
	return "observed"
}

// Print tells the answer to a person.
func (a *Answer) Print(out io.Writer) {
	if !a.Verified {
		fmt.Fprintln(out, "REFUSED")
		for _, p := range a.Problems {
			fmt.Fprintf(out, "  %s\n", plain.Line(p))
		}
	} else {
		fmt.Fprintf(out, "verified  %s  run %s\n", a.kind(), plain.Line(a.RunID))
		if a.Issuer != "" {
			fmt.Fprintf(out, "  issuer  %s\n", plain.Line(a.Issuer))
		}
		fmt.Fprintf(out, "  runner  %s\n", plain.Line(a.Runner))
	}
	for _, c := range a.Content {
		fmt.Fprintf(out, "  %-9s  %s %s  %s\n", c.Status, c.Field, plain.Line(c.Stated), plain.Line(c.How))
	}
	for _, n := range a.Notes {
		fmt.Fprintf(out, "  note    %s\n", plain.Line(n))
	}
	if a.Verified && a.Rerun != "" {
		fmt.Fprintf(out, "  run it again with: %s\n", plain.Line(a.Rerun))
	}
}
