package seal

import (
	"bytes"
	"crypto/rsa"
	"encoding/base64"
	"fmt"
	"math/big"
	"strings"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"tallystick/internal/record/openpgp"
	"tallystick/internal/record/refusal"
)

const (
	armorBegin = "-----BEGIN SSH SIGNATURE-----"
	armorEnd   = "-----END SSH SIGNATURE-----"

	// armorWidth is the line length that ssh-keygen writes, and we do.
	armorWidth = 70

	// maxArmored bounds one signature: the largest honest one, an RSA
	// certificate of 16384 bits signed by such another, is under 12 KiB.
	maxArmored = 64 << 10

	// maxSignatures bounds how many signatures one file may make us verify.
	maxSignatures = 64
)

// SplitArmored splits a .sig file that holds one or more armoured signatures
// one after the other, and returns each exactly as ssh-keygen, or gpg, would write
// it. A file may also be one OpenPGP signature that is not armoured.
//
// Nothing may stand between or around the blocks. Lines of 64 and 76
// characters (PEM and MIME, which other signing tools use) are accepted beside
// ssh-keygen's 70. An empty file is refused: no signature is never a valid
// signature.
func SplitArmored(data []byte) ([][]byte, error) {
	malformed := func(err error) error {
		return refusal.Newf(refusal.Malformed, "splitting signatures: %w", err).
			WithHint(`a .sig file holds the output of "ssh-keygen -Y sign" or "gpg --detach-sign", one or more times, and nothing else`)
	}
	if len(data) == 0 {
		return nil, malformed(fmt.Errorf("the file is empty"))
	}
	if data[0]&0x80 != 0 { // no text begins like this, and every OpenPGP packet does
		sig, err := openpgp.ParseSignature(data)
		if err != nil {
			return nil, malformed(err)
		}
		return [][]byte{sig.Armor()}, nil
	}
	var blocks [][]byte
	rest := string(data)
	for rest != "" {
		n := len(blocks) + 1
		if n > maxSignatures {
			return nil, malformed(fmt.Errorf("more than %d signatures", maxSignatures))
		}
		last, respell := armorEnd, respellSSH
		if isOpenPGP([]byte(rest)) {
			last, respell = openpgp.ArmorEnd, respellOpenPGP
		}
		end := strings.Index(rest, last+"\n")
		if end < 0 {
			return nil, malformed(fmt.Errorf("signature %d: no line %q", n, last))
		}
		block, err := respell(rest[:end+len(last)+1])
		if err != nil {
			return nil, malformed(fmt.Errorf("signature %d: %w", n, err))
		}
		rest = rest[end+len(last)+1:]
		blocks = append(blocks, block)
	}
	return blocks, nil
}

// respellSSH writes an armoured SSH signature as ssh-keygen would.
func respellSSH(block string) ([]byte, error) {
	blob, err := unarmor(block)
	if err != nil {
		return nil, err
	}
	return armor(blob), nil
}

// armor encodes a signature blob as ssh-keygen does.
func armor(blob []byte) []byte {
	var b bytes.Buffer
	b.WriteString(armorBegin + "\n")
	for text := base64.StdEncoding.EncodeToString(blob); text != ""; {
		n := min(armorWidth, len(text))
		b.WriteString(text[:n] + "\n")
		text = text[n:]
	}
	b.WriteString(armorEnd + "\n")
	return b.Bytes()
}

// unarmor decodes exactly one armoured signature.
func unarmor(armored string) ([]byte, error) {
	if len(armored) > maxArmored {
		return nil, fmt.Errorf("%d bytes long, at most %d are accepted", len(armored), maxArmored)
	}
	text, ok := strings.CutPrefix(armored, armorBegin+"\n")
	if !ok {
		return nil, fmt.Errorf("does not begin with the line %q", armorBegin)
	}
	text, ok = strings.CutSuffix(text, "\n"+armorEnd+"\n")
	if !ok {
		return nil, fmt.Errorf("does not end with the line %q", armorEnd)
	}
	lines := strings.Split(text, "\n")
	if err := checkWidths(lines); err != nil {
		return nil, err
	}
	blob, err := base64.StdEncoding.Strict().DecodeString(strings.Join(lines, ""))
	if err != nil {
		return nil, fmt.Errorf("not base64: %v", err)
	}
	return blob, nil
}

// checkWidths insists on lines of one known width, the last one at most that.
func checkWidths(lines []string) error {
	width := len(lines[0])
	last := lines[len(lines)-1]
	switch {
	case len(lines) == 1 && width <= 76:
	case width != 64 && width != armorWidth && width != 76:
		return fmt.Errorf("base64 lines of %d characters, expected %d", width, armorWidth)
	}
	for i, line := range lines[:len(lines)-1] {
		if len(line) != width {
			return fmt.Errorf("base64 line %d has %d characters, the first has %d", i+1, len(line), width)
		}
	}
	if last == "" || len(last) > width {
		return fmt.Errorf("last base64 line has %d characters, expected 1 to %d", len(last), width)
	}
	// The decoder skips carriage returns, which would let one signature be
	// spelled in many ways.
	for _, line := range lines {
		if strings.Contains(line, "\r") {
			return fmt.Errorf("carriage return in a base64 line")
		}
	}
	return nil
}

// parseBlob decodes the binary signature (PROTOCOL.sshsig) so strictly that
// encoding the result gives the same bytes: no reserved field, no trailing
// bytes anywhere, numbers in their shortest form.
func parseBlob(blob []byte) (*sshsig.Signature, error) {
	sig, err := sshsig.ParseSignature(blob)
	if err != nil {
		return nil, fmt.Errorf("decoding signature: %v", err)
	}
	if !bytes.Equal(sig.Marshal(), blob) {
		return nil, fmt.Errorf("decoding signature: not in canonical form, or its reserved field is in use")
	}
	if err := checkSignatureForm(signingKey(sig), sig.Signature); err != nil {
		return nil, fmt.Errorf("decoding signature: %w", err)
	}
	return sig, nil
}

// signingKey is the key whose private half made the signature: the certified
// key when the signature carries a certificate.
func signingKey(sig *sshsig.Signature) ssh.PublicKey {
	if cert, ok := sig.PublicKey.(*ssh.Certificate); ok {
		return cert.Key
	}
	return sig.PublicKey
}

// checkSignatureForm refuses algorithms that are too weak, and what the
// library tolerates: bytes after the signature, RSA signatures with their
// leading zeros cut off, padded numbers.
func checkSignatureForm(key ssh.PublicKey, sig *ssh.Signature) error {
	switch key.Type() {
	case ssh.KeyAlgoRSA:
		if sig.Format != ssh.KeyAlgoRSASHA512 && sig.Format != ssh.KeyAlgoRSASHA256 {
			return fmt.Errorf("RSA signature of algorithm %q, expected rsa-sha2-512 or rsa-sha2-256", sig.Format)
		}
	default:
		if sig.Format != key.Type() {
			return fmt.Errorf("signature of algorithm %q by a %s key", sig.Format, key.Type())
		}
	}

	switch key.Type() {
	case ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256:
		// One byte of flags, four of counter: PROTOCOL.u2f.
		if len(sig.Rest) != 5 {
			return fmt.Errorf("security key signature with %d bytes of flags and counter, expected 5", len(sig.Rest))
		}
	default:
		if len(sig.Rest) != 0 {
			return fmt.Errorf("%d bytes after the signature", len(sig.Rest))
		}
	}

	switch key.Type() {
	case ssh.KeyAlgoRSA:
		if size := key.(ssh.CryptoPublicKey).CryptoPublicKey().(*rsa.PublicKey).Size(); len(sig.Blob) != size {
			return fmt.Errorf("RSA signature of %d bytes, the key's are %d", len(sig.Blob), size)
		}
	case ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoSKECDSA256:
		var rs struct{ R, S *big.Int }
		if err := ssh.Unmarshal(sig.Blob, &rs); err != nil {
			return fmt.Errorf("ECDSA signature: %v", err)
		}
		if !bytes.Equal(ssh.Marshal(rs), sig.Blob) {
			return fmt.Errorf("ECDSA signature is not in canonical form")
		}
	}
	return nil
}
