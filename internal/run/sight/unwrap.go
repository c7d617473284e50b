package sight

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"html"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of decoding, so that a text that decodes into another without end costs
// a bounded amount of work.
const (
	MaxUnwrap = 3 // decodings one after the other
	// MinBase64 is the shortest run of base64 that is decoded: 18 bytes. Ordinary
	// words are shorter, and what is shorter is found only if it is the encoding
	// of the answer alone.
	MinBase64 = 24
)

// Unwrap calls visit with text as it is, and with each text that it hides: HTML
// entities, percent-encoding and backslash escapes resolved, and every run of
// base64, over several lines too, decoded. Encodings inside each other are
// resolved three deep. A text is valid until visit returns.
func Unwrap(text []byte, visit func(text []byte)) { unwrap(text, MaxUnwrap, visit) }

func unwrap(text []byte, depth int, visit func([]byte)) {
	visit(text)
	if depth == 0 {
		return
	}
	if plainer := unescape(text); plainer != nil {
		unwrap(plainer, depth-1, visit)
	}
	var long []byte
	eachBase64(text, func(run []byte) {
		if out := decodeBase64(run); out != nil {
			long = append(append(long, out...), '\n')
		}
	})
	if len(long) > 0 {
		unwrap(long, depth-1, visit)
	}
}

// unescape resolves entities, percent-encoding and backslash escapes; nil if the
// text has none.
func unescape(text []byte) []byte {
	out := text
	changed := false
	if i := bytes.IndexByte(out, '&'); i >= 0 && bytes.IndexByte(out[i:], ';') > 0 {
		if plainer := html.UnescapeString(string(out)); plainer != string(out) {
			out, changed = []byte(plainer), true
		}
	}
	if plainer := unpercent(out); plainer != nil {
		out, changed = plainer, true
	}
	if plainer := unbackslash(out); plainer != nil {
		out, changed = plainer, true
	}
	if !changed {
		return nil
	}
	return out
}

// unpercent resolves %41, and + in place of a space: in a text that has the one
// or the other.
func unpercent(text []byte) []byte {
	i := bytes.IndexByte(text, '%')
	for ; i >= 0; i = indexFrom(text, '%', i+1) {
		if i+2 < len(text) && hexDigit(text[i+1]) >= 0 && hexDigit(text[i+2]) >= 0 {
			break
		}
	}
	if i < 0 && !hasFormSpace(text) {
		return nil
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '%' && i+2 < len(text) && hexDigit(text[i+1]) >= 0 && hexDigit(text[i+2]) >= 0:
			out = append(out, byte(hexDigit(text[i+1])<<4|hexDigit(text[i+2])))
			i += 2
		case text[i] == '+':
			out = append(out, ' ')
		default:
			out = append(out, text[i])
		}
	}
	return out
}

// hasFormSpace tells a form field: a + between two letters.
func hasFormSpace(text []byte) bool {
	for i := bytes.IndexByte(text, '+'); i >= 0; i = indexFrom(text, '+', i+1) {
		if i > 0 && i+1 < len(text) && IsWordByte(lowerASCII[text[i-1]]) && IsWordByte(lowerASCII[text[i+1]]) {
			return true
		}
	}
	return false
}

func indexFrom(text []byte, c byte, from int) int {
	if i := bytes.IndexByte(text[from:], c); i >= 0 {
		return from + i
	}
	return -1
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// unbackslash resolves the escapes of strings in JSON and programs: \u0041, \x41,
// \n, \". Only texts that have one of the first two or an escaped quotation mark
// are looked at: a backslash alone is part of a path or a formula.
func unbackslash(text []byte) []byte {
	if !hasEscape(text) {
		return nil
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			out = append(out, text[i])
			continue
		}
		i++
		switch c := text[i]; c {
		case 'n', 'r', 't':
			out = append(out, ' ')
		case 'u', 'x':
			digits := map[byte]int{'u': 4, 'x': 2}[c]
			if n, ok := hexAt(text, i+1, digits); ok {
				out = utf8.AppendRune(out, rune(n))
				i += digits
				continue
			}
			out = append(out, '\\', c)
		case '"', '\\', '/', '\'':
			out = append(out, c)
		default:
			out = append(out, '\\', c)
		}
	}
	return out
}

func hexAt(text []byte, at, digits int) (uint64, bool) {
	if at+digits > len(text) {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[at:at+digits]), 16, 32)
	return n, err == nil
}

func hasEscape(text []byte) bool {
	for i := bytes.IndexByte(text, '\\'); i >= 0 && i+1 < len(text); i = indexFrom(text, '\\', i+2) {
		switch text[i+1] {
		case 'u', 'x', '"':
			return true
		}
		if i+2 >= len(text) {
			break
		}
	}
	return false
}

var base64Digit = func() (t [256]bool) {
	for c := range t {
		t[c] = 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '+' || c == '/' || c == '-' || c == '_'
	}
	return t
}()

// eachBase64 finds runs that may be base64. A run of 24 holds 16 bytes at a multiple
// of 8, so only places with 16 bytes without a space are looked at: text in words
// has few. Lines of a run are put together: a line break and the spaces after it do not
// end one.
func eachBase64(text []byte, visit func(run []byte)) {
	end := 0 // of the last run
	for i := 0; i+16 <= len(text); i += 8 {
		y := binary.LittleEndian.Uint64(text[i:]) ^ blanks
		if (y-every)&^y&highs != 0 {
			continue
		}
		y = binary.LittleEndian.Uint64(text[i+8:]) ^ blanks
		if (y-every)&^y&highs != 0 {
			i += 8
			continue
		}
		if i < end || !base64Digit[text[i]] || !base64Digit[text[i+7]] || !base64Digit[text[i+15]] {
			continue
		}
		from := i
		for from > end && base64Digit[text[from-1]] {
			from--
		}
		to := runEnd(text, i)
		if to-from < MinBase64 {
			continue
		}
		run := text[from:to]
		for next := nextLine(text, to); next > 0; next = nextLine(text, to) {
			to = runEnd(text, next)
			if len(run) == cap(run) || &run[0] == &text[from] {
				run = append([]byte(nil), run...)
			}
			run = append(run, text[next:to]...)
		}
		visit(run)
		end = to
	}
}

func runEnd(text []byte, i int) int {
	for i < len(text) && base64Digit[text[i]] {
		i++
	}
	return i
}

// nextLine is where a run goes on after a line break, 0 if it does not. A line of
// base64 that another follows is long, so the next word of a text is not taken
// for one.
func nextLine(text []byte, i int) int {
	j := i
	for j < len(text) && (text[j] == '\r' || text[j] == '\n' || text[j] == ' ' || text[j] == '\t') {
		j++
	}
	if j == i || j == len(text) || bytes.IndexByte(text[i:j], '\n') < 0 || !base64Digit[text[j]] {
		return 0
	}
	if to := runEnd(text, j); to < len(text) && text[to] != '=' && text[to] != '\n' && text[to] != '\r' && text[to] != '"' {
		return 0
	}
	return j
}

// decodeBase64 decodes a run, in the alphabet of files or of URLs, if what comes
// out is text. Its beginning may be cut or belong to a word before it, so all
// four alignments are tried.
func decodeBase64(run []byte) []byte {
	clean := bytes.Map(func(r rune) rune {
		switch r {
		case '-':
			return '+'
		case '_':
			return '/'
		}
		return r
	}, run)
	for skip := 0; skip < 4 && len(clean)-skip >= 8; skip++ {
		part := clean[skip:]
		if len(part)%4 == 1 {
			part = part[:len(part)-1]
		}
		out := make([]byte, base64.RawStdEncoding.DecodedLen(len(part)))
		n, err := base64.RawStdEncoding.Decode(out, part)
		if err == nil && isText(out[:n]) {
			return out[:n]
		}
	}
	return nil
}

// isText reports whether bytes are meant to be read: UTF-8 with few control
// characters. One character may be cut at the end.
func isText(b []byte) bool {
	control := 0
	for i := 0; i < len(b); {
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size <= 1 && i < len(b)-3 {
			return false
		}
		if r < ' ' && !asciiSpace[byte(r)] || r == 0x7f {
			control++
		}
		i += size
	}
	return control*20 <= len(b)
}

// base64Spellings are the encodings of an answer by itself, as it is written and
// in lower and upper case.
func base64Spellings(s string) []string {
	var list []string
	for _, v := range []string{s, strings.ToLower(s), strings.ToUpper(s)} {
		e := base64.RawStdEncoding.EncodeToString([]byte(v))
		if len(e) >= 6 && !slices.Contains(list, e) {
			list = append(list, e)
		}
	}
	return list
}
