package cassette

import (
	"sync"

	"tallystick/internal/record/digest"
)

// A Player answers requests from one cassette, those of the agent or those of
// the judge, and knows nothing of the others. Each recording answers once: of
// recordings with equal keys the first request gets the first. It is safe for
// concurrent use; equal requests at the same time get their recordings in the
// order in which they arrive.
//
// With a [Matching], a request that no recording answers exactly is answered by
// the first unused one that is equal to it when both are normalised. So
// normalisers never change the answer to a request that has one without them.
type Player struct {
	cassette *Cassette
	own      []int // the interactions that it plays
	byKey    map[digest.ID][]int

	mu       sync.Mutex
	next     map[digest.ID]int
	used     []bool
	matching *matching // nil if requests are compared as they are
}

// NewPlayer returns a player of the agent's calls at the beginning of c.
func NewPlayer(c *Cassette) *Player { return newPlayer(c, false) }

// NewMatchingPlayer is NewPlayer with normalisers.
func NewMatchingPlayer(c *Cassette, m Matching) *Player {
	p := newPlayer(c, false)
	p.matching = newMatching(m)
	return p
}

// NewJudgePlayer returns a player of the judge's calls at the beginning of c.
func NewJudgePlayer(c *Cassette) *Player { return newPlayer(c, true) }

func newPlayer(c *Cassette, judges bool) *Player {
	p := &Player{
		cassette: c,
		byKey:    make(map[digest.ID][]int, len(c.Interactions)),
		next:     map[digest.ID]int{},
		used:     make([]bool, len(c.Interactions)),
	}
	for i, judged := range c.forJudge() {
		if judged != judges {
			continue
		}
		p.own = append(p.own, i)
		key := c.Interactions[i].Key
		p.byKey[key] = append(p.byKey[key], i)
	}
	return p
}

// Next returns the recording that answers r, or a [*Miss]. The recording is
// shared and must not be changed.
func (p *Player) Next(r Request) (*Interaction, error) {
	if i, ok := p.take(&r); ok {
		return &p.cassette.Interactions[i], nil
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
	for _, i := range p.own {
		if !p.used[i] {
			unused = append(unused, &p.cassette.Interactions[i])
		}
	}
	return unused
}
