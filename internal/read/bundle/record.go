package bundle

import (
	"crypto/sha256"
	"math"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
)

// TaskIDOf derives the UUID of a task from its case, so that the same case has
// the same task in every attempt:
//
//	SHA-256("tallystick-task-v1\0" ‖ canonical JSON {"case":…,"case_id":…,"class":…})
//
// cut to 16 bytes, with the bits of a version 8 UUID (RFC 9562 section 5.8).
func TaskIDOf(class, caseID string, caseDigest digest.Content) (UUID, error) {
	doc, err := canon.Marshal(struct {
		Case   digest.Content `json:"case"`
		CaseID string         `json:"case_id"`
		Class  string         `json:"class"`
	}{caseDigest, caseID, class})
	if err != nil {
		return UUID{}, refusal.Newf(refusal.Malformed, "naming the task of case %q: %w", caseID, err)
	}
	h := sha256.Sum256(append([]byte("tallystick-task-v1\x00"), doc...))
	u := UUID(h[:16])
	u[6] = u[6]&0x0f | 0x80
	u[8] = u[8]&0x3f | 0x80
	return u, nil
}

// OutcomeOf maps the outcome of a record to the four of the format. Unscored
// and truncated have no word of their own there; both are errored, never failed
// or skipped, because nothing is known of how good the answer was.
func OutcomeOf(o evidence.Outcome) Outcome {
	switch o {
	case evidence.Passed:
		return Solved
	case evidence.Failed:
		return Failed
	case evidence.Skipped:
		return Skipped
	}
	return Errored
}

// RetriesOf is a count of retries as the header holds it.
func RetriesOf(n int) uint16 { return uint16(min(max(n, 0), math.MaxUint16)) }

// readReceipt reads the receipt in a bundle and compares its entry with the
// bundle. It does not verify the receipt.
func readReceipt(data []byte, b *Bundle) (*evidence.CaseScored, error) {
	r, err := ledger.ParseReceipt(data)
	if err != nil {
		return nil, invalid("RECEIPT: %v", err)
	}
	if r.Entry == nil {
		return nil, invalid("RECEIPT: the entry of receipt %d is not inside", r.Index)
	}
	e, body, err := evidence.DecodeEntry(r.Entry)
	if err != nil {
		return nil, invalid("RECEIPT: entry %d: %v", r.Index, err)
	}
	record, ok := body.(*evidence.CaseScored)
	if !ok || e.Manual {
		return nil, invalid("RECEIPT: entry %d is a %s%s, expected a case.scored that a run wrote", r.Index, e.Kind, map[bool]string{true: " appended by hand"}[e.Manual])
	}
	id, err := TaskIDOf(record.Class, record.CaseID, record.CaseDigest)
	if err != nil {
		return nil, err
	}
	switch {
	case id != b.TaskID:
		return nil, invalid("RECEIPT: entry %d is of task %s, the header says %s", r.Index, id, b.TaskID)
	case OutcomeOf(record.Outcome) != b.Outcome:
		return nil, invalid("RECEIPT: entry %d says %s, the header says %s", r.Index, record.Outcome, b.Outcome)
	case RetriesOf(record.Retries) != b.Retries:
		return nil, invalid("RECEIPT: entry %d counts %d retries, the header %d", r.Index, record.Retries, b.Retries)
	}
	return record, nil
}
