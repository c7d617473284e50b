package dossier

import (
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"strings"

	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
)

// ReadInput reads a file that a person named, of at most so many bytes.
func ReadInput(path string, most int64) ([]byte, error) {
	return store.ReadFile(store.OS{}, path, most)
}

// ReadHead reads the first bytes of a file that a person named.
func ReadHead(path string, most int) ([]byte, error) {
	f, err := store.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, most)
	n, err := io.ReadFull(f, head)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = nil
	}
	return head[:n], err
}

// BundleSigner reads an Ed25519 public key in any of the forms in which people
// have one.
func BundleSigner(text string) (ed25519.PublicKey, error) {
	if raw, err := hex.DecodeString(text); err == nil && len(raw) == ed25519.PublicKeySize {
		return raw, seal.CheckEd25519(raw)
	}
	line := []byte(text)
	if !strings.HasPrefix(text, "ssh-") {
		var err error
		if line, err = ReadInput(text, MaxSignedFile); err != nil {
			return nil, err
		}
	}
	key, err := seal.ParsePublicKey(line)
	if err != nil {
		return nil, err
	}
	pub, ok := key.Ed25519()
	if !ok {
		return nil, refusal.Newf(refusal.Usage, "the key is of type %s, bundles are signed with ssh-ed25519", key.Type())
	}
	return pub, nil
}

// WriteOutput writes a file that a person asked for by name: whole or not at
// all.
func WriteOutput(path string, data []byte) error {
	return store.WriteFile(store.OS{}, path, data, 0o644)
}

// WriteSecret is [WriteOutput] for what only the person who asked may read.
func WriteSecret(path string, data []byte) error {
	return store.WriteFile(store.OS{}, path, data, 0o600)
}

// AreFiles reports whether all of the names are of files or folders that are there.
func AreFiles(names ...string) bool {
	for _, name := range names {
		if _, err := os.Stat(name); err != nil {
			return false
		}
	}
	return true
}

// BesideKey reports whether a file of the folder of keys belongs to a key and is
// none.
func BesideKey(name string) bool {
	return strings.HasSuffix(name, ".pub") || strings.HasSuffix(name, ".salt")
}
