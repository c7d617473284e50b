package sight

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strings"
)

// A Matcher finds many fixed texts in a folded text: the questions and answers of
// all tasks of a run.
//
// It is written by hand on purpose. An automaton (Aho–Corasick) for the questions
// of a large run has millions of states and visits one for each byte; here
// texts of 15 bytes and more cost one bit test for each 8 bytes,
// those of 8 and more one for each 4, and shorter ones one for each 2, in tables of a
// few hundred kilobytes.
type Matcher struct {
	patterns []string
	long     grams // of 8 bytes, looked up at every 8th byte
	middle   grams // of 5 bytes, looked up at every 4th byte
	short    grams // of 4 bytes, looked up at every 2nd byte
}

const (
	longPattern   = 15 // so that each occurrence holds 8 bytes at a multiple of 8
	middlePattern = 8  // 5 at a multiple of 4
	MinPattern    = 5  // 4 at a multiple of 2
)

// NewMatcher prepares the search. Patterns are folded and have 5 bytes or more.
func NewMatcher(patterns []string) *Matcher {
	m := &Matcher{patterns: patterns}
	var counts gramCounts
	if len(patterns) > fewPatterns {
		counts = countGrams(patterns)
	}
	for id, p := range patterns {
		g, window, size := m.tableOf(p)
		if g == nil {
			continue
		}
		from := rarest(p, window, size, counts)
		for o := from; o <= from+window-size; o++ {
			g.list = append(g.list, gram{gramAt(p, o, size), int32(id), int32(o)})
		}
	}
	m.long.build()
	m.middle.build()
	m.short.build()
	return m
}

// IsShort reports whether a pattern is one that [Matcher.FindShort] finds.
func IsShort(pattern string) bool { return len(pattern) < middlePattern }

// Pattern is one of the texts that are looked for.
func (m *Matcher) Pattern(id int) string { return m.patterns[id] }

// tableOf says in which table a pattern is, in how many bytes of it every
// occurrence holds a gram where the text is looked at, and how long a gram is.
func (m *Matcher) tableOf(p string) (g *grams, window, size int) {
	switch {
	case len(p) >= longPattern:
		return &m.long, longPattern, 8
	case len(p) >= middlePattern:
		return &m.middle, middlePattern, 5
	case len(p) >= MinPattern:
		return &m.short, MinPattern, 4
	}
	return nil, 0, 0
}

func gramAt(p string, o, size int) uint64 {
	var b [8]byte
	copy(b[:], p[o:o+size])
	return binary.LittleEndian.Uint64(b[:])
}

// gramCounts is how often grams stand in all patterns, by a hash: enough to tell
// "according to the" from what only one question has.
type gramCounts []uint16

// fewPatterns need no counting: they seldom have a gram in common.
const fewPatterns = 64

func (c gramCounts) of(gram uint64) int {
	if c == nil {
		return 0
	}
	return int(c[gram*gramFactor>>46])
}

func countGrams(patterns []string) gramCounts {
	c := make(gramCounts, 1<<18)
	for _, p := range patterns {
		for o := 0; o+8 <= len(p); o++ {
			if n := &c[gramAt(p, o, 8)*gramFactor>>46]; *n < 1<<16-1 {
				*n++
			}
		}
	}
	return c
}

// rarest picks where in a pattern to look: where few other patterns are the same,
// and then where its letters are rarest in English, so that few places in a text
// must be compared, each with few patterns.
func rarest(p string, window, size int, counts gramCounts) int {
	const common = " etaoinsrhldcumfpgwybv"
	best, at := math.MaxInt, 0
	for o := 0; o+window <= len(p); o++ {
		cost := 0
		for k := o; k+8 <= o+window; k++ {
			cost += 1000 * counts.of(gramAt(p, k, 8))
		}
		for _, c := range []byte(p[o : o+window]) {
			if rank := strings.IndexByte(common, c); rank >= 0 {
				cost += len(common) - rank
			}
		}
		if cost < best {
			best, at = cost, o
		}
	}
	return at
}

// Find calls hit with each occurrence of a pattern. The same occurrence of a long
// pattern is told once.
func (m *Matcher) Find(text []byte, hit func(id, at int)) {
	m.FindLong(text, hit)
	m.FindShort(text, hit)
}

// FindLong finds the patterns of 8 bytes and more, with one branch for the three grams
// of each 8 bytes: nearly always there is none.
func (m *Matcher) FindLong(text []byte, hit func(id, at int)) {
	if len(m.long.list)+len(m.middle.list) == 0 {
		return
	}
	long, middle := m.long.filter, m.middle.filter
	byLong, byMiddle := m.long.shift, m.middle.shift
	i := 0
	for ; i+12 <= len(text); i += 8 {
		x, y := binary.LittleEndian.Uint64(text[i:]), binary.LittleEndian.Uint64(text[i+4:])
		h := x * gramFactor >> byLong
		l := long[h>>6] >> (h & 63)
		h = (x & fiveBytes) * gramFactor >> byMiddle
		m0 := middle[h>>6] >> (h & 63)
		h = (y & fiveBytes) * gramFactor >> byMiddle
		m4 := middle[h>>6] >> (h & 63)
		if (l|m0|m4)&1 == 0 {
			continue
		}
		if l&1 != 0 {
			m.compare(&m.long, x, text, i, hit)
		}
		if m0&1 != 0 {
			m.compare(&m.middle, x&fiveBytes, text, i, hit)
		}
		if m4&1 != 0 {
			m.compare(&m.middle, y&fiveBytes, text, i+4, hit)
		}
	}
	m.findEnd(&m.long, 8, 8, text, i, hit)
	m.findEnd(&m.middle, 5, 4, text, i, hit)
}

// FindShort finds the patterns under 8 bytes.
func (m *Matcher) FindShort(text []byte, hit func(id, at int)) {
	if len(m.short.list) == 0 {
		return
	}
	filter, shift := m.short.filter, m.short.shift
	i := 0
	for ; i+12 <= len(text); i += 8 {
		x, y := binary.LittleEndian.Uint64(text[i:]), binary.LittleEndian.Uint64(text[i+4:])
		found := uint64(0)
		for _, g := range [...]uint64{x & fourBytes, x >> 16 & fourBytes, y & fourBytes, y >> 16 & fourBytes} {
			h := g * gramFactor >> shift
			found |= filter[h>>6] >> (h & 63)
		}
		if found&1 != 0 {
			m.compare(&m.short, x&fourBytes, text, i, hit)
			m.compare(&m.short, x>>16&fourBytes, text, i+2, hit)
			m.compare(&m.short, y&fourBytes, text, i+4, hit)
			m.compare(&m.short, y>>16&fourBytes, text, i+6, hit)
		}
	}
	m.findEnd(&m.short, 4, 2, text, i, hit)
}

// findEnd looks at the last bytes of a text, from a multiple of 8 on.
func (m *Matcher) findEnd(g *grams, size, step int, text []byte, from int, hit func(id, at int)) {
	for i := from; i+size <= len(text); i += step {
		m.compare(g, gramAt(string(text[i:i+size]), 0, size), text, i, hit)
	}
}

const (
	fiveBytes = 1<<40 - 1
	fourBytes = 1<<32 - 1
)

// compare looks at every pattern that has the gram.
func (m *Matcher) compare(g *grams, x uint64, text []byte, i int, hit func(id, at int)) {
	if !g.maybe(x) {
		return
	}
	for k := g.first(x); k != 0; k = g.next[k-1] {
		e := g.list[k-1]
		if e.bytes != x {
			continue
		}
		p, at := m.patterns[e.pattern], i-int(e.offset)
		if at >= 0 && at+len(p) <= len(text) && string(text[at:at+len(p)]) == p {
			hit(int(e.pattern), at)
		}
	}
}

// A gram is a piece of a pattern and where in it it is.
type gram struct {
	bytes   uint64
	pattern int32
	offset  int32
}

// grams are a hash table of pieces with a bit filter in front of it.
type grams struct {
	list   []gram
	filter []uint64 // by one hash
	second []uint64 // by another
	shift  uint
	heads  []int32 // place in list plus 1, by hash
	mask   uint64
	next   []int32
}

// gramFactor spreads bytes over the upper bits (the golden ratio, as Knuth has it).
const (
	gramFactor  = 0x9e3779b97f4a7c15
	gramFactor2 = 0xc2b2ae3d27d4eb4f // another odd number
)

// build makes the tables: 64 bits of filter for each piece, so that one place in a
// hundred is compared for nothing, between 8 KiB and 4 MiB.
func (g *grams) build() {
	if len(g.list) == 0 {
		g.filter, g.second, g.shift = make([]uint64, 1), make([]uint64, 1), 58
		return
	}
	size := bits.Len(uint(len(g.list))) + 6
	size = min(max(size, 16), 25)
	g.filter, g.second = make([]uint64, 1<<(size-6)), make([]uint64, 1<<(size-6))
	g.shift = uint(64 - size)
	buckets := 1 << bits.Len(uint(len(g.list)))
	g.heads, g.mask = make([]int32, buckets), uint64(buckets-1)
	g.next = make([]int32, len(g.list))
	for k, e := range g.list {
		h := e.bytes * gramFactor >> g.shift
		g.filter[h>>6] |= 1 << (h & 63)
		h = e.bytes * gramFactor2 >> g.shift
		g.second[h>>6] |= 1 << (h & 63)
		b := g.bucket(e.bytes)
		g.next[k], g.heads[b] = g.heads[b], int32(k+1)
	}
}

// maybe asks the filter a second time, with another hash.
func (g *grams) maybe(x uint64) bool {
	h := x * gramFactor2 >> g.shift
	return g.second[h>>6]&(1<<(h&63)) != 0
}

func (g *grams) bucket(x uint64) uint64 { return x * gramFactor >> 32 & g.mask }

func (g *grams) first(x uint64) int32 { return g.heads[g.bucket(x)] }
