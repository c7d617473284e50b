package ledger

import (
	"bytes"
	"fmt"
	"strconv"

	"tallystick/internal/record/format"
	"tallystick/internal/record/refusal"
)

// proofsMagic is the first line of a file with several receipts.
const (
	proofsFormat = "tallystick-proof/" + format.Version
	proofsMagic  = proofsFormat + "\n"
)

// Bounds of a file with several receipts.
const (
	maxProofs     = 1000
	maxProofBytes = 64 << 20
)

// IsProofs reports whether data is a file with several receipts, of whatever version.
func IsProofs(data []byte) bool { return bytes.HasPrefix(data, []byte("tallystick-proof/")) }

// MarshalProofs writes several receipts into one file: a line "receipt N" before
// each, and then its N bytes. Receipts carry their entries, however long.
func MarshalProofs(receipts []*Receipt) ([]byte, error) {
	b := bytes.NewBufferString(proofsMagic)
	for _, r := range receipts {
		data, err := r.Marshal()
		if err != nil {
			return nil, err
		}
		if len(data) > maxReceiptRead {
			return nil, refusal.Newf(refusal.TooLarge, "entry %d is too long for a receipt that others read", r.Index).
				WithHint(`"tally ledger prove %d -o FILE" writes the entry beside its receipt`, r.Index)
		}
		fmt.Fprintf(b, "receipt %d\n%s", len(data), data)
	}
	return b.Bytes(), nil
}

// VerifyProofs verifies every receipt of a file. All of them have the same
// checkpoint, so that they speak of one state of one ledger.
func VerifyProofs(data []byte, p Policy) ([]*Proved, error) {
	rest, ok := bytes.CutPrefix(data, []byte(proofsMagic))
	first, _, _ := bytes.Cut(data, []byte("\n"))
	if newer := format.NewerName("the proof", string(first), proofsFormat); newer != nil {
		return nil, newer
	}
	if !ok || len(data) > maxProofBytes {
		return nil, badProofs("it does not begin with %q, or has more than %d bytes", proofsMagic, maxProofBytes)
	}
	var proved []*Proved
	var checkpoint []byte
	for n := 1; len(rest) > 0; n++ {
		line, after, ok := bytes.Cut(rest, []byte("\n"))
		length, found := bytes.CutPrefix(line, []byte("receipt "))
		size, err := strconv.Atoi(string(length))
		if !ok || !found || err != nil || size < 0 || size > len(after) || strconv.Itoa(size) != string(length) || n > maxProofs {
			return nil, badProofs("part %d: expected a line \"receipt N\" and N bytes", n)
		}
		r, err := ParseReceipt(after[:size])
		if err != nil {
			return nil, fmt.Errorf("part %d: %w", n, err)
		}
		if checkpoint == nil {
			checkpoint = r.Checkpoint
		}
		if !bytes.Equal(r.Checkpoint, checkpoint) {
			return nil, badProofs("part %d has another checkpoint than the first", n)
		}
		one, err := VerifyReceipt(after[:size], nil, p)
		if err != nil {
			return nil, fmt.Errorf("part %d: %w", n, err)
		}
		proved, rest = append(proved, one), after[size:]
	}
	if len(proved) == 0 {
		return nil, badProofs("it has no receipts")
	}
	return proved, nil
}

func badProofs(format string, args ...any) error {
	return refusal.Newf(refusal.ReceiptInvalid, "proof: "+format, args...).WithHint("it was cut or changed; ask for it again")
}
