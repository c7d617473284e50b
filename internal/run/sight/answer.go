package sight

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// An Answer is the expected answer of a task as it is looked for.
type Answer struct {
	Folded string
	// Bits is its [Surprise].
	Bits float64
	// Weak answers stand in every other text: shorter than 4 characters, digits
	// alone with fewer than 4 of them, or one of Generic. Found alone they
	// say nothing; they count only where a text calls them an answer.
	Weak bool
	// encoded are pieces of its base64: a text that has the answer in base64 has one
	// of them, wherever in what was encoded it stands.
	encoded []string
	// Of an answer that can be decided: its letters and digits without what stands
	// between them, where a number has its point, and the place of the rarest byte.
	core  string
	point []bool
	rare  int
}

// Bounds of a spelling.
const (
	// maxGap is how many bytes, folded, may stand between two characters of an
	// answer that is spelled out.
	maxGap = 16
	// insideBits is the surprise from which on an answer is found inside a longer
	// word too: what is shorter is a part of other words by chance.
	insideBits = 40
	// MinAnswer is the length from which on an answer is not weak.
	MinAnswer = 4
)

// NewAnswer makes an answer of what a task expects.
func NewAnswer(raw string) Answer {
	a := Answer{Folded: FoldString(Normalise(raw))}
	a.Bits, a.Weak = Surprise(a.Folded), isWeak(a.Folded)
	if a.Decidable() {
		a.encoded = encodedPieces(strings.TrimSpace(raw))
		a.core, a.point = coreOf(a.Folded)
		a.rare = rarestByte(a.core)
	}
	return a
}

// Decidable reports whether the answer in a text says something: it has
// [MinBits] of surprise.
func (a *Answer) Decidable() bool { return a.Bits >= MinBits }

// coreOf takes out what stands between letters and digits. point says before which
// bytes of the core the point of a number stands.
func coreOf(folded string) (core string, point []bool) {
	var b []byte
	dot := false
	for i, r := range folded {
		if !isWordRune(r) {
			dot = r == '.' && i > 0 && isDigit(folded[i-1])
			continue
		}
		for k := range len(string(r)) {
			point = append(point, k == 0 && dot && isDigit(folded[i]))
		}
		b, dot = utf8.AppendRune(b, r), false
	}
	return string(b), point
}

// rarestByte is the place of the byte that texts have most seldom.
func rarestByte(core string) (at int) {
	best := 0
	for i := range len(core) {
		cost := 48 // a byte of another script
		switch c := core[i]; {
		case isDigit(c):
			cost = 70
		case IsWordByte(c):
			cost = letterTenths[c-'a']
		}
		if cost > best {
			best, at = cost, i
		}
	}
	return at
}

// Index finds the answer in a folded text, from a place on, and gives where it
// begins and ends; -1 if it is not there. It is found whole, and one that can be
// decided also with anything but letters and digits between its characters
// ("4 2 1 8 8", "P.a.r.i.s"), or run together ("newyork").
func (a *Answer) Index(text []byte, from int) (at, end int) {
	if a.core == "" {
		at = IndexWhole(text, a.Folded, from)
		return at, at + len(a.Folded)
	}
	c := a.core[a.rare]
	for i := from; i < len(text); i++ {
		next := bytes.IndexByte(text[i:], c)
		if next < 0 {
			break
		}
		i += next
		if at, end = a.around(text, i); at >= from {
			return at, end
		}
	}
	return -1, -1
}

// around compares the characters on both sides of the rarest one.
func (a *Answer) around(text []byte, i int) (at, end int) {
	gaps, split := 0, false
	end = i + 1
	for k := a.rare + 1; k < len(a.core); k++ {
		next := end + gapAfter(text, end)
		if next >= len(text) || text[next] != a.core[k] || a.point[k] && !hasPoint(text[end:next]) {
			return -1, -1
		}
		if next > end {
			gaps, split = gaps+1, split || !a.point[k]
		}
		end = next + 1
	}
	at = i
	for k := a.rare; k > 0; k-- {
		before := at - gapBefore(text, at)
		if before <= 0 || text[before-1] != a.core[k-1] || a.point[k] && !hasPoint(text[before:at]) {
			return -1, -1
		}
		if before < at {
			gaps, split = gaps+1, split || !a.point[k]
		}
		at = before - 1
	}
	if !a.stands(text, at, end) || split && gaps > 0 && !a.spelled(text[at:end], text, at, end) {
		return -1, -1
	}
	return at, end
}

// gapAfter is how many bytes between characters begin at a place.
func gapAfter(text []byte, at int) int {
	n := 0
	for at+n < len(text) && n < maxGap {
		c := text[at+n]
		if c < utf8.RuneSelf {
			if IsWordByte(c) {
				return n
			}
			n++
			continue
		}
		r, size := utf8.DecodeRune(text[at+n:])
		if isWordRune(r) || r == utf8.RuneError && size == 1 {
			return n
		}
		n += size
	}
	return n
}

// gapBefore is how many end before a place.
func gapBefore(text []byte, at int) int {
	n := 0
	for at-n > 0 && n < maxGap {
		c := text[at-n-1]
		if c < utf8.RuneSelf {
			if IsWordByte(c) {
				return n
			}
			n++
			continue
		}
		r, size := utf8.DecodeLastRune(text[:at-n])
		if isWordRune(r) || r == utf8.RuneError && size == 1 {
			return n
		}
		n += size
	}
	return n
}

func hasPoint(gap []byte) bool {
	return bytes.IndexByte(gap, '.') >= 0 || bytes.IndexByte(gap, ',') >= 0
}

// stands reports whether a match is a word or number of its own. A letter beside a
// digit ends either.
func (a *Answer) stands(text []byte, at, end int) bool {
	if a.Bits >= insideBits {
		return true
	}
	if at > 0 && sameKind(text[at-1], text[at]) || end < len(text) && sameKind(text[end-1], text[end]) {
		return false
	}
	return !numberGoesOn(text, at, end)
}

func sameKind(x, y byte) bool { return IsWordByte(x) && IsWordByte(y) && isDigit(x) == isDigit(y) }

// spelled parts an answer that is spelled out from one that ordinary words and
// numbers make up by chance: "is land", a decimal, a row of a table of digits.
func (a *Answer) spelled(match, text []byte, at, end int) bool {
	pieces := bytes.FieldsFunc(match, func(r rune) bool { return !isWordRune(r) })
	words := bytes.FieldsFunc([]byte(a.Folded), func(r rune) bool { return !isWordRune(r) })
	if len(pieces) == len(words) && slices.EqualFunc(pieces, words, bytes.Equal) {
		return true // it is the answer as it is written
	}
	known := wordBits()
	if !slices.ContainsFunc(pieces, func(p []byte) bool { _, ok := known[string(p)]; return !ok || len(p) == 1 }) {
		return false
	}
	if len(pieces) == 2 && isNumber(a.core) && len(match) == len(a.core)+1 && bytes.IndexByte(match, '.') >= 0 && len(pieces[1]) != 3 {
		return false
	}
	return !isNumber(a.core) || len(pieces) != len(a.core) || !rowGoesOn(match, text, at, end)
}

func isNumber(s string) bool { return countDigits(s) == len(s) }

// rowGoesOn reports whether single digits stand before or behind a match of single
// digits, with the same between them.
func rowGoesOn(match, text []byte, at, end int) bool {
	gap := match[1 : 1+gapAfter(match, 1)]
	before, after := text[:at], text[end:]
	if n := len(before) - len(gap) - 1; n >= 0 && bytes.HasSuffix(before, gap) && isDigit(before[n]) && (n == 0 || !IsWordByte(before[n-1])) {
		return true
	}
	n := len(gap)
	return bytes.HasPrefix(after, gap) && len(after) > n && isDigit(after[n]) && (len(after) == n+1 || !IsWordByte(after[n+1]))
}

func isWeak(folded string) bool {
	digits := true
	for _, c := range folded {
		if c < '0' || c > '9' {
			digits = digits && (c == '.' || c == ',' || c == '-' || c == ' ')
		}
	}
	if slices.Contains(Generic, folded) {
		return true
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
	for g != "" && from <= len(text) {
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
	return !numberGoesOn(text, at, end)
}

// numberGoesOn reports whether a match that ends, or begins, with a digit is a
// part of a longer number: digits behind a point, or a group of three behind a
// comma. Other commas part the values of a list.
func numberGoesOn(text []byte, at, end int) bool {
	if isDigit(text[end-1]) && end+1 < len(text) && isDigit(text[end+1]) {
		if text[end] == '.' || text[end] == ',' && digitsFrom(text, end+1) == 3 && digitsBefore(text, end) <= 3 {
			return true
		}
	}
	if isDigit(text[at]) && at > 1 && isDigit(text[at-2]) {
		return text[at-1] == '.' || text[at-1] == ',' && digitsFrom(text, at) == 3 && digitsBefore(text, at-1) <= 3
	}
	return false
}

// digitsFrom and digitsBefore count digits on one side of a place, up to 4.
func digitsFrom(text []byte, at int) (n int) {
	for n < 4 && at+n < len(text) && isDigit(text[at+n]) {
		n++
	}
	return n
}

func digitsBefore(text []byte, at int) (n int) {
	for n < 4 && at-n > 0 && isDigit(text[at-n-1]) {
		n++
	}
	return n
}

// IsWordByte reports whether a folded byte is a letter or digit of ASCII.
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
