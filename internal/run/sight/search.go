package sight

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// A Search looks for answers in one text after the other. It has buffers of its
// own, so it is for one goroutine.
type Search struct {
	answers []Answer
	pieces  []string // of base64, as they are written
	encoded *Matcher // finds them in lower case
	filter  *filter
	fold    []byte
}

// NewSearch prepares the search for answers. Empty ones are left out.
func NewSearch(raw ...string) *Search {
	s := &Search{}
	for _, text := range raw {
		if a := NewAnswer(text); a.Folded != "" {
			s.answers = append(s.answers, a)
			s.pieces = append(s.pieces, a.encoded...)
		}
	}
	s.encoded, s.filter = encodedMatcher(s.pieces), newFilter(s.answers, s.pieces)
	return s
}

// Any reports whether there is an answer to look for.
func (s *Search) Any() bool { return len(s.answers) > 0 }

// Find gives where answers begin in a text, in any spelling that [Answer.Index] and
// [Unwrap] know: offsets in bytes of the text itself, in order. Of an answer inside
// of something encoded it is where the encoded character begins.
func (s *Search) Find(text []byte) []int64 {
	if !s.Any() || s.filter != nil && !s.filter.lets(text) || !s.holds(text) {
		return nil
	}
	var hits []int64
	unwrap(layer{text: text, traced: true}, MaxUnwrap, func(l layer) {
		hits = s.inLayer(&l, hits)
	})
	slices.Sort(hits)
	return slices.Compact(hits)
}

// holds is the first look, which nearly every text ends with: nothing is noted of
// where a byte comes from.
func (s *Search) holds(text []byte) (found bool) {
	Unwrap(text, func(plainer []byte) {
		if found {
			return
		}
		s.fold = Fold(s.fold[:0], plainer)
		for i := range s.answers {
			if at, _ := s.answers[i].Index(s.fold, 0); at >= 0 {
				found = true
				return
			}
		}
		found = holdsPiece(s.encoded, s.pieces, s.fold, plainer)
	})
	return found
}

func (s *Search) inLayer(l *layer, hits []int64) []int64 {
	s.fold = Fold(s.fold[:0], l.text)
	var folded []int
	for i := range s.answers {
		a := &s.answers[i]
		for at, end := a.Index(s.fold, 0); at >= 0; at, end = a.Index(s.fold, end) {
			folded = append(folded, at)
		}
	}
	slices.Sort(folded)
	origins(l.text, folded, func(i int) { hits = append(hits, int64(l.origin(i))) })
	for _, p := range s.pieces {
		for at := bytes.Index(l.text, []byte(p)); at >= 0; at = indexOf(l.text, p, at+len(p)) {
			hits = append(hits, int64(l.origin(at)))
		}
	}
	return hits
}

func indexOf(text []byte, p string, from int) int {
	if i := bytes.Index(text[from:], []byte(p)); i >= 0 {
		return from + i
	}
	return -1
}

// origins calls visit with the places in a text that come to stand at these places
// of its fold, which are in order: it folds again and counts.
func origins(text []byte, at []int, visit func(i int)) {
	var room [64]byte
	space, pos := true, 0
	for i := 0; i < len(text) && len(at) > 0; {
		size, n := 1, 1
		switch c := text[i]; {
		case c > ' ' && c < 0x7f:
			space = false
		case c == ' ' && !space:
			space = true
		default:
			_, size = utf8.DecodeRune(text[i:])
			room[0] = 'x'
			if space {
				room[0] = ' '
			}
			out := Fold(room[:1], text[i:i+size])
			if n = len(out) - 1; n > 0 {
				space = out[n] == ' '
			}
		}
		for len(at) > 0 && at[0] < pos+n {
			visit(i)
			at = at[1:]
		}
		i, pos = i+size, pos+n
	}
}

// Encoded finds base64 of an answer in one text after the other.
type Encoded struct {
	pieces  []string
	matcher *Matcher
}

// Encoded prepares the search for the answer's base64.
func (a *Answer) Encoded() *Encoded {
	return &Encoded{a.encoded, encodedMatcher(a.encoded)}
}

// In reports whether a text has it. folded is the fold of the text.
func (e *Encoded) In(folded, text []byte) bool {
	return holdsPiece(e.matcher, e.pieces, folded, text)
}

// Folded64 are the pieces of base64 as a matcher of many answers looks for them: a
// folded text without any of them does not hold the answer in base64.
func (a *Answer) Folded64() []string { return foldedPieces(a.encoded) }

func encodedMatcher(pieces []string) *Matcher { return NewMatcher(foldedPieces(pieces)) }

func foldedPieces(pieces []string) []string {
	lower := make([]string, len(pieces))
	for i, p := range pieces {
		lower[i] = string(Fold(nil, []byte(p)))
	}
	return lower
}

// holdsPiece looks for pieces in the fold of a text, which is fast, and then in the
// text itself: base64 is not the same in other letters.
func holdsPiece(m *Matcher, pieces []string, folded, text []byte) (found bool) {
	m.Find(folded, func(id, _ int) {
		found = found || bytes.Contains(text, []byte(pieces[id]))
	})
	return found
}

// beginsWithin is how far behind its place an answer may begin: a place inside of
// something encoded is that of a group of characters.
const beginsWithin = 8

// IsAt reports whether the answer begins at a byte of a text, in whatever spelling,
// or a word begins there that holds it: another recorder may look less closely than
// [Search] does.
func (a *Answer) IsAt(text []byte, at int64) bool {
	if a.Folded == "" || at < 0 || at >= int64(len(text)) {
		return false
	}
	// Each character of an answer takes at most 12 bytes in the encodings that
	// are resolved (&#x1d5ba;), twice over for base64.
	window := text[at:min(int64(len(text)), at+int64(24*len(a.Folded)+64))]
	if a.begins(window) {
		return true
	}
	// The end of a long encoding cannot be decoded without its beginning.
	whole := &Search{answers: []Answer{*a}, pieces: a.encoded, encoded: encodedMatcher(a.encoded)}
	return slices.Contains(whole.Find(text), at)
}

func (a *Answer) begins(text []byte) (found bool) {
	unwrap(layer{text: text, traced: true}, MaxUnwrap, func(l layer) {
		folded := Fold(nil, l.text)
		at, _ := a.Index(folded, 0)
		if at < 0 {
			at = bytes.Index(folded, []byte(a.Folded))
		}
		if at >= 0 {
			origins(l.text, []int{at}, func(i int) { found = found || l.origin(i) <= beginsWithin })
		}
	})
	return found
}
