package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
)

// A segment is made of lines, each beginning with a check value of checkLen
// hexadecimal digits and a space, each ending in a newline:
//
//	14eb2f09c1d2a3b4 {"body":…,"kind":"note","time":"…","v":"1-draft"}
//	77a0c1d2e3f40516 ~3 Az3grlgtzPICa5OS8npV…
//
// The check of an entry is the beginning of its chain head, that of a seal the
// beginning of SHA-256(head || text of the seal). Checks locate damage; they
// are short and trusted for nothing else.
const checkLen = 16

// sealMark begins a seal; an entry begins with a brace.
const sealMark = '~'

// maxLineBytes bounds a line, so that a hostile segment cannot exhaust memory.
const maxLineBytes = checkLen + 1 + evidence.MaxEntryBytes + 1

// sealSignatureLen is the length of a note signature: key hash and Ed25519.
const sealSignatureLen = 4 + 64

// AppendEntryLine appends the line of an entry whose chain head is head.
func AppendEntryLine(dst, entry []byte, head digest.ID) []byte {
	dst = hex.AppendEncode(dst, head[:checkLen/2])
	dst = append(dst, ' ')
	dst = append(dst, entry...)
	return append(dst, '\n')
}

// AppendSealLine appends the seal of a tree of the given size and head.
// Signature is a note signature: four bytes of key hash, then Ed25519.
func AppendSealLine(dst []byte, size int64, head digest.ID, signature []byte) []byte {
	text := append([]byte{sealMark}, strconv.FormatInt(size, 10)...)
	text = append(text, ' ')
	text = base64.StdEncoding.AppendEncode(text, signature)
	dst = appendSealCheck(dst, head, text)
	dst = append(dst, ' ')
	dst = append(dst, text...)
	return append(dst, '\n')
}

func appendSealCheck(dst []byte, head digest.ID, text []byte) []byte {
	h := sha256.New()
	h.Write(head[:])
	h.Write(text)
	return hex.AppendEncode(dst, h.Sum(nil)[:checkLen/2])
}

// splitLine cuts a line, without its newline, into check and text.
func splitLine(line []byte) (check, text []byte, err error) {
	if len(line) >= maxLineBytes {
		return nil, nil, fmt.Errorf("a line of %d bytes or more, an entry takes at most %d", len(line), evidence.MaxEntryBytes)
	}
	if len(line) < checkLen+2 || line[checkLen] != ' ' {
		return nil, nil, fmt.Errorf("expected %d hexadecimal digits, a space and an entry or seal", checkLen)
	}
	return line[:checkLen], line[checkLen+1:], nil
}

func isSeal(text []byte) bool { return text[0] == sealMark }

// parseSeal reads a seal's text in its one accepted spelling.
func parseSeal(text []byte) (size int64, signature []byte, err error) {
	number, encoded, ok := bytes.Cut(text[1:], []byte{' '})
	if !ok {
		return 0, nil, errors.New("expected ~SIZE SIGNATURE")
	}
	size, err = strconv.ParseInt(string(number), 10, 64)
	if err != nil || size < 1 || strconv.FormatInt(size, 10) != string(number) {
		return 0, nil, fmt.Errorf("%q is not the size of a sealed tree", number)
	}
	signature, err = decodeBase64(string(encoded))
	if err != nil || len(signature) != sealSignatureLen {
		return 0, nil, fmt.Errorf("the signature is not base64 of %d bytes", sealSignatureLen)
	}
	return size, signature, nil
}

var strictBase64 = base64.StdEncoding.Strict()

// decodeBase64 decodes the one spelling that encoding gives. Even the strict
// decoder of the standard library skips carriage returns and newlines.
func decodeBase64(s string) ([]byte, error) {
	data, err := strictBase64.DecodeString(s)
	if err == nil && (strings.IndexByte(s, '\r') >= 0 || strings.IndexByte(s, '\n') >= 0) {
		err = errors.New("line break in base64")
	}
	return data, err
}

// countSeals counts the whole lines in data that have the form of a seal: the
// sign that a batch once was complete.
func countSeals(data []byte) int {
	seals := 0
	for len(data) > 0 {
		line, rest, whole := bytes.Cut(data, []byte{'\n'})
		if !whole {
			break
		}
		if _, text, err := splitLine(line); err == nil && isSeal(text) {
			if _, _, err := parseSeal(text); err == nil {
				seals++
			}
		}
		data = rest
	}
	return seals
}
