package ceremony

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
)

// addSignature signs a file and adds the signature to those in FILE.sig that
// admit lets pass: one that does not count stands in the way of those that do.
// Then is the command that looks at a signature made by hand.
func addSignature(file string, h *hand, then string, ns seal.Namespace, admit func(signature, message []byte) error) error {
	message, err := store.ReadFile(store.OS{}, file, dossier.MaxSignedFile)
	if err != nil {
		return err
	}
	signature, err := h.sign(ns, message, byHand{file + ".NAME.sig", then})
	if err != nil {
		return err
	}
	if err := admit(signature, message); err != nil {
		return err
	}
	// Signatures over earlier bytes of the file are of no use any more.
	kept := []byte{}
	old, err := dossier.SignaturesOf(file)
	if err != nil {
		return err
	}
	for _, s := range old {
		if admit(s, message) == nil && !bytes.Equal(s, signature) {
			kept = append(kept, s...)
		}
	}
	return store.WriteFile(store.OS{}, file+".sig", append(kept, signature...), 0o644)
}

// maxPinned is above what a manifest or pins may have.
const maxPinned = 2 << 20

// writeSigned replaces a file that people sign, if it changes, and removes the
// signatures beside it: they cover what was there before.
func writeSigned(path string, data []byte) (changed bool, err error) {
	old, err := store.ReadFile(store.OS{}, path, maxPinned)
	switch {
	case err == nil && slices.Equal(old, data):
		return false, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, err
	}
	if err := removeSignatures(path, false); err != nil {
		return false, err
	}
	return true, store.WriteFile(store.OS{}, path, data, 0o644)
}

// removeSignatures removes the signatures beside a file: FILE.sig, unless it is
// to be kept, and FILE.NAME.sig.
func removeSignatures(path string, keepMain bool) error {
	names, err := filepath.Glob(dossier.GlobQuote(path) + ".*.sig")
	if err != nil {
		return refusal.Newf(refusal.Unreadable, "looking for signatures of %s: %w", path, err)
	}
	if !keepMain {
		names = append(names, path+".sig")
	}
	for _, name := range names {
		if err := (store.OS{}).Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return refusal.Newf(refusal.WriteFailed, "removing %s: %w", name, err)
		}
	}
	return nil
}
