package registry

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
	"tallystick/internal/record/workspace"
)

// Init makes the folder of a registry: keys, the ledger with its first entries,
// and the settings last, so that an interrupted one is not taken for a registry.
func Init(ctx context.Context, dir string, s Settings) (*Made, error) {
	if err := s.validate(); err != nil {
		return nil, refusal.Newf(refusal.Usage, "%w", err)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "finding the folder: %w", err)
	}
	if err := empty(dir); err != nil {
		return nil, err
	}
	for _, d := range []string{dir, filepath.Join(dir, "keys"), filepath.Join(dir, "signers"), filepath.Join(dir, "ledger")} {
		if err := store.MakeDir(store.OS{}, d, 0o700); err != nil {
			return nil, err
		}
	}
	operator, signers, err := makeOperator(dir, s.Operator)
	if err != nil {
		return nil, err
	}
	s.TrustRoot = digest.IDOf(signers)
	if err := writeSecret(dir); err != nil {
		return nil, err
	}
	first, err := firstEntries(dir, s)
	if err != nil {
		return nil, err
	}
	state, err := stateDir("")
	if err != nil {
		return nil, err
	}
	l, err := sequencer.Create(ctx, sequencerConfig(dir, state, s, operator, time.Now), signers)
	if err != nil {
		return nil, err
	}
	for _, b := range first {
		if _, err := l.AppendRecord(b.Kind(), b); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	if err := l.Close(); err != nil {
		return nil, err
	}
	if err := store.WriteFile(store.OS{}, filepath.Join(dir, SettingsFile), s.format(), 0o600); err != nil {
		return nil, err
	}
	pub, _ := operator.Public().Ed25519()
	return &Made{Dir: dir, Origin: s.Origin, TrustRoot: s.TrustRoot, LogKey: seal.VKey(pub, s.Origin), DID: first[0].(*evidence.RegistryConfigured).DID}, nil
}

// empty refuses a folder that has something in it.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return refusal.Newf(refusal.Unreadable, "reading %s: %w", dir, refusal.WithoutPath(err))
	case len(entries) > 0:
		return refusal.Newf(refusal.AlreadyExists, "%s is not empty: it has %s", dir, entries[0].Name()).WithHint("name a new folder; a registry is never made over another")
	}
	return nil
}

// makeOperator makes the key that seals the ledger, and the signers file that
// names it.
func makeOperator(dir, name string) (*seal.Key, []byte, error) {
	key, err := seal.NewKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	data, err := key.MarshalPEM(name)
	if err != nil {
		return nil, nil, err
	}
	if err := store.CreateFile(store.OS{}, operatorKeyPath(dir), data, 0o600); err != nil {
		return nil, nil, err
	}
	signers, err := seal.Compose(1, digest.ID{}, []seal.Entry{{Principals: name, Key: key.Public(), Roles: []seal.Role{seal.Operator}}})
	if err != nil {
		return nil, nil, refusal.Newf(refusal.Usage, "the operator's name: %w", err)
	}
	return key, signers, store.CreateFile(store.OS{}, filepath.Join(dir, "signers", "allowed_signers"), signers, 0o644)
}

// firstEntries make the keys, and say which they are and how the registry decides.
func firstEntries(dir string, s Settings) ([]evidence.Body, error) {
	credential, err := newSigningKey(dir)
	if err != nil {
		return nil, err
	}
	chain, err := newSigningKey(dir)
	if err != nil {
		return nil, err
	}
	did, err := issuer(s, credential)
	if err != nil {
		return nil, err
	}
	entries := []evidence.Body{configured(s, did)}
	for purpose, k := range map[string]*seal.Key{CredentialPurpose: credential, ChainPurpose: chain} {
		p, err := published(methodOf(did, purpose, k), purpose, k, false)
		if err != nil {
			return nil, err
		}
		entries = append(entries, p)
	}
	return entries, nil
}

// configured is what the settings tell others.
func configured(s Settings, did string) *evidence.RegistryConfigured {
	c := &evidence.RegistryConfigured{DeadlineHours: int(s.Deadline / time.Hour), DID: did, DrawRule: evidence.FirstRootRule, Judges: s.Judges, PublicURL: s.PublicURL, Quorum: s.Quorum}
	for _, w := range s.Witnesses {
		c.Witnesses = append(c.Witnesses, w.Key)
	}
	return c
}

func sequencerConfig(dir, state string, s Settings, operator *seal.Key, now func() time.Time) sequencer.Config {
	return sequencer.Config{
		Place:  sequencer.Place{FS: store.OS{}, Dir: filepath.Join(dir, "ledger"), StateDir: state, Anchors: filepath.Join(dir, "ledger", "anchors")},
		Origin: s.Origin, TrustRoot: s.TrustRoot, Key: operator, Now: now,
	}
}

// stateDir is where this machine remembers what it signed.
func stateDir(dir string) (string, error) {
	if dir != "" {
		return dir, nil
	}
	return workspace.StateDir(os.Getenv)
}
