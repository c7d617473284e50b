package history

import (
	"hash/maphash"
	"iter"
	"slices"
	"strings"
)

// caseList keeps cases in chunks, so that a million of them are never copied
// to a larger place.
type caseList struct {
	chunks [][]Case
	n      int
}

const chunkCases = 1024

func (l *caseList) at(i int) *Case { return &l.chunks[i/chunkCases][i%chunkCases] }

func (l *caseList) add() *Case {
	if l.n%chunkCases == 0 && l.n/chunkCases == len(l.chunks) {
		size := chunkCases
		if l.n == 0 {
			size = 16 // most attempts are small
		}
		l.chunks = append(l.chunks, make([]Case, 0, size))
	}
	chunk := &l.chunks[l.n/chunkCases]
	*chunk = append(*chunk, Case{})
	l.n++
	return &(*chunk)[len(*chunk)-1]
}

// clone copies the list, so that a copy may differ in what stands beside a
// record.
func (l *caseList) clone() caseList {
	out := caseList{chunks: make([][]Case, len(l.chunks)), n: l.n}
	for i, chunk := range l.chunks {
		out.chunks[i] = slices.Clone(chunk)
	}
	return out
}

func (l *caseList) all() iter.Seq[*Case] {
	return func(yield func(*Case) bool) {
		for _, chunk := range l.chunks {
			for i := range chunk {
				if !yield(&chunk[i]) {
					return
				}
			}
		}
	}
}

// An Index finds places in a list by a hash. It has eight bytes for a place
// and room for as many again, a fifth of the memory of a map, and a million
// cases are most of what a scorecard holds. What is found by hash is compared
// in the list itself.
type Index struct {
	slots []uint64 // the upper half of a hash, and a place plus one; 0 is free
	n     int
}

// Grow makes room for so many places in all.
func (x *Index) Grow(n int) {
	size := max(16, len(x.slots))
	for size < 2*n {
		size *= 2
	}
	if size == len(x.slots) {
		return
	}
	old := x.slots
	x.slots = make([]uint64, size)
	for _, s := range old {
		if s != 0 {
			x.put(s)
		}
	}
}

func (x *Index) put(s uint64) {
	mask := uint64(len(x.slots) - 1)
	i := (s >> 32) & mask
	for x.slots[i] != 0 {
		i = (i + 1) & mask
	}
	x.slots[i] = s
}

// Add notes a place that is not there yet.
func (x *Index) Add(hash uint64, at uint32) {
	if x.n++; len(x.slots) < 2*x.n {
		x.Grow(2 * x.n)
	}
	x.put(hash>>32<<32 | uint64(at+1))
}

// Find returns the place of that hash of which same says that it is the one.
func (x *Index) Find(hash uint64, same func(at uint32) bool) (uint32, bool) {
	if x.n == 0 {
		return 0, false
	}
	mask := uint64(len(x.slots) - 1)
	for i := (hash >> 32) & mask; x.slots[i] != 0; i = (i + 1) & mask {
		if at := uint32(x.slots[i]) - 1; x.slots[i]>>32 == hash>>32 && same(at) {
			return at, true
		}
	}
	return 0, false
}

// slots find tasks by name.
type slots struct {
	seed maphash.Seed
	by   Index
}

func (x *slots) add(caseID string, repeat int32, at uint32) {
	if x.seed == (maphash.Seed{}) {
		x.seed = maphash.MakeSeed()
	}
	x.by.Add(maphash.String(x.seed, caseID)^spread(repeat), at)
}

// fill adds every case of a list.
func (x *slots) fill(l *caseList) {
	at := uint32(0)
	for c := range l.all() {
		x.add(c.ID, c.Repeat, at)
		at++
	}
}

// spread makes repetitions of one case differ where the index looks.
func spread(repeat int32) uint64 { return uint64(repeat) * 0x9e3779b97f4a7c15 }

func (x *slots) find(l *caseList, caseID []byte, repeat int32) (uint32, bool) {
	if x.by.n == 0 {
		return 0, false
	}
	return x.by.Find(maphash.Bytes(x.seed, caseID)^spread(repeat), func(at uint32) bool {
		c := l.at(int(at))
		return c.Repeat == repeat && c.ID == string(caseID)
	})
}

// A names keeps many short strings in few long ones: each by itself would take
// an allocation, rounded up.
type names struct{ b *strings.Builder }

func (n *names) keep(name []byte) string {
	if n.b == nil || n.b.Cap()-n.b.Len() < len(name) {
		n.b = &strings.Builder{}
		n.b.Grow(max(32<<10, len(name)))
	}
	from := n.b.Len()
	n.b.Write(name)
	return n.b.String()[from:]
}
