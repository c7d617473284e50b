package cli

import (
	"bytes"

	"golang.org/x/crypto/ssh"

	"tallystick/internal/archive"
	"tallystick/internal/seal"
	"tallystick/internal/store"
)

// addSignature signs a file and adds the signature to those in FILE.sig that
// admit lets pass: one that does not count stands in the way of those that do.
func addSignature(file string, signer ssh.Signer, ns seal.Namespace, admit func(signature, message []byte) error) error {
	message, err := store.ReadFile(store.OS{}, file, archive.MaxSignedFile)
	if err != nil {
		return err
	}
	signature, err := seal.SignWith(signer, ns, message)
	if err != nil {
		return err
	}
	if err := admit(signature, message); err != nil {
		return err
	}
	// Signatures over earlier bytes of the file are of no use any more.
	kept := []byte{}
	old, err := archive.SignaturesOf(file)
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
