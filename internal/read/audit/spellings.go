package audit

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"

	"tallystick/internal/run/sight"
)

// spellings are the ways to write an answer by itself that AUD-11 looks for. What
// encodes a whole file is resolved before; what an answer is mixed with is dropped,
// because only letters and digits are compared.
var spellings = []struct {
	name     string // how a finding says it
	anywhere bool   // it is long enough to count inside other letters
	write    func(string) string
}{
	{"", false, func(s string) string { return sight.FoldString(sight.Normalise(s)) }},
	{"backwards", false, func(s string) string { return backwards(sight.FoldString(sight.Normalise(s))) }},
	{"in rot13", false, func(s string) string { return rot13(sight.FoldString(sight.Normalise(s))) }},
	{"in base64", true, func(s string) string { return base64.RawStdEncoding.EncodeToString([]byte(s)) }},
	{"in hexadecimal", true, func(s string) string { return hex.EncodeToString([]byte(s)) }},
	{"as the numbers of its letters", true, letterNumbers},
}

func backwards(s string) string {
	r := []rune(s)
	for i, j := 0, len(r)-1; i < j; i, j = i+1, j-1 {
		r[i], r[j] = r[j], r[i]
	}
	return string(r)
}

func rot13(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z':
			return 'a' + (r-'a'+13)%26
		case 'A' <= r && r <= 'Z':
			return 'A' + (r-'A'+13)%26
		}
		return r
	}, s)
}

// letterNumbers is [110, 111, 114, …] without what stands between.
func letterNumbers(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		b.WriteString(showNumber(float64(c)))
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

// withLines has spaces for the line ends that a string of a program or of JSON
// spells: what follows is another word. Nil if there is none.
func withLines(text []byte) []byte {
	var out []byte
	for i := bytes.IndexByte(text, '\\'); i >= 0 && i+1 < len(text); {
		if c := text[i+1]; c == 'n' || c == 'r' || c == 't' {
			if out == nil {
				out = bytes.Clone(text)
			}
			out[i], out[i+1] = ' ', ' '
		}
		next := bytes.IndexByte(text[i+2:], '\\')
		if next < 0 {
			break
		}
		i += 2 + next
	}
	return out
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
