package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"tallystick/internal/record/bucket"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/format"
	"tallystick/internal/record/refusal"
)

// A marker says which ledger a prefix of a bucket holds. It is the first object
// there and never changes.
type marker struct {
	Format    string    `json:"format"`
	Origin    string    `json:"origin"`
	TrustRoot digest.ID `json:"trust_root"`
}

const markerFormat = "tallystick-store/" + format.Version

func (m *Mirror) marker() ([]byte, error) {
	return canon.Marshal(marker{markerFormat, m.Origin, m.TrustRoot})
}

// checkLedger refuses a prefix that holds another ledger or none.
func (m *Mirror) checkLedger(ctx context.Context) error {
	found, err := bucket.GetSurely(ctx, m.Bucket, ledgerObject, maxMarkerObject)
	if errors.Is(err, bucket.ErrNotFound) {
		return refusal.Newf(refusal.NotFound, "there is no ledger at %s: no object %s", m.Address, ledgerObject).
			WithHint(`"tally ledger move %s" puts the ledger of this workspace there; if it was there, check the address and the bucket`, m.Address)
	}
	if err != nil && !errors.Is(err, bucket.ErrTooLarge) {
		return m.failed("reading "+ledgerObject, err)
	}
	want, merr := m.marker()
	if merr != nil {
		return merr
	}
	if err == nil && bytes.Equal(found, want) {
		return nil
	}
	if newer := format.Newer(ledgerObject, found, "format", markerFormat); newer != nil {
		return fmt.Errorf("%s: %w", m.Address, newer)
	}
	return refusal.Newf(refusal.HistoryForked, "%s holds another ledger: %s says %.200q, expected %q", m.Address, ledgerObject, found, want).
		WithHint("check the address in tally.yaml")
}

// checkConditions refuses a store that would overwrite an object although it was
// told not to: there, two machines could fork the ledger.
func (m *Mirror) checkConditions(ctx context.Context) error {
	want, err := m.marker()
	if err != nil {
		return err
	}
	// It is there already, and the same bytes are sent: who ignores the condition
	// does no harm by it.
	switch err := m.Bucket.Create(ctx, ledgerObject, want); {
	case errors.Is(err, bucket.ErrExists):
		return nil
	case err == nil:
		return refusal.Newf(refusal.StoreUnfit, "%s overwrote an object although it was told not to (If-None-Match: *)", m.Address).
			WithHint("a ledger there could be forked by two machines; use a store that keeps conditional writes, such as AWS S3, MinIO, Ceph or versitygw in a current version")
	default:
		return m.failed("asking for a conditional write", err)
	}
}

// A Tombstone is what stands in the place of the next batch of a ledger that was
// moved away, so that no machine can append one.
type Tombstone struct {
	MovedTo string    `json:"moved_to"`
	Size    int64     `json:"size"`
	Head    digest.ID `json:"head"`
	Root    string    `json:"root"`
}

// tombstoneMark begins a tombstone of any version: a ledger that was moved by a newer
// program was moved too. A batch begins with hexadecimal digits.
const (
	tombstoneMark   = "tallystick-moved/"
	tombstoneFormat = tombstoneMark + format.Version
)

func (t Tombstone) marshal() ([]byte, error) {
	text, err := canon.Marshal(t)
	return fmt.Appendf(nil, "%s %s\n", tombstoneFormat, text), err
}

func parseTombstone(data []byte) (t Tombstone, ok bool) {
	text, marked := bytes.CutPrefix(data, []byte(tombstoneMark))
	if !marked {
		return t, false
	}
	_, text, _ = bytes.Cut(text, []byte(" "))
	_ = canon.UnmarshalCanonical(bytes.TrimSuffix(text, []byte("\n")), &t)
	return t, true
}

func (t Tombstone) refusal(address string) error {
	return refusal.Newf(refusal.LedgerMoved, "the ledger at %s was moved to %s, with %d entries", address, t.MovedTo, t.Size).
		WithHint("pull tally.yaml from where the ledger was moved; nothing is appended to the old one")
}
