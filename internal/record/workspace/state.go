package workspace

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"

	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
)

// StateDir is where this user's machine remembers what it signed, outside of
// every workspace, by the XDG base directory rules.
func StateDir(getenv func(string) string) (string, error) {
	if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "tallystick"), nil
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "tallystick"), nil
	}
	return "", refusal.Newf(refusal.Unreadable, "neither XDG_STATE_HOME nor HOME names a folder").
		WithHint("the memory of signed checkpoints is kept there; set XDG_STATE_HOME")
}

// madeHere is the folder of the state folder with a file for each key that was made on
// this machine, by this user.
const madeHere = "made-here"

func madeFile(state string, key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return filepath.Join(state, madeHere, hex.EncodeToString(sum[:]))
}

// RememberMade remembers that a key was made here. Without a state folder nothing is
// remembered, and the key is as unknown as one that came from elsewhere.
func RememberMade(getenv func(string) string, key ed25519.PublicKey) error {
	state, err := StateDir(getenv)
	if err != nil {
		return nil
	}
	if err := store.MakeDir(store.OS{}, filepath.Join(state, madeHere), 0o700); err != nil {
		return err
	}
	return store.WriteFile(store.OS{}, madeFile(state, key), []byte(hex.EncodeToString(key)+"\n"), 0o600)
}

// MadeHere reports whether this machine remembers that it made a key. That a workspace
// holds a key says nothing: the author of the workspace may have put it there.
func MadeHere(getenv func(string) string, key ed25519.PublicKey) bool {
	state, err := StateDir(getenv)
	if err != nil {
		return false
	}
	data, err := store.ReadFile(store.OS{}, madeFile(state, key), 1<<10)
	return err == nil && bytes.Equal(data, []byte(hex.EncodeToString(key)+"\n"))
}
