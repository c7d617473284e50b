package bench

import (
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/seal"
)

// Acceptances collects the case.accepted entries of a ledger on its way
// through [ledger.Verify], and with each the signers in force at that point.
// What it gathers may be used only after that has succeeded.
type Acceptances struct {
	signers *seal.Signers
	first   map[acceptanceKey]acceptance
}

type acceptanceKey struct {
	class, caseID string
	signed        digest.ID
}

type acceptance struct {
	at      time.Time
	signers *seal.Signers
}

// Visit is for [ledger.Options].Visit, with Decode set.
func (a *Acceptances) Visit(r ledger.Record) error {
	var err error
	switch b := r.Body.(type) {
	case *evidence.Opened:
		a.signers, err = seal.ParseSigners("signers", []byte(b.Signers))
	case *evidence.SignersChanged:
		a.signers, err = seal.ParseSigners("signers", []byte(b.Signers))
	case *evidence.CaseAccepted:
		// What a person appended by hand was not verified by "bench accept".
		if r.Envelope.Manual {
			return nil
		}
		if a.first == nil {
			a.first = map[acceptanceKey]acceptance{}
		}
		key := acceptanceKey{b.Class, b.CaseID, b.Signed}
		if _, ok := a.first[key]; !ok {
			a.first[key] = acceptance{r.Envelope.Time.Go(), a.signers}
		}
	}
	return err
}

// AcceptedAt is for [Options].AcceptedAt: the first entry for these bytes.
func (a *Acceptances) AcceptedAt(class, caseID string, signed digest.ID) (time.Time, bool) {
	x, ok := a.first[acceptanceKey{class, caseID, signed}]
	return x.at, ok
}

// SignersThen is for [Options].SignersThen.
func (a *Acceptances) SignersThen(class, caseID string, signed digest.ID) *seal.Signers {
	return a.first[acceptanceKey{class, caseID, signed}].signers
}
