package ledger

import (
	"fmt"
	"maps"
	"slices"

	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/refusal"
)

// A Completeness check looks for gaps: what a ledger should have and does not.
// Hashes show that nothing was changed; gaps show what was never written.
type Completeness struct {
	// Covers reports whether an entry is in the window that is asked about.
	Covers func(index int64, at evidence.Time) bool
	// Anchored holds the size of each day's anchor.
	Anchored map[string]int64
	// Evidence returns nil if evidence of that digest is there, unchanged, and
	// otherwise why not. What could not be read is no gap and ends the walk.
	Evidence func(digest.Content) error
	// Cases finds a case list that is too long for its entry.
	Cases func(digest.Content) ([]evidence.PlannedCase, error)

	days      map[string]int64 // first entry of each day in the window
	published map[string]publication
	attempts  map[attemptName]*attemptGap
	order     []attemptName
	gaps      []Problem
}

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
	scored   map[string]map[int]bool // case to repetitions
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
	case *evidence.CaseScored:
		if a := c.attempts[attemptName{b.Attempt, manual}]; a != nil {
			if a.scored[b.CaseID] == nil {
				a.scored[b.CaseID] = make(map[int]bool)
			}
			a.scored[b.CaseID][b.Repeat] = true
		}
		for _, d := range b.EvidenceDigests {
			if err := c.checkEvidence(r.Index, covered, d, "case %s: its evidence %s is", b.CaseID); err != nil {
				return err
			}
		}
	case *evidence.AttemptFinished:
		if a := c.attempts[attemptName{b.Attempt, manual}]; a != nil {
			a.finished = true
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
	c.attempts[name] = &attemptGap{index: index, plan: plan, scored: make(map[string]map[int]bool)}
	c.order = append(c.order, name)
}

// checkEvidence looks for evidence that an entry in the window names.
func (c *Completeness) checkEvidence(index int64, covered bool, d digest.Content, what, name string) error {
	if !covered {
		return nil
	}
	err := c.Evidence(d)
	if refusal.Is(err, refusal.Unreadable) {
		return err
	}
	if err != nil {
		c.gap(index, "evidence", what+" missing or changed: %v", name, d, err)
	}
	return nil
}

func (c *Completeness) gap(index int64, kind, format string, args ...any) {
	c.gaps = append(c.gaps, Problem{Index: index, Kind: kind, Detail: fmt.Sprintf(format, args...), Name: refusal.StrictGap})
}

// Gaps returns what is missing, in the order of the entries that ask for it.
func (c *Completeness) Gaps() ([]Problem, error) {
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
		cases := a.plan.Cases
		if d := a.plan.CasesDigest; d != nil {
			var err error
			if cases, err = c.Cases(*d); err != nil {
				c.gap(a.index, "evidence", "attempt %s: its case list %s: %v", id, *d, err)
				continue
			}
		}
		for _, planned := range cases {
			if n := a.recorded(planned.ID); n < a.plan.Repeat {
				c.gap(a.index, "case", "attempt %s: case %s has %d of %d records", id, planned.ID, n, a.plan.Repeat)
			}
		}
	}
	slices.SortStableFunc(c.gaps, func(a, b Problem) int { return int(a.Index - b.Index) })
	return c.gaps, nil
}

// recorded counts the planned repetitions of a case that have a record.
func (a *attemptGap) recorded(caseID string) int {
	n := 0
	for repeat := range a.scored[caseID] {
		if repeat <= a.plan.Repeat {
			n++
		}
	}
	return n
}
