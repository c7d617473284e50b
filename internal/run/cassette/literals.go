package cassette

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"tallystick/internal/record/canon"
)

// A literalForm is one spelling of a literal secret.
type literalForm struct {
	text string

	// inside says that text is only what is certain inside longer base64 or
	// base32. The characters around it hold a few more bits of the secret.
	inside bool

	kind string // what the marker in its place says
}

// coreOf is the part of a secret that makes it one, behind the word that says whose
// it is: 32 letters and digits or more at its end. Without its prefix it is a secret
// still.
func coreOf(s string) string {
	core := s[strings.LastIndexAny(s, "-_.")+1:]
	if len(core) == len(s) || len(core) < 32 || strings.ContainsFunc(core, func(r rune) bool { return r > '~' || !isAlphanumeric(byte(r)) }) {
		return ""
	}
	return core
}

// nearForms lists the spellings of a secret that occur by themselves: as it is,
// and as protocols carry it.
func nearForms(s string) []literalForm {
	forms := append([]literalForm{{text: s}}, encoded(s)...)
	escaped := canon.AppendString(nil, s)
	inJSON := string(escaped[1 : len(escaped)-1])
	for _, text := range []string{inJSON, strings.ReplaceAll(inJSON, "/", `\/`)} {
		forms = append(forms, literalForm{text: text})
	}
	if html, err := json.Marshal(s); err == nil { // with \u003c for <
		forms = append(forms, literalForm{text: string(html[1 : len(html)-1])})
	}
	return forms
}

// literalForms lists all spellings of a secret that are looked for: those that
// are near, the secret turned round, and each of both in the usual encodings
// once more. A secret that is encoded a third time is not found.
func literalForms(s string) []literalForm {
	forms := append(nearForms(s), literalForm{text: reversed(s)})
	for _, plain := range []string{s, reversed(s)} {
		once := encoded(plain)
		forms = append(forms, once...)
		for _, f := range once {
			forms = append(forms, literalForm{text: reversed(f.text), inside: f.inside})
			forms = append(forms, encoded(f.text)...)
		}
	}
	return forms
}

// encoded lists what a text is in hexadecimal, percent-encoding, base64 and
// base32. Inside longer base64 or base32 a text begins at one of several
// alignments, and the characters that also depend on its neighbours are left
// out.
func encoded(s string) []literalForm {
	forms := []literalForm{
		{text: hex.EncodeToString([]byte(s))},
		{text: strings.ToUpper(hex.EncodeToString([]byte(s)))},
		{text: percentEncode(s, "0123456789ABCDEF")},
		{text: percentEncode(s, "0123456789abcdef")},
		{text: url.QueryEscape(s)},
		{text: url.PathEscape(s)},
	}
	for skip := range 3 {
		padded := append(make([]byte, skip), s...)
		for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			forms = append(forms, literalForm{text: certain(enc.EncodeToString(padded), skip, len(s), 6), inside: true})
		}
	}
	for skip := range 5 {
		padded := append(make([]byte, skip), s...)
		text := certain(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(padded), skip, len(s), 5)
		forms = append(forms, literalForm{text: text, inside: true}, literalForm{text: strings.ToLower(text), inside: true})
	}
	return forms
}

// certain cuts out of an encoding the characters of so many bits that hold bits
// of n bytes behind the first skip bytes, and no others.
func certain(text string, skip, n, bits int) string {
	return text[(8*skip+bits-1)/bits : 8*(skip+n)/bits]
}

func reversed(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}

// percentEncode encodes all but the unreserved characters (RFC 3986 section
// 2.3) with the given digits.
func percentEncode(s, digits string) string {
	var out strings.Builder
	for i := range len(s) {
		c := s[i]
		if isAlphanumeric(c) || strings.IndexByte("-._~", c) >= 0 {
			out.WriteByte(c)
		} else {
			out.Write([]byte{'%', digits[c>>4], digits[c&0xf]})
		}
	}
	return out.String()
}

// A literalIndex finds hundreds of forms in one pass over a text, by their
// first eight bytes.
type literalIndex struct {
	maybe [1 << 10]uint64 // a bit for each hash of a beginning
	forms map[uint64][]literalForm
}

// newLiteralIndex makes an index of forms, none of which is shorter than
// minLiteralBytes. Of those with the same beginning the longest is found first.
func newLiteralIndex(forms []literalForm) *literalIndex {
	x := &literalIndex{forms: map[uint64][]literalForm{}}
	for _, f := range forms {
		begin := uint64(0)
		for i := range minLiteralBytes {
			begin = begin>>8 | uint64(f.text[i])<<56
		}
		h := hashOf(begin)
		x.maybe[h/64] |= 1 << (h % 64)
		x.forms[begin] = append(x.forms[begin], f)
	}
	for _, same := range x.forms {
		slices.SortFunc(same, func(a, b literalForm) int { return len(b.text) - len(a.text) })
	}
	return x
}

// hashOf spreads eight bytes over 16 bits. The factor is that of Fibonacci
// hashing, 2^64 divided by the golden ratio.
func hashOf(begin uint64) uint64 { return begin * 0x9e3779b97f4a7c15 >> 48 }

// find gives each place of a form to see, which says where to go on.
func (x *literalIndex) find(s string, see func(at int, f literalForm) (next int, more bool)) {
	if len(x.forms) == 0 {
		return
	}
	begin, filled := uint64(0), 0
	for i := 0; i < len(s); i++ {
		begin, filled = begin>>8|uint64(s[i])<<56, filled+1
		h := hashOf(begin)
		if filled < minLiteralBytes || x.maybe[h/64]>>(h%64)&1 == 0 {
			continue
		}
		at := i + 1 - minLiteralBytes
		for _, f := range x.forms[begin] {
			if !strings.HasPrefix(s[at:], f.text) {
				continue
			}
			next, more := see(at, f)
			if !more {
				return
			}
			i, filled = next-1, 0
			break
		}
	}
}
