package dossier

import (
	"fmt"
	"slices"
	"time"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
)

// everyDay is how often anchors are due where people signed for nothing else.
const everyDay = 24 * time.Hour

// clockTolerance is how far two honest clocks may be apart.
const clockTolerance = 10 * time.Minute

// A cadence is how often anchors are due, as the pins say or as the ledger shows,
// and when they came. A ledger that says nothing for days is a job that was
// stopped, or a history that was put back and continues as if nothing had been.
type cadence struct {
	opened    time.Time // first entry of the ledger
	published []publishedAnchor
	worked    map[string]bool // days with entries that are not about an anchor
}

// A publishedAnchor is an anchor.published entry.
type publishedAnchor struct {
	index, size int64
	at          time.Time
	alone       bool
}

func (c *cadence) visit(r ledger.Record) {
	at := r.Envelope.Time.Go()
	if r.Index == 0 {
		c.opened = at
	}
	// What was appended by hand is a claim: nothing was published.
	if b, ok := r.Body.(*evidence.AnchorPublished); ok && !r.Envelope.Manual {
		c.published = append(c.published, publishedAnchor{r.Index, b.Size, at, b.Alone})
		return
	}
	if c.worked == nil {
		c.worked = make(map[string]bool)
	}
	c.worked[r.Envelope.Time.Date()] = true
}

// problems compares the times of anchors with when they were due. Witnesses that two
// people signed for say when they saw an anchor: one that was made later, with a
// clock set back, does not fill the days before.
func (c *cadence) problems(pins *bench.AnchorPins, cosigned []CosignedAnchor, now time.Time, size int64, covers func(int64, evidence.Time) bool) []ledger.Problem {
	seen := make(map[int64]time.Time)
	for _, a := range cosigned {
		if known := seen[a.Size]; !a.Cosigned.IsZero() && (known.IsZero() || a.Cosigned.Before(known)) {
			seen[a.Size] = a.Cosigned
		}
	}
	var problems []ledger.Problem
	var times []time.Time
	for i := range c.published {
		p := &c.published[i]
		if at := seen[p.size]; at.After(p.at.Add(clockTolerance)) {
			problems = append(problems, ledger.Problem{Index: p.index, Kind: "anchor", Name: refusal.StrictGap,
				Detail: fmt.Sprintf("the entry says that an anchor of %d entries was published at %s, and no witness saw it before %s", p.size, stamp(p.at), stamp(at))})
			p.at = at
		}
		if p.at.After(now.Add(clockTolerance)) {
			problems = append(problems, ledger.Problem{Index: p.index, Kind: "anchor", Name: refusal.StrictGap,
				Detail: fmt.Sprintf("the entry says that an anchor was published at %s, which is after now (%s)", stamp(p.at), stamp(now))})
			continue
		}
		times = append(times, p.at)
	}
	every, from, why := c.due(pins)
	if every == 0 {
		return problems
	}
	return append(problems, missedAnchors(every, from, now, times, why, func(at time.Time) bool { return covers == nil || covers(size, evidence.At(at)) })...)
}

// due says how often anchors are due and from when on; 0 if they are not. Without a
// signed word they are due every day as soon as one was published for its own sake:
// by an entry that says so, or on a day on which nothing else happened.
func (c *cadence) due(pins *bench.AnchorPins) (every time.Duration, from time.Time, why string) {
	if pins != nil && pins.Every != "" {
		every, from = pins.Interval(), c.opened
		if len(c.published) > 0 {
			from = c.published[0].at
		}
		return every, from, fmt.Sprintf("%s says that anchors are due every %s", bench.PinsFile, pins.Every)
	}
	for _, p := range c.published {
		if p.alone || !c.worked[p.at.UTC().Format(time.DateOnly)] {
			return everyDay, p.at, fmt.Sprintf("anchors are due every day since one was published on %s for its own sake; two people can sign for another rhythm in %s (anchors: {every: 7d}, or none)", p.at.UTC().Format(time.DateOnly), bench.PinsFile)
		}
	}
	return 0, time.Time{}, ""
}

// missedAnchors cuts time into periods of one length, from 1970-01-01T00:00Z on, and
// lists those without an anchor from the first that had to have one to the last
// that is over. Consecutive ones are one problem.
func missedAnchors(every time.Duration, from, now time.Time, times []time.Time, why string, covers func(time.Time) bool) []ledger.Problem {
	period := func(t time.Time) int64 { return t.Unix() / int64(every/time.Second) }
	begin := func(n int64) time.Time { return time.Unix(n*int64(every/time.Second), 0).UTC() }
	var had []int64
	for _, t := range times {
		had = append(had, period(t))
	}
	slices.Sort(had)
	had = append(slices.Compact(had), period(now))
	var problems []ledger.Problem
	next := period(from)
	for _, n := range had {
		if n < next {
			continue
		}
		for next < n && !covers(begin(next)) {
			next++
		}
		if next < n {
			problems = append(problems, ledger.Problem{Index: -1, Kind: "anchor", Name: refusal.StrictGap, Detail: noAnchor(every, begin(next), begin(n-1), n-next) + ", and " + why})
		}
		next = n + 1
	}
	return problems
}

// noAnchor names the first and the last of some periods.
func noAnchor(every time.Duration, first, last time.Time, n int64) string {
	switch {
	case every == everyDay && n == 1:
		return "no anchor was published on " + first.Format(time.DateOnly)
	case every == everyDay:
		return fmt.Sprintf("no anchor was published on %d days, %s to %s", n, first.Format(time.DateOnly), last.Format(time.DateOnly))
	}
	return fmt.Sprintf("no anchor was published from %s to %s", stamp(first), stamp(last.Add(every)))
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }
