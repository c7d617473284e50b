package ceremony

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
	"tallystick/internal/record/workspace"
)

// NewKey makes a key of the workspace.
func NewKey(p *dossier.Place, name string) (*seal.Key, error) {
	path, err := keyPath(p, name)
	if err != nil {
		return nil, err
	}
	if workspace.Exists(path) {
		return nil, refusal.Newf(refusal.AlreadyExists, "key %s exists already and is not overwritten", name).
			WithHint("what it signed needs it; make a key of another name")
	}
	key, err := seal.NewKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	if err := store.MakeDir(store.OS{}, p.KeysDir(), 0o700); err != nil {
		return nil, err
	}
	return key, (keyFile{path, name, key}).write(p.Getenv)
}

// LoadKey reads a key of the workspace.
func LoadKey(p *dossier.Place, name string) (*seal.Key, error) {
	path, err := keyPath(p, name)
	if err != nil {
		return nil, err
	}
	if !workspace.Exists(path) {
		names, _ := KeyNames(p) // to suggest one
		return nil, refusal.Newf(refusal.UnknownName, "no key %s in %s", name, p.KeysDir()).Suggest(name, names, `"tally keys list" lists them`)
	}
	return seal.LoadKey(path)
}

// KeyNames lists the keys of the workspace. An operator's key that lies
// elsewhere leaves a workspace without any.
func KeyNames(p *dossier.Place) ([]string, error) {
	entries, err := os.ReadDir(p.KeysDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, refusal.Newf(refusal.Unreadable, "listing keys: %w", err)
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() && !dossier.BesideKey(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func keyPath(p *dossier.Place, name string) (string, error) {
	if !isKeyName(name) || dossier.BesideKey(name) {
		return "", refusal.Newf(refusal.Usage, "%q cannot be the name of a key", name).WithHint("use a-z, 0-9, dot, dash, underscore")
	}
	return filepath.Join(p.KeysDir(), name), nil
}

// A keyFile is a key that is to be written.
type keyFile struct {
	path, comment string
	key           *seal.Key
}

// write writes both halves, and remembers in the state folder that the key was made here.
func (k keyFile) write(getenv func(string) string) error {
	data, err := k.key.MarshalPEM(k.comment)
	if err != nil {
		return err
	}
	if err := store.CreateFile(store.OS{}, k.path, data, 0o600); err != nil {
		return err
	}
	if err := store.WriteFile(store.OS{}, k.path+".pub", []byte(k.key.Public().String()+" "+k.comment+"\n"), 0o600); err != nil {
		return err
	}
	pub, _ := k.key.Public().Ed25519() // as every key that is made here
	return workspace.RememberMade(getenv, pub)
}

// isKeyName reports whether a key may be called that: it becomes a file's name.
func isKeyName(name string) bool {
	const letters, more = "abcdefghijklmnopqrstuvwxyz0123456789", "._-"
	return name != "" && len(name) <= 64 && strings.Trim(name, letters+more) == "" && !strings.ContainsAny(name[:1], more)
}
