package archive

import "tallystick/internal/store"

// WriteOutput writes a file that a person asked for by name: whole or not at
// all.
func WriteOutput(path string, data []byte) error {
	return store.WriteFile(store.OS{}, path, data, 0o644)
}

// ReadInput reads a file that a person named.
func ReadInput(path string) ([]byte, error) { return store.ReadFile(store.OS{}, path, MaxSignedFile) }
