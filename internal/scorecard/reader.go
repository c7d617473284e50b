package scorecard

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/ledger"
	"tallystick/internal/refusal"
	"tallystick/internal/seal"
)

// Read walks a ledger while verify verifies it, and returns what it says about
// attempts. Verify is a call of [ledger.Verify] that passes the visit on; it
// need not ask for Decode, which is slower: records are decoded strictly here.
//
// Read refuses a walk that did not see every entry of the ledger it verified.
func Read(verify func(visit func(ledger.Record) error) (*ledger.Verified, error), o Options) (*History, error) {
	r := &reader{
		opt:     o,
		history: &History{byID: make(map[string]*Attempt)},
		scan:    newScanner(),
		plans:   make(map[digest.Content]int),
		numbers: make(map[[2]string]int),
		draws:   make(map[[2]string]int),
	}
	relay := newRelay(r.visit)
	v, err := verify(relay.add)
	if cerr := relay.close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, err
	}
	if v == nil || v.Size != r.seen {
		return nil, errors.New("reading the history: the entries seen are not those of the verified ledger")
	}
	if o.Cosigned != nil {
		if r.cosigned, err = o.Cosigned(v); err != nil {
			return nil, err
		}
	}
	h := r.history
	h.Origin, h.Entries, h.Head, h.Time = v.Origin, v.Size, v.Head, v.LastTime
	if o.Until > 0 {
		if o.Until > v.Size {
			return nil, refusal.Newf(refusal.NotFound, "reading the history of %d entries: the ledger has %d", o.Until, v.Size)
		}
		h.Entries, h.Head, h.Time = o.Until, r.lastHead, r.lastTime
	}
	if h.Time.IsZero() {
		h.Time = r.lastTime
	}
	for _, a := range h.Attempts {
		if err := r.finish(a); err != nil {
			return nil, err
		}
	}
	r.amend()
	return h, nil
}

// reader gathers a History.
type reader struct {
	opt        Options
	history    *History
	scan       *scanner
	seen       int64
	lastTime   evidence.Time
	lastHead   digest.ID
	signers    *seal.Signers
	cosigned   []Cosigned
	amendments []amendment
	numbers    map[[2]string]int // attempts so far by class and target
	plans      map[digest.Content]int
	draws      map[[2]string]int // verdicts so far by case and question
	digests    []digest.Content  // the free rest of the last chunk
	lastOne    *digest.Content   // see storeOne
	last       *Attempt          // whose record was read last
}

type amendment struct {
	index int64
	evidence.ScoreAmended
}

func (r *reader) visit(rec ledger.Record) error {
	r.seen++
	if r.opt.Until > 0 && rec.Index >= r.opt.Until {
		return nil
	}
	r.lastTime, r.lastHead = rec.Envelope.Time, rec.Head
	if rec.Envelope.Manual {
		r.history.Manual++
		return nil
	}
	var err error
	switch rec.Envelope.Kind {
	case evidence.CaseStartedKind:
		err = r.started(rec)
	case evidence.CaseScoredKind:
		err = r.scored(rec)
	default:
		if rec.Envelope.Kind.InHistory() {
			err = r.other(rec)
		}
	}
	if err != nil {
		return &ledger.Problem{Index: rec.Index, Kind: "entry", Detail: err.Error(), Name: refusal.EntryInvalid}
	}
	return nil
}

// body decodes a record strictly, unless the walk has done so.
func body(rec ledger.Record) (evidence.Body, error) {
	if rec.Body != nil {
		return rec.Body, nil
	}
	return evidence.DecodeBody(rec.Envelope.Kind, rec.Envelope.Body)
}

// other reads the kinds of which there are few.
func (r *reader) other(rec ledger.Record) error {
	b, err := body(rec)
	if err != nil {
		return err
	}
	h, at := r.history, rec.Envelope.Time
	switch b := b.(type) {
	case *evidence.Opened:
		r.history.Origin = b.Origin
		r.signers, err = seal.ParseSigners("signers", []byte(b.Signers))
	case *evidence.SignersChanged:
		r.signers, err = seal.ParseSigners("signers", []byte(b.Signers))
	case *evidence.AttemptRegistered:
		return r.registered(rec, b)
	case *evidence.AttemptFinished:
		if a := h.byID[b.Attempt]; a == nil {
			h.Orphans++
		} else if a.Finished != nil {
			a.fault("finished twice", rec.Index, "the attempt was finished before")
		} else {
			a.Finished = &Finished{rec.Index, at, *b}
		}
	case *evidence.AttemptReproduced:
		return r.reproduced(rec, b)
	case *evidence.ScoreAmended:
		r.amendments = append(r.amendments, amendment{rec.Index, *b})
	case *evidence.AnchorPublished:
		h.Anchors = append(h.Anchors, Anchor{rec.Index, at, *b})
	case *evidence.IntegrityEvent:
		h.Events = append(h.Events, Event{rec.Index, at, *b})
	case *evidence.JudgeDrawn:
		r.drawn(rec.Index, b)
	case *evidence.CasePending:
		h.Pending = append(h.Pending, Pending{rec.Index, at, *b})
	default:
		return fmt.Errorf("records of kind %s are part of a history, and nothing here reads them", rec.Envelope.Kind)
	}
	return err
}

// drawn counts a verdict. The number that an entry claims is held against the
// entries before it.
func (r *reader) drawn(index int64, b *evidence.JudgeDrawn) {
	question := [2]string{b.CaseID, b.Key}
	r.draws[question]++
	a := r.history.byID[b.Attempt]
	if a == nil {
		r.history.Orphans++
		return
	}
	a.Draws++
	n := r.draws[question]
	if n > 1 {
		a.Redraws++
	}
	if b.Draw != n {
		a.fault("numbered wrongly", index, "case %s: draw %d of a verdict is numbered %d", b.CaseID, n, b.Draw)
	}
}

func (r *reader) registered(rec ledger.Record, b *evidence.AttemptRegistered) error {
	h := r.history
	if a := h.byID[b.Attempt]; a != nil {
		a.fault("registered twice", rec.Index, "another attempt is registered under the same id")
		h.Orphans++
		return nil
	}
	a := &Attempt{
		ID: b.Attempt, Index: rec.Index, Time: rec.Envelope.Time, Class: b.Class, Target: b.Target, Number: b.Number, Mode: b.Mode,
		Origin: b.Origin, Scratch: b.Scratch, Plan: b.Plan, Operator: b.Operator, FirstStarted: -1,
		faults: make(map[string]int),
	}
	var err error
	if a.PlanID, err = planID(&b.Plan); err != nil {
		return err
	}
	kind := [2]string{b.Class, b.Target}
	r.numbers[kind]++
	a.Ordinal = r.numbers[kind]
	r.plans[a.PlanID]++
	a.PlanOrdinal = r.plans[a.PlanID]
	if a.Number != a.Ordinal {
		a.fault("numbered wrongly", rec.Index, "registered as number %d, it is number %d of its class and target", a.Number, a.Ordinal)
	}
	if a.Origin != h.Origin {
		a.fault("of another ledger", rec.Index, "registered for the ledger %s, this is %s", a.Origin, h.Origin)
	}
	r.checkSignature(a, rec, b)
	if a.Kept = r.opt.Want == nil || r.opt.Want(a); a.Kept {
		r.plan(a)
	}
	h.byID[a.ID] = a
	h.Attempts = append(h.Attempts, a)
	return nil
}

// attempt finds whose record it is, or counts an orphan.
func (r *reader) attempt(id []byte) *Attempt {
	if r.last != nil && r.last.ID == string(id) {
		return r.last
	}
	a := r.history.byID[string(id)]
	if a == nil {
		r.history.Orphans++
		return nil
	}
	r.last = a
	return a
}

func (r *reader) started(rec ledger.Record) error {
	s, err := r.scan.started(rec)
	if err != nil {
		return err
	}
	a := r.attempt(s.attempt)
	if a == nil {
		return nil
	}
	a.Executions++
	if a.FirstStarted < 0 {
		a.FirstStarted = rec.Index
	}
	if !a.Kept {
		return nil
	}
	if a.Finished != nil {
		a.fault("started late", rec.Index, "case %s was started after the attempt had finished", s.caseID)
	}
	c := a.task(s.caseID, s.repeat)
	if c == nil {
		a.fault("not planned", rec.Index, "case %s, repetition %d, was started and is not in the plan", s.caseID, s.repeat)
		a.stray++
		return nil
	}
	c.Started++
	if s.execution != c.Started {
		a.fault("numbered wrongly", rec.Index, "case %s: execution %d is numbered %d", s.caseID, c.Started, s.execution)
	}
	return nil
}

func (r *reader) scored(rec ledger.Record) error {
	id, ok := r.scan.attemptOf(rec)
	if !ok {
		return r.scoredSlowly(rec)
	}
	a := r.attempt(id)
	if a == nil {
		return nil
	}
	if !a.Kept {
		a.count(r.scan.saysPassed(rec.Envelope.Body))
		return nil
	}
	s, err := r.scan.scored(rec)
	if err != nil {
		return err
	}
	r.keep(a, rec.Index, s)
	return nil
}

// scoredSlowly is for a record whose attempt cannot be read off its beginning.
func (r *reader) scoredSlowly(rec ledger.Record) error {
	s, err := r.scan.scored(rec)
	if err != nil {
		return err
	}
	a := r.attempt(s.attempt)
	switch {
	case a == nil:
	case !a.Kept:
		a.count(s.outcome == passed)
	default:
		r.keep(a, rec.Index, s)
	}
	return nil
}

func (a *Attempt) count(pass bool) {
	a.Records++
	if pass {
		a.Passed++
	}
}

// keep puts a record into its place, unless something is wrong with it. What
// does not count is as good as not there: the case it claims was not run.
func (r *reader) keep(a *Attempt, index int64, s *scoredFields) {
	a.count(s.outcome == passed)
	exclude := func(kind, format string, args ...any) {
		a.Excluded++
		a.fault(kind, index, format, args...)
	}
	c := a.find(s.caseID, s.repeat)
	switch {
	case a.Finished != nil:
		exclude("scored late", "case %s was scored after the attempt had finished", s.caseID)
		return
	case string(s.class) != a.Class:
		exclude("of another class", "case %s is of the class %s", s.caseID, s.class)
		return
	case c == nil && a.Listed:
		exclude("not planned", "case %s, repetition %d, is not in the plan", s.caseID, s.repeat)
		a.stray = max(0, a.stray-1)
		return
	case c == nil || s.execution > c.Started:
		exclude("never started", "case %s, repetition %d, execution %d has a record and was never started", s.caseID, s.repeat, s.execution)
		return
	}
	c.Scored++
	if c.Scored > 1 {
		exclude("scored twice", "case %s, repetition %d, has a record already", s.caseID, s.repeat)
		return
	}
	if reason := c.departs(s, a.Listed); reason != "" {
		exclude("not as planned", "case %s: %s", c.ID, reason)
		return
	}
	r.fill(c, index, s)
}

func (r *reader) fill(c *Case, index int64, s *scoredFields) {
	c.Index, c.Digest, c.Context, c.recorded = index, s.caseDigest, s.context, s.outcome
	c.Score, c.Tokens, c.CostMicro = s.score, s.tokens, s.cost
	c.StartedMS, c.LatencyMS = s.startedMS, s.finishedMS-s.startedMS
	c.Execution, c.Retries, c.Turns = s.execution, small(s.retries), small(s.turns)
	c.Violations, c.Rollbacks, c.RollbacksVerified = small(s.violations), small(s.rollbacks), small(s.rollbacksVerified)
	c.tags, c.modes = s.tags, s.modes
	switch {
	case !s.hasCassette:
		c.Cassette = nil
	case c.Cassette == nil || *c.Cassette != s.cassette: // else it is the planned one
		c.Cassette = r.storeOne(s.cassette)
	}
	c.Evidence = r.store(s.evidence)
}

// store copies digests into chunks: a million small slices of their own would
// cost as much again in headers and padding.
func (r *reader) store(ds []digest.Content) []digest.Content {
	if len(ds) == 0 {
		return nil
	}
	if len(r.digests) < len(ds) {
		r.digests = make([]digest.Content, max(1024, len(ds)))
	}
	kept := r.digests[:len(ds):len(ds)]
	copy(kept, ds)
	r.digests = r.digests[len(ds):]
	return kept
}

// storeOne is store for one digest. Those that come in a row and are the same
// are stored once.
func (r *reader) storeOne(d digest.Content) *digest.Content {
	if r.lastOne == nil || *r.lastOne != d {
		r.lastOne = &r.store([]digest.Content{d})[0]
	}
	return r.lastOne
}

// small cuts a count to what a Case holds. No real count comes near.
func small(n int64) int32 { return int32(min(n, math.MaxInt32)) }

// task returns a repetition of a case, or nil if it is not planned. Where the
// plan is not at hand everything within the number of repetitions may be.
func (a *Attempt) task(caseID []byte, repeat int32) *Case {
	if c := a.find(caseID, repeat); c != nil || a.Listed || int(repeat) > a.Plan.Repeat {
		return c
	}
	return a.add(string(caseID), repeat)
}

func (a *Attempt) find(caseID []byte, repeat int32) *Case {
	if at, ok := a.slots.find(&a.cases, caseID, repeat); ok {
		return a.cases.at(int(at))
	}
	return nil
}

// add makes a task that is not there yet.
func (a *Attempt) add(caseID string, repeat int32) *Case {
	c := a.cases.add()
	*c = Case{ID: caseID, Repeat: repeat, Index: -1}
	a.slots.add(caseID, repeat, uint32(a.cases.n-1))
	return c
}

// maxProblems bounds how many kinds of problems an attempt tells.
const maxProblems = 50

// fault notes that something is wrong, once for each kind.
func (a *Attempt) fault(kind string, index int64, format string, args ...any) {
	a.faults[kind]++
	if a.faults[kind] == 1 && len(a.Problems) < maxProblems {
		a.Problems = append(a.Problems, fmt.Sprintf("%s: entry %d: %s", kind, index, fmt.Sprintf(format, args...)))
	}
}

// Faults counts what is wrong with the attempt's records, by kind.
func (a *Attempt) Faults() map[string]int { return a.faults }

// finish puts the plan and the records together.
func (r *reader) finish(a *Attempt) error {
	a.Siblings = r.numbers[[2]string{a.Class, a.Target}]
	a.PlanSiblings = r.plans[a.PlanID]
	r.setLevel(a)
	if !a.Kept {
		a.Abandoned = max(0, a.Executions-a.Records)
		return nil
	}
	if !a.Listed {
		if a.unlisted = tasks(&a.Plan) - a.cases.n; a.unlisted < 0 {
			a.fault("not planned", a.Index, "%d repetitions were started, %d were planned", a.cases.n, tasks(&a.Plan))
			a.unlisted = 0
		}
	}
	a.Abandoned = a.stray
	for c := range a.cases.all() {
		a.Abandoned += int(max(0, c.Started-c.Scored))
		if c.Index < 0 {
			c.Cassette = nil // it was planned, and nothing replayed it
		}
	}
	a.slots = slots{}
	return nil
}

// maxTasks bounds a plan whose every repetition is kept by name, so that a
// record cannot ask for memory without end.
const maxTasks = 20_000_000

// tasks is how many repetitions of cases a plan promises.
func tasks(p *evidence.Plan) int {
	if p.Repeat > math.MaxInt32 || p.CaseCount > math.MaxInt32/p.Repeat {
		return math.MaxInt32
	}
	return p.CaseCount * p.Repeat
}

// plan makes the tasks of an attempt when it is registered, so that the list
// is out of memory again before the records come. If the list is not at hand,
// tasks are made as they are started.
func (r *reader) plan(a *Attempt) {
	if err := r.addPlanned(a); err != nil {
		a.fault("case list", a.Index, "%v", err)
	}
}

func (r *reader) addPlanned(a *Attempt) error {
	if n := tasks(&a.Plan); n > maxTasks {
		return fmt.Errorf("the plan has %d repetitions of cases, more than %d", n, maxTasks)
	}
	each, n := walkPlanned(a.Plan.Cases), len(a.Plan.Cases)
	if d := a.Plan.CasesDigest; d != nil {
		var err error
		if each, err = r.caseList(a, *d); err != nil {
			return fmt.Errorf("the case list %s: %w", d, err)
		}
		n = a.Plan.CaseCount // so many are in the list
	}
	a.slots.by.grow(n * a.Plan.Repeat)
	var cassettes []digest.Content
	var ids names
	each(func(p *planned) {
		id := ids.keep(p.id)
		var tape *digest.Content
		if p.cassette != nil {
			tape = r.storeOne(*p.cassette)
			cassettes = append(cassettes, *p.cassette)
		}
		for repeat := 1; repeat <= a.Plan.Repeat; repeat++ {
			c := a.add(id, int32(repeat))
			c.Digest, c.Cassette = p.digest, tape
		}
	})
	a.Listed = true
	var err error
	a.cassettes, err = digestOfList(cassettes)
	return err
}

// caseList returns a walk over a case list in the evidence that has as many
// cases as planned, none twice: a case listed twice would stand for one that is
// not there.
func (r *reader) caseList(a *Attempt, d digest.Content) (each func(see func(*planned)), err error) {
	if r.opt.CaseList == nil {
		return nil, errors.New("not at hand")
	}
	data, err := r.opt.CaseList(d)
	if err != nil {
		return nil, err
	}
	each, hashes, err := eachPlanned(data)
	if err != nil {
		return nil, err
	}
	if n := len(hashes); n != a.Plan.CaseCount {
		return nil, fmt.Errorf("has %d cases, the plan says %d", n, a.Plan.CaseCount)
	}
	slices.Sort(hashes)
	if len(slices.Compact(hashes)) != a.Plan.CaseCount {
		return nil, errors.New("names a case twice")
	}
	return each, nil
}

// departs says how a record differs from what was planned.
func (c *Case) departs(s *scoredFields, listed bool) string {
	switch {
	case listed && c.Digest != s.caseDigest:
		return fmt.Sprintf("the record is of %s, planned was %s", s.caseDigest, c.Digest)
	case listed && c.Cassette != nil && s.hasCassette && *c.Cassette != s.cassette:
		return fmt.Sprintf("it replayed %s, planned was %s", s.cassette, c.Cassette)
	}
	return ""
}

// amend sets amendments beside their records.
func (r *reader) amend() {
	if len(r.amendments) == 0 {
		return
	}
	wanted := make(map[int64]*Case, len(r.amendments))
	for i := range r.amendments {
		wanted[r.amendments[i].Entry] = nil
	}
	for _, a := range r.history.Attempts {
		for c := range a.cases.all() {
			if _, ok := wanted[c.Index]; ok && c.Index >= 0 {
				wanted[c.Index] = c
			}
		}
	}
	for i := range r.amendments {
		m := &r.amendments[i]
		c := wanted[m.Entry]
		// An amendment of what comes later, or of no record, amends nothing.
		if c == nil || m.index < m.Entry {
			continue
		}
		count := 1
		if c.Amendment != nil {
			count += c.Amendment.Count
		}
		c.Amendment = &Amendment{m.index, m.Score.Passed, m.Score.Score, m.Author, m.Reason, count}
	}
}
