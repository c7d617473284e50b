package dossier

import (
	"bytes"
	"fmt"
	"path/filepath"

	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
	"tallystick/internal/record/workspace"
)

// MaxSignedFile bounds a file that people sign by hand.
const MaxSignedFile = 4 << 20

// SignatureFiles lists the files with signatures beside a file: FILE.sig, which
// may hold several, and FILE.NAME.sig, as people send them who sign with
// ssh-keygen.
func SignatureFiles(file string) ([]string, error) {
	names, err := filepath.Glob(GlobQuote(file) + ".*.sig")
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "looking for signatures of %s: %w", file, err)
	}
	if workspace.Exists(file + ".sig") {
		names = append([]string{file + ".sig"}, names...)
	}
	return names, nil
}

// SignaturesOf reads the signatures beside a file.
func SignaturesOf(file string) ([][]byte, error) {
	names, err := SignatureFiles(file)
	if err != nil {
		return nil, err
	}
	var sigs [][]byte
	for _, name := range names {
		data, err := store.ReadFile(store.OS{}, name, 1<<20)
		if err != nil {
			return nil, err
		}
		blocks, err := seal.SplitArmored(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		sigs = append(sigs, blocks...)
	}
	return sigs, nil
}

// GlobQuote keeps a file's name from being read as a pattern.
func GlobQuote(name string) string {
	var b bytes.Buffer
	for _, c := range []byte(name) {
		if bytes.IndexByte([]byte(`*?[\`), c) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}
