package sequencer

import (
	"fmt"

	"golang.org/x/mod/sumdb/note"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

// A sealer is an operator's key as it signs tree heads of one ledger.
type sealer struct {
	key    *seal.Key
	signer note.Signer
}

func newSealer(key *seal.Key, origin string) (*sealer, error) {
	signer, err := seal.NoteSigner(key, origin)
	return &sealer{key, signer}, err
}

// sign makes the note signature of a tree head.
func (s *sealer) sign(head ledger.TreeHead) ([]byte, error) {
	sig, err := s.signer.Sign([]byte(head.Text()))
	if err != nil {
		return nil, fmt.Errorf("sealing: %w", err)
	}
	hash := s.signer.KeyHash()
	return append([]byte{byte(hash >> 24), byte(hash >> 16), byte(hash >> 8), byte(hash)}, sig...), nil
}

// checkpoint is the signed note of a tree head. What others are shown is signed by
// an operator in force: the last seal may be that of one whom its own batch
// replaced.
func (s *sealer) checkpoint(head ledger.TreeHead) ([]byte, error) {
	signature, err := s.sign(head)
	if err != nil {
		return nil, err
	}
	return ledger.AssembleCheckpoint(head, signature), nil
}

// checkOperator refuses to sign with a key that is not an operator's at that
// time: the seal it would make could never verify.
func (s *sealer) checkOperator(signers *seal.Signers, at evidence.Time) error {
	pub, _ := s.key.Public().Ed25519()
	if _, err := signers.OperatorOf(pub, at.Go()); err != nil {
		return refusal.Newf(refusal.NotAnOperator, "nothing is appended without a valid operator signature: %w", err).
			WithHint("use the key of an operator (TALLY_OPERATOR_KEY), or have two signers add this one with the operator role")
	}
	return nil
}
