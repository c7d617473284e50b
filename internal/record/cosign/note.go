package cosign

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/note"

	"tallystick/internal/record/ledger"
)

// signatureMark begins a signature line of a signed note: an em dash and a
// space.
const signatureMark = "— "

// maxSignatures is how many signatures package note reads.
const maxSignatures = 100

// A signature is one signature line of a note, in parts.
type signature struct {
	name  string
	id    uint32
	bytes []byte
}

// by reports whether the line claims to be of that key. Only verifying tells
// whether it is.
func (s signature) by(key note.Verifier) bool {
	return s.name == key.Name() && s.id == key.KeyHash()
}

// appendLine writes the line in its one spelling.
func (s signature) appendLine(dst []byte) []byte {
	raw := append(binary.BigEndian.AppendUint32(nil, s.id), s.bytes...)
	return fmt.Appendf(dst, "%s%s %s\n", signatureMark, s.name, base64.StdEncoding.EncodeToString(raw))
}

// parseSignatures reads one or more signature lines and nothing else. A key
// that signs twice is refused, as in the ledger's own checkpoints: which of
// the two counts would depend on the reader.
func parseSignatures(block []byte) ([]signature, error) {
	if len(block) == 0 {
		return nil, fmt.Errorf("no signature line")
	}
	type key struct {
		name string
		id   uint32
	}
	seen := make(map[key]bool)
	var out []signature
	for len(block) > 0 {
		line, rest, err := cutLine(block)
		if err != nil {
			return nil, err
		}
		s, err := parseSignature(line)
		if err != nil {
			return nil, fmt.Errorf("signature line %d: %w", len(out)+1, err)
		}
		if seen[key{s.name, s.id}] {
			return nil, fmt.Errorf("signature line %d: a second signature by the same key of %s", len(out)+1, quote(s.name))
		}
		seen[key{s.name, s.id}] = true
		out, block = append(out, s), rest
		if len(out) > maxSignatures {
			return nil, fmt.Errorf("more than %d signature lines", maxSignatures)
		}
	}
	return out, nil
}

func parseSignature(line string) (signature, error) {
	rest, ok := strings.CutPrefix(line, signatureMark)
	if !ok {
		return signature{}, fmt.Errorf("%s does not begin with an em dash and a space", quote(line))
	}
	name, encoded, ok := strings.Cut(rest, " ")
	if !ok || !validName(name) {
		return signature{}, fmt.Errorf("%s is not a key name", quote(name))
	}
	raw, err := decodeBase64(encoded)
	if err != nil {
		return signature{}, err
	}
	if len(raw) < 5 {
		return signature{}, fmt.Errorf("%d bytes, expected a key id of four and a signature", len(raw))
	}
	return signature{name, binary.BigEndian.Uint32(raw), raw[4:]}, nil
}

// validName is the rule of C2SP signed-note for key names, and for notes on
// the whole: no control characters.
func validName(name string) bool {
	return name != "" && utf8.ValidString(name) &&
		strings.IndexFunc(name, func(r rune) bool { return r == '+' || r < ' ' || unicode.IsSpace(r) }) < 0
}

// decodeBase64 accepts the one spelling that encoding gives. The decoder of
// the library skips carriage returns even when it is strict.
func decodeBase64(text string) ([]byte, error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || base64.StdEncoding.EncodeToString(raw) != text {
		return nil, fmt.Errorf("%s is not base64", quote(text))
	}
	return raw, nil
}

// cutLine takes the first line off, which must end in a newline.
func cutLine(data []byte) (line string, rest []byte, err error) {
	before, after, ok := bytes.Cut(data, []byte{'\n'})
	if !ok {
		return "", nil, fmt.Errorf("%s does not end in a newline", quote(string(before)))
	}
	return string(before), after, nil
}

// parseSize reads a decimal number without leading zeros.
func parseSize(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != text {
		return 0, fmt.Errorf("%s is not a tree size", quote(text))
	}
	if n > maxSize {
		return 0, fmt.Errorf("tree size %d is beyond %d", n, int64(maxSize))
	}
	return n, nil
}

// quote shows the beginning of a text from outside.
func quote(text string) string {
	const head = 80
	if len(text) <= head {
		return strconv.Quote(text)
	}
	return fmt.Sprintf("%q and %d more bytes", text[:head], len(text)-head)
}

// A signedHead is a checkpoint that was parsed and not verified.
type signedHead struct {
	ledger.TreeHead
	signatures []signature
}

// parseSignedHead reads a checkpoint without extension lines: three lines, an
// empty one, signatures.
func parseSignedHead(data []byte) (signedHead, error) {
	text, rest := "", data
	for range 3 {
		line, after, err := cutLine(rest)
		if err != nil {
			return signedHead{}, err
		}
		text, rest = text+line+"\n", after
	}
	head, err := ledger.ParseTreeHead(text)
	if err != nil {
		return signedHead{}, err
	}
	if _, err := parseSize(fmt.Sprint(head.Size)); err != nil {
		return signedHead{}, err
	}
	empty, rest, err := cutLine(rest)
	if err != nil || empty != "" {
		return signedHead{}, fmt.Errorf("%s where the empty line before the signatures is expected (extension lines are not taken)", quote(empty))
	}
	signatures, err := parseSignatures(rest)
	return signedHead{head, signatures}, err
}

// marshal writes what parseSignedHead reads.
func (s signedHead) marshal() []byte {
	out := append([]byte(s.Text()), '\n')
	for _, sig := range s.signatures {
		out = sig.appendLine(out)
	}
	return out
}

// only keeps the signature lines by some keys.
func (s signedHead) only(keys []note.Verifier) signedHead {
	kept := signedHead{TreeHead: s.TreeHead}
	for _, sig := range s.signatures {
		for _, k := range keys {
			if sig.by(k) {
				kept.signatures = append(kept.signatures, sig)
			}
		}
	}
	return kept
}
