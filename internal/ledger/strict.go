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
	// Anchored holds the days that have an anchor.
	Anchored map[string]bool
	// HasEvidence reports whether evidence of that digest is there, unchanged.
	HasEvidence func(digest.Content) bool
	// Cases finds a case list that is too long for its entry.
	Cases func(digest.Content) ([]evidence.PlannedCase, error)

	days     map[string]int64 // first entry of each day in the window
	attempts map[string]*attemptGap
	order    []string
	gaps     []Problem
}

type attemptGap struct {
	index    int64
	plan     evidence.Plan
	finished bool
	scored   map[string]int
}

// Visit looks at one entry; give it as [Options.Visit] with Decode set.
func (c *Completeness) Visit(r Record) error {
	covered := c.Covers(r.Index, r.Envelope.Time)
	if c.days == nil {
		c.days, c.attempts = make(map[string]int64), make(map[string]*attemptGap)
	}
	if day := r.Envelope.Time.Date(); covered {
		if _, seen := c.days[day]; !seen {
			c.days[day] = r.Index
		}
	}
	switch b := r.Body.(type) {
	case *evidence.AttemptRegistered:
		if covered {
			c.attempts[b.Attempt] = &attemptGap{index: r.Index, plan: b.Plan, scored: make(map[string]int)}
			c.order = append(c.order, b.Attempt)
		}
	case *evidence.CaseScored:
		if a := c.attempts[b.Attempt]; a != nil {
			a.scored[b.CaseID]++
		}
		if covered {
			c.checkEvidence(r.Index, b)
		}
	case *evidence.AttemptFinished:
		if a := c.attempts[b.Attempt]; a != nil {
			a.finished = true
		}
	}
	return nil
}

func (c *Completeness) checkEvidence(index int64, b *evidence.CaseScored) {
	for _, d := range b.EvidenceDigests {
		if !c.HasEvidence(d) {
			c.gap(index, "evidence", "case %s: its evidence %s is missing or changed", b.CaseID, d)
		}
	}
}

func (c *Completeness) gap(index int64, kind, format string, args ...any) {
	c.gaps = append(c.gaps, Problem{Index: index, Kind: kind, Detail: fmt.Sprintf(format, args...), Name: refusal.StrictGap})
}

// Gaps returns what is missing, in the order of the entries that ask for it.
func (c *Completeness) Gaps() ([]Problem, error) {
	for _, day := range slices.Sorted(maps.Keys(c.days)) {
		if !c.Anchored[day] {
			c.gap(c.days[day], "anchor", "%s has entries and no anchor", day)
		}
	}
	for _, id := range c.order {
		a := c.attempts[id]
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
			if n := a.scored[planned.ID]; n < a.plan.Repeat {
				c.gap(a.index, "case", "attempt %s: case %s has %d of %d records", id, planned.ID, n, a.plan.Repeat)
			}
		}
	}
	slices.SortStableFunc(c.gaps, func(a, b Problem) int { return int(a.Index - b.Index) })
	return c.gaps, nil
}
