package ceremony

import (
	"crypto/rand"
	"path/filepath"

	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
	"tallystick/internal/record/workspace"
)

// An OwnWorker is the worker of a fleet that a user of this machine is: a key and a
// folder, outside of every workspace.
type OwnWorker struct {
	Key     *seal.Key
	KeyFile string
	Made    bool   // the key, just now
	Dir     string // for what it fetches
	State   string // the state folder, which agents must not see
}

// OpenWorker finds this user's worker, and makes its key if there is none. A key file
// that is named must be there.
func OpenWorker(getenv func(string) string, file string) (*OwnWorker, error) {
	state, err := workspace.StateDir(getenv)
	if err != nil {
		return nil, err
	}
	w := &OwnWorker{KeyFile: file, State: state, Dir: filepath.Join(state, "worker")}
	if file == "" {
		w.KeyFile = filepath.Join(w.Dir, "key")
		if err := store.MakeDir(store.OS{}, w.Dir, 0o700); err != nil {
			return nil, err
		}
		if !workspace.Exists(w.KeyFile) {
			if w.Key, err = seal.NewKey(rand.Reader); err != nil {
				return nil, err
			}
			w.Made = true
			return w, keyFile{w.KeyFile, "worker", w.Key}.write(getenv)
		}
	}
	w.Key, err = seal.LoadKey(w.KeyFile)
	return w, err
}

// Line is the worker's public key, as a .pub file has it: "tally signers add" takes it.
func (w *OwnWorker) Line() string { return w.Key.Public().String() }
