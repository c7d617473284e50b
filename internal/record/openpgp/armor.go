package openpgp

import (
	"encoding/base64"
	"fmt"
	"strings"
)

// Kinds of armour.
const (
	signatureBlock = "PGP SIGNATURE"
	keyBlock       = "PGP PUBLIC KEY BLOCK"
)

// The lines around an armoured signature.
const (
	ArmorBegin = "-----BEGIN " + signatureBlock + "-----"
	ArmorEnd   = "-----END " + signatureBlock + "-----"
)

// armorWidth is the length of gpg's lines.
const armorWidth = 64

// Armor spells the signature as text, as gpg would: lines of 64 characters and
// the checksum.
func (s *Signature) Armor() []byte {
	var b strings.Builder
	b.WriteString(ArmorBegin + "\n\n")
	data := s.Bytes()
	for text := base64.StdEncoding.EncodeToString(data); text != ""; {
		n := min(armorWidth, len(text))
		b.WriteString(text[:n] + "\n")
		text = text[n:]
	}
	b.WriteString("=" + checksum(data) + "\n" + ArmorEnd + "\n")
	return []byte(b.String())
}

// ParseArmored reads one armoured signature with nothing around it. It must be
// without headers ("Comment:", "Version:"): they are not signed, and a reader
// would believe them. Lines of 64 and 76 characters and a missing checksum, which
// RFC 9580 allows, are accepted; [Signature.Armor] is the spelling that is kept.
func ParseArmored(text []byte) (*Signature, error) {
	data, err := unarmor(string(text), signatureBlock)
	if err != nil {
		return nil, err
	}
	return ParseSignature(data)
}

// unarmor decodes one armoured block, RFC 9580 section 6.2.
func unarmor(text, kind string) ([]byte, error) {
	text, ok := strings.CutPrefix(text, "-----BEGIN "+kind+"-----\n")
	if !ok {
		return nil, fmt.Errorf("does not begin with the line %q", "-----BEGIN "+kind+"-----")
	}
	if text, ok = strings.CutPrefix(text, "\n"); !ok {
		return nil, fmt.Errorf("the armour has headers, which no signature covers; make it without (gpg --no-comments --no-emit-version)")
	}
	if text, ok = strings.CutSuffix(text, "\n-----END "+kind+"-----\n"); !ok {
		return nil, fmt.Errorf("does not end with the line %q", "-----END "+kind+"-----")
	}
	lines := strings.Split(text, "\n")
	sum := ""
	if last := lines[len(lines)-1]; strings.HasPrefix(last, "=") {
		sum, lines = last[1:], lines[:len(lines)-1]
	}
	if err := checkWidths(lines); err != nil {
		return nil, err
	}
	data, err := base64.StdEncoding.Strict().DecodeString(strings.Join(lines, ""))
	if err != nil {
		return nil, fmt.Errorf("not base64: %v", err)
	}
	if sum != "" && sum != checksum(data) {
		return nil, fmt.Errorf("checksum %q, expected %q", sum, checksum(data))
	}
	return data, nil
}

// checkWidths insists on lines of one of two widths, the last one at most that.
func checkWidths(lines []string) error {
	if len(lines) == 0 {
		return fmt.Errorf("nothing between the lines of the armour")
	}
	width := len(lines[0])
	if len(lines) == 1 {
		width = 76
	} else if width != armorWidth && width != 76 {
		return fmt.Errorf("base64 lines of %d characters, expected %d", width, armorWidth)
	}
	for i, line := range lines {
		last := i == len(lines)-1
		if strings.Contains(line, "\r") || len(line) != width && !last || line == "" || len(line) > width {
			return fmt.Errorf("base64 line %d has %d characters, expected %d", i+1, len(line), width)
		}
	}
	return nil
}

// checksum is the CRC-24 of armour in base64, RFC 9580 section 6.1.
func checksum(data []byte) string {
	crc := uint32(0xB704CE)
	for _, b := range data {
		crc ^= uint32(b) << 16
		for range 8 {
			if crc <<= 1; crc&0x1000000 != 0 {
				crc ^= 0x1864CFB
			}
		}
	}
	return base64.StdEncoding.EncodeToString([]byte{byte(crc >> 16), byte(crc >> 8), byte(crc)})
}
