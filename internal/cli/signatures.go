package cli

import (
	"bytes"
	"fmt"
	"path/filepath"

	"golang.org/x/crypto/ssh"

	"tallystick/internal/refusal"
	"tallystick/internal/seal"
	"tallystick/internal/store"
)

// maxSignedFile bounds a file that people sign by hand.
const maxSignedFile = 4 << 20

// addSignature signs a file and adds the signature to those in FILE.sig that
// admit lets pass: one that does not count stands in the way of those that do.
func addSignature(file string, signer ssh.Signer, ns seal.Namespace, admit func(signature, message []byte) error) error {
	message, err := store.ReadFile(store.OS{}, file, maxSignedFile)
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
	old, err := signaturesOf(file)
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

// signatureFiles lists the files with signatures beside a file: FILE.sig, which
// may hold several, and FILE.NAME.sig, as people send them who sign with
// ssh-keygen.
func signatureFiles(file string) ([]string, error) {
	names, err := filepath.Glob(globQuote(file) + ".*.sig")
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "looking for signatures of %s: %w", file, err)
	}
	if fileExists(file + ".sig") {
		names = append([]string{file + ".sig"}, names...)
	}
	return names, nil
}

// signaturesOf reads the signatures beside a file.
func signaturesOf(file string) ([][]byte, error) {
	names, err := signatureFiles(file)
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

// globQuote keeps a file's name from being read as a pattern.
func globQuote(name string) string {
	var b bytes.Buffer
	for _, c := range []byte(name) {
		if bytes.IndexByte([]byte(`*?[\`), c) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}
