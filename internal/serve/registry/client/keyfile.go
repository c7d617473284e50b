package client

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
)

// maxKeyFile bounds the file of an API key.
const maxKeyFile = 4096

// KeyDir is where the keys for a registry lie unless the caller says otherwise, below the
// state folder of this machine. A host has no character that a path would mind but
// the colon before its port.
func KeyDir(stateDir, host string) string {
	return filepath.Join(stateDir, "registry", strings.ReplaceAll(host, ":", "_"))
}

// APIKeyFile is the file of the API key in such a folder.
func APIKeyFile(dir string) string { return filepath.Join(dir, "api-key") }

// AgentKeyFile is the file of the agent's private Ed25519 key in such a folder.
func AgentKeyFile(dir string) string { return filepath.Join(dir, "agent-key") }

// LoadAPIKey reads an API key from a file that only its owner can read.
func LoadAPIKey(path string) (string, error) {
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", refusal.Newf(refusal.NotFound, "there is no API key in %s", path).
			WithHint("get one with \"tally registry register URL\", or name its file with --api-key-file")
	}
	if err != nil {
		return "", refusal.Newf(refusal.Unreadable, "reading the API key: %w", err)
	}
	if st.Mode().Perm()&0o077 != 0 {
		return "", refusal.Newf(refusal.KeyModeTooOpen, "%s has mode %#o; others can read the API key", path, st.Mode().Perm()).WithHint("chmod 600 %s", path)
	}
	data, err := store.ReadFile(store.OS{}, path, maxKeyFile)
	if err != nil {
		return "", refusal.Newf(refusal.Unreadable, "reading the API key: %w", err)
	}
	key := strings.TrimSpace(string(data))
	if err := checkAPIKey(key); err != nil {
		return "", refusal.Newf(refusal.Malformed, "%s: %w", path, err)
	}
	return key, nil
}

// saveAPIKey writes a key that a registry gave. It never overwrites one: that would
// lose it.
func saveAPIKey(path, key string) error {
	if err := store.MakeDir(store.OS{}, filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return store.CreateFile(store.OS{}, path, []byte(key+"\n"), 0o600)
}

// loadOrMakeAgentKey reads the key that signs as the agent, or makes it.
func loadOrMakeAgentKey(path string) (*seal.Key, error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return seal.LoadKeyOrSeed(path)
	}
	key, err := seal.NewKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	data, err := key.MarshalPEM("tally registry agent")
	if err != nil {
		return nil, err
	}
	if err := store.MakeDir(store.OS{}, filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	return key, store.CreateFile(store.OS{}, path, data, 0o600)
}

// newIdempotencyKey is a name for one request, so that sending it again after a
// lost answer makes nothing twice.
func newIdempotencyKey() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
