package dossier

import (
	"testing"

	"tallystick/internal/record/refusal"
)

// Every refusal of something that does not verify is at a boundary with a number,
// or about a stranger's file, which crosses none.
func TestEveryRefusalHasItsBoundary(t *testing.T) {
	strangers := map[refusal.Name]bool{refusal.ReceiptInvalid: true, refusal.BundleInvalid: true, refusal.BundleUnsigned: true, refusal.OutcomeMismatch: true,
		refusal.CredentialInvalid: true, refusal.CredentialRevoked: true, refusal.ResultsHashMismatch: true, refusal.SubmissionInvalid: true, refusal.WitnessQuorumMissing: true,
		// A registry has a ledger of its own, and its operator and monitors are told.
		refusal.IndexDiffers: true, refusal.RegistryMismatch: true,
		refusal.SiteInvalid: true,
		// What is not issued did not cross one.
		refusal.NotIssued: true,
		// A gap is something that is missing, which "--strict" asks about.
		refusal.StrictGap: true}
	for _, row := range refusal.Table() {
		if row.Exit != refusal.ExitUnverified {
			continue
		}
		if boundary := boundaries[row.Name]; (boundary == "") != strangers[row.Name] {
			t.Errorf("%s: boundary %q, a stranger's file %v", row.Name, boundary, strangers[row.Name])
		}
	}
}
