package cli

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/refusal"
	"tallystick/internal/seal"
	"tallystick/internal/store"
	"tallystick/internal/workspace"
)

// operatorHash is the salted hash of this workspace's operator. The salt is
// secret and lies beside the key; audit/operators.yaml gives it to whoever may
// know who is behind a hash.
func operatorHash(w *workspace.Workspace, key *seal.Key, name string) (hash digest.ID, salt string, err error) {
	path := filepath.Join(w.KeysDir(), "operator.salt")
	if _, err := os.Lstat(path); err != nil {
		var b [16]byte
		rand.Read(b[:])
		if err := store.CreateFile(store.OS{}, path, []byte(hex.EncodeToString(b[:])+"\n"), 0o600); err != nil {
			return digest.ID{}, "", err
		}
	}
	data, err := store.ReadFile(store.OS{}, path, 1024)
	if err != nil {
		return digest.ID{}, "", err
	}
	salt = strings.TrimSpace(string(data))
	if raw, err := hex.DecodeString(salt); err != nil || len(raw) < 16 {
		return digest.ID{}, "", refusal.Newf(refusal.Malformed, "%s: expected at least 32 hexadecimal digits", path)
	}
	hash, err = evidence.OperatorHash(name, key.Public().String(), salt)
	return hash, salt, err
}

// thisOperator is the hash that records carry of who is running this.
func (e *Env) thisOperator(p *benchPlace, key *seal.Key) (digest.ID, error) {
	pub, _ := key.Public().Ed25519()
	name, err := p.opt.Signers.OperatorOf(pub, e.Now())
	if err != nil {
		return digest.ID{}, err
	}
	hash, _, err := operatorHash(p.w, key, name)
	return hash, err
}

// writeOperators writes audit/operators.yaml, which maps operator hashes to
// people, and has the example people sign it when they are there.
func writeOperators(env *Env, w *workspace.Workspace, name string) error {
	key, err := env.operatorKey(w)
	if err != nil {
		return err
	}
	hash, salt, err := operatorHash(w, key, name)
	if err != nil {
		return err
	}
	data := fmt.Appendf(nil, `# Who is behind the operator hashes in the ledger. Two people sign this file
# (namespace %s); the signatures lie beside it.
version: 1
operators:
  - hash: %s
    identity: %q
    key: %q
    salt: %s
`, seal.NamespaceOperators, hash, name, key.Public().String(), salt)
	if err := store.MakeDir(store.OS{}, filepath.Dir(w.OperatorsFile()), 0o755); err != nil {
		return err
	}
	if err := store.WriteFile(store.OS{}, w.OperatorsFile(), data, 0o644); err != nil {
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
