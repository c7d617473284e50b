package harness

import (
	"maps"
	"slices"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/sequential"
	"tallystick/internal/run/agent"
)

// A brief is what the totals need of a record; a long attempt keeps one for
// each case.
type brief struct {
	index   int64
	outcome evidence.Outcome
	score   float64
	cost    cost.Cost
	journal *digest.ID // the head that the record names; nil if it names none
	cached  int64      // of the cost, what was not paid now
	*circumstances
}

// circumstances are what most records of an attempt have in common, and share.
type circumstances struct {
	modes  []string
	rubric *digest.Content
	image  *digest.Content
	class  string
	agent  string

	vantage string
	missed  bool // it asked for a reply that is not recorded
}

// briefOf shares the circumstances of the record before, which last is, if they
// are the same, and sets last.
func briefOf(index int64, r *evidence.CaseScored, last **circumstances) brief {
	b := brief{index: index, outcome: r.Outcome, cost: r.Cost()}
	if r.Paid != nil {
		b.journal = &r.Paid.Journal
	}
	if r.Cached != nil {
		b.cached = r.Cached.CostMicroUSD
	}
	now := circumstances{rubric: r.RubricDigest, image: r.ImageDigest, class: r.IsolationClass, agent: r.AgentIsolation, vantage: r.Vantage,
		missed: r.Unanswered}
	if r.Score != nil {
		b.score = r.Score.Score
		now.modes = r.Score.FailureModes
	}
	if *last == nil || !(*last).same(now) {
		*last = &now
	}
	b.circumstances = *last
	return b
}

func (c *circumstances) same(d circumstances) bool {
	return c.class == d.class && c.agent == d.agent && c.vantage == d.vantage && c.missed == d.missed && slices.Equal(c.modes, d.modes) && sameDigest(c.rubric, d.rubric) && sameDigest(c.image, d.image)
}

func sameDigest(a, b *digest.Content) bool { return a == b || a != nil && b != nil && *a == *b }

// A Summary is the totals of an attempt, from its records.
type Summary struct {
	Attempt        string
	Number         int
	Class          string
	Target         string
	Planned        int
	Outcomes       map[evidence.Outcome]int
	Unanswered     int      // cases that asked for a reply that is not recorded: then there is no score
	MeanScore      *float64 // over scored cases; nil if there is none, or if some are unanswered
	FailureModes   []string
	Cost           cost.Cost
	Paid           *evidence.Paid // by every execution and the judge; nil if nothing was live
	IsolationClass string         // of the grading; "mixed" if cases differ
	ByRubric       bool           // a rubric graded some of them
	Finished       bool
	Stopped        *evidence.Stopped // where an attempt that may stop early stands
	Head           digest.ID         // of the ledger when the summary was made
}

func (a *attempt) summary() *Summary {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := &Summary{Attempt: a.id, Number: a.number, Class: a.cfg.Bench.Class(), Target: a.cfg.Target.Name, Planned: a.plan.CaseCount * a.plan.Repeat,
		Outcomes: map[evidence.Outcome]int{}, FailureModes: []string{}, Finished: a.finished, Head: a.books.Ledger.Head()}
	if a.paid != nil {
		paid := a.paid.Paid()
		s.Paid = &paid
	}
	if s.Stopped = a.stopped(); s.Stopped != nil && s.Stopped.Decision != sequential.Undecided {
		s.Planned = len(a.results) // no others are needed
	}
	sum, scored := 0.0, 0
	modes := map[string]bool{}
	// In the order of the plan, so that the mean does not depend on which case
	// ended first: adding floating-point numbers is not associative.
	for _, c := range a.plan.Cases {
		for repeat := 1; repeat <= a.plan.Repeat; repeat++ {
			b, ok := a.results[planned{c.ID, repeat}]
			if !ok {
				continue
			}
			s.Outcomes[b.outcome]++
			s.Cost = s.Cost.Plus(b.cost)
			if b.missed {
				s.Unanswered++
			}
			if b.outcome == evidence.Passed || b.outcome == evidence.Failed {
				sum += b.score
				scored++
			}
			for _, m := range b.modes {
				modes[m] = true
			}
			s.ByRubric = s.ByRubric || b.rubric != nil
			switch s.IsolationClass {
			case "", b.class:
				s.IsolationClass = b.class
			default:
				s.IsolationClass = "mixed"
			}
		}
	}
	for m := range modes {
		s.FailureModes = append(s.FailureModes, m)
	}
	slices.Sort(s.FailureModes)
	if scored > 0 && s.Unanswered == 0 {
		mean := sum / float64(scored)
		s.MeanScore = &mean
	}
	return s
}

// finish appends the totals. The list of events goes into the evidence first.
func (a *attempt) finish() error {
	// A run must end with what it began with, or it is unknown what was
	// measured.
	for _, shown := range slices.Concat([]*agent.Shown{a.worker.shown, a.worker.tested}, slices.Collect(maps.Values(a.worker.testedIn))) {
		if _, err := shown.Begin(); err != nil {
			return refusal.Newf(refusal.PlanChanged, "attempt %s: what the target or its tests mount changed while it ran: %w", a.id, err).
				WithHint("the attempt stays unfinished in the ledger; leave the mounted folders alone and start a new one")
		}
	}
	s := a.summary()
	now := a.cfg.Now()
	if err := a.event("bench.run.finished", "attempt "+a.id, map[string]any{"attempt": a.id, "outcomes": s.Outcomes}); err != nil {
		return err
	}
	events, err := a.sealList()
	if err != nil {
		return err
	}
	listed := a.pack.Put(events)
	if err := a.pack.Commit(); err != nil {
		return err
	}
	f := &evidence.AttemptFinished{SchemaVersion: evidence.SchemaVersion, Attempt: a.id, Outcomes: s.Outcomes, MeanScore: s.MeanScore, FailureModes: s.FailureModes,
		Events: &listed, EventCount: a.list.count, RuntimeMS: max(0, now.Sub(a.started).Milliseconds()), CostMicroUSD: s.Cost.MicroUSD, Unpriced: &s.Cost.Unpriced, CostUntold: s.Cost.Untold, Paid: s.Paid, Unanswered: s.Unanswered, Stopped: s.Stopped}
	if err := a.sets(f); err != nil {
		return err
	}
	if _, err := a.books.Ledger.AppendRecord(evidence.AttemptFinishedKind, f); err != nil {
		return err
	}
	a.finished = true
	return nil
}

// sets fills in the sets of what ran.
func (a *attempt) sets(f *evidence.AttemptFinished) error {
	var cases, cassettes []digest.Content
	for _, c := range a.plan.Cases {
		if _, ran := a.results[planned{c.ID, 1}]; a.plan.StopEarly != nil && !ran {
			continue // not needed
		}
		cases = append(cases, c.Digest)
		if c.Cassette != nil {
			cassettes = append(cassettes, *c.Cassette)
		}
	}
	var rubrics, images []digest.Content
	for _, b := range a.results {
		if b.rubric != nil {
			rubrics = append(rubrics, *b.rubric)
		}
		if b.image != nil {
			images = append(images, *b.image)
		}
	}
	f.RubricDigests, f.ImageDigests = distinct(rubrics), distinct(images)
	var err error
	if f.CaseDigests, err = digestOf(distinct(cases)); err != nil {
		return err
	}
	f.CassetteDigests, err = digestOf(distinct(cassettes))
	return err
}

// distinct sorts digests and drops repetitions. It is never nil: the record has
// empty lists.
func distinct(list []digest.Content) []digest.Content {
	slices.SortFunc(list, func(a, b digest.Content) int { return slices.Compare(a[:], b[:]) })
	return slices.Compact(append([]digest.Content{}, list...))
}

func digestOf(list []digest.Content) (digest.Content, error) {
	data, err := canon.Marshal(list)
	if err != nil {
		return digest.Content{}, err
	}
	return digest.ContentOf(data), nil
}
