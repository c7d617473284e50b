package ledger

import "slices"

// recentEntries is how many of the last entries a verification remembers by their
// hashes: more than are between two publications of a busy ledger.
const recentEntries = 1024

// keptRecent is how many of them a [Frontier] has: an anchor at the end of each run
// leaves one or two behind the published tree.
const keptRecent = 64

// A recent is the positions of the last entries, so that the tree can be extended from
// where its tiles were published without reading entries again.
type recent struct {
	ring []Position
	next int // where the oldest is, once the ring is full
}

func (r *recent) add(p Position) {
	if len(r.ring) < recentEntries {
		r.ring = append(r.ring, p)
		return
	}
	r.ring[r.next] = p
	r.next = (r.next + 1) % recentEntries
}

func (r recent) clone() recent { return recent{slices.Clone(r.ring), r.next} }

// before leaves out the entries from the index on: no seal covers them.
func (r recent) before(index int64) recent {
	sealed, _ := r.since(0, index)
	return recent{ring: sealed}
}

// since gives the positions of the entries from index from on, before the entry of the index
// to. It reports false if some of them are not remembered any more.
func (r recent) since(from, to int64) ([]Position, bool) {
	var out []Position
	for i := range r.ring {
		if p := r.ring[(r.next+i)%len(r.ring)]; p.Index >= from && p.Index < to {
			out = append(out, p)
		}
	}
	return out, int64(len(out)) == max(0, to-from)
}
