package history

import (
	"hash/maphash"
	"iter"
	"slices"
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

// slots find tasks by name, in a third of the memory of a map by name: the map
// has hashes only, and the name is compared with that in the list.
type slots struct {
	seed maphash.Seed
	by   map[uint64]uint32
	rest map[slot]uint32 // those whose hash another one has
}

func (x *slots) hash(caseID string, repeat int32) uint64 {
	return maphash.String(x.seed, caseID) ^ uint64(repeat)*0x9e3779b97f4a7c15
}

func (x *slots) add(caseID string, repeat int32, at uint32) {
	if x.by == nil {
		*x = slots{seed: maphash.MakeSeed(), by: make(map[uint64]uint32)}
	}
	h := x.hash(caseID, repeat)
	if _, taken := x.by[h]; !taken {
		x.by[h] = at
		return
	}
	if x.rest == nil {
		x.rest = make(map[slot]uint32)
	}
	x.rest[slot{caseID, repeat}] = at
}

// fill adds every case of a list.
func (x *slots) fill(l *caseList) {
	at := uint32(0)
	for c := range l.all() {
		x.add(c.ID, c.Repeat, at)
		at++
	}
}

func (x *slots) find(l *caseList, caseID []byte, repeat int32) (uint32, bool) {
	if x.by == nil {
		return 0, false
	}
	at, ok := x.by[maphash.Bytes(x.seed, caseID)^uint64(repeat)*0x9e3779b97f4a7c15]
	if !ok {
		return 0, false
	}
	if c := l.at(int(at)); c.Repeat == repeat && c.ID == string(caseID) {
		return at, true
	}
	at, ok = x.rest[slot{string(caseID), repeat}]
	return at, ok
}

// slot is a repetition of a case.
type slot struct {
	id     string
	repeat int32
}
