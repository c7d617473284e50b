package cassette

import (
	"sync"

	"tallystick/internal/digest"
)

// A Player answers requests from one cassette, those of the agent or those of
// the judge, and knows nothing of the others. Each recording answers once: of
// recordings with equal keys the first request gets the first. It is safe for
// concurrent use; equal requests at the same time get their recordings in the
// order in which they arrive.
type Player struct {
	cassette *Cassette
	own      []int // the interactions that it plays
	byKey    map[digest.ID][]int

	mu   sync.Mutex
	next map[digest.ID]int
	used []bool
}

// NewPlayer returns a player of the agent's calls at the beginning of c.
func NewPlayer(c *Cassette) *Player { return newPlayer(c, false) }

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
	if i, ok := p.take(r.Key); ok {
		return &p.cassette.Interactions[i], nil
	}
	return nil, p.miss(r)
}

func (p *Player) take(key digest.ID) (int, bool) {
	indexes := p.byKey[key]
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.next[key]
	if n >= len(indexes) {
		return 0, false
	}
	p.next[key] = n + 1
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
