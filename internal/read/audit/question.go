package audit

import (
	"strings"

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
