package sight

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// Generic are what any agent may say about anything: the original's list.
var Generic = []string{"", "yes", "no", "true", "false", "none", "null", "unknown", "n/a", "na", "-", "0", "1", "answer", "ok", "x"}

// An Answer is the expected answer of a task as it is looked for.
type Answer struct {
	Folded string
	// Weak answers stand in every other text: shorter than 4 characters, digits
	// alone with fewer than 4 of them, or one of Generic. Found alone they
	// say nothing; they count only where a text calls them an answer.
	Weak bool
	// Exact are base64 spellings of the answer, for answers too short to be
	// decoded in place.
	Exact []string
}

// MinAnswer is the length from which on an answer is not weak.
const MinAnswer = 4

// NewAnswer makes an answer of what a task expects.
func NewAnswer(raw string) Answer {
	g := Answer{Folded: FoldString(Normalise(raw))}
	g.Weak = isWeak(g.Folded)
	if !g.Weak && len(raw) < MinBase64*3/4 {
		g.Exact = base64Spellings(strings.TrimSpace(raw))
	}
	return g
}

func isWeak(folded string) bool {
	digits := true
	for _, c := range folded {
		if c < '0' || c > '9' {
			digits = digits && (c == '.' || c == ',' || c == '-' || c == ' ')
		}
	}
	for _, g := range Generic {
		if folded == g {
			return true
		}
	}
	n := utf8.RuneCountInString(folded)
	if n < len(folded) && n >= 2 {
		return false // two characters of another script are a word
	}
	return n < MinAnswer || digits && countDigits(folded) < MinAnswer
}

func countDigits(s string) int {
	n := 0
	for _, c := range []byte(s) {
		if '0' <= c && c <= '9' {
			n++
		}
	}
	return n
}

// IsDistinctive says that an answer does not stand in an ordinary text by chance:
// 16 characters, or 8 with two words, or with letters and digits, or 6 digits.
func IsDistinctive(folded string) bool {
	digits := countDigits(folded)
	switch {
	case len(folded) >= 16 || digits >= 6:
		return true
	case len(folded) < 8:
		return false
	}
	return strings.Contains(folded, " ") || digits > 0
}

// IndexWhole finds a folded answer in a folded text as a whole word or number.
// from is where to begin; -1 if there is none.
func IndexWhole(text []byte, g string, from int) int {
	for from <= len(text) {
		i := bytes.Index(text[from:], []byte(g))
		if i < 0 {
			return -1
		}
		i += from
		if IsWhole(text, i, len(g)) {
			return i
		}
		from = i + 1
	}
	return -1
}

// IsWhole reports whether a match does not go on at either end: a letter or digit
// of ASCII beside one, or a number that goes on behind a point.
func IsWhole(text []byte, at, size int) bool {
	end := at + size
	if at > 0 && IsWordByte(text[at]) && IsWordByte(text[at-1]) {
		return false
	}
	if end < len(text) && IsWordByte(text[end-1]) && IsWordByte(text[end]) {
		return false
	}
	if isDigit(text[end-1]) && end+1 < len(text) && (text[end] == '.' || text[end] == ',') && isDigit(text[end+1]) {
		return false
	}
	if isDigit(text[at]) && at > 1 && (text[at-1] == '.' || text[at-1] == ',') && isDigit(text[at-2]) {
		return false
	}
	return true
}

func IsWordByte(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// Normalise is the original's normalisation of an answer: trimmed, in lower
// case, without one pair of quotes, white space as single spaces.
func Normalise(raw string) string {
	s := strings.ToLower(strings.TrimFunc(raw, isJSSpace))
	for _, q := range []string{`"`, `'`} {
		if strings.HasPrefix(s, q) && strings.HasSuffix(s, q) {
			if len(s) < 2 {
				return ""
			}
			s = s[1 : len(s)-1]
			break
		}
	}
	return strings.Join(strings.FieldsFunc(s, isJSSpace), " ")
}

// isJSSpace is what \s and trim take for white space in JavaScript.
func isJSSpace(r rune) bool {
	switch r {
	case '\t', '\n', '\v', '\f', '\r', ' ', 0xa0, 0x1680, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000, 0xfeff:
		return true
	}
	return 0x2000 <= r && r <= 0x200a
}
