package cassette

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// minFoldedBytes is how long the folded form of a secret must be to be looked for
// in folded text: folding makes words of what stands in different sentences.
const minFoldedBytes = 20

// A folded is a text without everything that does not make another text of it
// for an attacker who wants to read a secret: letters and digits only, in lower
// case. So a secret is found in upper case, with characters put between, over
// several lines, or in several strings of one document. Decoded, escapes of
// JSON, URLs and HTML are read first, however many times the escape itself was
// escaped.
type folded struct {
	text []byte
	from []int // where in the text each byte begins
	to   []int // and ends
}

func fold(s string, decode bool) *folded {
	f := &folded{text: make([]byte, 0, len(s)), from: make([]int, 0, len(s)), to: make([]int, 0, len(s))}
	for i := 0; i < len(s); {
		c, n := foldedByte(s[i:], decode)
		if c != 0 {
			f.text, f.from, f.to = append(f.text, c), append(f.from, i), append(f.to, i+n)
		}
		i += n
	}
	return f
}

// foldedByte is what the character at the beginning of s becomes, 0 if nothing,
// and how many bytes it takes.
func foldedByte(s string, decode bool) (byte, int) {
	r, n := rune(s[0]), 1
	if r >= utf8.RuneSelf {
		r, n = utf8.DecodeRuneInString(s)
	} else if decode {
		r, n = escaped(s)
	}
	if r >= 0xFF01 && r <= 0xFF5E { // full-width forms of ASCII
		r -= 0xFEE0
	}
	if r < utf8.RuneSelf && isAlphanumeric(byte(r)) {
		return lower(byte(r)), n
	}
	return 0, n
}

// mayHold reports whether a form may stand in the folded text: the beginning of
// one does. Every text that passes is looked through, and nearly none holds one, so
// this takes no memory and folds plain letters by a table.
func (x *literalIndex) mayHold(s string, decode bool) bool {
	begin, filled := uint64(0), 0
	for i := 0; i < len(s); {
		c, n := plainFold[s[i]], 1
		if c == foldsSlowly {
			c, n = foldedByte(s[i:], decode)
		}
		i += n
		if c == 0 {
			continue
		}
		begin, filled = begin>>8|uint64(c)<<56, filled+1
		if h := hashOf(begin); filled >= minLiteralBytes && x.maybe[h/64]>>(h%64)&1 != 0 && x.forms[begin] != nil {
			return true
		}
	}
	return false
}

// foldsSlowly marks the bytes that may begin an escape or a longer character.
const foldsSlowly = 0xff

var plainFold = func() (t [256]byte) {
	for c := range t {
		switch {
		case c >= utf8.RuneSelf || c == '\\' || c == '%' || c == '&':
			t[c] = foldsSlowly
		case isAlphanumeric(byte(c)):
			t[c] = lower(byte(c))
		}
	}
	return t
}()

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// foldForm is the form of a secret that is looked for in folded text.
func foldForm(form literalForm) literalForm {
	form.text = string(fold(form.text, false).text)
	return form
}

// escaped reads the character at the beginning of s, which may be escaped, and how
// many bytes it takes. Of an invalid escape it gives the first byte.
func escaped(s string) (rune, int) {
	switch s[0] {
	case '\\':
		n := len(s) - len(strings.TrimLeft(s, `\`))
		return backslashed(s[n:], n)
	case '%':
		n := 1
		for strings.HasPrefix(s[n:], "25") && len(s) >= n+4 { // a percent sign that was escaped itself
			n += 2
		}
		if r, ok := hexRune(s[n:], 2); ok {
			return r, n + 2
		}
	case '&':
		if end := strings.IndexByte(s[:min(len(s), 12)], ';'); end > 2 && s[1] == '#' {
			digits, base := s[2:end], 10
			if digits[0] == 'x' || digits[0] == 'X' {
				digits, base = digits[1:], 16
			}
			if v, err := strconv.ParseUint(digits, base, 21); err == nil {
				return rune(v), end + 1
			}
		}
	}
	return rune(s[0]), 1
}

// backslashed reads what stands behind n backslashes.
func backslashed(s string, n int) (rune, int) {
	if s == "" {
		return '\\', n
	}
	switch s[0] {
	case 'u', 'x':
		digits := map[byte]int{'u': 4, 'x': 2}[s[0]]
		if r, ok := hexRune(s[1:], digits); ok {
			return r, n + 1 + digits
		}
	case 'n', 'r', 't', 'b', 'f', '/', '"', '\'':
		return ' ', n + 1
	case '0', '1':
		if v, err := strconv.ParseUint(s[:min(3, len(s))], 8, 8); err == nil && len(s) >= 3 {
			return rune(v), n + 3
		}
	}
	return '\\', n
}

func hexRune(s string, digits int) (rune, bool) {
	if len(s) < digits {
		return 0, false
	}
	v, err := strconv.ParseUint(s[:digits], 16, 32)
	return rune(v), err == nil
}

// findFolded gives the places of secrets that are spelled in other ways than the
// exact forms.
func (r *Redactor) findFolded(s string, see func(span) bool) {
	if r == nil || r.folded == nil || len(s) < r.shortest {
		return
	}
	decodes := []bool{false}
	if strings.ContainsAny(s, `\%&`) {
		decodes = append(decodes, true)
	}
	for _, decode := range decodes {
		if !r.folded.mayHold(s, decode) {
			continue
		}
		f, more := fold(s, decode), true
		r.folded.find(string(f.text), func(at int, form literalForm) (int, bool) {
			end := at + len(form.text)
			more = see(form.widened(s, span{f.from[at], f.to[end-1], form.kind}))
			return end, more
		})
		if !more {
			return
		}
	}
}

// widened is the place of a form with the characters around it that hold a rest of
// the secret.
func (form *literalForm) widened(s string, f span) span {
	for form.inside && f.start > 0 && isTokenByte(s[f.start-1]) {
		f.start--
	}
	for form.inside && f.end < len(s) && isTokenByte(s[f.end]) {
		f.end++
	}
	return f
}
