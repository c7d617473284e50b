package ceremony

import (
	"fmt"
	"path/filepath"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
)

// addOperator adds the operator of this workspace to the file. It reports false
// if the file has them already.
func addOperator(w *dossier.Place, key *seal.Key, name string) (bool, error) {
	f, _, err := w.LoadOperators()
	if err != nil {
		return false, err
	}
	hash, salt, err := w.OperatorHash(key, name)
	if err != nil || f.Find(hash) != nil {
		return false, err
	}
	f.Operators = append(f.Operators, dossier.Operator{Hash: hash, Identity: name, Key: key.Public().String(), Salt: salt})
	if err := store.MakeDir(store.OS{}, filepath.Dir(w.OperatorsFile()), 0o755); err != nil {
		return false, err
	}
	return true, store.WriteFile(store.OS{}, w.OperatorsFile(), f.Format(), 0o644)
}

// writeOperators begins audit/operators.yaml and has the example people sign it
// when they are there.
func writeOperators(w *dossier.Place, name string) error {
	key, err := w.OperatorKey()
	if err != nil {
		return err
	}
	if _, err := addOperator(w, key, name); err != nil {
		return err
	}
	for _, p := range examplePeople {
		signer, err := seal.LoadSigner(filepath.Join(w.KeysDir(), p.name))
		if err != nil {
			return nil // no example people here: the real ones sign by hand
		}
		err = addSignature(w.OperatorsFile(), sshHand(signer), "", seal.NamespaceOperators, func(signature, message []byte) error {
			_, err := seal.VerifySignature(signature, message, seal.NamespaceOperators)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// AddOperator writes down who the operator of this workspace is. It reports
// false if the file has them already.
func AddOperator(p *dossier.Place, signers *seal.Signers) (name string, added bool, err error) {
	key, err := p.OperatorKey()
	if err != nil {
		return "", false, err
	}
	if name, err = p.OperatorName(signers, key); err != nil {
		return "", false, err
	}
	added, err = addOperator(p, key, name)
	return name, added, err
}

// SignOperators signs the file for one person. It returns what is still
// missing, nil if nothing is.
func SignOperators(p *dossier.Place, signers *seal.Signers, pen Pen) (missing, err error) {
	_, data, err := p.LoadOperators()
	if err != nil {
		return nil, err
	}
	if data == nil {
		return nil, refusal.Newf(refusal.NotFound, "there is no %s to sign", p.OperatorsFile()).WithHint(`"tally signers operators --add" begins it`)
	}
	h, err := pen.ready(signers)
	if err != nil {
		return nil, err
	}
	err = addSignature(p.OperatorsFile(), h, "tally signers operators", seal.NamespaceOperators, func(signature, message []byte) error {
		_, err := signers.Verify(signature, message, seal.NamespaceOperators, p.Now())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("nothing was signed: %w", err)
	}
	_, _, missing = p.VerifyOperators(signers)
	return missing, nil
}
