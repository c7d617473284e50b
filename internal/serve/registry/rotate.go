package registry

import (
	"context"
	"slices"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
	"tallystick/internal/record/workspace"
)

func operatorKeyPath(dir string) string { return keyPath(dir, "operator") }

func loadOperator(dir string) (*seal.Key, error) {
	path := operatorKeyPath(dir)
	if !workspace.Exists(path) {
		return nil, refusal.Newf(refusal.NotFound, "no operator's key at %s", path).WithHint("restore the keys of the registry from their backup")
	}
	return seal.LoadKey(path)
}

// findOperator loads the key that the signers name, if the folder has it under its
// own name: a rotation that was interrupted left keys/operator behind the ledger,
// and an older ledger that was restored is behind keys/operator.
func findOperator(dir string, signers *seal.Signers) *seal.Key {
	e, ok := signers.LoneOperator()
	if !ok {
		return nil
	}
	pub, _ := e.Key.Ed25519()
	key, err := seal.LoadKey(keyPath(dir, seal.Multikey(pub)))
	if err != nil {
		return nil
	}
	return key
}

// putOperator makes a key the one that the registry is opened with.
func putOperator(dir string, key *seal.Key) error {
	data, err := key.MarshalPEM("tallystick registry")
	if err != nil {
		return err
	}
	return store.WriteFile(store.OS{}, operatorKeyPath(dir), data, 0o600)
}

// rotateOperator puts another key in force that seals the ledger, and returns its
// verifier key. Both keys lie in the folder under their own names before the change
// is an entry, so that a crash at any moment leaves the one that is needed.
func (r *Registry) rotateOperator() (string, error) {
	r.rotating.Lock()
	defer r.rotating.Unlock()
	old, err := loadOperator(r.o.Dir)
	if err != nil {
		return "", err
	}
	if err := writeKey(r.o.Dir, old); err != nil && !refusal.Is(err, refusal.AlreadyExists) {
		return "", err
	}
	fresh, err := newSigningKey(r.o.Dir)
	if err != nil {
		return "", err
	}
	pending, err := r.submitOperator(old, fresh)
	if err != nil {
		return "", err
	}
	if err := r.wait([]*sequencer.Pending{pending}); err != nil {
		return "", err
	}
	// Crash here: the next opening finds the key by its name.
	pub, _ := fresh.Public().Ed25519()
	if err := putOperator(r.o.Dir, fresh); err != nil {
		return "", err
	}
	return seal.VKey(pub, r.settings.Origin), r.renewCheckpoint(context.Background(), true)
}

// submitOperator hands over the change of signers, which both keys sign.
func (r *Registry) submitOperator(old, fresh *seal.Key) (*sequencer.Pending, error) {
	before := r.ledger.Tip().Signers
	next, err := before.WithOperatorKey(fresh.Public())
	if err != nil {
		return nil, err
	}
	change := &evidence.SignersChanged{Version: before.Version() + 1, Signers: string(next)}
	for _, k := range []*seal.Key{old, fresh} {
		sig, err := seal.SignWith(k.Signer(), seal.NamespaceSigners, next)
		if err != nil {
			return nil, err
		}
		change.Signatures = append(change.Signatures, string(sig))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.open4writes(); err != nil {
		return nil, err
	}
	return r.ledger.SubmitOperator(change, fresh)
}

// A logKey is a key that sealed the ledger, from the start or from a change of
// signers on.
type logKey struct {
	vkey    string
	until   int64 // the entry that retired it
	retired *evidence.Time
}

// addSigners notes who seals from now on. The ledger was verified, and with it who
// agreed to the change.
func (s *state) addSigners(origin, file string, index int64, at evidence.Time, c *changes) error {
	signers, err := seal.ParseSigners("signers", []byte(file))
	if err != nil {
		return err
	}
	c.public = true
	var now []string
	for _, pub := range signers.OperatorKeys(at.Go()) {
		now = append(now, seal.VKey(pub, origin))
	}
	for _, k := range s.logKeys {
		if k.retired == nil && !slices.Contains(now, k.vkey) {
			k.retired, k.until = &at, index
		}
	}
	for _, vkey := range now {
		if !slices.ContainsFunc(s.logKeys, func(k *logKey) bool { return k.vkey == vkey && k.retired == nil }) {
			s.logKeys = append(s.logKeys, &logKey{vkey: vkey})
		}
	}
	return nil
}

// sealedBy gives the verifier key of the checkpoints, and those before it.
func (s *state) sealedBy() (now string, former []FormerLogKey) {
	for _, k := range s.logKeys {
		if k.retired == nil {
			now = k.vkey
			continue
		}
		former = append(former, FormerLogKey{k.vkey, k.until, *k.retired})
	}
	return now, former
}
