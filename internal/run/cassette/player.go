package cassette

import (
	"sync"

	"tallystick/internal/record/digest"
)

// A Player answers requests from the part of a cassette that belongs to one
// party, and has nothing else. Each recording answers once: of
// recordings with equal keys the first request gets the first. It is safe for
// concurrent use; equal requests at the same time get their recordings in the
// order in which they arrive.
//
// With a [Matching], a request that no recording answers exactly is answered by
// the first unused one that is equal to it when both are normalised. So
// normalisers never change the answer to a request that has one without them.
type Player struct {
	own   *Part
	byKey map[digest.ID][]int

	mu       sync.Mutex
	next     map[digest.ID]int
	used     []bool
	matching *matching // nil if requests are compared as they are
}

// NewPlayer returns a player of the agent's calls at the beginning of c.
func NewPlayer(c *Cassette) *Player { return newPlayer(c.For(ForAgent)) }

// NewMatchingPlayer is NewPlayer with normalisers.
func NewMatchingPlayer(c *Cassette, m Matching) *Player {
	p := NewPlayer(c)
	p.matching = newMatching(m)
	return p
}

// NewJudgePlayer returns a player of the judge's calls at the beginning of c.
func NewJudgePlayer(c *Cassette) *Player { return newPlayer(c.For(ForJudge)) }

// NewUserPlayer returns a player of the simulated user's calls at the beginning of c.
func NewUserPlayer(c *Cassette) *Player { return newPlayer(c.For(ForUser)) }

func newPlayer(own *Part) *Player {
	p := &Player{
		own:   own,
		byKey: make(map[digest.ID][]int, len(own.interactions)),
		next:  map[digest.ID]int{},
		used:  make([]bool, len(own.interactions)),
	}
	for i := range own.interactions {
		key := own.interactions[i].Key
		p.byKey[key] = append(p.byKey[key], i)
	}
	return p
}

// Next returns the recording that answers r, or a [*Miss]. The recording is
// shared and must not be changed.
func (p *Player) Next(r Request) (*Interaction, error) {
	if i, ok := p.take(&r); ok {
		return &p.own.interactions[i], nil
	}
	return nil, p.miss(r)
}

// Has reports whether a recording, used or not, would answer r.
func (p *Player) Has(r Request) bool {
	if len(p.byKey[r.Key]) > 0 {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.matching
	if m == nil || r.it.Model == nil || len(m.All()) == 0 {
		return false
	}
	if m.byKey == nil {
		m.open(p)
	}
	return len(m.byKey[m.all.key(&r.it)]) > 0
}

func (p *Player) take(r *Request) (int, bool) {
	indexes := p.byKey[r.Key]
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.next[r.Key]
	for n < len(indexes) && p.used[indexes[n]] {
		n++ // a normalised request came first
	}
	p.next[r.Key] = n
	if n == len(indexes) {
		return p.takeNormalised(r)
	}
	p.used[indexes[n]] = true
	return indexes[n], true
}

// Unused lists the recordings that no request has asked for, in order. Any at
// the end of a case means that the agent went another way.
func (p *Player) Unused() []*Interaction {
	p.mu.Lock()
	defer p.mu.Unlock()
	var unused []*Interaction
	for i := range p.own.interactions {
		if !p.used[i] {
			unused = append(unused, &p.own.interactions[i])
		}
	}
	return unused
}
