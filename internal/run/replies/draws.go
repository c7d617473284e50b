package replies

import (
	"slices"
	"sync"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/run/cassette"
)

// Draws are the reply.drawn entries of a verified ledger. The zero value is that of a
// ledger without any. They are safe for concurrent use.
type Draws struct {
	mu      sync.Mutex
	all     []*evidence.ReplyDrawn
	byPlace map[place][]digest.Content
}

// A place is the name of a draw's file.
type place struct {
	key  digest.ID
	draw int64
}

// Note takes an entry. What a person claims by hand shows nothing.
func (d *Draws) Note(byHand bool, e *evidence.ReplyDrawn) {
	if byHand {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byPlace == nil {
		d.byPlace = map[place][]digest.Content{}
	}
	d.all = append(d.all, e)
	if at := (place{e.Key, e.Draw}); e.Kept { // of the others there is no file
		d.byPlace[at] = append(d.byPlace[at], e.Digest)
	}
}

// of lists the digests that the ledger has of a draw. There are several if its file was
// lost and the draw made again.
func (d *Draws) of(key digest.ID, draw int64) []digest.Content {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.byPlace[place{key, draw}])
}

// All lists the entries in the order of the ledger.
func (d *Draws) All() []*evidence.ReplyDrawn {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.all)
}

// A Tally is what the recordings of a class are made of, to count the draws behind them.
type Tally struct {
	class    string
	heldOut  map[string]bool
	cases    map[string]bool
	keys     map[digest.ID]bool
	contents map[digest.Content]bool
}

// NewTally begins a tally of a class. HeldOut are its cases that are held out.
func NewTally(class string, heldOut map[string]bool) *Tally {
	return &Tally{class, heldOut, map[string]bool{}, map[digest.ID]bool{}, map[digest.Content]bool{}}
}

// Add takes a recording of a case.
func (t *Tally) Add(id string, c *cassette.Cassette) error {
	t.cases[id] = true
	ordinals := map[string]int64{}
	for i := range c.Interactions {
		it := &c.Interactions[i]
		if it.Model == nil || it.Model.From == nil || !it.Model.Answered() {
			continue
		}
		party := cassette.ForAgent
		if it.Purpose == cassette.ForJudge || it.Purpose == cassette.ForUser {
			party = it.Purpose
		}
		same := string(party) + it.Key.String()
		r := Reply{Endpoint: it.Model.From.URL(), Model: it.Model, Ordinal: ordinals[same], Party: party, Scope: ScopeOf(t.class, id, t.heldOut)}
		ordinals[same]++
		key, err := r.Key()
		if err != nil {
			return err
		}
		content, err := Content(it.Model)
		if err != nil {
			return err
		}
		t.keys[key], t.contents[content] = true, true
	}
	return nil
}

// Count says how many draws stand behind the recordings, and how many of these are in
// none of them: thrown away. A draw counts if it was made for a recorded case, or asked
// the same under another name.
func (t *Tally) Count(d *Draws) (draws, thrownAway int) {
	for _, e := range d.All() {
		if !t.keys[e.Key] && !(e.Class == t.class && t.cases[e.CaseID]) {
			continue
		}
		if draws++; !t.contents[e.Reply] {
			thrownAway++
		}
	}
	return draws, thrownAway
}
