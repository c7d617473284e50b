package attest

import (
	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
)

// SandboxKind is the kind of the document that a body's sandboxRunId points to.
// It stands in the evidence of the credential, signed by the runner.
const SandboxKind = "ip.sandbox.run.attestation.v1"

// Sandboxed verifies the attestation that the body's sandboxRunId points to: the
// runner alone signed it, for this run. It reports false if the credential carries
// none.
func (v *Verified) Sandboxed(t Trust) (bool, error) {
	id := v.Body.SandboxRunID
	if id == "" {
		return false, nil
	}
	for _, item := range v.Evidence {
		var members map[string]canon.RawMessage
		if canon.Unmarshal(item, &members) != nil || string(members["id"]) != `"urn:uuid:`+id+`"` {
			continue
		}
		return true, v.checkSandbox(members["attestation"], t)
	}
	return false, nil
}

func (v *Verified) checkSandbox(text []byte, t Trust) error {
	bad := func(format string, args ...any) error {
		return refusal.Newf(refusal.CredentialInvalid, "the attestation of sandbox run "+v.Body.SandboxRunID+": "+format, args...)
	}
	if len(text) == 0 {
		return bad("the evidence has its name and not the document")
	}
	// It is in the credential's canonical bytes, so it is as old as the credential.
	d, err := openDocument(text)
	if err != nil {
		return bad("%w", err)
	}
	proofs, err := d.verify(v.Digest, t)
	if err != nil {
		return bad("%w", err)
	}
	var about map[string]canon.RawMessage
	if err := canon.Unmarshal(d.rest, &about); err != nil {
		return bad("%w", err)
	}
	switch {
	case string(about["kind"]) != `"`+SandboxKind+`"`:
		return bad("found the kind %.60s, expected %s", about["kind"], SandboxKind)
	case string(about["sandboxRunId"]) != `"`+v.Body.SandboxRunID+`"`:
		return bad("it is of the run %.60s", about["sandboxRunId"])
	case len(proofs) != 1 || proofs[0].Controller != v.Body.RunnerDID:
		return bad("it is not signed by the runner alone")
	}
	return nil
}
