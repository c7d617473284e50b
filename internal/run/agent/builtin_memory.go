package agent

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"unicode"

	"tallystick/internal/record/canon"
	"tallystick/internal/run/trajectory"
)

// An entry is one thing that the agent remembers.
type entry struct {
	id         string
	tier       trajectory.Tier
	key, value string
	source     string  // case, agent:NAME or tool:NAME
	untrusted  bool    // the source is a tool whose results come from outside
	confidence float64 // 0 to 1
	owner      int     // of working memory, the task that it belongs to

	gone  bool // superseded
	line  string
	bytes int // of the line, in JSON
	terms map[string]bool
	inKey map[string]bool
}

// A memory is what the agent knows in one case: facts (semantic), what happened
// (episodic), rules of conduct (procedural) and notes on the task at hand
// (working). An entry that was superseded is gone: nothing gives it again.
// Working memory is shown whole to the task that it belongs to, and to no other;
// the counts and the search leave it out.
type memory struct {
	entries []*entry // in the order of writing
	byID    map[string]*entry
	found   map[string][]int // by term, the entries that have it
	live    map[string]int   // by term, how many of those are not gone
	alive   int              // all that are not gone
}

func newMemory() *memory {
	return &memory{byID: map[string]*entry{}, found: map[string][]int{}, live: map[string]int{}}
}

// A proposal is a write that the model asks for.
type proposal struct {
	tier       trajectory.Tier
	key, value string
	confidence float64
	supersedes string
	source     string
	untrusted  bool
	owner      int
	handedOff  bool // by an agent that another one called
	approved   bool // a person approved this very write
}

// A ruling is what the rules of memory say about a proposal. At most one of the
// first two is set; with neither, the write may be proposed to the policy.
type ruling struct {
	same     *entry // known already: nothing to write
	conflict string // why it is not written
	replaces string // the entry that it supersedes
}

// review applies the rules for duplicates, conflicts and superseding
// (recency, confidence, source). Nothing is ever overwritten quietly:
//
//   - the same tier, key and value again is not a write;
//   - of semantic and procedural memory a key has one live entry, and another
//     value for it must name the entry that it supersedes;
//   - working memory is the agent's own scratch pad: the last value counts;
//   - episodic memory is a list of what happened, and keys may repeat;
//   - what supersedes must stand at least as high as what it supersedes, where
//     standing is confidence times the weight of the source, doubled for being
//     the newer one.
func (m *memory) review(p *proposal) ruling {
	var old *entry
	for i := len(m.entries) - 1; i >= 0; i-- {
		e := m.entries[i]
		if e.gone || e.tier != p.tier || e.key != p.key || e.owner != p.owner {
			continue
		}
		if e.value == p.value {
			return ruling{same: e}
		}
		if p.tier != trajectory.Episodic && old == nil {
			old = e
		}
	}
	if p.supersedes == "" {
		switch {
		case old == nil:
			return ruling{}
		case p.tier == trajectory.Working:
			return ruling{replaces: old.id}
		}
		return ruling{conflict: fmt.Sprintf("%s memory has another value for %s: entry %s says %q; to replace it, write again with supersedes: %s",
			p.tier, p.key, old.id, clip(old.value, 200), old.id)}
	}
	replaced := m.byID[p.supersedes]
	switch {
	case replaced == nil:
		return ruling{conflict: fmt.Sprintf("there is no entry %q to supersede", clip(p.supersedes, 80))}
	case replaced.gone:
		return ruling{conflict: fmt.Sprintf("entry %s was superseded before", replaced.id)}
	case replaced.tier != p.tier:
		return ruling{conflict: fmt.Sprintf("entry %s is in %s memory, and the write is for %s memory", replaced.id, replaced.tier, p.tier)}
	case replaced.owner != p.owner:
		return ruling{conflict: fmt.Sprintf("entry %s is a note of another task", replaced.id)}
	case old != nil && old != replaced:
		return ruling{conflict: fmt.Sprintf("entry %s has another value for %s and is not the one that is superseded", old.id, p.key)}
	case !p.approved && 2*p.confidence*p.weight() < replaced.confidence*replaced.weight():
		return ruling{conflict: fmt.Sprintf("entry %s stands higher: confidence %v from %s, against %v from %s",
			replaced.id, replaced.confidence, replaced.source, p.confidence, p.source)}
	}
	return ruling{replaces: replaced.id}
}

// The weights of sources: the case and the agent itself, an agent that another
// one called, and text from outside.
const (
	ownWeight       = 1.0
	handedOffWeight = 0.75
	untrustedWeight = 0.5
)

func (p *proposal) weight() float64 { return weight(p.untrusted, p.handedOff) }

func (e *entry) weight() float64 {
	return weight(e.untrusted, strings.HasPrefix(e.source, agentSource) && e.source != agentSource+mainAgent)
}

func weight(untrusted, handedOff bool) float64 {
	switch {
	case untrusted:
		return untrustedWeight
	case handedOff:
		return handedOffWeight
	}
	return ownWeight
}

// add keeps an entry that was written, in place of the one that it supersedes.
func (m *memory) add(e *entry, replaces string) {
	if old := m.byID[replaces]; old != nil {
		m.forget(old)
	}
	label := ""
	if e.untrusted {
		label = "(from untrusted " + e.source + ") "
	}
	e.line = "- [" + e.id + "] " + label + indent(e.key) + ": " + indent(shorten(e.value, maxValueShown)) + "\n"
	e.bytes = len(canon.AppendString(nil, e.line)) - 2
	m.entries = append(m.entries, e)
	m.byID[e.id] = e
	if e.tier == trajectory.Working {
		return
	}
	m.alive++
	e.inKey = termsOf(e.key)
	e.terms = termsOf(e.value)
	for t := range e.inKey {
		e.terms[t] = true
	}
	for t := range e.terms { // the order does not matter: each has its own list
		m.found[t] = append(m.found[t], len(m.entries)-1)
		m.live[t]++
	}
}

// indent keeps the lines of a text from looking like lines of the list.
func indent(s string) string { return strings.ReplaceAll(s, "\n", "\n  ") }

func (m *memory) forget(e *entry) {
	e.gone = true
	if e.tier == trajectory.Working {
		return
	}
	m.alive--
	for t := range e.terms {
		m.live[t]--
	}
}

// of lists the live entries of a tier, oldest first.
func (m *memory) of(tier trajectory.Tier, owner int) []*entry {
	var list []*entry
	for _, e := range m.entries {
		if !e.gone && e.tier == tier && e.owner == owner {
			list = append(list, e)
		}
	}
	return list
}

// search ranks the live entries of the tiers by the words that they share with
// the query. A word counts 1 + floor(log2(live entries / live entries that have
// it)), and twice in a key, so that rare words count more; all in whole
// numbers. Equals are ordered by confidence, then the newest first. Entries
// that share no word are left out.
func (m *memory) search(query string, limit int, tiers ...trajectory.Tier) []*entry {
	score := map[int]int{}
	for term := range termsOf(query) { // sums: the order does not matter
		live := m.live[term]
		if live == 0 {
			continue
		}
		points := bits.Len(uint(m.alive / live))
		for _, i := range m.found[term] {
			e := m.entries[i]
			if e.gone || !slices.Contains(tiers, e.tier) {
				continue
			}
			if score[i] += points; e.inKey[term] {
				score[i] += points
			}
		}
	}
	ranked := make([]int, 0, len(score))
	for i := range score {
		ranked = append(ranked, i)
	}
	slices.SortFunc(ranked, func(a, b int) int {
		return cmp.Or(cmp.Compare(score[b], score[a]), cmp.Compare(m.entries[b].confidence, m.entries[a].confidence), cmp.Compare(b, a))
	})
	list := make([]*entry, 0, min(limit, len(ranked)))
	for _, i := range ranked[:min(limit, len(ranked))] {
		list = append(list, m.entries[i])
	}
	return list
}

// recall is what a turn begins with: what the search finds in semantic and
// episodic memory and, if that leaves room, the newest facts besides, because
// people ask for a fact in other words than it was told in.
func (m *memory) recall(query string, limit int) []*entry {
	list := m.search(query, limit, trajectory.Semantic, trajectory.Episodic)
	for i := len(m.entries) - 1; i >= 0 && len(list) < limit; i-- {
		if e := m.entries[i]; !e.gone && e.tier == trajectory.Semantic && !slices.Contains(list, e) {
			list = append(list, e)
		}
	}
	return list
}

// termsOf gives the words of a text: runs of letters and digits, in lower case.
func termsOf(text string) map[string]bool {
	terms := map[string]bool{}
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		terms[strings.ToLower(word)] = true
	}
	return terms
}
