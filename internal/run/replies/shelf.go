package replies

import (
	"cmp"
	"slices"
	"sync"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/wire"
)

// A User is one execution of a case, which looks for replies and keeps those that it
// paid for.
type User struct {
	Class, Case, Target string
	Repeat              int // 0 and 1 for the first repetition, and for every one of a replay
	Scope               *Scope
	// At is the endpoint that would be asked now.
	At func(wire.API) (evidence.Endpoint, bool)

	Finds   bool // answers come from the library
	Pays    bool // a model is asked for what is not there
	Discard bool // draws are entered and their replies thrown away
}

// A Shelf is the library for one party of a [User]. It is safe for concurrent use. A nil
// Shelf has nothing and keeps nothing.
type Shelf struct {
	library *Library
	user    User
	party   cassette.Purpose

	mu       sync.Mutex
	taken    map[digest.ID][]bool // ordinals, by the key of the request
	from     map[evidence.ReusedFrom]int
	unlisted int
}

// Shelf is the library for a party. The party is the caller's own, and never read from
// what is asked.
func (l *Library) Shelf(u User, party cassette.Purpose) *Shelf {
	return &Shelf{library: l, user: u, party: party, taken: map[digest.ID][]bool{}, from: map[evidence.ReusedFrom]int{}}
}

// Ask begins a request. The caller ends it with [Asked.End].
func (s *Shelf) Ask(r cassette.Request) *Asked {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	used := s.taken[r.Key]
	n := slices.Index(used, false)
	if n < 0 {
		n = len(used)
		used = append(used, false)
	}
	used[n] = true
	s.taken[r.Key] = used
	return &Asked{shelf: s, request: r, ordinal: n}
}

// An Asked is one request of a party. A nil Asked finds and keeps nothing.
type Asked struct {
	shelf   *Shelf
	request cassette.Request
	ordinal int
	ended   func() // gives the key back, once it was taken
}

// reply is the request as the library names it, for the reply of an endpoint.
func (a *Asked) reply(m *cassette.ModelCall, endpoint string) *Reply {
	u := &a.shelf.user
	r := &Reply{Case: u.Case, Class: u.Class, Endpoint: endpoint, Format: Format, Model: m, Ordinal: int64(a.ordinal), Party: a.shelf.party, Scope: u.Scope, Target: u.Target}
	if u.Repeat > 1 {
		r.Repeat = u.Repeat
	}
	return r
}

// Find gives the first draw that answers the request; none if there is none.
func (a *Asked) Find() (cassette.Borrowed, error) {
	if a == nil || !a.shelf.user.Finds {
		return cassette.Borrowed{}, nil
	}
	call := a.request.Call()
	if call == nil {
		return cassette.Borrowed{}, nil
	}
	at, ok := a.shelf.user.At(call.API)
	if !ok {
		return cassette.Borrowed{}, nil
	}
	key, err := a.reply(call, at.URL()).Key()
	if err != nil {
		return cassette.Borrowed{}, err
	}
	found, listed, err := a.shelf.library.load(key, 1)
	if found == nil && err == nil && a.shelf.user.Pays && a.ended == nil {
		var waited bool
		if a.ended, waited = a.shelf.library.begin(key); waited {
			found, listed, err = a.shelf.library.load(key, 1)
		}
	}
	if found == nil || err != nil {
		return cassette.Borrowed{}, err
	}
	it, err := found.interaction()
	if err != nil {
		return cassette.Borrowed{}, refusal.Newf(refusal.ReplyInvalid, "%s: %w", File(key, 1), err).WithHint("%s", invalidHint)
	}
	a.shelf.used(found, listed)
	how := cassette.Recorded
	if !listed { // what this ledger did not see drawn does not become a recording
		how = cassette.Edited
	}
	return cassette.Borrowed{Answer: it, From: how}, nil
}

// Keep puts a reply away that was paid for, in the ledger and in the library. Again says
// that it was paid for by an earlier process, which may have kept it. Errors and
// streams that broke off are not answers and are not kept.
func (a *Asked) Keep(it *cassette.Interaction, again bool) error {
	if a == nil || a.shelf.library.append == nil || it.Model == nil || it.Model.From == nil || !it.Model.Answered() {
		return nil
	}
	r := a.reply(it.Model, it.Model.From.URL())
	r.LatencyMS = it.LatencyMS
	return a.shelf.library.keep(r, again, a.shelf.user.Discard)
}

// End says what answered the request, nil if nothing did. The number of a request that
// got no answer goes to the next equal one: an agent that tries again after an error is
// still waiting for its first answer.
func (a *Asked) End(it *cassette.Interaction) {
	if a == nil {
		return
	}
	if a.ended != nil {
		a.ended()
	}
	if it != nil && it.Model != nil && it.Model.Answered() {
		return
	}
	s := a.shelf
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken[a.request.Key][a.ordinal] = false
}

func (s *Shelf) used(r *Reply, listed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.from[evidence.ReusedFrom{Class: r.Class, Target: r.Target}]++
	if !listed {
		s.unlisted++
	}
}

// Reused says how many replies some shelves gave, nil if none.
func Reused(shelves ...*Shelf) *evidence.Reused {
	out, from := evidence.Reused{}, map[evidence.ReusedFrom]int{}
	for _, s := range shelves {
		if s == nil {
			continue
		}
		s.mu.Lock()
		out.Unlisted += s.unlisted
		for whom, n := range s.from {
			from[whom] += n
			out.Replies += n
		}
		s.mu.Unlock()
	}
	if out.Replies == 0 {
		return nil
	}
	for whom, n := range from {
		whom.Replies = n
		out.From = append(out.From, whom)
	}
	slices.SortFunc(out.From, func(a, b evidence.ReusedFrom) int {
		return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Target, b.Target))
	})
	return &out
}
