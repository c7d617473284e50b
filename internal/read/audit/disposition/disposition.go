// Package disposition is what a person says about a finding of an audit, signed.
//
// A [Disposition] names the report and the finding by their digests, so that it
// cannot be moved to another one. It is listed beside the report and changes
// nothing in it: a check that failed stays failed. Signatures are SSHSIG in the
// namespace tallystick-disposition, so "ssh-keygen -Y verify" checks them too.
//
// Where it stops: it says which key signed, and not whose key that is.
package disposition

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"tallystick/internal/read/audit"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

// Version is that of the document.
const Version = 1

// Bounds of a disposition.
const (
	maxReason = 4 << 10
	minPrefix = 6 // of a finding's id
)

// A Disposition is what is signed, in canonical JSON.
type Disposition struct {
	// Attempt is that whose audit it is, if it goes to a ledger.
	Attempt  string `json:"attempt,omitempty"`
	Check    string `json:"check"`
	Evidence string `json:"evidence,omitempty"` // not of one for a ledger: it may hold an answer, and Finding names it
	Finding  string `json:"finding"`            // SHA-256 of the check's id, a line break and the evidence
	Reason   string `json:"reason"`
	Report   string `json:"report"` // SHA-256 of the report's file
	Version  int    `json:"version"`
}

// A Signed is a line of the file beside a report.
type Signed struct {
	Disposition Disposition `json:"disposition"`
	Key         string      `json:"key"`       // as in authorized_keys
	Signature   string      `json:"signature"` // armored SSHSIG
}

// File is where the dispositions of a report are.
func File(report string) string { return report + ".dispositions.jsonl" }

// New signs a disposition of the one finding whose id begins as stated. The
// report is the bytes of its file; attempt is that of our own whose report it is,
// or "".
func New(report []byte, attempt, finding, reason string, key *seal.Key) (*Signed, error) {
	r, err := audit.ParseReport(report)
	if err != nil {
		return nil, err
	}
	if reason = strings.TrimSpace(reason); reason == "" || len(reason) > maxReason || !utf8.ValidString(reason) {
		return nil, refusal.Newf(refusal.Usage, "--reason is missing, or has more than %d bytes", maxReason)
	}
	f, err := find(r, finding)
	if err != nil {
		return nil, err
	}
	d := Disposition{Attempt: attempt, Check: f.Check, Evidence: f.Evidence, Finding: f.ID, Reason: reason, Report: sumOf(report), Version: Version}
	if attempt != "" {
		d.Evidence = ""
	}
	message, err := canon.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encoding the disposition: %w", err)
	}
	sig, err := seal.SignWith(key.Signer(), seal.NamespaceDisposition, message)
	if err != nil {
		return nil, err
	}
	return &Signed{d, key.Public().String(), string(sig)}, nil
}

// find finds a finding by the beginning of its id.
func find(r *audit.Report, id string) (audit.Finding, error) {
	var found []audit.Finding
	for _, f := range r.Findings() {
		if len(id) >= minPrefix && strings.HasPrefix(f.ID, strings.ToLower(id)) {
			found = append(found, f)
		}
	}
	if len(found) != 1 {
		return audit.Finding{}, refusal.Newf(refusal.UnknownName, "%d findings of failed checks have an id that begins with %q, expected one", len(found), id).
			WithHint(`"tally audit show REPORT" lists them; give at least %d characters`, minPrefix)
	}
	return found[0], nil
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Append adds a line to the file of dispositions, which may be empty.
func Append(file []byte, s *Signed) ([]byte, error) {
	line, err := canon.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encoding the disposition: %w", err)
	}
	return append(append(bytes.Clone(file), line...), '\n'), nil
}

// Verify reads the file of dispositions of a report. Each must be about a finding
// of this very report, and signed by the key that it names.
func Verify(report, file []byte) ([]Signed, error) {
	r, err := audit.ParseReport(report)
	if err != nil {
		return nil, err
	}
	list := []Signed{}
	n := 0
	for line := range bytes.Lines(file) {
		n++
		s, err := verifyLine(r, sumOf(report), bytes.TrimSuffix(line, []byte("\n")))
		if err != nil {
			return nil, fmt.Errorf("disposition %d: %w", n, err)
		}
		list = append(list, *s)
	}
	return list, nil
}

// Entry is the record of a disposition in a ledger.
func (s *Signed) Entry() (*evidence.AuditDisposed, error) {
	d := &s.Disposition
	e := &evidence.AuditDisposed{Attempt: d.Attempt, Check: d.Check, Key: s.Key, Reason: d.Reason, Signature: s.Signature}
	if _, err := hex.Decode(e.Finding[:], []byte(d.Finding)); err != nil {
		return nil, err
	}
	_, err := hex.Decode(e.Report[:], []byte(d.Report))
	return e, err
}

// OfEntry verifies the signature of a record.
func OfEntry(e *evidence.AuditDisposed) (*Signed, error) {
	s := &Signed{Disposition{Attempt: e.Attempt, Check: e.Check, Finding: hex.EncodeToString(e.Finding[:]), Reason: e.Reason,
		Report: hex.EncodeToString(e.Report[:]), Version: Version}, e.Key, e.Signature}
	return s, s.verify()
}

// Message is what is signed.
func (s *Signed) Message() ([]byte, error) { return canon.Marshal(s.Disposition) }

// verify checks the signature by the key that is named.
func (s *Signed) verify() error {
	message, err := s.Message()
	if err != nil {
		return err
	}
	key, err := seal.VerifySignature([]byte(s.Signature), message, seal.NamespaceDisposition)
	if err != nil {
		return err
	}
	if key.String() != s.Key {
		return refusal.Newf(refusal.SignatureInvalid, "signed by %s, it names %.80q", key.Fingerprint(), s.Key)
	}
	return nil
}

func verifyLine(r *audit.Report, report string, line []byte) (*Signed, error) {
	s := &Signed{}
	if err := canon.UnmarshalCanonical(line, s); err != nil {
		return nil, err
	}
	d := s.Disposition
	if d.Version != Version {
		return nil, refusal.Newf(refusal.Malformed, "version %d, expected %d", d.Version, Version)
	}
	if d.Report != report {
		return nil, refusal.Newf(refusal.DigestMismatch, "is about the report %s, this one is %s", d.Report, report)
	}
	if err := s.verify(); err != nil {
		return nil, err
	}
	for _, f := range r.Findings() {
		if f.ID == d.Finding && f.Check == d.Check && f.Evidence == d.Evidence {
			return s, nil
		}
	}
	return nil, refusal.Newf(refusal.DigestMismatch, "finding %s is not one of the report", d.Finding)
}
