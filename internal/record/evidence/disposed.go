package evidence

import "tallystick/internal/record/digest"

// AuditDisposed records what a person says about a finding of the audit of an
// attempt. Signature is over what package disposition signs, in which all members
// but Key stand. It is listed beside the finding, and the finding stays.
type AuditDisposed struct {
	Attempt   string    `json:"attempt"`
	Check     string    `json:"check"`   // the id of the check that failed
	Finding   digest.ID `json:"finding"` // SHA-256 of check, a line break and what it found, which may hold an answer and is not here
	Key       string    `json:"key"`     // of the person, as in authorized_keys
	Reason    string    `json:"reason"`
	Report    digest.ID `json:"report"` // that the person saw
	Signature string    `json:"signature"`
}

// Kind is audit.disposed.
func (*AuditDisposed) Kind() Kind { return AuditDisposedKind }
