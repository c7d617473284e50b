package client

import "fmt"

// The routes of a registry that this package and its users ask for.
const (
	CheckpointPath = "/checkpoint"
	ListPath       = "/api/knowledge/eval/list"
	proposePath    = "/api/knowledge/eval/propose"
	dryRunPath     = "/api/credentials/dry-run"
	mintPath       = "/api/credentials/mint"
	keysPath       = "/.well-known/jwks.json"
	registerPath   = "/api/agent/v1/register"
	judgePath      = "/api/agent/v1/judge"
)

// EntriesPath asks for n entries of the ledger from an index on, one a line.
func EntriesPath(from, n int64) string { return fmt.Sprintf("/entries?from=%d&n=%d", from, n) }

// BlobPath asks for a blob by its digest.
func BlobPath(digest string) string { return "/blob/" + digest }

// ReceiptPath asks for the receipt of an entry.
func ReceiptPath(index int64) string { return fmt.Sprintf("/receipt/%d", index) }
