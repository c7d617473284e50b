package ceremony

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"golang.org/x/crypto/ssh"

	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

// A Pen is what a person signs with: an SSH key, or an OpenPGP key that gpg holds.
type Pen struct {
	Key string // file of the SSH key, or its .pub file
	GPG string // fingerprint of an OpenPGP key that the signers file lists
}

// hand is a pen that is ready to sign.
type hand struct {
	key  []byte // the public key, as seal.PublicKey.Marshal gives it
	sign func(ns seal.Namespace, message []byte, by byHand) ([]byte, error)
}

// byHand says what a person without gpg on this machine does: the file that the
// signature goes to, and the command that takes it from there.
type byHand struct{ file, then string }

// ready finds the key of a pen. The signers file says which OpenPGP keys there are.
func (p Pen) ready(signers *seal.Signers) (*hand, error) {
	if p.GPG != "" {
		return gpgHand(signers, p.GPG)
	}
	signer, err := seal.LoadSigner(p.Key)
	if err != nil {
		return nil, err
	}
	return sshHand(signer), nil
}

func sshHand(signer ssh.Signer) *hand {
	return &hand{keyBytes(signer), func(ns seal.Namespace, message []byte, _ byHand) ([]byte, error) {
		return seal.SignWith(signer, ns, message)
	}}
}

func gpgHand(signers *seal.Signers, id string) (*hand, error) {
	key, signing, err := signers.OpenPGPKey(id)
	if err != nil {
		return nil, err
	}
	return &hand{key.Marshal(), func(ns seal.Namespace, message []byte, by byHand) ([]byte, error) {
		return gpgSign(signing, ns, message, by)
	}}, nil
}

// SignWithGPG has gpg sign a message for one act with the OpenPGP key that id names
// in the signers file. There is no other way: it is for what exists for a moment.
func SignWithGPG(signers *seal.Signers, id string, ns seal.Namespace, message []byte) ([]byte, error) {
	h, err := gpgHand(signers, id)
	if err != nil {
		return nil, err
	}
	return h.sign(ns, message, byHand{})
}

// gpgSign asks gpg for a signature over what [seal.OpenPGPMessage] gives. The flags
// take back what a gpg.conf may say and a verifier refuses. Whether the signature is
// good is for the caller, who knows the signers.
func gpgSign(fingerprint string, ns seal.Namespace, message []byte, by byHand) ([]byte, error) {
	covered := seal.OpenPGPMessage(ns, message)
	program, err := exec.LookPath("gpg")
	if err != nil {
		missing := refusal.Newf(refusal.NotFound, "signing with the OpenPGP key %s: gpg is not installed here", fingerprint)
		if by.file == "" {
			return nil, missing.WithHint("install gpg, or publish without --gpg")
		}
		text := strings.ReplaceAll(string(covered), "\n", `\n`)
		return nil, missing.WithHint("where the key is: printf '%s' | gpg --armor --detach-sign -u %s! -o %s   then here: %s", text, fingerprint, by.file, by.then)
	}
	cmd := exec.Command(program, "--armor", "--no-comments", "--no-emit-version", "--no-textmode", "--default-sig-expire", "0",
		"--digest-algo", "SHA512", "--local-user", fingerprint+"!", "--detach-sign", "--output", "-")
	var out, problems bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(covered), &out, &problems
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%s", strings.TrimSpace(problems.String()))
		}
		return nil, refusal.Newf(refusal.Failed, "signing with the OpenPGP key %s: gpg: %w", fingerprint, err).
			WithHint(`"gpg --list-secret-keys" shows the keys that gpg can sign with`)
	}
	signatures, err := seal.SplitArmored(out.Bytes())
	if err != nil {
		return nil, refusal.Newf(refusal.Failed, "signing with the OpenPGP key %s: what gpg wrote: %w", fingerprint, err)
	}
	return signatures[0], nil
}

// keyBytes is the signer's public key, the certified one if it is a
// certificate.
func keyBytes(signer ssh.Signer) []byte {
	key, err := ssh.ParsePublicKey(signer.PublicKey().Marshal())
	if err != nil {
		return nil
	}
	if cert, ok := key.(*ssh.Certificate); ok {
		return cert.Key.Marshal()
	}
	return key.Marshal()
}
