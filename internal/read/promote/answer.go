package promote

import (
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
)

// An Answer is what "tally promote recommend --json" prints: the advice, and
// where it was put.
type Answer struct {
	*Recommendation
	Index int64  `json:"index"` // of its own entry
	File  string `json:"file"`
}

// A File is what people read before they decide.
type File struct {
	Schema string `json:"schema"`
	*Recommendation
	Index int64         `json:"index"`
	Head  digest.ID     `json:"head"`
	Time  evidence.Time `json:"time"`
	// Receipts prove the entries that decided, by their index. There are none
	// if more than MaxReceipts entries did.
	Receipts map[int64]string `json:"receipts"`
}

// FileSchema is the schema of a File.
const FileSchema = "tallystick-recommendation/" + format.Version

// MaxReceipts bounds how many receipts a recommendation carries. For a larger
// bench "tally ledger prove" makes those that a reader asks for.
const MaxReceipts = 2000
