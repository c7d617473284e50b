package sight

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Question is the pieces of a task's question that are looked for. A text holds
// the question if it holds half of the pieces.
type Question struct {
	Folded string
	Pieces []string
}

// Bounds of a piece: words that stand together in no other text by chance.
const (
	PieceWords  = 12
	MinQuestion = 32 // bytes; a shorter question is not looked for
	MinWords    = 6
	maxPieces   = 64 // pieces
)

// NewQuestion prepares the search for a question.
func NewQuestion(raw string) Question {
	q := Question{Folded: FoldString(raw)}
	words := questionWords(q.Folded)
	if len(words) < MinWords || len(q.Folded) < MinQuestion {
		return q
	}
	for len(words) > 0 && len(q.Pieces) < maxPieces {
		n := PieceWords
		if len(words) < 2*PieceWords {
			n = len(words)
			if n > PieceWords+PieceWords/2 {
				n = n / 2
			}
		}
		piece := strings.TrimSpace(strings.Join(words[:n], ""))
		if len(piece) >= MinQuestion {
			q.Pieces = append(q.Pieces, piece)
		}
		words = words[n:]
	}
	return q
}

// Enough is how many different pieces make a text hold the question.
func (q *Question) Enough() int { return (len(q.Pieces) + 1) / 2 }

// IsIn reports whether a text holds the question, in whatever encoding.
func (q *Question) IsIn(text []byte) bool {
	seen := make([]bool, len(q.Pieces))
	n := 0
	Unwrap(text, func(plainer []byte) {
		folded := Fold(nil, plainer)
		for i, p := range q.Pieces {
			if !seen[i] && bytes.Contains(folded, []byte(p)) {
				seen[i], n = true, n+1
			}
		}
	})
	return n > 0 && n >= q.Enough()
}

// questionWords cuts a folded text into words, each with the space behind it. Where a
// script has no spaces between words, each character is one: of it a piece has as
// many characters as it has words of another.
func questionWords(folded string) []string {
	var list []string
	from := 0
	for i, r := range folded {
		end := i + utf8.RuneLen(r)
		if r == ' ' || IsUnspaced(r) {
			list, from = append(list, folded[from:end]), end
		}
	}
	if from < len(folded) {
		list = append(list, folded[from:])
	}
	return list
}

// IsUnspaced reports whether a character is of a script that has no spaces between
// words.
func IsUnspaced(r rune) bool {
	return r > 0xe00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}
