package cassette

import (
	"slices"
	"sync"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/run/wire"
)

// A Matching says which parts of a model call do not count when a recording is
// looked for. Its zero value counts everything. Cassettes keep what was sent;
// only the keys by which a player compares are made of normalised requests.
type Matching struct {
	Class  []evidence.Normaliser // that the class names
	Target []evidence.Normaliser // that the target names

	// Given are the texts of the case itself. A value that stands in them is part
	// of the question, and stays. It is called at most once.
	Given func() []string
}

// All lists the normalisers in force, each once.
func (m *Matching) All() []evidence.Normaliser {
	all := slices.Clone(m.Class)
	for _, n := range m.Target {
		if !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	return all
}

// A normaliser rewrites requests by some of the closed set.
type normaliser struct {
	is    map[evidence.Normaliser]bool
	given *given
}

func newNormaliser(names []evidence.Normaliser, g *given) *normaliser {
	n := &normaliser{is: map[evidence.Normaliser]bool{}, given: g}
	for _, name := range names {
		n.is[name] = true
	}
	return n
}

// key is the match key of an interaction by its normalised request. Calls of
// tools keep their own key: their arguments are the question itself.
func (n *normaliser) key(it *Interaction) digest.ID {
	if it.Model == nil {
		return it.Key
	}
	tree := wire.ParseCanonical(string(it.Model.Request))
	n.request(it.Model.API, &tree)
	return modelKey(it.Model.API, tree.AppendJSON(nil))
}

// request rewrites a canonical request, always in this order: the values in
// texts, then the order of parallel calls, which must not depend on these, then
// ids, which are numbered by that order. Applied to its own result it changes
// nothing.
func (n *normaliser) request(api wire.API, tree *wire.Node) {
	wire.VisitTexts(api, tree, func(t *wire.Node) {
		if n.is[evidence.NormaliseDates] {
			t.Text = n.given.withoutDates(t.Text)
		}
		if n.is[evidence.NormalisePaths] {
			t.Text = n.given.withoutPaths(t.Text)
		}
		if n.is[evidence.NormaliseWhitespace] {
			t.Text = n.given.withoutGaps(t.Text)
		}
	})
	ids := n.is[evidence.NormaliseIDs]
	if n.is[evidence.NormaliseParallel] {
		wire.SortParallel(api, tree, func(text string) string {
			if !ids {
				return text
			}
			return n.given.blankIDs(text)
		})
	}
	if ids {
		number := numberIDs()
		wire.VisitTexts(api, tree, func(t *wire.Node) { t.Text = n.given.withoutIDs(t.Text, number) })
	}
}

// A given is what the case itself says, taken apart once by the same rules as
// requests are, and more loosely: what might be a value of the case is one.
type given struct {
	days   map[day]bool
	clocks map[clock]bool
	ids    map[string]bool
	paths  map[string]bool
	gaps   map[gap]bool
}

func newGiven(texts []string) *given {
	g := &given{map[day]bool{}, map[clock]bool{}, map[string]bool{}, map[string]bool{}, map[gap]bool{}}
	for _, t := range texts {
		g.noteDates(t)
		g.noteIDs(t)
		g.notePaths(t)
		g.noteGaps(t)
	}
	return g
}

// matching is the part of a player that compares normalised requests. It is made
// when the first request has no recording that is exactly equal.
type matching struct {
	Matching
	given        func() *given
	all, byClass *normaliser

	byKey map[digest.ID][]int
	next  map[digest.ID]int
	count evidence.NormalisedCount
}

func newMatching(m Matching) *matching {
	out := &matching{Matching: m}
	out.given = sync.OnceValue(func() *given {
		if m.Given == nil {
			return newGiven(nil)
		}
		return newGiven(m.Given())
	})
	return out
}

// open computes the keys of the recordings.
func (m *matching) open(p *Player) {
	m.all, m.byClass = newNormaliser(m.All(), m.given()), newNormaliser(m.Class, m.given())
	m.byKey, m.next = p.keysBy(m.all), map[digest.ID]int{}
}

// keysBy groups the model calls of a player by their normalised requests.
func (p *Player) keysBy(n *normaliser) map[digest.ID][]int {
	byKey := map[digest.ID][]int{}
	for i := range p.own.interactions {
		if it := &p.own.interactions[i]; it.Model != nil {
			key := n.key(it)
			byKey[key] = append(byKey[key], i)
		}
	}
	return byKey
}

// takeNormalised finds the first unused recording that is equal
// to the request by the normalisers in force. The caller holds the lock.
func (p *Player) takeNormalised(r *Request) (int, bool) {
	m := p.matching
	if m == nil || r.it.Model == nil || len(m.All()) == 0 {
		return 0, false
	}
	if m.byKey == nil {
		m.open(p)
	}
	key := m.all.key(&r.it)
	indexes, n := m.byKey[key], m.next[key]
	for n < len(indexes) && p.used[indexes[n]] {
		n++
	}
	m.next[key] = n
	if n == len(indexes) {
		return 0, false
	}
	it := &p.own.interactions[indexes[n]]
	if len(m.Class) > 0 && m.byClass.key(&r.it) == m.byClass.key(it) {
		m.count.Class++
	} else {
		m.count.Target++
	}
	p.used[indexes[n]] = true
	return indexes[n], true
}

// Normalised counts the requests that were answered only because of normalisers.
func (p *Player) Normalised() evidence.NormalisedCount {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.matching == nil {
		return evidence.NormalisedCount{}
	}
	return p.matching.count
}

// Suggest names the normalisers, one or two beside those in force, with which an
// unused recording would have answered the request; nil if no two would do.
func (p *Player) Suggest(r Request) []evidence.Normaliser {
	if r.it.Model == nil {
		return nil
	}
	m := p.matching
	if m == nil {
		m = newMatching(Matching{})
	}
	var left []evidence.Normaliser
	for _, n := range evidence.Normalisers() {
		if !slices.Contains(m.All(), n) {
			left = append(left, n)
		}
	}
	var sets [][]evidence.Normaliser
	for _, a := range left {
		sets = append(sets, []evidence.Normaliser{a})
	}
	for i, a := range left {
		for _, b := range left[i+1:] {
			sets = append(sets, []evidence.Normaliser{a, b})
		}
	}
	for _, set := range sets {
		n := newNormaliser(append(m.All(), set...), m.given())
		for _, i := range p.keysBy(n)[n.key(&r.it)] {
			if p.isUnused(i) {
				return set
			}
		}
	}
	return nil
}

func (p *Player) isUnused(i int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.used[i]
}
