package similarity

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The reference programs are written in Python, whose ideas of lower case and of
// white space differ from Go's in a few letters.

// lower is str.lower: a capital sigma at the end of a word is a final one, and a
// dotted capital I becomes two letters.
func lower(s string) string {
	if !strings.ContainsAny(s, "Σİ") {
		return strings.ToLower(s)
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == 'İ':
			b.WriteString("i\u0307")
		case r == 'Σ' && endsWord(s[:i], s[i+utf8.RuneLen(r):]):
			b.WriteRune('ς')
		default:
			b.WriteRune(unicode.ToLower(r))
		}
	}
	return b.String()
}

// endsWord is Unicode's condition Final_Sigma: a letter with case stands before,
// and none after, whatever ignorable signs are in between.
func endsWord(before, after string) bool {
	before = strings.TrimRightFunc(before, isIgnorable)
	after = strings.TrimLeftFunc(after, isIgnorable)
	last, _ := utf8.DecodeLastRuneInString(before)
	next, _ := utf8.DecodeRuneInString(after)
	return isCased(last) && !isCased(next)
}

func isCased(r rune) bool {
	return unicode.In(r, unicode.Lu, unicode.Ll, unicode.Lt, unicode.Other_Lowercase, unicode.Other_Uppercase)
}

func isIgnorable(r rune) bool {
	return unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk) || strings.ContainsRune("'.:·\u0387\u055f\u05f4\u2018\u2019\u2024\u2027\ufe13\ufe52\ufe55\uff07\uff0e\uff1a", r)
}

// isSpace is str.isspace, by which str.split splits.
func isSpace(r rune) bool {
	return r >= 0x1c && r <= 0x1f || unicode.IsSpace(r)
}
