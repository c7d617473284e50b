package outline

import (
	"strings"
	"unicode"

	"tallystick/internal/record/plain"
	"tallystick/internal/run/similarity"
)

// around is how many words stand before and after a change.
const around = 4

// WordDiff shows how one text becomes another, word by word, in one line: words that
// went in [-these-], words that came in {+these+}, with a few around them. White space
// counts only where nothing else differs.
func WordDiff(was, now string) string {
	a, b := wordsOf(was), wordsOf(now)
	pieces := piecesOf(a, b)
	if len(pieces) == len(a) && len(a) == len(b) && !changed(pieces) {
		return "only white space differs"
	}
	return join(pieces)
}

func wordsOf(text string) []string { return strings.FieldsFunc(text, unicode.IsSpace) }

// piecesOf is how the words a become the words b.
func piecesOf(a, b []string) []piece {
	var pieces []piece
	i, j := 0, 0
	for _, m := range append(similarity.Align(a, b), similarity.Match{A: len(a), B: len(b)}) {
		if m.A > i || m.B > j {
			pieces = append(pieces, piece{gone: a[i:m.A], came: b[j:m.B]})
		}
		if m.A < len(a) {
			pieces = append(pieces, piece{same: a[m.A]})
		}
		i, j = m.A+1, m.B+1
	}
	return pieces
}

// A piece is one word that stayed, or words that went and came.
type piece struct {
	same       string
	gone, came []string
}

func (p *piece) isChange() bool { return len(p.gone) > 0 || len(p.came) > 0 }

func changed(pieces []piece) bool {
	for i := range pieces {
		if pieces[i].isChange() {
			return true
		}
	}
	return false
}

// join writes the changes with the words around them, and … for the others.
func join(pieces []piece) string {
	near := make([]bool, len(pieces))
	for i := range pieces {
		if pieces[i].isChange() {
			for k := max(0, i-around); k <= min(len(pieces)-1, i+around); k++ {
				near[k] = true
			}
		}
	}
	var words []string
	for i, p := range pieces {
		switch {
		case !near[i]:
			if len(words) == 0 || words[len(words)-1] != "…" {
				words = append(words, "…")
			}
		case p.isChange():
			if len(p.gone) > 0 {
				words = append(words, "[-"+strings.Join(p.gone, " ")+"-]")
			}
			if len(p.came) > 0 {
				words = append(words, "{+"+strings.Join(p.came, " ")+"+}")
			}
		default:
			words = append(words, p.same)
		}
	}
	return plain.Line(strings.Join(words, " "))
}
