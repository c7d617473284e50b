package similarity

import "math/bits"

// masks gives for each symbol of a sequence the bits of the places where it is.
func masks[T comparable](a []T) (map[T][]uint64, int) {
	blocks := (len(a) + 63) / 64
	m := make(map[T][]uint64)
	for i, x := range a {
		places := m[x]
		if places == nil {
			places = make([]uint64, blocks)
			m[x] = places
		}
		places[i/64] |= 1 << (i % 64)
	}
	return m, blocks
}

// commonLength is the length of the longest common subsequence, 64 places of a in
// one step (Hyyrö 2004): a zero in row says that the longest grew at that place.
func commonLength[T comparable](a, b []T) int {
	at, blocks := masks(a)
	row := make([]uint64, blocks)
	for i := range row {
		row[i] = ^uint64(0)
	}
	for _, x := range b {
		places := at[x]
		if places == nil {
			continue
		}
		carry := uint64(0)
		for i, r := range row {
			u := r & places[i]
			var sum uint64
			sum, carry = bits.Add64(r, u, carry)
			row[i] = sum | r&^places[i]
		}
	}
	n := 0
	for i, r := range row {
		zeros := ^r
		if rest := len(a) - 64*i; rest < 64 {
			zeros &= 1<<rest - 1
		}
		n += bits.OnesCount64(zeros)
	}
	return n
}

// Distance is Levenshtein's: the fewest insertions, deletions and replacements
// of one symbol that make b out of a (Myers 1999, in blocks of 64).
func Distance[T comparable](a, b []T) int {
	if len(a) == 0 {
		return len(b)
	}
	at, blocks := masks(a)
	none := make([]uint64, blocks)
	positive, negative := make([]uint64, blocks), make([]uint64, blocks)
	for i := range positive {
		positive[i] = ^uint64(0)
	}
	last := uint64(1) << ((len(a) - 1) % 64)
	d := len(a)
	for _, x := range b {
		places := at[x]
		if places == nil {
			places = none
		}
		// The row above the first place grows by one with every symbol of b.
		up, down := uint64(1), uint64(0)
		for i := range blocks {
			eq, pv, mv := places[i], positive[i], negative[i]
			xv := eq | mv
			eq |= down
			xh := ((eq & pv) + pv) ^ pv | eq
			ph, mh := mv|^(xh|pv), pv&xh
			top := uint64(1) << 63
			if i == blocks-1 {
				top = last
			}
			switch {
			case ph&top != 0 && i == blocks-1:
				d++
			case mh&top != 0 && i == blocks-1:
				d--
			}
			upOut, downOut := ph>>63, mh>>63
			ph, mh = ph<<1|up, mh<<1|down
			up, down = upOut, downOut
			positive[i], negative[i] = mh|^(xv|ph), ph&xv
		}
	}
	return d
}

// EditSimilarity is 1 minus the distance of two texts, letter by letter, over
// the length of the longer; of several, the best. Two empty texts are the same.
func EditSimilarity(answer string, right []string) float64 {
	got, best := []rune(answer), 0.0
	for _, r := range right {
		want := []rune(r)
		longer := max(len(got), len(want))
		if longer == 0 {
			return 1
		}
		best = max(best, 1-float64(Distance(got, want))/float64(longer))
	}
	return best
}
