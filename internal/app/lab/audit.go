package lab

import (
	"tallystick/internal/read/audit"
	"tallystick/internal/read/dossier"
	"tallystick/internal/share/outgoing"
	"tallystick/internal/share/submission"
)

// AuditInput is an attempt as the audit reads it: what its package has, or would
// have. With whole, whole texts are read from the evidence besides.
func AuditInput(c *dossier.Corpus, attempt string, whole bool) (audit.Input, error) {
	a, err := c.Reading.Attempt(attempt)
	if err != nil {
		return audit.Input{}, err
	}
	from, err := outgoing.Audited(a)
	if err != nil {
		return audit.Input{}, err
	}
	if from.Target, err = targetOf(c, a.Attempt); err != nil {
		return audit.Input{}, err
	}
	return submission.AuditInput(from, whole)
}
