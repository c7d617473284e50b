package client

import "fmt"

// The routes of a registry that this package and its users ask for.
const (
	CheckpointPath = "/checkpoint"
	ListPath       = "/api/knowledge/eval/list"
	ProposePath    = "/api/knowledge/eval/propose"
	DryRunPath     = "/api/credentials/dry-run"
	RegisterPath   = "/api/agent/v1/register"
)

// EntriesPath asks for n entries of the ledger from an index on, one a line.
func EntriesPath(from, n int64) string {
	return fmt.Sprintf("/ledger/entries?from=%d&limit=%d", from, n)
}

// BlobPath asks for a blob by its digest.
func BlobPath(digest string) string { return "/blobs/" + digest }
