package audit

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// genericAnswers are what any agent may say about anything: the original's list.
var genericAnswers = []string{"", "yes", "no", "true", "false", "none", "null", "unknown", "n/a", "na", "-", "0", "1", "answer", "ok", "x"}

// A gold is the expected answer of a task as it is looked for.
type gold struct {
	folded string
	// weak answers stand in every other text: shorter than 4 characters, digits
	// alone with fewer than 4 of them, or one of genericAnswers. Found alone they
	// say nothing; they count only where a text calls them an answer.
	weak bool
	// exact are base64 spellings of the answer, for answers too short to be
	// decoded in place.
	exact []string
}

const minGold = 4

func newGold(raw string) gold {
	g := gold{folded: foldString(normaliseAnswer(raw))}
	g.weak = isWeak(g.folded)
	if !g.weak && len(raw) < minBase64*3/4 {
		g.exact = base64Spellings(strings.TrimSpace(raw))
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
	for _, g := range genericAnswers {
		if folded == g {
			return true
		}
	}
	n := utf8.RuneCountInString(folded)
	if n < len(folded) && n >= 2 {
		return false // two characters of another script are a word
	}
	return n < minGold || digits && countDigits(folded) < minGold
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

// isDistinctive says that an answer does not stand in an ordinary text by chance:
// 16 characters, or 8 with two words, or with letters and digits, or 6 digits.
func isDistinctive(folded string) bool {
	digits := countDigits(folded)
	switch {
	case len(folded) >= 16 || digits >= 6:
		return true
	case len(folded) < 8:
		return false
	}
	return strings.Contains(folded, " ") || digits > 0
}

// indexWhole finds a folded answer in a folded text as a whole word or number.
// from is where to begin; -1 if there is none.
func indexWhole(text []byte, g string, from int) int {
	for from <= len(text) {
		i := bytes.Index(text[from:], []byte(g))
		if i < 0 {
			return -1
		}
		i += from
		if isWhole(text, i, len(g)) {
			return i
		}
		from = i + 1
	}
	return -1
}

// isWhole reports whether a match does not go on at either end: a letter or digit
// of ASCII beside one, or a number that goes on behind a point.
func isWhole(text []byte, at, size int) bool {
	end := at + size
	if at > 0 && isWordByte(text[at]) && isWordByte(text[at-1]) {
		return false
	}
	if end < len(text) && isWordByte(text[end-1]) && isWordByte(text[end]) {
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

func isWordByte(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// A question is the pieces of a task's question that are looked for. A text holds
// the question if it holds half of the pieces.
type question struct {
	folded string
	pieces []string
}

// Bounds of a piece: words that stand together in no other text by chance.
const (
	pieceWords   = 12
	minQuestion  = 32 // bytes; a shorter question is not looked for
	minWords     = 6
	maxQuestionN = 64 // pieces
)

func newQuestion(raw string) question {
	q := question{folded: foldString(raw)}
	words := strings.Fields(q.folded)
	if len(words) < minWords || len(q.folded) < minQuestion {
		return q
	}
	for len(words) > 0 && len(q.pieces) < maxQuestionN {
		n := pieceWords
		if len(words) < 2*pieceWords {
			n = len(words)
			if n > pieceWords+pieceWords/2 {
				n = n / 2
			}
		}
		piece := strings.Join(words[:n], " ")
		if len(piece) >= minQuestion {
			q.pieces = append(q.pieces, piece)
		}
		words = words[n:]
	}
	return q
}

// enough is how many different pieces make a text hold the question.
func (q *question) enough() int { return (len(q.pieces) + 1) / 2 }
