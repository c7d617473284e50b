// Package difference says how one text becomes another, word by word or line by line.
// Everything that shows a difference uses it: comparisons, explanations, golden traces,
// changed targets, comments on pull requests.
//
// A [Difference] is a list of segments that both texts have, or only the first, or only
// the second. [Difference.Was] and [Difference.Now] give both texts back, byte for byte,
// whatever they hold. Exchanging the texts exchanges removed and added, and nothing else.
//
// Work and memory are bounded for any input: what lies between a common beginning and a
// common end is compared closely up to [maxTokens] words or lines, and with more coarsely:
// words by their lines, lines as a whole. [Difference.Coarse] says so.
//
// Where it stops: it compares what is written, not what it means, and a text that moved is
// removed in one place and added in another.
package difference

import (
	"slices"
	"strings"
)

// A Kind says which of the two texts has a segment.
type Kind int8

// The kinds.
const (
	Equal   Kind = iota // both
	Removed             // only the first
	Added               // only the second
)

// A Segment is a stretch of text.
type Segment struct {
	Kind Kind
	Text string
}

// A Difference is how one text becomes another. Neighbours differ in their kind, and
// what is removed stands before what is added in its place.
type Difference struct {
	Segments []Segment
	// Coarse says that the texts are too long, or differ too much, to be compared closely
	// in every place.
	Coarse bool
}

// Words compares two texts word by word. White space, punctuation and every character of
// a script without spaces stand for themselves; marks stay with what they are on.
func Words(was, now string) Difference {
	d := compare(was, now, byWord)
	d.Segments = joinedOverSpace(d.Segments)
	return d
}

// Lines compares two texts line by line. Lines that end differently differ.
func Lines(was, now string) Difference { return compare(was, now, byLine) }

// Same reports whether the two texts are equal.
func (d Difference) Same() bool {
	return !slices.ContainsFunc(d.Segments, func(s Segment) bool { return s.Kind != Equal })
}

// Was is the first text.
func (d Difference) Was() string { return d.side(Removed) }

// Now is the second text.
func (d Difference) Now() string { return d.side(Added) }

func (d Difference) side(own Kind) string {
	var b strings.Builder
	for _, s := range d.Segments {
		if s.Kind == Equal || s.Kind == own {
			b.WriteString(s.Text)
		}
	}
	return b.String()
}

// Reversed is how the second text becomes the first.
func (d Difference) Reversed() Difference {
	out := Difference{Coarse: d.Coarse}
	var b builder
	for _, s := range d.Segments {
		switch s.Kind {
		case Removed:
			s.Kind = Added
		case Added:
			s.Kind = Removed
		}
		b.add(s.Kind, s.Text)
	}
	out.Segments = b.done()
	return out
}

// maxTokens bounds, for each text, what is compared closely: with their strings, tokens
// take some thirty times a byte.
const maxTokens = 1 << 17

// compare trims what is alike at both ends without cutting it into tokens, so that long
// texts with a small difference stay cheap, and compares what is left.
func compare(was, now string, g grain) Difference {
	if was > now { // of several shortest ways the same one is found in both directions
		return compare(now, was, g).Reversed()
	}
	begin := g.commonBegin(was, now)
	end := g.commonEnd(was[begin:], now[begin:])
	var b builder
	b.add(Equal, was[:begin])
	coarse := b.compare(was[begin:len(was)-end], now[begin:len(now)-end], g)
	b.add(Equal, was[len(was)-end:])
	return Difference{Segments: b.done(), Coarse: coarse}
}

// compare adds how one text becomes another, and reports whether that is coarse.
func (b *builder) compare(was, now string, g grain) (coarse bool) {
	x, fits := g.tokens(was, maxTokens)
	y, alsoFits := g.tokens(now, maxTokens)
	if !fits || !alsoFits {
		if g == byWord {
			b.compare(was, now, byLine)
			return true
		}
		b.add(Removed, was)
		b.add(Added, now)
		return true
	}
	matches, exact := match(x, y)
	for _, r := range runs(matches, len(x), len(y)) {
		if r.Equal {
			b.add(Equal, x[r.A.From:r.A.To]...)
			continue
		}
		b.add(Removed, x[r.A.From:r.A.To]...)
		b.add(Added, y[r.B.From:r.B.To]...)
	}
	return !exact
}

// A builder joins neighbours of one kind, and puts what is removed before what is added.
type builder struct {
	segments       []Segment
	equal          strings.Builder
	removed, added strings.Builder
}

func (b *builder) add(k Kind, texts ...string) {
	for _, text := range texts {
		switch {
		case text == "":
		case k == Equal:
			b.flushChange()
			b.equal.WriteString(text)
		case k == Removed:
			b.flushEqual()
			b.removed.WriteString(text)
		default:
			b.flushEqual()
			b.added.WriteString(text)
		}
	}
}

func (b *builder) flushEqual() { b.flush(Equal, &b.equal) }

func (b *builder) flushChange() {
	b.flush(Removed, &b.removed)
	b.flush(Added, &b.added)
}

func (b *builder) flush(k Kind, text *strings.Builder) {
	if text.Len() > 0 {
		b.segments = append(b.segments, Segment{k, text.String()})
		text.Reset()
	}
}

func (b *builder) done() []Segment {
	b.flushEqual()
	b.flushChange()
	return b.segments
}

// joinedOverSpace takes white space between two changes for a part of them: three words
// that became three others read as one change, not as three.
func joinedOverSpace(all []Segment) []Segment {
	var b builder
	for i, s := range all {
		between := s.Kind == Equal && i > 0 && i < len(all)-1 && strings.TrimSpace(s.Text) == "" && !strings.Contains(s.Text, "\n")
		if between && isReplaced(all[:i]) && isReplacing(all[i+1:]) {
			b.add(Removed, s.Text)
			b.add(Added, s.Text)
			continue
		}
		b.add(s.Kind, s.Text)
	}
	return b.done()
}

// isReplaced reports whether the segments end with a text in another's place, isReplacing
// whether they begin so.
func isReplaced(all []Segment) bool {
	n := len(all)
	return n > 1 && all[n-1].Kind == Added && all[n-2].Kind == Removed
}

func isReplacing(all []Segment) bool {
	return len(all) > 1 && all[0].Kind == Removed && all[1].Kind == Added
}

// A Range is some places of a sequence.
type Range struct{ From, To int }

// Len is how many.
func (r Range) Len() int { return r.To - r.From }

// A Run is places that two sequences have alike, or places of the one that stand where
// the other has others, or none.
type Run struct {
	Equal bool
	A, B  Range
}

// Runs is how one sequence becomes another.
func Runs[T comparable](a, b []T) []Run { return runs(Align(a, b), len(a), len(b)) }

func runs(matches []Match, lenA, lenB int) []Run {
	var out []Run
	i, j := 0, 0
	for _, m := range append(matches, Match{lenA, lenB}) {
		if m.A > i || m.B > j {
			out = append(out, Run{A: Range{i, m.A}, B: Range{j, m.B}})
		}
		if m.A < lenA && m.B < lenB {
			if n := len(out); n > 0 && out[n-1].Equal {
				out[n-1].A.To, out[n-1].B.To = m.A+1, m.B+1
			} else {
				out = append(out, Run{true, Range{m.A, m.A + 1}, Range{m.B, m.B + 1}})
			}
		}
		i, j = m.A+1, m.B+1
	}
	return out
}

// match aligns tokens. Where the two differ in too many places for the shortest way, the
// tokens that both have exactly once are kept, in their longest common order, and what lies
// between them is aligned by itself.
func match(x, y []string) (matches []Match, exact bool) {
	a, b := numbered(x, y)
	matches, exact = alignWithin(a, b, &search{left: maxWork})
	if exact {
		return matches, true
	}
	matches = nil
	i, j, rest := 0, 0, &search{left: maxWork}
	for _, m := range append(anchors(a, b), Match{len(a), len(b)}) {
		between, _ := alignWithin(a[i:m.A], b[j:m.B], rest)
		for _, found := range between {
			matches = append(matches, Match{i + found.A, j + found.B})
		}
		if m.A < len(a) {
			matches = append(matches, m)
		}
		i, j = m.A+1, m.B+1
	}
	return matches, false
}

// numbered gives equal texts equal numbers, which are cheap to compare.
func numbered(x, y []string) (a, b []int32) {
	known := make(map[string]int32)
	number := func(texts []string) []int32 {
		out := make([]int32, len(texts))
		for i, t := range texts {
			n, ok := known[t]
			if !ok {
				n = int32(len(known))
				known[t] = n
			}
			out[i] = n
		}
		return out
	}
	return number(x), number(y)
}

// maxWork bounds the places that a search may visit: [maxEdits] bounds its memory, and
// texts that repeat one word are walked through again for each edit.
const maxWork = 1 << 25

// anchors are tokens that both have exactly once, in the longest order that both share.
func anchors(a, b []int32) []Match {
	where := map[int32]int{} // place in b; -1 if there are several
	for j, t := range b {
		if _, seen := where[t]; seen {
			where[t] = -1
		} else {
			where[t] = j
		}
	}
	count := map[int32]int{}
	for _, t := range a {
		count[t]++
	}
	var once []Match
	for i, t := range a {
		if j, ok := where[t]; ok && j >= 0 && count[t] == 1 {
			once = append(once, Match{i, j})
		}
	}
	return longestRising(once)
}

// longestRising keeps the most matches whose places in the second rise, by patience
// sorting.
func longestRising(all []Match) []Match {
	var tops []int // of each pile the match on top
	before := make([]int, len(all))
	for i, m := range all {
		pile, _ := slices.BinarySearchFunc(tops, m.B, func(top, place int) int { return all[top].B - place })
		before[i] = -1
		if pile > 0 {
			before[i] = tops[pile-1]
		}
		if pile == len(tops) {
			tops = append(tops, i)
		} else {
			tops[pile] = i
		}
	}
	var out []Match
	if len(tops) > 0 {
		for i := tops[len(tops)-1]; i >= 0; i = before[i] {
			out = append(out, all[i])
		}
	}
	slices.Reverse(out)
	return out
}
