package registry

import (
	"fmt"

	"tallystick/internal/record/digest"
)

// Addresses stand in rows and documents without a host: a registry may move.

// ReceiptAddress is where the receipt of an entry is served.
func ReceiptAddress(index int64) string { return fmt.Sprintf("/receipt/%d", index) }

// ProposalAddress is where a proposal is served.
func ProposalAddress(id string) string { return "/proposal/" + id }

// BlobAddress is where a blob is served.
func BlobAddress(d digest.Content) string { return "/blob/" + d.String() }

// CredentialAddress is where a credential is served.
func CredentialAddress(run, id string) string {
	return "/api/credentials/judgment/eval.run.attestation.v1/" + run + "/" + id
}

// StatusListAddress is where a status list is served.
func StatusListAddress(n int) string { return fmt.Sprintf("/credentials/status/%d", n) }
