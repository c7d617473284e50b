package cli

import (
	"path/filepath"

	"tallystick/internal/archive"
	"tallystick/internal/seal"
	"tallystick/internal/store"
)

// addOperator adds the operator of this workspace to the file. It reports false
// if the file has them already.
func addOperator(w *archive.Place, key *seal.Key, name string) (bool, error) {
	f, _, err := w.LoadOperators()
	if err != nil {
		return false, err
	}
	hash, salt, err := w.OperatorHash(key, name)
	if err != nil || f.Find(hash) != nil {
		return false, err
	}
	f.Operators = append(f.Operators, archive.Operator{Hash: hash, Identity: name, Key: key.Public().String(), Salt: salt})
	if err := store.MakeDir(store.OS{}, filepath.Dir(w.OperatorsFile()), 0o755); err != nil {
		return false, err
	}
	return true, store.WriteFile(store.OS{}, w.OperatorsFile(), f.Format(), 0o644)
}

// writeOperators begins audit/operators.yaml and has the example people sign it
// when they are there.
func writeOperators(env *Env, w *archive.Place, name string) error {
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
		err = addSignature(w.OperatorsFile(), signer, seal.NamespaceOperators, func(signature, message []byte) error {
			_, err := seal.VerifySignature(signature, message, seal.NamespaceOperators)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
