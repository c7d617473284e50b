package difference

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A grain is what texts are cut into.
type grain int8

const (
	byLine grain = iota
	byWord
)

// tokens cuts a text; false if there are more than most. All tokens together are the text.
func (g grain) tokens(text string, most int) ([]string, bool) {
	var out []string
	for text != "" {
		if len(out) == most {
			return nil, false
		}
		n := g.next(text)
		out = append(out, text[:n])
		text = text[n:]
	}
	return out, true
}

// next is how long the first token is.
func (g grain) next(text string) int {
	if g == byLine {
		if i := strings.IndexByte(text, '\n'); i >= 0 {
			return i + 1
		}
		return len(text)
	}
	return nextWord(text)
}

// commonBegin is how much two texts have in common at their beginning, in whole tokens.
func (g grain) commonBegin(a, b string) int {
	at := 0
	for at < len(a) && at < len(b) {
		n := g.next(a[at:])
		if n != g.next(b[at:]) || a[at:at+n] != b[at:at+n] {
			break
		}
		at += n
	}
	return at
}

// commonEnd is how much two texts have in common at their end, from a place at which a
// token begins whatever stands before it: after a line feed, and between words where an
// ASCII letter or digit comes before white space, which no mark can tie together.
func (g grain) commonEnd(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	tail := a[len(a)-n:]
	if n == len(a) && n == len(b) {
		return n
	}
	for i := 1; i < len(tail); i++ {
		if tail[i-1] == '\n' || g == byWord && isASCIIWord(tail[i-1]) && (tail[i] == ' ' || tail[i] == '\n') {
			return len(tail) - i
		}
	}
	return 0
}

func isASCIIWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// nextWord is how long the first token of a text is: a word, white space within a line, a
// line's end, or one other character; each with the marks that are on it.
func nextWord(text string) int {
	r, n := utf8.DecodeRuneInString(text)
	switch {
	case r == '\n':
		return n
	case r == '\r':
		if strings.HasPrefix(text[n:], "\n") {
			return n + 1
		}
		return n
	case isSpace(r):
		for n < len(text) {
			next, size := utf8.DecodeRuneInString(text[n:])
			if !isSpace(next) {
				break
			}
			n += size
		}
		return n
	case isWord(r):
		for n < len(text) {
			next, size := utf8.DecodeRuneInString(text[n:])
			if !isWord(next) && !isMark(next) {
				break
			}
			n += size
		}
		return n
	}
	if isFlag(r) {
		if next, size := utf8.DecodeRuneInString(text[n:]); isFlag(next) {
			n += size
		}
	}
	return n + marksAfter(text[n:])
}

// isSpace reports white space within a line.
func isSpace(r rune) bool { return r != '\n' && r != '\r' && unicode.IsSpace(r) }

// isWord reports what words are made of in scripts that have spaces between them.
func isWord(r rune) bool {
	if r < utf8.RuneSelf {
		return isASCIIWord(byte(r)) || r == '_'
	}
	return (unicode.IsLetter(r) || unicode.IsDigit(r)) && !unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

const joiner = '\u200d'

// isMark reports what belongs to the character before it: accents, joiners, selectors of a
// variant, the colour of a skin.
func isMark(r rune) bool {
	return r >= 0x300 && (unicode.IsMark(r) || r == joiner || r == '\u200c' || r >= 0x1f3fb && r <= 0x1f3ff)
}

// isFlag reports half of a flag.
func isFlag(r rune) bool { return r >= 0x1f1e6 && r <= 0x1f1ff }

// marksAfter is how long the marks at the beginning of a text are; a joiner brings along
// the picture that it joins.
func marksAfter(text string) int {
	n := 0
	for n < len(text) {
		r, size := utf8.DecodeRuneInString(text[n:])
		if !isMark(r) {
			break
		}
		n += size
		if r == joiner && n < len(text) {
			if next, size := utf8.DecodeRuneInString(text[n:]); next > 0x2000 && !isMark(next) {
				n += size
			}
		}
	}
	return n
}
