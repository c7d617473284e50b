package audit

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"tallystick/internal/run/sight"
)

// Rows. A table of ordinary knowledge has the answers of several tasks, each beside
// what its question is about: that is where an honest agent looks. A list of answers
// has them beside an id, a number, or nothing.
const (
	// rowBytes is how far from an answer the rest of its row stands.
	rowBytes = 80
	// minRowWord is the shortest word that says what a question is about.
	minRowWord = 4
)

// ownWords are the words that one question has and no other.
func (x *index) ownWords() map[string]int32 {
	words := map[string]int32{}
	for i := range x.tasks {
		eachRowWord(x.tasks[i].q.Folded, func(w string) {
			if at, there := words[w]; !there {
				words[w] = int32(i)
			} else if at != int32(i) {
				words[w] = -1
			}
		})
	}
	return words
}

// withoutRows leaves out the answers that are parts of a row about their question.
// hits are in order.
func (x *index) withoutRows(text []byte, hits []goldHit) []goldHit {
	kept := hits[:0]
	before := 0 // the end of the answer before
	for i, h := range hits {
		end := h.at + len(x.matcher.Pattern(h.pattern))
		after := len(text)
		if i+1 < len(hits) {
			after = max(end, hits[i+1].at)
		}
		from, to := max(before, h.at-rowBytes), min(after, end+rowBytes)
		if !x.isAbout(text[min(from, h.at):h.at], h.pattern) && !x.isAbout(text[end:to], h.pattern) {
			kept = append(kept, h)
		}
		before = end
	}
	return kept
}

// isAbout reports whether a text has a word that only the question has whose answer a
// pattern is.
func (x *index) isAbout(text []byte, pattern int) bool {
	words, found := x.words(), false
	eachRowWord(string(text), func(w string) {
		if at, there := words[w]; there && at >= 0 {
			for _, t := range x.patterns[pattern].golds {
				found = found || t == at
			}
		}
	})
	return found
}

// eachRowWord visits the words of a folded text that may say what it is about. Where
// a script has no spaces between words, each pair of characters is one.
func eachRowWord(folded string, visit func(string)) {
	for _, w := range strings.FieldsFunc(folded, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' }) {
		last := rune(-1)
		for i, r := range w {
			if last >= 0 && sight.IsUnspaced(last) && sight.IsUnspaced(r) {
				visit(w[i-utf8.RuneLen(last) : i+utf8.RuneLen(r)])
			}
			last = r
		}
		if len(w) >= minRowWord && !sight.IsUnspaced(last) {
			visit(w)
		}
	}
}
