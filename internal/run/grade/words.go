package grade

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// hasWords reports whether a text has another in it as whole words: what stands before
// and after it does not go on with its first or last word, or its number. So "B" is not
// in "Be", 3 is neither in 13 nor in 3.14 nor in -3, and C is not in C++.
func hasWords(text, want string) bool {
	for from := 0; ; {
		at := strings.Index(text[from:], want)
		if at < 0 || want == "" {
			return false
		}
		at += from
		if !goesOnBefore(text[:at], want) && !goesOnAfter(text[at+len(want):]) {
			return true
		}
		_, size := utf8.DecodeRuneInString(text[at:])
		from = at + size
	}
}

// joins are characters that make one word of what stands on both sides of them.
const joins = "'’.,:-\u2010\u2011_"

func goesOnBefore(before, want string) bool {
	last, size := utf8.DecodeLastRuneInString(before)
	if size == 0 {
		return false
	}
	if ofWord(last) {
		return true
	}
	first, _ := utf8.DecodeRuneInString(want)
	if (last == '-' || last == '\u2212') && unicode.IsDigit(first) {
		return true // a sign
	}
	further, _ := utf8.DecodeLastRuneInString(before[:len(before)-size])
	return (strings.ContainsRune(joins, last) && ofWord(further)) || (last == '.' && unicode.IsDigit(first))
}

func goesOnAfter(after string) bool {
	next, size := utf8.DecodeRuneInString(after)
	if size == 0 {
		return false
	}
	if ofWord(next) || strings.ContainsRune("+#", next) {
		return true
	}
	further, _ := utf8.DecodeRuneInString(after[size:])
	return strings.ContainsRune(joins, next) && ofWord(further)
}

func ofWord(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r))
}
