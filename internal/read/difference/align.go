package difference

import (
	"math"
	"slices"
)

// maxEdits bounds the insertions and deletions that [Align] looks for: its memory
// grows with their square.
const maxEdits = 2000

// A Match says that a place of one sequence is the same as a place of another.
type Match struct{ A, B int }

// Align finds a longest common subsequence of two sequences (Myers 1986). Sequences
// that differ in more than [maxEdits] places are only matched where they begin and
// end alike: then what lies between is another text altogether.
func Align[T comparable](a, b []T) []Match {
	s := search{left: math.MaxInt}
	matches, _ := alignWithin(a, b, &s)
	return matches
}

// A search is how many places may still be visited.
type search struct{ left int }

// alignWithin reports whether a longest common subsequence was found.
func alignWithin[T comparable](a, b []T, s *search) (matches []Match, exact bool) {
	begin := 0
	for begin < len(a) && begin < len(b) && a[begin] == b[begin] {
		begin++
	}
	end := 0
	for end < len(a)-begin && end < len(b)-begin && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	matches = make([]Match, 0, min(len(a), len(b)))
	for i := range begin {
		matches = append(matches, Match{i, i})
	}
	between, exact := shortestEdit(a[begin:len(a)-end], b[begin:len(b)-end], s)
	for _, m := range between {
		matches = append(matches, Match{begin + m.A, begin + m.B})
	}
	for i := range end {
		matches = append(matches, Match{len(a) - end + i, len(b) - end + i})
	}
	return matches, exact
}

// shortestEdit keeps for each number of edits how far each diagonal reaches, and
// walks back from the end.
func shortestEdit[T comparable](a, b []T, s *search) ([]Match, bool) {
	if len(a) == 0 || len(b) == 0 {
		return nil, true
	}
	most := min(len(a)+len(b), maxEdits)
	reach := make([]int, 2*most+2) // by diagonal, shifted by most
	var steps [][]int
	for d := 0; d <= most; d++ {
		steps = append(steps, append([]int(nil), reach[most-d:most+d+1]...))
		for k := -d; k <= d; k += 2 {
			x := 0
			switch {
			case d == 0:
			case k == -d || k != d && reach[most+k-1] < reach[most+k+1]:
				x = reach[most+k+1]
			default:
				x = reach[most+k-1] + 1
			}
			y := x - k
			from := x
			for x < len(a) && y < len(b) && a[x] == b[y] {
				x, y = x+1, y+1
			}
			reach[most+k] = x
			if s.left -= x - from + 1; s.left < 0 {
				return nil, false
			}
			if x >= len(a) && y >= len(b) {
				return walkBack(steps, x, y), true
			}
		}
	}
	return nil, false
}

// walkBack finds the way to the end: before each edit the furthest place of the
// diagonal that it came from, after it a run of equal places.
func walkBack(steps [][]int, x, y int) []Match {
	var matches []Match
	back := func(to int) {
		for x > to {
			x, y = x-1, y-1
			matches = append(matches, Match{x, y})
		}
	}
	for d := len(steps) - 1; d > 0; d-- {
		before := func(k int) int { return steps[d][k+d] } // as it was after d-1 edits
		k := x - y
		if k == -d || k != d && before(k-1) < before(k+1) {
			at := before(k + 1)
			back(at)
			x, y = at, at-k-1
		} else {
			at := before(k - 1)
			back(at + 1)
			x, y = at, at-k+1
		}
	}
	back(0)
	slices.Reverse(matches)
	return matches
}
