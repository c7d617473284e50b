package lab

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/provider"
	"tallystick/internal/run/scenario"
)

// A cache is what a target was answered before in a class: its cassettes, and the
// recordings of its live attempts, which lie in the evidence. Nothing is copied
// anywhere: recordings are found by the verified ledger, and each is read from the
// evidence by the digest that its record names.
type cache struct {
	s       *Setup
	now     *provider.Settings // where models are asked
	replies *evidence.PlannedReplies
	earlier map[string][]*dossier.Case // that were run live before, by case, oldest first

	mu      sync.Mutex
	claimed map[claim]bool
}

// A claim says that a line of recordings answers one repetition of a case. It must
// not answer another: repetitions are there to be different samples.
type claim struct {
	caseID string
	line   digest.Content
}

func newCache(s *Setup, now *provider.Settings, replies *evidence.PlannedReplies) *cache {
	c := &cache{s: s, now: now, replies: replies, earlier: map[string][]*dossier.Case{}, claimed: map[claim]bool{}}
	if s.place.Reading == nil || replies.From != evidence.FromCache {
		return c
	}
	for _, a := range s.place.Reading.History.Attempts {
		if a.Mode != "live" || a.Class != s.Bench.Class() || a.Target != s.Target.Name || !a.Kept {
			continue
		}
		for record := range s.place.Reading.Dossier(a).Cases() {
			if record.Index >= 0 {
				c.earlier[record.ID] = append(c.earlier[record.ID], record)
			}
		}
	}
	return c
}

// check reads every recording once, before the attempt is registered: evidence that
// is not what its name says must not leave an attempt that cannot end.
func (c *cache) check() error {
	for _, id := range slices.Sorted(maps.Keys(c.earlier)) {
		for _, e := range c.earlier[id] {
			if _, err := recordingOf(e); err != nil {
				return fmt.Errorf("case %s: the recording of attempt %s: %w", id, e.Dossier().ID, err)
			}
		}
	}
	return nil
}

// A tape is one recording, as far as it can be used again.
type tape struct {
	digest  digest.Content
	attempt string // "" for a cassette of the class
	from    cassette.Provenance
	player  *cassette.Player
	judges  *cassette.Player
	users   *cassette.Player

	// elsewhere has the replies of other endpoints than those of now, which answer
	// nothing: a miss tells of them. Nil if there are none.
	elsewhere *cassette.Player
}

// A line is a recording and those that borrowed from it: they share replies, so
// together they are one sample. The newest comes last and has the most.
type line struct {
	first digest.Content
	tapes []*tape
}

// lines finds what a case was answered before. Recordings of the attempt under
// way are left out: its repetitions must not copy each other.
func (c *cache) lines(of *scenario.Task, attempt string) ([]*line, error) {
	var lines []*line
	byTape := map[digest.Content]*line{}
	add := func(data []byte, from *digest.Content, attempt string) error {
		t, err := c.tape(of, data, attempt)
		if t == nil || err != nil || byTape[t.digest] != nil {
			return err
		}
		first := t.digest
		if from != nil {
			first = *from
		}
		l := byTape[first]
		if l == nil {
			l = &line{first: first}
			lines = append(lines, l)
		}
		l.tapes = append(l.tapes, t)
		byTape[first], byTape[t.digest] = l, l
		return nil
	}
	if of.Cassette != nil {
		data, err := of.Cassette.Data()
		if err == nil {
			err = add(data, nil, "")
		}
		if err != nil {
			return nil, fmt.Errorf("case %s: its cassette: %w", of.ID, err)
		}
	}
	for _, e := range c.earlier[of.ID] {
		if e.Dossier().ID == attempt {
			continue
		}
		data, err := recordingOf(e)
		if err == nil && data != nil {
			var from *digest.Content
			if x := e.Cached; x != nil && x.Replies > 0 {
				from = &x.Recording
			}
			err = add(data, from, e.Dossier().ID)
		}
		if err != nil {
			return nil, fmt.Errorf("case %s: the recording of attempt %s: %w", of.ID, e.Dossier().ID, err)
		}
	}
	return lines, nil
}

// recordingOf reads the recording that a record names, nil if it is not at hand.
// Evidence that is there and is not what its name says is an error.
func recordingOf(c *dossier.Case) ([]byte, error) {
	files, err := c.Files()
	if err == nil && files.Recording != nil {
		var data []byte
		if data, err = c.Dossier().Reading().Piece(*files.Recording); err == nil {
			return data, nil
		}
	}
	if refusal.Is(err, refusal.NotFound) {
		return nil, nil
	}
	return nil, err
}

// tape reads a recording without what is not an answer: errors of a provider, and
// streams that broke off. It was recorded from a model if it says so and the ledger
// saw it recorded; what was not is not used as if it had been.
func (c *cache) tape(of *scenario.Task, data []byte, attempt string) (*tape, error) {
	parsed, err := cassette.Parse(data, cassette.Limits{})
	if err != nil {
		return nil, err
	}
	how := parsed.Header.Provenance
	if c.s.place.Recorded[cassette.Digest(data)] != string(cassette.Recorded) && how == cassette.Recorded {
		how = cassette.Edited
	}
	if c.replies.From == evidence.FromCache {
		if how != cassette.Recorded {
			return nil, nil
		}
		good := slices.DeleteFunc(slices.Clone(parsed.Interactions), func(it cassette.Interaction) bool { return it.Model != nil && !it.Model.Answered() })
		if parsed, err = cassette.New(parsed.Header.Provenance, parsed.Header.RecordedAt, parsed.Header.Redactions, good); err != nil {
			return nil, err
		}
	}
	if len(parsed.Interactions) == 0 {
		return nil, nil
	}
	here, gone, err := c.here(parsed, how)
	if err != nil {
		return nil, err
	}
	matching := harness.Matching(c.s.Bench, c.s.Target, of)
	t := &tape{digest: cassette.Digest(data), attempt: attempt, from: how, player: cassette.NewMatchingPlayer(here, matching), judges: cassette.NewJudgePlayer(here), users: cassette.NewUserPlayer(here)}
	if gone != nil {
		t.elsewhere = cassette.NewMatchingPlayer(gone, matching)
	}
	return t, nil
}

// here divides a recording into what the endpoints of now answered, and what others
// did; gone is nil if there is nothing of others.
func (c *cache) here(parsed *cassette.Cassette, how cassette.Provenance) (here, gone *cassette.Cassette, err error) {
	var kept, left []cassette.Interaction
	for _, it := range parsed.Interactions {
		if c.now.Elsewhere(&it, how) {
			left = append(left, it)
		} else {
			kept = append(kept, it)
		}
	}
	if left == nil {
		return parsed, nil, nil
	}
	h := parsed.Header
	if here, err = cassette.New(h.Provenance, h.RecordedAt, h.Redactions, kept); err == nil {
		gone, err = cassette.New(h.Provenance, h.RecordedAt, h.Redactions, left)
	}
	return here, gone, err
}

// A borrowing is the use of one line by one repetition of a case.
type borrowing struct {
	cache  *cache
	caseID string
	repeat int
	lines  []*line

	offline bool // no provider is asked in this pass, whatever the plan says

	mu    sync.Mutex
	begun bool
	line  *line // that the first request chose; nil if no line has it
	tape  *tape // that answered first
	told  bool  // that a reply of another endpoint was left aside
	cost  int64
}

func (c *cache) borrow(of *scenario.Task, j harness.Job) (*borrowing, error) {
	lines, err := c.lines(of, j.Attempt)
	return &borrowing{cache: c, caseID: of.ID, repeat: max(1, j.Repeat), lines: lines, offline: j.Offline}, err
}

// find answers a request from the line of this repetition. The first request
// chooses it: of the lines that have this request, repetition n takes the n-th.
// Everything else of the repetition comes from the same line or is paid for, so
// draws of several recordings never mix.
func (b *borrowing) find(r cassette.Request) (cassette.Borrowed, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.begun {
		b.begun, b.line = true, b.choose(r)
	}
	if t := b.line.with(r); t != nil {
		it, err := t.player.Next(r)
		if err == nil {
			b.used(t, it)
			return cassette.Borrowed{Answer: it, From: t.from}, nil
		}
		if !refusal.Is(err, refusal.CassetteMiss) {
			return cassette.Borrowed{}, err
		}
	}
	if b.cache.replies.OnMiss == evidence.OnMissLive && !b.offline {
		if why := b.elsewhere(r); why != "" && !b.told {
			b.told = true
			b.cache.s.place.Note("case %s: a recorded reply is not used: it %s", b.caseID, why)
		}
		return cassette.Borrowed{}, nil
	}
	return cassette.Borrowed{}, b.miss(r)
}

// elsewhere says of which endpoint a recorded answer to the request is, "" if there is
// none of another endpoint.
func (b *borrowing) elsewhere(r cassette.Request) string {
	for _, t := range slices.Backward(b.tapes()) {
		if t.elsewhere == nil {
			continue
		}
		if it, err := t.elsewhere.Next(r); err == nil {
			return b.cache.now.CameFrom(it)
		}
	}
	return ""
}

// findJudge answers the judge of a run that pays nothing, from the recording that
// answered the agent.
func (b *borrowing) findJudge(r cassette.Request) (cassette.Borrowed, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range slices.Backward(b.tapes()) {
		if t.judges.Has(r) {
			it, err := t.judges.Next(r)
			return cassette.Borrowed{Answer: it, From: t.from}, err
		}
	}
	return cassette.Borrowed{}, refusal.Newf(refusal.CassetteMiss, "the judge: %s: not recorded, and --on-miss fail asks no provider", r.Describe()).
		WithHint("give --live --cache and --max-cost to pay for what is missing")
}

// findUser answers the simulated user from the recordings that answer the agent, since
// the words of both belong together. What they miss is asked of a model, if this run may.
func (b *borrowing) findUser(r cassette.Request) (cassette.Borrowed, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range slices.Backward(b.tapes()) {
		if it, err := t.users.Next(r); err == nil {
			return cassette.Borrowed{Answer: it, From: t.from}, nil
		}
	}
	if b.cache.replies.OnMiss == evidence.OnMissLive && !b.offline {
		return cassette.Borrowed{}, nil
	}
	return cassette.Borrowed{}, refusal.Newf(refusal.CassetteMiss, "the simulated user: %s: not recorded, and --on-miss fail asks no provider", r.Describe()).
		WithHint("give --live --cache and --max-cost to pay for what is missing")
}

func (b *borrowing) used(t *tape, it *cassette.Interaction) {
	if b.tape == nil {
		b.tape = t
	}
	if it.Model != nil && it.Model.CostMicrodollars != nil {
		b.cost += *it.Model.CostMicrodollars
	}
}

// choose finds the line of this repetition; nil if there is none left. A replay
// gives every repetition the same cassette.
func (b *borrowing) choose(r cassette.Request) *line {
	left := b.repeat
	for _, l := range b.lines {
		if l.with(r) == nil {
			continue
		}
		if b.cache.replies.From == evidence.FromCassette {
			return l
		}
		if left--; left == 0 {
			return b.cache.take(claim{b.caseID, l.first}, l)
		}
	}
	return nil
}

// take gives a line to one repetition only. Two whose agents begin with different
// requests could choose the same.
func (c *cache) take(what claim, l *line) *line {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.claimed[what] {
		return nil
	}
	c.claimed[what] = true
	return l
}

// with is the newest recording of the line that has a request.
func (l *line) with(r cassette.Request) *tape {
	if l == nil {
		return nil
	}
	for _, t := range slices.Backward(l.tapes) {
		if t.player.Has(r) {
			return t
		}
	}
	return nil
}

// miss says which request has no answer, compared with the recording that
// is nearest to being asked.
func (b *borrowing) miss(r cassette.Request) error {
	if why := b.elsewhere(r); why != "" {
		return refusal.Newf(refusal.CassetteMiss, "%s: the recorded reply %s; --on-miss fail asks no provider", r.Describe(), why).
			WithHint("put base_url in %s back, or give --live --cache and --max-cost to pay for what is missing", provider.SettingsFile)
	}
	from := b.line
	if from == nil && len(b.lines) > 0 {
		from = b.lines[len(b.lines)-1]
	}
	if from == nil {
		return refusal.Newf(refusal.CassetteMiss, "%s: nothing is recorded of this case by target %s, and --on-miss fail asks no provider", r.Describe(), b.cache.s.Target.Name).
			WithHint("give --live --cache and --max-cost to pay for what is missing")
	}
	if b.line == nil && from.with(r) != nil {
		return refusal.Newf(refusal.CassetteMiss, "%s: repetition %d needs a recording of its own, and no recording is left; --on-miss fail asks no provider", r.Describe(), b.repeat).
			WithHint("give --live --cache and --max-cost to pay for what is missing")
	}
	_, err := from.tapes[len(from.tapes)-1].player.Next(r)
	return err
}

// tapes are all that this repetition may use, or could have chosen from.
func (b *borrowing) tapes() (all []*tape) {
	lines := b.lines
	if b.line != nil {
		lines = []*line{b.line}
	}
	for _, l := range lines {
		all = append(all, l.tapes...)
	}
	return all
}

// Normalised counts the replies that were found only by normalising.
func (b *borrowing) Normalised() (sum evidence.NormalisedCount) {
	for _, t := range b.tapes() {
		n := t.player.Normalised()
		sum.Class, sum.Target = sum.Class+n.Class, sum.Target+n.Target
	}
	return sum
}

// Suggest names normalisers with which one of the recordings would have answered.
func (b *borrowing) Suggest(r cassette.Request) []evidence.Normaliser {
	for _, t := range slices.Backward(b.tapes()) {
		if names := t.player.Suggest(r); names != nil {
			return names
		}
	}
	return nil
}

// A borrowingSide is the live side of a case that borrows.
type borrowingSide struct {
	liveSide
	*borrowing
}

// Cached says what was borrowed.
func (c borrowingSide) Cached() *evidence.Cached {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.Live.Stats()
	out := &evidence.Cached{Calls: s.Calls + s.Recalled + s.Replayed, CostMicroUSD: c.cost, Replies: s.Replayed}
	if c.tape != nil && s.Replayed > 0 {
		out.Attempt, out.Recording = c.tape.attempt, &c.tape.digest
	}
	return out
}
