package history

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

// A Reader reads a ledger, and keeps reading it as it grows.
type Reader struct {
	opt      Options
	history  *History
	scan     *scanner
	seen     int64
	lastTime evidence.Time
	lastHead digest.ID
	signers  *seal.Signers
	amended  int             // of the amendments, those beside their records
	mended   int             // of the corrections, those beside their records
	numbers  map[string]int  // attempts so far by class
	examples map[string]bool // fingerprints of keys that ever were an example person's
	plans    map[digest.Content]int
	draws    map[[2]string]int  // verdicts so far by case and question
	again    map[digest.ID]bool // reproductions so far, by what was signed
	digests  []digest.Content   // the free rest of the last chunk
	lastOne  *digest.Content    // see storeOne
	last     *Attempt           // whose record was read last
	broken   error              // a walk failed: what was gathered is worth nothing
}

// NewReader returns a Reader that has read nothing.
func NewReader(o Options) *Reader {
	r := &Reader{
		opt:      o,
		history:  &History{byID: make(map[string]*Attempt), known: &known{}},
		scan:     newScanner(),
		plans:    make(map[digest.Content]int),
		numbers:  make(map[string]int),
		examples: make(map[string]bool),
		draws:    make(map[[2]string]int),
		again:    make(map[digest.ID]bool),
	}
	if o.Marks {
		r.history.marks = &marks{}
	}
	return r
}

// Read walks the ledger from where the last call of Read ended, as [Read] does.
// It refuses a walk that did not see every entry since. The History is the one
// of the last call, brought up to date: no goroutine may use it meanwhile. After an
// error the Reader and its History are of no use.
func (r *Reader) Read(verify func(visit func(ledger.Record) error) (*ledger.Verified, error)) (*History, error) {
	if r.broken != nil {
		return nil, r.broken
	}
	h, err := r.read(verify)
	if err != nil {
		r.broken = err
		return nil, err
	}
	return h, nil
}

func (r *Reader) read(verify func(visit func(ledger.Record) error) (*ledger.Verified, error)) (*History, error) {
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
	h, o := r.history, r.opt
	if o.Pinned != nil {
		if h.pinned, err = o.Pinned(v); err != nil {
			return nil, err
		}
	}
	if o.Cosigned != nil {
		if h.cosigned, err = o.Cosigned(v); err != nil {
			return nil, err
		}
	}
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
		r.finish(a)
	}
	r.amend()
	return h, nil
}

type amendment struct {
	index int64
	time  evidence.Time
	evidence.ScoreAmended
}

func (r *Reader) visit(rec ledger.Record) error {
	r.seen++
	if r.opt.Until > 0 && rec.Index >= r.opt.Until {
		return nil
	}
	r.lastTime, r.lastHead = rec.Envelope.Time, rec.Head
	r.history.marks.add(rec)
	if rec.Envelope.Manual {
		r.history.Manual++
		r.history.marks.manual(rec.Index)
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
func (r *Reader) other(rec ledger.Record) error {
	b, err := body(rec)
	if err != nil {
		return err
	}
	h, at := r.history, rec.Envelope.Time
	switch b := b.(type) {
	case *evidence.Opened:
		h.Origin, h.FirstEntry = b.Origin, rec.Content
		err = r.appoint(b.Signers)
	case *evidence.SignersChanged:
		h.Authorities = append(h.Authorities, Authority{Index: rec.Index, What: fmt.Sprintf("version %d of the signers", b.Version)})
		err = r.appoint(b.Signers)
	case *evidence.CaseAccepted:
		h.Authorities = append(h.Authorities, Authority{rec.Index, "the acceptance of case " + b.CaseID, b.Class})
	case *evidence.AttemptRegistered:
		return r.registered(rec, b)
	case *evidence.AttemptFinished:
		if a := h.byID[b.Attempt]; a == nil {
			h.orphan(rec.Index)
		} else if a.Finished != nil {
			a.fault("finished twice", rec.Index, "the attempt was finished before")
		} else {
			a.Finished, a.last = &Finished{rec.Index, rec.Head, at, *b}, rec.Index
		}
	case *evidence.AttemptReproduced:
		return r.reproduced(rec, b)
	case *evidence.ScoreAmended:
		h.amendments = append(h.amendments, amendment{rec.Index, at, *b})
	case *evidence.ScoreCorrected:
		return r.corrected(rec, b)
	case *evidence.AttemptNamed:
		r.named(rec.Index, b)
	case *evidence.ReviewLabelled:
		return r.labelled(rec, b)
	case *evidence.AnchorPublished:
		h.Anchors = append(h.Anchors, Anchor{rec.Index, at, *b})
	case *evidence.IntegrityEvent:
		h.Events = append(h.Events, Event{rec.Index, at, *b})
	case *evidence.JudgeDrawn:
		r.drawn(rec.Index, b)
	case *evidence.JudgeCalibrated:
		h.Calibrations = append(h.Calibrations, Calibration{rec.Index, at, *b})
	case *evidence.CassetteRecorded:
		h.Tapes = append(h.Tapes, Tape{rec.Index, *b})
	case *evidence.CasePending:
		h.Pending = append(h.Pending, Pending{rec.Index, at, *b})
	default:
		return fmt.Errorf("records of kind %s are part of a history, and nothing here reads them", rec.Envelope.Kind)
	}
	return err
}

// drawn counts a verdict. The number that an entry claims is held against the
// entries before it.
func (r *Reader) drawn(index int64, b *evidence.JudgeDrawn) {
	question := [2]string{b.CaseID, b.Key}
	r.draws[question]++
	a := r.history.byID[b.Attempt]
	if a == nil {
		r.history.orphan(index)
		return
	}
	a.Draws++
	if a.drawnFor == nil {
		a.drawnFor = make(map[string]bool)
	}
	a.drawnFor[b.CaseID] = true
	a.last = index
	n := r.draws[question]
	if n > 1 {
		a.Redraws++
	}
	if b.Draw != n {
		a.fault("numbered wrongly", index, "case %s: draw %d of a verdict is numbered %d", b.CaseID, n, b.Draw)
	}
}

func (r *Reader) registered(rec ledger.Record, b *evidence.AttemptRegistered) error {
	h := r.history
	if a := h.byID[b.Attempt]; a != nil {
		a.fault("registered twice", rec.Index, "another attempt is registered under the same id")
		h.orphan(rec.Index)
		return nil
	}
	a := &Attempt{
		ID: b.Attempt, Index: rec.Index, Head: rec.Head, last: rec.Index, Time: rec.Envelope.Time, Class: b.Class, Target: b.Target, Number: b.Number, Mode: b.Mode,
		Origin: b.Origin, Scratch: b.Scratch, Plan: b.Plan, Operator: b.Operator, FirstStarted: -1, Examples: r.ExamplesSign(rec.Envelope.Time.Go()),
		faults: make(map[string]int), judged: b.JudgeCalibrations != nil,
	}
	var err error
	if a.PlanID, err = planID(&b.Plan); err != nil {
		return err
	}
	r.number(a, rec.Index)
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

// number counts an attempt among those of its class, and holds the number that
// it was registered with against that.
func (r *Reader) number(a *Attempt, index int64) {
	r.numbers[a.Class]++
	r.plans[a.PlanID]++
	a.Ordinal, a.PlanOrdinal = r.numbers[a.Class], r.plans[a.PlanID]
	if a.Number != a.Ordinal {
		a.fault("numbered wrongly", index, "registered as number %d, it is number %d of its class", a.Number, a.Ordinal)
	}
}

// attempt finds whose record it is, or counts an orphan.
func (r *Reader) attempt(id []byte, index int64) *Attempt {
	if r.last != nil && r.last.ID == string(id) {
		return r.last
	}
	a := r.history.byID[string(id)]
	if a == nil {
		r.history.orphan(index)
		return nil
	}
	r.last = a
	return a
}

func (r *Reader) started(rec ledger.Record) error {
	s, err := r.scan.started(rec)
	if err != nil {
		return err
	}
	a := r.attempt(s.attempt, rec.Index)
	if a == nil {
		return nil
	}
	a.Executions++
	a.last = rec.Index
	if a.FirstStarted < 0 {
		a.FirstStarted = rec.Index
	}
	if !a.Kept {
		return nil
	}
	if a.Finished != nil {
		a.recordFault("started late", rec.Index, "case %s was started after the attempt had finished", s.caseID)
	}
	c := a.task(s.caseID, s.repeat)
	if c == nil {
		a.recordFault("not planned", rec.Index, "case %s, repetition %d, was started and is not in the plan", s.caseID, s.repeat)
		a.stray++
		return nil
	}
	c.Started++
	c.StartedBy = r.scan.worker(s.worker)
	if s.execution != c.Started {
		a.recordFault("numbered wrongly", rec.Index, "case %s: execution %d is numbered %d", s.caseID, c.Started, s.execution)
	}
	return nil
}

func (r *Reader) scored(rec ledger.Record) error {
	id, ok := r.scan.attemptOf(rec)
	if !ok {
		return r.scoredSlowly(rec)
	}
	a := r.attempt(id, rec.Index)
	if a == nil {
		return nil
	}
	if !a.Kept {
		a.count(rec.Index, r.scan.saysPassed(rec.Envelope.Body))
		return nil
	}
	s, err := r.scan.scored(rec)
	if err != nil {
		return err
	}
	r.keep(a, rec, s)
	return nil
}

// scoredSlowly is for a record whose attempt cannot be read off its beginning.
func (r *Reader) scoredSlowly(rec ledger.Record) error {
	s, err := r.scan.scored(rec)
	if err != nil {
		return err
	}
	a := r.attempt(s.attempt, rec.Index)
	switch {
	case a == nil:
	case !a.Kept:
		a.count(rec.Index, s.outcome == passed)
	default:
		r.keep(a, rec, s)
	}
	return nil
}

func (a *Attempt) count(index int64, pass bool) {
	a.Records++
	a.last = index
	if pass {
		a.Passed++
	}
}

// keep puts a record into its place, unless something is wrong with it. What
// does not count is as good as not there: the case it claims was not run.
func (r *Reader) keep(a *Attempt, rec ledger.Record, s *scoredFields) {
	index := rec.Index
	a.count(index, s.outcome == passed)
	exclude := func(kind, format string, args ...any) {
		a.Excluded++
		a.recordFault(kind, index, format, args...)
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
		exclude(NotAsPlanned, "case %s: %s", c.ID, reason)
		return
	}
	c.Head = rec.Head
	r.fill(c, index, s)
}

func (r *Reader) fill(c *Case, index int64, s *scoredFields) {
	c.Index, c.Digest, c.Context, c.recorded = index, s.caseDigest, s.context, s.outcome
	c.Score, c.Tokens, c.Cost = s.score, s.tokens, s.cost
	c.StartedMS, c.LatencyMS = s.startedMS, s.finishedMS-s.startedMS
	c.Execution, c.Retries, c.Turns = s.execution, small(s.retries), small(s.turns)
	c.Violations, c.Rollbacks, c.RollbacksVerified = small(s.violations), small(s.rollbacks), small(s.rollbacksVerified)
	c.ToolCalls = s.toolCalls
	if s.hasCached {
		cached := s.cached
		c.Cached = &cached
	}
	if s.hasUser {
		user := s.user
		c.User = &user
	}
	if s.reused.Replies > 0 {
		reused := s.reused
		c.Reused = &reused
	}
	c.tags, c.modes = s.tags, s.modes
	switch {
	case !s.hasCassette:
	case c.planned != nil && *c.planned == s.cassette:
		c.Cassette = c.planned
	default:
		c.Cassette = r.storeOne(s.cassette)
	}
	c.Evidence = r.store(s.evidence)
}

// store copies digests into chunks: a million small slices of their own would
// cost as much again in headers and padding.
func (r *Reader) store(ds []digest.Content) []digest.Content {
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
func (r *Reader) storeOne(d digest.Content) *digest.Content {
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
	if a.slots.by.n == 0 {
		a.slots.fill(&a.cases)
	}
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

// fault notes that something is wrong, once for each kind. It shows whether the
// records are read or not.
func (a *Attempt) fault(kind string, index int64, format string, args ...any) {
	a.recordFault(kind, index, format, args...)
	if !a.outerKinds[kind] && len(a.outer) < maxProblems {
		if a.outerKinds == nil {
			a.outerKinds = make(map[string]bool)
		}
		a.outerKinds[kind] = true
		a.outer = append(a.outer, problem(kind, index, format, args))
	}
}

// recordFault is fault for what only a reader of the records sees.
func (a *Attempt) recordFault(kind string, index int64, format string, args ...any) {
	a.last = max(a.last, index)
	a.faults[kind]++
	if a.faults[kind] == 1 && len(a.Problems) < maxProblems {
		a.Problems = append(a.Problems, problem(kind, index, format, args))
	}
}

func problem(kind string, index int64, format string, args []any) string {
	return fmt.Sprintf("%s: entry %d: %s", kind, index, fmt.Sprintf(format, args...))
}

// Faults counts what is wrong with the attempt's records, by kind.
func (a *Attempt) Faults() map[string]int { return a.faults }

// finish puts the plan and the records together. It is called again as the
// ledger grows.
func (r *Reader) finish(a *Attempt) {
	h := r.history
	a.Siblings, a.PlanSiblings = r.numbers[a.Class], r.plans[a.PlanID]
	h.setLevel(a)
	a.calibration = h.calibrationOf(a)
	if !a.Kept {
		a.Abandoned = max(0, a.Executions-a.Records)
		return
	}
	if !a.Listed {
		a.unlisted = max(0, tasks(&a.Plan)-a.cases.n)
		if a.cases.n > tasks(&a.Plan) && !a.overrun {
			a.overrun = true
			a.recordFault("not planned", a.Index, "%d repetitions were started, %d were planned", a.cases.n, tasks(&a.Plan))
		}
	}
	a.stop()
	a.Abandoned = a.stray
	for c := range a.cases.all() {
		a.Abandoned += int(max(0, c.Started-c.Scored))
	}
	a.slots = slots{} // made again if another record comes
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
func (r *Reader) plan(a *Attempt) {
	if err := r.addPlanned(a); err != nil {
		a.recordFault("case list", a.Index, "%v", err)
	}
}

func (r *Reader) addPlanned(a *Attempt) error {
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
	a.slots.by.Grow(n * a.Plan.Repeat)
	var ids names
	each(func(p *planned) {
		id := ids.keep(p.id)
		var tape *digest.Content
		if p.cassette != nil {
			tape = r.storeOne(*p.cassette)
		}
		for repeat := 1; repeat <= a.Plan.Repeat; repeat++ {
			c := a.add(id, int32(repeat))
			c.Digest, c.planned = p.digest, tape
		}
	})
	a.Listed = true
	return nil
}

// caseList returns a walk over a case list in the evidence that has as many
// cases as planned, none twice: a case listed twice would stand for one that is
// not there.
func (r *Reader) caseList(a *Attempt, d digest.Content) (each func(see func(*planned)), err error) {
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
	case !listed:
	case c.planned == nil && s.hasCassette:
		return fmt.Sprintf("it replayed %s, planned was no cassette", s.cassette)
	case c.planned != nil && !s.hasCassette:
		return fmt.Sprintf("it replayed no cassette, planned was %s", c.planned)
	case c.planned != nil && *c.planned != s.cassette:
		return fmt.Sprintf("it replayed %s, planned was %s", s.cassette, c.planned)
	}
	return ""
}

// amend sets amendments and corrections beside their records.
func (r *Reader) amend() {
	all := r.history.cases()
	fresh := r.history.amendments[r.amended:]
	r.amended += len(fresh)
	amend(fresh, all)
	corrections := r.history.corrections[r.mended:]
	r.mended += len(corrections)
	r.history.correct(corrections, all, func(a *Attempt, index int64, why string) {
		a.recordFault("correction", index, "the correction does not count: %s", why)
	})
}

// cases gives the tasks of every attempt.
func (h *History) cases() iter.Seq[*Case] {
	return func(yield func(*Case) bool) {
		for _, a := range h.Attempts {
			for c := range a.cases.all() {
				if !yield(c) {
					return
				}
			}
		}
	}
}

// amendedBy is what stands beside the record after one more amendment. The first
// score of an unscored record stays: an operator who asks a judge again until it is
// pleased can only lower it.
func (c *Case) amendedBy(m *amendment) *Amendment {
	next := &Amendment{m.index, m.Score.Passed, m.Score.Score, m.Author, m.Reason, 1, m.time, m.Fills}
	if last := c.Amendment; last != nil {
		next.Count += last.Count
		if c.isFilled() {
			next.Fills, next.Passed, next.Score = true, last.Passed && next.Passed, min(last.Score, next.Score)
		}
	}
	return next
}

// amend sets amendments, in their order, beside the records that are among
// cases.
func amend(amendments []amendment, cases iter.Seq[*Case]) {
	if len(amendments) == 0 {
		return
	}
	wanted := make(map[int64]*Case, len(amendments))
	for i := range amendments {
		wanted[amendments[i].Entry] = nil
	}
	for c := range cases {
		if _, ok := wanted[c.Index]; ok && c.Index >= 0 {
			wanted[c.Index] = c
		}
	}
	for i := range amendments {
		m := &amendments[i]
		c := wanted[m.Entry]
		// An amendment of what comes later, or of no record, amends nothing.
		if c == nil || m.index < m.Entry {
			continue
		}
		c.Amendment = c.amendedBy(m)
	}
}

// named gives an attempt its name and note. A name that could be taken for another
// address is not one, even if the operator sealed it.
func (r *Reader) named(index int64, b *evidence.AttemptNamed) {
	a := r.history.byID[b.Attempt]
	if a == nil {
		return
	}
	if b.Name != "" && evidence.CheckName(b.Name) == nil {
		for _, other := range r.history.Attempts {
			if other.Name == b.Name {
				other.Name = "" // the newest bearer has it
			}
		}
		a.Name, a.NamedAt = b.Name, index
	}
	if b.Note != "" {
		a.Note, a.NotedAt = b.Note, index
	}
}
