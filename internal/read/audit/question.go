package audit

import (
	"strings"
	"unicode/utf8"

	"tallystick/internal/run/sight"
)

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
	q := question{folded: sight.FoldString(raw)}
	words := questionWords(q.folded)
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
		piece := strings.TrimSpace(strings.Join(words[:n], ""))
		if len(piece) >= minQuestion {
			q.pieces = append(q.pieces, piece)
		}
		words = words[n:]
	}
	return q
}

// enough is how many different pieces make a text hold the question.
func (q *question) enough() int { return (len(q.pieces) + 1) / 2 }

// questionWords cuts a folded text into words, each with the space behind it. Where a
// script has no spaces between words, each character is one: of it a piece has as
// many characters as it has words of another.
func questionWords(folded string) []string {
	var list []string
	from := 0
	for i, r := range folded {
		end := i + utf8.RuneLen(r)
		if r == ' ' || isUnspaced(r) {
			list, from = append(list, folded[from:end]), end
		}
	}
	if from < len(folded) {
		list = append(list, folded[from:])
	}
	return list
}
