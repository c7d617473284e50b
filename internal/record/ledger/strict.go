package ledger

import (
	"fmt"
	"maps"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/sequential"
)

// A Completeness check looks for gaps: what a ledger should have and does not.
// Hashes show that nothing was changed; gaps show what was never written.
type Completeness struct {
	// Covers reports whether an entry is in the window that is asked about.
	Covers func(index int64, at evidence.Time) bool
	// Anchored holds the size of each day's anchor.
	Anchored map[string]int64
	// Evidence returns nil if evidence of that digest is there, unchanged, and
	// otherwise why not. What could not be read is not a gap and ends the walk.
	// Several goroutines call it.
	Evidence func(digest.Content) error
	// Cases finds a case list that is too long for its entry.
	Cases func(digest.Content) ([]evidence.PlannedCase, error)

	days      map[string]int64 // first entry of each day in the window
	published map[string]publication
	attempts  map[attemptName]*attemptGap
	order     []attemptName
	named     []namedEvidence // to be looked for
	gaps      []Problem
}

// A namedEvidence is evidence that an entry names, and how a gap tells it.
type namedEvidence struct {
	index  int64
	digest digest.Content
	what   string // format of name and digest
	name   string
	err    error
}

// namedAtOnce is how much evidence is looked for at once: enough that all
// processors have some for a while, and little memory.
const namedAtOnce = 256

// A publication is the largest anchor of a day that the ledger says was
// published, and the entry that says so.
type publication struct{ index, size int64 }

// attemptName keeps what was appended by hand apart: it fills no gap in what
// the harness registered.
type attemptName struct {
	id     string
	manual bool
}

type attemptGap struct {
	index    int64
	plan     evidence.Plan
	finished bool
	scored   map[string]repeats // by case
	passed   map[string]bool    // cases whose record says so, if the plan stops early
	stopped  *evidence.Stopped  // as the end of the attempt says

	cases   []evidence.PlannedCase          // the plan's, wherever it lists them
	unknown error                           // why they are not known
	planned map[string]evidence.PlannedCase // by id, until the attempt has finished
}

// A repeats is which repetitions of a case have a record. Most cases run once,
// and there are many.
type repeats struct {
	low  uint64 // those below 64, by bit
	high map[int]bool
}

func (r *repeats) add(n int) {
	switch {
	case n >= 0 && n < 64:
		r.low |= 1 << n
	case r.high == nil:
		r.high = map[int]bool{n: true}
	default:
		r.high[n] = true
	}
}

// upTo counts those that are at most n.
func (r repeats) upTo(n int) int {
	low := r.low
	if n < 63 {
		low &= 1<<(max(n, -1)+1) - 1
	}
	count := bits.OnesCount64(low)
	for repeat := range r.high {
		if repeat <= n {
			count++
		}
	}
	return count
}

// Visit looks at one entry; give it as [Options.Visit] with Decode set.
func (c *Completeness) Visit(r Record) error {
	covered := c.Covers(r.Index, r.Envelope.Time)
	if c.days == nil {
		c.days, c.published, c.attempts = make(map[string]int64), make(map[string]publication), make(map[attemptName]*attemptGap)
	}
	if day := r.Envelope.Time.Date(); covered {
		if _, seen := c.days[day]; !seen {
			c.days[day] = r.Index
		}
	}
	manual := r.Envelope.Manual
	switch b := r.Body.(type) {
	case *evidence.AttemptRegistered:
		if covered {
			c.registered(r.Index, attemptName{b.Attempt, manual}, b.Plan)
		}
		if d := b.Plan.Sources; d != nil {
			return c.checkEvidence(r.Index, covered, *d, "attempt %s: the list %s of its programs is", b.Attempt)
		}
	case *evidence.CaseScored:
		if a := c.attempts[attemptName{b.Attempt, manual}]; a != nil {
			n := a.scored[b.CaseID]
			n.add(b.Repeat)
			a.scored[b.CaseID] = n
			if _, again := a.passed[b.CaseID]; a.passed != nil && !again {
				a.passed[b.CaseID] = b.Outcome == evidence.Passed
			}
			if why := a.departs(b); covered && why != "" {
				c.gap(r.Index, "case", "attempt %s: case %s: %s", b.Attempt, b.CaseID, why)
			}
		}
		for _, d := range b.EvidenceDigests {
			if err := c.checkEvidence(r.Index, covered, d, "case %s: its evidence %s is", b.CaseID); err != nil {
				return err
			}
		}
	case *evidence.AttemptFinished:
		if a := c.attempts[attemptName{b.Attempt, manual}]; a != nil {
			a.finished, a.planned, a.stopped = true, nil, b.Stopped
		}
		if d := b.Events; d != nil {
			return c.checkEvidence(r.Index, covered, *d, "attempt %s: its events %s are", b.Attempt)
		}
	case *evidence.AnchorPublished:
		if covered && !manual && b.Size > c.published[b.Date].size {
			c.published[b.Date] = publication{r.Index, b.Size}
		}
	}
	return nil
}

// registered notes what an attempt promises. A second registration under the
// same name takes nothing back of the first.
func (c *Completeness) registered(index int64, name attemptName, plan evidence.Plan) {
	if first := c.attempts[name]; first != nil {
		c.gap(index, "attempt", "attempt %s was registered before, at entry %d", name.id, first.index)
		return
	}
	a := &attemptGap{index: index, plan: plan, scored: make(map[string]repeats), cases: plan.Cases, planned: make(map[string]evidence.PlannedCase)}
	if d := plan.CasesDigest; d != nil {
		a.cases, a.unknown = c.Cases(*d)
	}
	if plan.StopEarly != nil {
		a.passed = make(map[string]bool)
	}
	for _, p := range a.cases {
		a.planned[p.ID] = p
	}
	c.attempts[name] = a
	c.order = append(c.order, name)
}

// departs says how a record differs from what was planned: it names another
// case, or another cassette. A case that is not in the plan, or whose list is
// not at hand, is told by the gap that it leaves.
func (a *attemptGap) departs(s *evidence.CaseScored) string {
	p, ok := a.planned[s.CaseID]
	if !ok {
		return ""
	}
	if p.Digest != s.CaseDigest {
		return fmt.Sprintf("the record is of %s, planned was %s", s.CaseDigest, p.Digest)
	}
	if got, want := tapeName(s.CassetteDigest), tapeName(p.Cassette); got != want {
		return fmt.Sprintf("it replayed %s, planned was %s", got, want)
	}
	return ""
}

func tapeName(d *digest.Content) string {
	if d == nil {
		return "no cassette"
	}
	return d.String()
}

// checkEvidence looks for evidence that an entry in the window names, together
// with what the next entries name.
func (c *Completeness) checkEvidence(index int64, covered bool, d digest.Content, what, name string) error {
	if !covered {
		return nil
	}
	c.named = append(c.named, namedEvidence{index: index, digest: d, what: what, name: name})
	if len(c.named) < namedAtOnce {
		return nil
	}
	return c.lookForNamed()
}

// lookForNamed looks for the evidence that was named since, on all processors.
func (c *Completeness) lookForNamed() error {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(c.named)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(c.named)); i = next.Add(1) - 1 {
				c.named[i].err = c.Evidence(c.named[i].digest)
			}
		})
	}
	wg.Wait()
	for _, n := range c.named {
		// That it could not be read says nothing about what it is.
		if refusal.Is(n.err, refusal.Unreadable) || refusal.Is(n.err, refusal.StoreUnreachable) {
			return n.err
		}
		if n.err != nil {
			c.gap(n.index, "evidence", n.what+" missing or changed: %v", n.name, n.digest, n.err)
		}
	}
	c.named = c.named[:0]
	return nil
}

func (c *Completeness) gap(index int64, kind, format string, args ...any) {
	c.gaps = append(c.gaps, Problem{Index: index, Kind: kind, Detail: fmt.Sprintf(format, args...), Name: refusal.StrictGap})
}

// Gaps returns what is missing, in the order of the entries that ask for it.
func (c *Completeness) Gaps() ([]Problem, error) {
	if err := c.lookForNamed(); err != nil {
		return nil, err
	}
	for _, day := range slices.Sorted(maps.Keys(c.days)) {
		if c.Anchored[day] == 0 {
			c.gap(c.days[day], "anchor", "%s has entries and no anchor", day)
		}
	}
	for _, day := range slices.Sorted(maps.Keys(c.published)) {
		// A day's file is only ever replaced by a larger one.
		if p, size := c.published[day], c.Anchored[day]; size > 0 && size < p.size {
			c.gap(p.index, "anchor", "the anchor of %s covers %d entries, one of %d was published", day, size, p.size)
		}
	}
	for _, name := range c.order {
		a, id := c.attempts[name], name.id
		if !a.finished {
			c.gap(a.index, "attempt", "attempt %s was registered and never finished", id)
		}
		if a.unknown != nil {
			c.gap(a.index, "evidence", "attempt %s: its case list %s: %v", id, *a.plan.CasesDigest, a.unknown)
			continue
		}
		needed, why := a.needed()
		if why != "" {
			c.gap(a.index, "attempt", "attempt %s: %s", id, why)
		}
		for _, planned := range needed {
			if n := a.recorded(planned.ID); n < a.plan.Repeat {
				c.gap(a.index, "case", "attempt %s: case %s has %d of %d records", id, planned.ID, n, a.plan.Repeat)
			}
		}
	}
	slices.SortStableFunc(c.gaps, func(a, b Problem) int { return int(a.Index - b.Index) })
	return c.gaps, nil
}

// needed are the planned cases that must have a record: all of them, or those up to
// where an attempt that may stop early decided. The decision is made again from the
// records in the order of the plan; why says that the attempt claims another.
func (a *attemptGap) needed() (needed []evidence.PlannedCase, why string) {
	if a.plan.StopEarly == nil || !a.finished || a.plan.Repeat != 1 {
		return a.cases, ""
	}
	end := a.plan.StopEarly.Test().Run(func(yield func(bool) bool) {
		for _, p := range a.cases {
			passed, ok := a.passed[p.ID]
			if !ok || !yield(passed) {
				return
			}
		}
	})
	now := evidence.Stopped{Decision: end.Decision, After: end.N, Passed: end.Passed}
	if a.stopped == nil || *a.stopped != now {
		return a.cases, fmt.Sprintf("its end says %+v, its records in the order of the plan give %+v", a.stopped, now)
	}
	if now.Decision == sequential.Undecided {
		return a.cases, ""
	}
	return a.cases[:end.N], ""
}

// recorded counts the planned repetitions of a case that have a record.
func (a *attemptGap) recorded(caseID string) int { return a.scored[caseID].upTo(a.plan.Repeat) }
