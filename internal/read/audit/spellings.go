package audit

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"tallystick/internal/read/program"
	"tallystick/internal/run/sight"
)

// carriedSpellings are the ways to write an answer by itself that AUD-11 looks for. What
// encodes a whole file is resolved before; what an answer is mixed with is dropped,
// because only letters and digits are compared.
var carriedSpellings = []struct {
	name     string // how a finding says it
	anywhere bool   // it is long enough to count inside other letters
	write    func(string) string
}{
	{"", false, func(s string) string { return sight.FoldString(sight.Normalise(s)) }},
	{"backwards", false, func(s string) string { return backwards(sight.FoldString(sight.Normalise(s))) }},
	{"in rot13", false, func(s string) string { return program.Rot13(sight.FoldString(sight.Normalise(s))) }},
	{"in base64", true, func(s string) string { return base64.RawStdEncoding.EncodeToString([]byte(s)) }},
	{"in hexadecimal", true, func(s string) string { return hex.EncodeToString([]byte(s)) }},
	{"as the numbers of its letters", true, func(s string) string { return letterNumbers("%d", s) }},
	{"as the hexadecimal numbers of its letters", true, func(s string) string { return letterNumbers("0x%02x", s) }},
}

func backwards(s string) string {
	r := []rune(s)
	for i, j := 0, len(r)-1; i < j; i, j = i+1, j-1 {
		r[i], r[j] = r[j], r[i]
	}
	return string(r)
}

// letterNumbers is [110, 111, 114, …] without what stands between.
func letterNumbers(format, s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		fmt.Fprintf(&b, format, c)
	}
	return b.String()
}

// squeeze appends the letters and digits of a folded text, and where in it each
// byte of them is.
func squeeze(dst []byte, at []int32, folded []byte) ([]byte, []int32) {
	for i := 0; i < len(folded); {
		c := folded[i]
		if c < utf8.RuneSelf {
			if sight.IsWordByte(c) {
				dst, at = append(dst, c), append(at, int32(i))
			}
			i++
			continue
		}
		r, size := utf8.DecodeRune(folded[i:])
		if unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r) {
			for k := range size {
				dst, at = append(dst, folded[i+k]), append(at, int32(i+k))
			}
		}
		i += size
	}
	return dst, at
}

func squeezed(folded string) string {
	out, _ := squeeze(nil, nil, []byte(folded))
	return string(out)
}

// wordsOf are the words of a folded text with single spaces between them.
func wordsOf(folded []byte) string {
	return strings.Join(strings.FieldsFunc(string(folded), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) }), " ")
}

func digitsIn(s string) (n int) {
	for _, c := range []byte(s) {
		if '0' <= c && c <= '9' {
			n++
		}
	}
	return n
}

// withoutControls has a space for every control byte: lengths and marks of binary
// data end a word.
func withoutControls(text []byte) []byte {
	var out []byte
	for i, c := range text {
		if c >= ' ' && c != 0x7f || sight.IsSpace(c) {
			continue
		}
		if out == nil {
			out = bytes.Clone(text)
		}
		out[i] = ' '
	}
	if out == nil {
		return text
	}
	return out
}
